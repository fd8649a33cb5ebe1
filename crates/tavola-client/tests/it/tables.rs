//! Everything that a table can do, on the service in the process.

use futures_util::{StreamExt as _, TryStreamExt as _};
use tavola_client::{
    AccessPolicy, ClientOptions, Continuation, DynEntity, ErrorKind, IfMatch, Mode, Outcome,
    TableServiceClient, prop,
};

use super::common::{age, person, table};

#[tokio::test]
async fn tables_come_and_go() {
    let service = TableServiceClient::on(tavola_local::in_memory(), None);
    service.create_table("alpha").await.unwrap();
    assert!(service.create_table("alpha").await.unwrap_err().is_conflict());
    assert!(!service.create_table_if_missing("alpha").await.unwrap());
    assert!(service.create_table_if_missing("beta").await.unwrap());
    let names: Vec<_> = service.tables().try_collect().await.unwrap();
    assert_eq!(names, ["alpha", "beta"]);
    service.delete_table("alpha").await.unwrap();
    assert!(service.delete_table("alpha").await.unwrap_err().is_not_found());
    assert!(!service.delete_table_if_exists("alpha").await.unwrap());
    assert!(service.delete_table_if_exists("beta").await.unwrap());
    let error = service.create_table("no good").await.unwrap_err();
    assert!(error.to_string().contains("cannot name a table"), "{error}");
    let error = service.table_client("gone").insert(&person("1", 5)).await.unwrap_err();
    assert_eq!(error.code(), Some("TableNotFound"));
    assert!(error.to_string().contains("insert gone ('Smith', '1')"), "{error}");
}

#[tokio::test]
async fn policies() {
    let (_, client) = table().await;
    let mut policy = AccessPolicy::new("readers");
    policy.permissions = Some("r".to_owned());
    client.set_policies(std::slice::from_ref(&policy)).await.unwrap();
    assert_eq!(client.policies().await.unwrap(), [policy]);
}

#[tokio::test]
async fn properties_of_the_service() {
    let (_, client) = table().await;
    let service = client.service();
    let mut rule = tavola_client::CorsRule::default();
    rule.allowed_origins.push("https://shop.example".to_owned());
    rule.allowed_methods.push("GET".to_owned());
    let mut change = tavola_client::ServiceProperties::default();
    change.cors = Some(vec![rule]);
    service.set_properties(&change).await.unwrap();
    let properties = service.properties().await.unwrap();
    assert_eq!(properties.cors, change.cors);
    assert_eq!(properties.logging.unwrap().version, "1.0", "what was not named stays");
    assert_eq!(service.stats().await.unwrap().status, "live");
}

/// G88, G90, G174, G175: a write checks its version unless told otherwise, and says status, ETag
/// and time.
#[tokio::test]
async fn one_entity() {
    let (_, client) = table().await;
    assert!(client.get::<DynEntity>(("Smith", "1")).await.unwrap().is_none());
    let written = client.insert(&person("1", 5)).await.unwrap();
    assert_eq!((written.status, written.attempts), (204, 1));
    let error = client.insert(&person("1", 5)).await.unwrap_err();
    assert!(error.is_conflict() && error.outcome() == Outcome::NotApplied, "{error}");

    let mut stored = client.get::<DynEntity>(("Smith", "1")).await.unwrap().unwrap();
    assert_eq!(Some(stored.etag()), written.etag.as_ref());
    assert_eq!(Some(stored.timestamp()), written.timestamp);
    stored.set("Age", 6);
    let replaced = client.replace(&mut stored).await.unwrap();
    assert_eq!(Some(stored.etag()), replaced.etag.as_ref());
    stored.set("Age", 7);
    client.replace(&mut stored).await.unwrap();
    assert_eq!(age(&client, "1").await, Some(7));

    let old = IfMatch::Version(written.etag.unwrap());
    let error = client.update(&person("1", 9), Mode::Merge, old.clone()).await.unwrap_err();
    assert!(error.is_changed() && error.outcome() == Outcome::NotApplied);
    assert!(error.to_string().contains("it was changed since it was read"), "{error}");
    assert!(client.delete_at::<DynEntity>(("Smith", "1"), old).await.unwrap_err().is_changed());
    client.delete(&stored).await.unwrap();
    assert!(!client.delete_if_exists::<DynEntity>(("Smith", "1")).await.unwrap());
    let gone = client.update(&person("1", 9), Mode::Replace, IfMatch::Any).await.unwrap_err();
    assert!(gone.is_not_found());
    client.upsert(&person("1", 9), Mode::Merge).await.unwrap();
    assert!(client.delete_if_exists::<DynEntity>(("Smith", "1")).await.unwrap());
}

/// G89, G99.
#[tokio::test]
async fn modify_sends_what_changed() {
    let (_, client) = table().await;
    let mut wide = person("1", 5);
    wide.set("Name", "Ann");
    client.insert(&wide).await.unwrap();
    let modified = client
        .modify::<DynEntity>(("Smith", "1"), |person| drop(person.set("Age", 6)))
        .await
        .unwrap();
    assert!(modified.written.is_some());
    let unchanged = client.modify::<DynEntity>(("Smith", "1"), |_| ()).await.unwrap();
    assert!(unchanged.written.is_none());
    assert_eq!(unchanged.entity.etag(), modified.entity.etag());
    client.modify::<DynEntity>(("Smith", "1"), |person| drop(person.remove("Name"))).await.unwrap();
    let left = client.get::<DynEntity>(("Smith", "1")).await.unwrap().unwrap();
    assert_eq!(left.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["Age"]);
    let missing = client.modify::<DynEntity>(("Smith", "2"), |_| ()).await.unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
}

/// G89, G99: many writers, one counter: no increment is lost.
#[tokio::test]
async fn modify_begins_anew_after_a_conflict() {
    let (_, client) = table().await;
    client.insert(&person("1", 0)).await.unwrap();
    let increment = || async {
        client
            .try_modify::<DynEntity>(("Smith", "1"), |person| {
                *person.get_mut::<i32>("Age")? += 1;
                Ok(())
            })
            .await
            .unwrap();
    };
    futures_util::future::join_all((0..5).map(|_| increment())).await;
    assert_eq!(age(&client, "1").await, Some(5));
}

/// G35.
#[tokio::test]
async fn a_transaction_is_all_or_nothing() {
    let (_, client) = table().await;
    client.insert(&person("3", 3)).await.unwrap();
    let mut transaction = client.transaction("Smith");
    transaction.insert(&person("1", 1)).unwrap().insert(&person("3", 9)).unwrap();
    let error = transaction.commit().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Transaction { index: Some(1), .. }), "{error:?}");
    assert!(error.to_string().contains("operation 2 of 2, insert '3': an entity"), "{error}");
    assert_eq!(age(&client, "1").await, None);

    let stored = client.get::<DynEntity>(("Smith", "3")).await.unwrap().unwrap();
    let mut transaction = client.transaction("Smith");
    transaction.insert(&person("1", 1)).unwrap().guard(&stored).unwrap();
    assert_eq!(transaction.commit().await.unwrap().len(), 2);
    let mut transaction = client.transaction("Smith");
    transaction.insert(&person("2", 2)).unwrap().guard(&stored).unwrap();
    assert!(transaction.commit().await.unwrap_err().is_changed());
    assert_eq!((age(&client, "1").await, age(&client, "2").await), (Some(1), None));
}

/// G14.
#[tokio::test]
async fn rules_of_a_transaction_are_checked_while_it_is_made() {
    let (_, client) = table().await;
    let mut transaction = client.transaction("Smith");
    transaction.insert(&person("1", 1)).unwrap();
    let twice = transaction.delete_row("1").unwrap_err();
    assert!(twice.to_string().contains("already"), "{twice}");
    let other = transaction.insert(&DynEntity::new("Jones", "1")).unwrap_err();
    assert!(other.to_string().contains("'Jones'"), "{other}");
    for row in 2..=100 {
        transaction.insert(&person(&row.to_string(), row)).unwrap();
    }
    assert!(transaction.insert(&person("101", 1)).is_err());
    assert_eq!(transaction.len(), 100);
    assert_eq!(transaction.commit().await.unwrap().len(), 100);
    let mut large = client.transaction("Smith");
    let mut blob = DynEntity::new("Smith", "blob");
    for property in 0..14 {
        blob.set(format!("p{property}"), "x".repeat(30_000));
    }
    let mut added = 0;
    let error = loop {
        let mut next = DynEntity::new("Smith", format!("blob{added}"));
        blob.iter().for_each(|(name, value)| drop(next.set(name, value.clone())));
        match large.insert(&next) {
            Ok(_) => added += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(added, 9, "{error}");
}

/// G48, G60, G61, G62, G63.
#[tokio::test]
async fn queries_stream_page_by_page() {
    let (_, client) = table().await;
    for row in 0..25 {
        client.insert(&person(&format!("{row:02}"), row)).await.unwrap();
    }
    let smiths = || client.filter::<DynEntity>(prop("PartitionKey").eq("Smith"));
    let all: Vec<_> = smiths().stream().try_collect().await.unwrap();
    assert_eq!(all.len(), 25);
    let old: Vec<_> = smiths().and(prop("Age").ge(20)).stream().try_collect().await.unwrap();
    assert_eq!(old.len(), 5);
    let first: Vec<_> = smiths().page_size(4).take(10).pages().try_collect().await.unwrap();
    assert_eq!(first.iter().map(|page| page.items.len()).collect::<Vec<_>>(), [4, 4, 2]);

    let mut pages = smiths().page_size(10).pages();
    let token = pages.next().await.unwrap().unwrap().next.unwrap().to_string();
    let token: Continuation = token.parse().unwrap();
    let rest: Vec<_> = smiths().resume(token.clone()).stream().try_collect().await.unwrap();
    assert_eq!((rest.len(), rest[0].row()), (15, "10"));
    let other = client.filter::<DynEntity>(prop("PartitionKey").eq("Jones"));
    let refused = other.resume(token).stream().try_next().await.unwrap_err();
    assert!(refused.to_string().contains("another query"), "{refused}");

    let scanned: Vec<_> = client.scan::<DynEntity>().take(3).stream().try_collect().await.unwrap();
    assert_eq!(scanned.len(), 3);
    let denied = smiths().deny_scans().stream().try_next().await.unwrap_err();
    assert!(matches!(denied.kind(), ErrorKind::ScanDenied { .. }), "{denied}");
    let keys = ["03", "99", "01"].map(|row| ("Smith", row));
    let found = client.get_many::<DynEntity, _>(keys, 2).await.unwrap();
    let rows: Vec<_> = found.iter().map(|one| one.as_ref().map(|one| one.row())).collect();
    assert_eq!(rows, [Some("03"), None, Some("01")]);
}

/// G48.
#[tokio::test]
async fn scans_are_denied_by_the_client_unless_allowed() {
    let service = TableServiceClient::on(
        tavola_local::in_memory(),
        Some(ClientOptions::default().deny_scans()),
    );
    let client = service.table_client("people");
    client.create().await.unwrap();
    client.insert(&person("1", 1)).await.unwrap();
    let by_age = || client.filter::<DynEntity>(prop("Age").eq(1));
    assert!(by_age().stream().try_next().await.is_err());
    assert!(by_age().allow_scan().stream().try_next().await.unwrap().is_some());
    assert!(client.scan::<DynEntity>().stream().try_next().await.unwrap().is_some());
}

/// Neither keys nor values nor credentials are in what is logged or shown.
#[tokio::test]
async fn debug_shows_no_values() {
    let (_, client) = table().await;
    let secret = client.filter::<DynEntity>(prop("PartitionKey").eq("hush"));
    assert!(!format!("{secret:?}").contains("hush"));
    assert!(!format!("{client:?}").contains("hush"));
}

/// G38, G169.
#[tokio::test]
async fn many_writes_in_few_requests() {
    let (_, client) = table().await;
    let people = (0..250).map(|row| person(&format!("{row:03}"), row));
    let others = (0..3).map(|row| DynEntity::new(format!("other{row}"), "1"));
    let report = client.bulk().parallel(4).upsert_all(people.chain(others), Mode::Replace).await;
    let report = report.unwrap();
    assert_eq!((report.written, report.requests, report.failed.len()), (253, 6, 0));
    // One that comes twice begins a new transaction, and the last one counts.
    let twice = [person("000", 7), person("000", 8)];
    let report = client.bulk().upsert_all(twice, Mode::Replace).await.unwrap();
    assert_eq!((report.written, report.requests), (2, 2));
    assert_eq!(age(&client, "000").await, Some(8));
    let report = client.bulk().insert_all([person("000", 1), person("999", 1)]).await.unwrap();
    assert_eq!((report.written, report.failed.len()), (0, 1));
    assert_eq!(report.failed[0].inputs, [0, 1]);
    assert!(report.into_result().unwrap_err().is_conflict());
    let all: Vec<_> = client.scan::<DynEntity>().stream().try_collect().await.unwrap();
    assert_eq!(client.bulk().delete_all(all).await.unwrap().written, 253);
}

#[tokio::test]
async fn deleting_by_a_condition() {
    let (_, client) = table().await;
    client.bulk().insert_all((0..150).map(|row| person(&format!("{row:03}"), row))).await.unwrap();
    let old = || client.delete_where::<DynEntity>(prop("Age").ge(20));
    assert_eq!(old().dry_run().run().await.unwrap().found, 130);
    let some = old().at_most(10).run().await.unwrap();
    assert_eq!((some.found, some.deleted), (10, 10));
    assert_eq!(old().run().await.unwrap().deleted, 120);
    let left: Vec<_> = client.scan::<DynEntity>().stream().try_collect().await.unwrap();
    assert_eq!(left.len(), 20);
}
