//! Keys of client-side encryption: wrong and lost ones, rotation, RSA, vaults (G163, G177).

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeySize, PrivateDecryptingKey};
use tavola_client::testing::counting;
use tavola_client::{
    ClientOptions, DynEntity, Encryption, EncryptionFault, Error, ErrorKind, KeyRange, KeyWrap,
    LocalKeys, Outcome, RsaKeys, TableClient, TableServiceClient, TableStore, Value,
};

use self::vault_keys::{Vault, VaultKeys};

#[allow(unreachable_pub, reason = "it is a program of its own as well")]
#[path = "../../examples/vault_keys.rs"]
mod vault_keys;

fn client(store: Arc<dyn TableStore>, keys: impl KeyWrap) -> TableClient {
    let options = ClientOptions::default().encryption(Encryption::new(keys));
    TableServiceClient::on(store, Some(options)).table_client("people")
}

fn old() -> LocalKeys {
    LocalKeys::new("old", &[1; 32])
}

/// The new key for writing, the old one for reading.
fn both() -> LocalKeys {
    LocalKeys::new("new", &[2; 32]).and("old", &[1; 32])
}

fn person(row: &str) -> DynEntity {
    let mut person = DynEntity::new("Smith", row);
    person.set("Age", 42);
    person.set_encrypted("Ssn", format!("ssn of {row}")).unwrap();
    person
}

async fn ssn(table: &TableClient, row: &str) -> Result<String, Error> {
    let found = table.get::<DynEntity>(("Smith", row)).await?;
    found.unwrap().get("Ssn")
}

fn fault(error: &Error) -> EncryptionFault {
    match error.kind() {
        ErrorKind::Encryption { fault, .. } => *fault,
        other => panic!("{other:?}: {error}"),
    }
}

fn smiths() -> KeyRange<DynEntity> {
    KeyRange::partition("Smith")
}

/// A wrong or lost key is a clear error, and no way of writing overwrites what it cannot read.
#[tokio::test]
async fn a_wrong_key_overwrites_nothing() {
    let store = tavola_local::in_memory();
    let table = client(store.clone(), old());
    table.create().await.unwrap();
    table.insert(&person("1")).await.unwrap();
    let lost = client(store.clone(), LocalKeys::new("new", &[2; 32]));
    let wrong = client(store.clone(), LocalKeys::new("old", &[9; 32]));
    for (reader, says) in [(&lost, "there is no key `old`"), (&wrong, "`old` is another key")] {
        let error = ssn(reader, "1").await.unwrap_err();
        assert_eq!((fault(&error), error.outcome()), (EncryptionFault::Key, Outcome::NotApplied));
        let text = error.to_string();
        assert!(text.contains(says) && text.contains("people ('Smith', '1')"), "{text}");
        let modify = reader.modify::<DynEntity>(("Smith", "1"), |one| drop(one.set("Age", 1)));
        assert_eq!(fault(&modify.await.unwrap_err()), EncryptionFault::Key);
        let create = person("1");
        let create = reader.create_if_missing(&create).await.map(drop);
        assert_eq!(fault(&create.unwrap_err()), EncryptionFault::Key);
        let report = reader.rewrap(smiths()).await.unwrap();
        let expected = if says.contains("no key") { 1 } else { 0 };
        assert_eq!((report.failed.len(), report.rewrapped), (expected, 0));
    }
    assert_eq!(ssn(&table, "1").await.unwrap(), "ssn of 1");
    // It can still be deleted.
    assert!(lost.delete_if_exists::<DynEntity>(("Smith", "1")).await.unwrap());
}

/// Rows of the old .NET library are recognised and left alone.
#[tokio::test]
async fn the_old_net_format_is_refused() {
    let store = tavola_local::in_memory();
    let raw = TableServiceClient::on(store.clone(), None).table_client("people");
    raw.create().await.unwrap();
    let mut row = DynEntity::new("Smith", "net");
    row.set("Ssn", vec![1, 2, 3]);
    row.set("_ClientEncryptionMetadata1", "{\"WrappedContentKey\":{}}");
    row.set("_ClientEncryptionMetadata2", vec![4, 5]);
    raw.insert(&row).await.unwrap();
    let table = client(store, old());
    let error = table.get::<DynEntity>(("Smith", "net")).await.unwrap_err();
    assert_eq!(fault(&error), EncryptionFault::OldNetFormat);
    assert!(error.to_string().contains("old .NET library"), "{error}");
    let modify = table.modify::<DynEntity>(("Smith", "net"), |row| drop(row.set("Age", 1)));
    assert_eq!(fault(&modify.await.unwrap_err()), EncryptionFault::OldNetFormat);
    let found = raw.get::<DynEntity>(("Smith", "net")).await.unwrap().unwrap();
    assert_eq!(found.into_inner(), row);
}

/// Rotation: new entities get the new key, old ones are read; `rewrap` writes only `tv_enc`.
#[tokio::test]
async fn keys_rotate_and_are_wrapped_anew() {
    let store = tavola_local::in_memory();
    let before = client(store.clone(), old());
    before.create().await.unwrap();
    before.insert(&person("1")).await.unwrap();
    before.insert(&person("2")).await.unwrap();
    let mut plain = DynEntity::new("Smith", "plain");
    plain.set("Age", 1);
    before.insert(&plain).await.unwrap();
    let counted = counting(store.clone());
    let after = client(counted.clone(), both());
    after.insert(&person("3")).await.unwrap();
    for row in ["1", "2", "3"] {
        assert_eq!(ssn(&after, row).await.unwrap(), format!("ssn of {row}"));
    }
    let raw = TableServiceClient::on(store.clone(), None).table_client("people");
    let was = raw.get::<DynEntity>(("Smith", "1")).await.unwrap().unwrap();
    let _ = counted.take();
    let report = after.rewrap(smiths()).await.unwrap();
    assert_eq!((report.read, report.rewrapped, report.current, report.plain), (4, 2, 1, 1));
    assert_eq!(counted.take(), ["QueryEntities", "MergeEntity", "MergeEntity"]);
    let is = raw.get::<DynEntity>(("Smith", "1")).await.unwrap().unwrap();
    assert_eq!(is.value("Ssn"), was.value("Ssn"));
    assert_ne!(is.value("tv_enc"), was.value("tv_enc"));
    assert_ne!(is.etag(), was.etag());
    // The old key can go.
    let rotated = client(store.clone(), LocalKeys::new("new", &[2; 32]));
    for row in ["1", "2", "3"] {
        assert_eq!(ssn(&rotated, row).await.unwrap(), format!("ssn of {row}"));
    }
    assert_eq!(after.rewrap(smiths()).await.unwrap().rewrapped, 0);

    // What somebody altered is not made genuine.
    before.insert(&person("4")).await.unwrap();
    raw.modify::<DynEntity>(("Smith", "4"), |row| {
        let Some(Value::Binary(bytes)) = row.value("tv_enc") else { panic!() };
        let mut bytes = bytes.to_vec();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        row.set("tv_enc", bytes);
    })
    .await
    .unwrap();
    let report = after.rewrap(smiths()).await.unwrap();
    assert_eq!(report.failed.len(), 1);
    assert_eq!(report.failed[0].key.row(), "4");
    assert_eq!(fault(&report.failed[0].error), EncryptionFault::Altered);
}

/// A rewrap beside a writer: both survive, whichever is first.
#[tokio::test]
async fn a_rewrap_races_with_a_writer() {
    use tavola_client::testing::{Sim, race};

    let keyed = |sim: &Sim| sim.table("people").with_encryption(Encryption::new(both()));
    let seed = |sim: Sim| async move {
        let table = sim.table("people").with_encryption(Encryption::new(old()));
        table.create().await?;
        table.insert(&person("1")).await?;
        Ok(())
    };
    let rewrap = move |sim: Sim| async move {
        let report = keyed(&sim).rewrap(smiths()).await?;
        assert_eq!((report.read, report.failed.len()), (1, 0));
        Ok(())
    };
    let write = move |sim: Sim| async move {
        let change = |one: &mut DynEntity| drop(one.set("Ssn", "another"));
        keyed(&sim).modify::<DynEntity>(("Smith", "1"), change).await?;
        Ok(())
    };
    let finally = |sim: Sim| async move {
        let rotated = LocalKeys::new("new", &[2; 32]);
        let table = sim.table("people").with_encryption(Encryption::new(rotated));
        assert_eq!(ssn(&table, "1").await?, "another");
        Ok(())
    };
    let race = race(tavola_local::in_memory).seed(seed).writer(rewrap).writer(write);
    let report = race.finally(finally).run().await.unwrap();
    assert!(report.runs >= 6, "{report:?}");
}

/// RSA-OAEP: a writer needs the public key alone.
#[tokio::test]
async fn rsa_keys_wrap_too() {
    let pair = PrivateDecryptingKey::generate(KeySize::Rsa2048).unwrap();
    let pkcs8: Pkcs8V1Der<'_> = pair.as_der().unwrap();
    let public: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
    let store = tavola_local::in_memory();
    let writer = client(store.clone(), RsaKeys::write_only("rsa", public.as_ref()).unwrap());
    writer.create().await.unwrap();
    writer.insert(&person("1")).await.unwrap();
    assert_eq!(fault(&ssn(&writer, "1").await.unwrap_err()), EncryptionFault::Key);
    let reader = client(store.clone(), RsaKeys::new("rsa", pkcs8.as_ref()).unwrap());
    assert_eq!(ssn(&reader, "1").await.unwrap(), "ssn of 1");
    // Local keys do not mistake it for theirs.
    let other = client(store, LocalKeys::new("rsa", &[1; 32]));
    assert_eq!(fault(&ssn(&other, "1").await.unwrap_err()), EncryptionFault::Key);
    assert!(RsaKeys::new("x", b"no key").is_err());
    assert!(!format!("{reader:?} {:?}", old()).contains("[1, 1"));
}

/// G177: a vault is asked once an hour for writing, and once for each of its parts for reading.
#[tokio::test(start_paused = true)]
async fn a_vault_is_asked_rarely() {
    assert_eq!(vault_keys::run().await.unwrap(), 1);

    let vault = Vault::new(LocalKeys::new("v1", &[5; 32]));
    let hour = Duration::from_secs(3600);
    let store = tavola_local::in_memory();
    let table = client(store.clone(), VaultKeys::new(vault.clone(), hour));
    table.create().await.unwrap();
    for row in ["1", "2"] {
        table.insert(&person(row)).await.unwrap();
        assert_eq!(ssn(&table, row).await.unwrap(), format!("ssn of {row}"));
    }
    assert_eq!(vault.calls(), 1);
    // After an hour: another key for new entities, and the old one is asked for once more.
    tokio::time::advance(hour).await;
    table.insert(&person("3")).await.unwrap();
    for row in ["1", "2", "3"] {
        assert_eq!(ssn(&table, row).await.unwrap(), format!("ssn of {row}"));
    }
    assert_eq!(vault.calls(), 3);
    // Another process knows nothing yet: one call for each of the two parts.
    let other = client(store, VaultKeys::new(vault.clone(), hour));
    for row in ["1", "2", "3", "1"] {
        assert_eq!(ssn(&other, row).await.unwrap(), format!("ssn of {row}"));
    }
    assert_eq!(vault.calls(), 5);
}

/// A vault that does not answer ends with the call's deadline; nothing was sent.
#[tokio::test(start_paused = true)]
async fn a_silent_vault_ends_with_the_deadline() {
    use tavola_client::{BoxFuture, SourceError, Wrapped};
    use zeroize::Zeroizing;

    struct Silent;
    impl KeyWrap for Silent {
        fn current(&self) -> BoxFuture<'_, Result<String, SourceError>> {
            Box::pin(std::future::pending())
        }
        fn wrap<'a>(&'a self, _: &'a [u8; 32]) -> BoxFuture<'a, Result<Wrapped, SourceError>> {
            Box::pin(std::future::pending())
        }
        fn unwrap<'a>(
            &'a self,
            _: &'a Wrapped,
        ) -> BoxFuture<'a, Result<Zeroizing<[u8; 32]>, SourceError>> {
            Box::pin(std::future::pending())
        }
    }
    let store = tavola_local::in_memory();
    let counted = counting(store);
    let table = client(counted.clone(), Silent);
    table.create().await.unwrap();
    let _ = counted.take();
    let error = table.insert(&person("1")).deadline(Duration::from_secs(5)).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Deadline, Outcome::NotSent));
    assert!(counted.take().is_empty());
}
