//! Lints over keys and plans: G44, G46, G77, G78, G132 and the anti-patterns of the guide, by what
//! went through a client and by what is stored.

use futures_util::TryStreamExt as _;
use tavola_client::{
    Advice, ClientOptions, DynEntity, Mode, TableClient, TableServiceClient, prop,
};

async fn table() -> TableClient {
    let options = ClientOptions::default().advise();
    let service = TableServiceClient::on(tavola_local::in_memory(), Some(options));
    let table = service.table_client("Events");
    table.create().await.unwrap();
    table
}

fn lints(advice: &[Advice]) -> Vec<&'static str> {
    advice.iter().map(|advice| advice.lint).collect()
}

async fn insert(table: &TableClient, partition: String, row: String) {
    table.insert(&DynEntity::new(partition, row)).await.unwrap();
}

/// G156: all inserts of an hour go to one partition. The alternative of the guide is left alone.
#[tokio::test]
async fn growing_keys() {
    let bad = table().await;
    let good = bad.service().table_client("Good");
    good.create().await.unwrap();
    for at in 0..200_u32 {
        let hour = format!("20140822{:02}", at / 25);
        insert(&bad, hour.clone(), format!("{at:06}")).await;
        insert(&good, format!("Sales_{:06}", at * 7919 % 50), format!("login_{hour}{at:04}")).await;
    }
    let advice = bad.advise();
    assert_eq!(lints(&advice), ["append-keys"]);
    let expected = "events: 200 of 200 new rows went to the last partition, now '2014082207'";
    assert_eq!(advice[0].evidence, expected);
    assert!(advice[0].reason.contains("throttles") && advice[0].cure.contains("`Spread`"));
    assert!(good.advise().is_empty());
    assert_eq!(bad.service().advise(), advice, "other tables add nothing");
    assert_eq!(lints(&bad.advise_on_keys().await.unwrap()), ["append-keys"]);
    assert!(good.advise_on_keys().await.unwrap().is_empty());
}

/// G78: one partition for everything; the stored rows say so too.
#[tokio::test]
async fn one_partition() {
    let table = table().await;
    let rows = (0..1000).map(|at| DynEntity::new("all", format!("{at:06}")));
    table.bulk().upsert_all(rows, Mode::Replace).await.unwrap();
    assert_eq!(lints(&table.advise()), ["one-partition"]);
    assert_eq!(lints(&table.advise_on_keys().await.unwrap()), ["one-partition"]);
    insert(&table, "other".into(), "0".into()).await;
    assert!(table.advise().is_empty());
    assert!(table.advise_on_keys().await.unwrap().is_empty());
}

/// G157: rows by time that are only added, and searched by scans. G68, G70: what a scan looks for.
#[tokio::test]
async fn a_log_that_is_drained_by_scans() {
    let table = table().await;
    for at in 0..120_u32 {
        let mut row = DynEntity::new(format!("web{:02}", at * 7 % 12), format!("20140822{at:06}"));
        row.set("Level", if at % 40 == 0 { "error" } else { "info" });
        table.insert(&row).await.unwrap();
    }
    assert!(table.advise().is_empty());
    let errors = || table.filter::<DynEntity>(prop("Level").eq("error"));
    for _ in 0..9 {
        let rows: Vec<_> = errors().stream().try_collect().await.unwrap();
        assert_eq!(rows.len(), 3);
    }
    assert!(table.advise().is_empty(), "somebody may have looked");
    let _rows: Vec<_> = errors().stream().try_collect().await.unwrap();
    let advice = table.advise();
    assert_eq!(lints(&advice), ["log-drained-by-scans", "repeated-scan"]);
    let expected = "events: 10 pages of scans for `Level` returned 30 rows";
    assert_eq!(advice[1].evidence, expected);
    assert!(advice[0].cure.contains("rolling.md"));
    assert!(advice[1].cure.contains("indexed.md"));
}

/// Point reads and ranges are what tables are for.
#[tokio::test]
async fn good_traffic_is_left_alone() {
    let table = table().await;
    for at in 0..20_u32 {
        insert(&table, "Sales".into(), format!("empid_{at:06}")).await;
    }
    for _ in 0..20 {
        table.get::<DynEntity>(("Sales", "empid_000001")).await.unwrap();
        let keys = prop("PartitionKey").eq("Sales").and(prop("RowKey").ge("empid_000010"));
        let rows: Vec<_> = table.filter::<DynEntity>(keys).stream().try_collect().await.unwrap();
        assert_eq!(rows.len(), 10);
    }
    assert!(table.advise().is_empty());
    // A client that was not told to keeps nothing.
    let quiet = TableServiceClient::on(tavola_local::in_memory(), None).table_client("Events");
    quiet.create().await.unwrap();
    insert(&quiet, "p".into(), "9".into()).await;
    insert(&quiet, "p".into(), "10".into()).await;
    assert!(quiet.advise().is_empty());
    assert_eq!(lints(&quiet.advise_on_keys().await.unwrap()), ["unpadded-numbers"]);
}
