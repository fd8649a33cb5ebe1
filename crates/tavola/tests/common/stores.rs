//! Data folders with content, for moving it.

use std::path::Path;
use std::sync::Arc;

use tavola_core::{
    AccountName, EdmValue, Grant, PartitionKey, Properties, PropertyName, RowKey, TableId,
    TableName, TableRequest, Timestamp,
};
use tavola_embedded::{EmbeddedStore, Options};
use tavola_service::{Clock, SystemClock, TableService};
use tavola_store::{Import, Row, Store};

/// The name of the table that [`write_many`] writes.
pub(crate) const MANY: &str = "Many";

/// A data folder, opened as a server would.
pub(crate) fn open(folder: &Path) -> EmbeddedStore {
    EmbeddedStore::open(folder, Options::default()).expect("the folder opens")
}

/// A folder with one table of the development account and `count` rows in it: partitions of one row
/// and of many.
pub(crate) fn write_many(folder: &Path, count: u64) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let store = Arc::new(open(folder));
    runtime.block_on(async {
        let service =
            TableService::new(Arc::clone(&store) as Arc<dyn Store>, Arc::new(SystemClock));
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
    });
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
