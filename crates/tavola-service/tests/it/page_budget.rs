//! A page ends at 5 s and at its bytes, and the next one goes on exactly there. Time is paused,
//! never slept.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Fixture, name};
use async_trait::async_trait;
use tavola_core::{
    EdmValue, EntityKey, EntityOperation, NewEntity, PartitionKey, Properties, PropertyName,
    RowKey, TableRequest,
};
use tavola_store::{MemoryStore, Scan, ScanPage, Store, StoreError, StoreLayer};

/// A store whose scans take their time.
#[derive(Debug)]
struct SlowStore {
    inner: MemoryStore,
    scan_time: Duration,
}

#[async_trait]
impl StoreLayer for SlowStore {
    fn below(&self) -> &dyn Store {
        &self.inner
    }

    async fn on_scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        tokio::time::sleep(self.scan_time).await;
        self.inner.scan(scan).await
    }
}

/// G51.
#[tokio::test(start_paused = true)]
async fn a_query_stops_after_five_seconds_and_goes_on_where_it_stopped() {
    let store = SlowStore { inner: MemoryStore::new(), scan_time: Duration::from_secs(2) };
    let fixture = Fixture::new(Arc::new(store));
    fixture.create("table").await.unwrap();
    // One scan per partition: four partitions of two seconds each.
    for partition in ["a", "b", "c", "d"] {
        fixture.insert("table", &format!("{partition}/1"), 1).await.unwrap();
    }
    let filter =
        "PartitionKey eq 'a' or PartitionKey eq 'b' or PartitionKey eq 'c' or PartitionKey eq 'd'";
    let (first, next, _) = fixture.query("table", filter, None, None).await.unwrap();
    assert_eq!(first, ["a/1", "b/1", "c/1"], "three scans end at six seconds");
    let next = next.expect("a page that ran out of time has a successor");
    assert_eq!(next.partition_key.as_str(), "d");
    let (rest, end, _) = fixture.query("table", filter, None, Some(next)).await.unwrap();
    assert_eq!((rest, end), (vec!["d/1".to_owned()], None));
}

#[tokio::test]
async fn a_page_of_large_entities_ends_at_its_bytes() {
    let fixture = Fixture::new(Arc::new(MemoryStore::new()));
    fixture.create("table").await.unwrap();
    for row in 0..12 {
        let (partition_key, new) = large_entity(&format!("{row:02}"));
        let insert =
            TableRequest::Write(name("table"), partition_key, EntityOperation::Insert(new));
        fixture.ask(insert).await.unwrap();
    }
    let (keys, sizes) = fixture.query_all("table", "", None).await;
    assert_eq!(keys.len(), 12);
    // 12 entities of about 0.94 MiB in pages of 4 MiB.
    assert_eq!(sizes, [5, 5, 2]);
}

fn large_entity(row: &str) -> (PartitionKey, NewEntity) {
    let chunk =
        |n: usize| (PropertyName::new(format!("p{n}")).unwrap(), EdmValue::Binary(vec![7; 65_536]));
    let properties = Properties::new((0..15).map(chunk).collect()).unwrap();
    let key = EntityKey::new(PartitionKey::new("p").unwrap(), RowKey::new(row).unwrap());
    NewEntity::new(key, properties).unwrap()
}
