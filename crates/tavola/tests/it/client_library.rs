//! The client library against the server: every operation over sockets, with TLS too.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use tavola_client::{
    Account, ClientOptions, ConnectionOptions, Created, Credential, DynEntity, ErrorKind, IfMatch,
    KeyRange, Mode, Outcome, Permissions, PointKey, Proof, Retry, TableClient, TableServiceClient,
    prop,
};

use crate::common::{ACCOUNT, KEY, RunningServer};
use crate::tls::client::Files;

fn person(row: &str, age: i32) -> DynEntity {
    let mut person = DynEntity::new("Smith", row);
    person.set("Age", age);
    person.set("Näme", "O'Brien");
    person
}

/// Goes once through what a client does.
async fn use_everything(service: &TableServiceClient) -> TableClient {
    assert!(service.create_table_if_missing("people").await.unwrap());
    assert!(!service.create_table_if_missing("people").await.unwrap());
    let table = service.table_client("people");
    let written = table.insert(&person("1", 5)).await.unwrap();
    assert_eq!((written.status, written.proof, written.attempts), (204, Proof::Reply, 1));
    assert!(table.insert(&person("1", 5)).await.unwrap_err().is_conflict());
    let mut stored = table.get::<DynEntity>(("Smith", "1")).await.unwrap().unwrap();
    assert_eq!(stored.get::<String>("Näme").unwrap(), "O'Brien");
    assert_eq!(Some(stored.etag()), written.etag.as_ref());
    stored.set("Age", 6);
    table.replace(&mut stored).await.unwrap();
    table.update(&person("1", 7), Mode::Merge, IfMatch::Any).await.unwrap();
    assert!(table.replace(&mut stored).await.unwrap_err().is_changed());
    let existing = table.create_if_missing(&person("1", 8)).await.unwrap();
    assert!(matches!(existing, Created::Existing(found) if found.get::<i32>("Age").unwrap() == 7));
    table
        .try_modify::<DynEntity>(("Smith", "1"), |person| {
            *person.get_mut::<i32>("Age")? += 1;
            Ok(())
        })
        .await
        .unwrap();

    let mut transaction = table.transaction("Smith");
    for row in 10..40 {
        transaction.upsert(&person(&row.to_string(), row), Mode::Replace).unwrap();
    }
    transaction.delete_row("1").unwrap();
    assert_eq!(transaction.commit().await.unwrap().len(), 31);
    let mut failing = table.transaction("Smith");
    failing.insert(&person("50", 1)).unwrap().insert(&person("10", 1)).unwrap();
    let error = failing.commit().await.unwrap_err();
    assert!(error.to_string().contains("operation 2 of 2, insert '10'"), "{error}");

    let smiths = prop("PartitionKey").eq("Smith").and(prop("Age").ge(30));
    let query = || table.filter::<DynEntity>(smiths.clone()).page_size(4);
    let all: Vec<_> = query().stream().try_collect().await.unwrap();
    assert_eq!(all.len(), 10);
    let first = query().pages().try_next().await.unwrap().unwrap();
    let rest: Vec<_> = query().resume(first.next).stream().try_collect().await.unwrap();
    assert_eq!(rest.len(), 6);
    assert!(table.delete_if_exists::<DynEntity>(("Smith", "10")).await.unwrap());
    assert!(!table.delete_if_exists::<DynEntity>(("Smith", "10")).await.unwrap());
    let gone = table.delete_where::<DynEntity>(prop("Age").lt(20)).run().await.unwrap();
    assert_eq!(gone.deleted, 9);
    table
}

#[tokio::test]
async fn every_operation() {
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start(folder.path());
    let text =
        format!("AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint={}", server.endpoint());
    let service = Account::from_connection_string(&text).unwrap().tables().unwrap();
    let table = use_everything(&service).await;
    let names: Vec<_> = service.tables().try_collect().await.unwrap();
    assert_eq!(names, ["people"]);
    let policy = tavola_client::AccessPolicy::new("readers");
    table.set_policies(std::slice::from_ref(&policy)).await.unwrap();
    assert_eq!(table.policies().await.unwrap(), [policy]);

    let properties = service.properties().await.unwrap();
    service.set_properties(&properties).await.unwrap();
    assert_eq!(service.properties().await.unwrap(), properties);

    // A signature made offline opens what it says, and nothing else.
    let hour = Duration::from_secs(3600);
    let only = KeyRange::<DynEntity>::from(PointKey::from(("Smith", "20")));
    let signature = table.sas(Permissions::READ, hour).only(only).build().unwrap();
    let url = format!("{}?{signature}", server.endpoint());
    let guest = TableServiceClient::new(&url, None, None).unwrap().table_client("people");
    assert!(guest.get::<DynEntity>(("Smith", "20")).await.unwrap().is_some());
    assert_eq!(
        guest.get::<DynEntity>(("Smith", "21")).await.map_or_else(|e| e.status(), |_| None),
        Some(403)
    );
    assert_eq!(guest.insert(&person("20", 1)).await.unwrap_err().status(), Some(403));

    service.delete_table("people").await.unwrap();
    assert_eq!(table.insert(&person("1", 1)).await.unwrap_err().code(), Some("TableNotFound"));
}

/// Over TLS, with an authority of our own; without it nobody is trusted, and nothing is sent.
#[tokio::test]
async fn over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::make(&folder.path().join("certificates"));
    let server = RunningServer::start_with(&folder.path().join("data"), |command| {
        command.arg("--tls-cert").arg(files.path("cert.pem"));
        command.arg("--tls-key").arg(files.path("key.pem"))
    });
    let url = server.endpoint().replace("http:", "https:");
    let credential = || Some(Credential::key(ACCOUNT, KEY));
    let authority = std::fs::read(files.path("ca.pem")).unwrap();
    let trusting = ConnectionOptions::default().certificates(authority);
    let options = ClientOptions::default().connection(trusting);
    let service = TableServiceClient::new(&url, credential(), Some(options)).unwrap();
    use_everything(&service).await;

    let options = ClientOptions::default().retry(Retry::none());
    let stranger = TableServiceClient::new(&url, credential(), Some(options)).unwrap();
    let error = stranger.create_table("other").await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Connect, Outcome::NotSent), "{error}");
}
