//! Data folders with content, for moving it.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tavola_core::{
    AccountName, EdmValue, Grant, PartitionKey, Properties, PropertyName, RowKey, TableId,
    TableName, TableRequest, Timestamp,
};
use tavola_embedded::{EmbeddedStore, Options};
use tavola_service::{Clock, SystemClock, TableService};
use tavola_store::{Import, Row, Store};

/// The name of the table that [`write_many`] writes.
pub(crate) const MANY: &str = "Many";

/// Opens a data folder as a server would, and returns when the folder can be opened again.
pub(crate) fn with_store<T>(folder: &Path, work: impl FnOnce(EmbeddedStore) -> T) -> T {
    let store = EmbeddedStore::open(folder, Options::default()).expect("the folder opens");
    let result = work(store);
    wait_for_lock(folder);
    result
}

/// The lock can outlive the store. A process that another test starts has copies of our
/// descriptors, and with them the lock, from its fork until its exec.
fn wait_for_lock(folder: &Path) {
    let marker = File::open(folder.join("TAVOLA")).expect("a data folder has a marker");
    let deadline = Instant::now() + Duration::from_secs(60);
    while marker.try_lock().is_err() {
        assert!(Instant::now() < deadline, "{} stays locked", folder.display());
        thread::sleep(Duration::from_millis(1));
    }
    // Closing the file would leave our own lock to such a copy; unlocking takes it from all.
    marker.unlock().expect("the marker is locked");
}

/// A folder with one table of the development account and `count` rows in it: partitions of one row
/// and of many.
pub(crate) fn write_many(folder: &Path, count: u64) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    with_store(folder, |store| runtime.block_on(import_many(store, count)));
}

async fn import_many(store: EmbeddedStore, count: u64) {
    let store = Arc::new(store);
    let service = TableService::new(Arc::clone(&store) as Arc<dyn Store>, Arc::new(SystemClock));
    let owner = Grant::owner(AccountName::parse(super::ACCOUNT).expect("an account"));
    let name = TableName::parse(MANY).expect("a table");
    service.execute(&owner, TableRequest::CreateTable(name)).await.expect("the table is new");
    let now = SystemClock.now();
    let mut rows: Vec<Row> = (0..count).map(|n| row(n, now)).collect();
    rows.sort_by_key(|row| row.key().expect("a legal key"));
    // The first table of a store has the first id.
    for some in rows.chunks(5_000) {
        store.import(TableId::new(TableId::FIRST_USER), some).await.expect("the rows are new");
    }
    store.close().expect("the folder closes");
}

fn row(n: u64, now: Timestamp) -> Row {
    let partition_key =
        if n.is_multiple_of(3) { format!("alone-{n:06}") } else { format!("shared-{:02}", n % 17) };
    let value = (PropertyName::new("Value").expect("a name"), EdmValue::Int64(n as i64));
    let properties = Properties::new(vec![value]).expect("one property");
    let version = Timestamp::from_ticks(now.ticks() - n * 7).expect("a time");
    let partition_key = PartitionKey::new(partition_key).expect("a key");
    Row::encode(
        &partition_key,
        &RowKey::new(format!("{n:06}")).expect("a key"),
        &properties,
        version,
    )
}
