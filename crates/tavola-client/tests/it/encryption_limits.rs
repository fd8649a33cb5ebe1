//! Client-side encryption in transactions, patterns and at its limits (G163, G164).

use tavola_client::patterns::LogTail;
use tavola_client::{
    ClientOptions, DynEntity, ErrorKind, IfMatch, Mode, Outcome, Rule, TableServiceClient, Value,
};
use time::OffsetDateTime;
use uuid::Uuid;

use super::common::{Fate, Faulty};
use super::encryption::{Address, Patient, encryption, get, patient, row, table};

/// All types by `set_encrypted`; limits are checked before anything is sent.
#[tokio::test]
async fn all_types_and_their_limits() {
    let (_, keyed, raw) = table().await;
    let at = OffsetDateTime::from_unix_timestamp(1_408_668_632).unwrap();
    let values = [
        ("s", Value::from("O'Brien \u{1f600}")),
        ("e", Value::from("")),
        ("i", Value::from(i32::MIN)),
        ("l", Value::from(i64::MAX)),
        ("d", Value::from(f64::NAN)),
        ("n", Value::from(f64::NEG_INFINITY)),
        ("b", Value::from(false)),
        ("t", Value::from(at)),
        ("g", Value::from(Uuid::from_u128(7))),
        ("x", Value::from(vec![0, 255])),
    ];
    let mut entity = DynEntity::new("East", "types");
    for (name, value) in &values {
        entity.set_encrypted(*name, value.clone()).unwrap();
    }
    keyed.insert(&entity).await.unwrap();
    let (found, stored) = (row(&keyed, "types").await, row(&raw, "types").await);
    for (name, value) in &values {
        assert_eq!(found.value(name), Some(value), "{name}");
        assert!(matches!(stored.value(name), Some(Value::Binary(_))), "{name}");
    }

    // 32 Ki units of UTF-16 are within the limit of a text, and 96 KiB in UTF-8 beyond that of bytes.
    let limit = 65_536 - 28;
    for (text, fits) in
        [("x".repeat(32_768), true), ("é".repeat(limit / 2), true), ("語".repeat(32_768), false)]
    {
        let mut entity = DynEntity::new("East", "long");
        entity.set_encrypted("text", text.as_str()).unwrap();
        match keyed.upsert(&entity, Mode::Replace).await {
            Ok(_) => assert!(fits),
            Err(error) => {
                let (rule, limits) = match error.kind() {
                    ErrorKind::Invalid { rule, limit, found, .. } => (*rule, (*limit, *found)),
                    other => panic!("{other:?}"),
                };
                assert_eq!(rule, Rule::PropertySize, "{error}");
                assert_eq!(limits, (Some(limit), Some(98_304)));
                assert!(!fits && error.outcome() == Outcome::NotSent);
            }
        }
    }
    let mut most = DynEntity::new("East", "most");
    (0..252).for_each(|at| drop(most.set_encrypted(format!("p{at}"), at)));
    let error = keyed.insert(&most).await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Invalid { rule: Rule::PropertyCount, .. }),
        "{error}"
    );
    most.remove("p0");
    keyed.insert(&most).await.unwrap();
}

/// A transaction counts what encryption adds, and a bulk write cuts accordingly.
#[tokio::test]
async fn encrypted_transactions_keep_their_limit() {
    let (_, keyed, _) = table().await;
    let large = |id| Patient { ssn: "x".repeat(32_000), ..patient(id) };
    let report = keyed.bulk().upsert_all((0..120).map(large), Mode::Replace).await.unwrap();
    assert_eq!((report.written, report.failed.len()), (120, 0));
    let mut one = keyed.transaction("East");
    let added = (0..100).take_while(|id| one.insert(&large(*id)).is_ok()).count();
    // As base64 each has a third more; plain, all hundred would fit into 4 MiB.
    assert!((90..99).contains(&added), "{added}");
    assert_eq!(*get(&keyed, 119).await.unwrap(), large(119));
}

/// A lost reply is decided by the bytes that were sent: a content key of its own makes them unique.
#[tokio::test]
async fn a_lost_reply_is_proved_by_the_ciphertext() {
    let (store, keyed, _) = table().await;
    let faulty = Faulty::new(store.clone(), &[Fate::LostReply]);
    let options = ClientOptions::default().encryption(encryption());
    let losing = TableServiceClient::on(faulty.clone(), Some(options)).table_client("ward");
    let written = losing.insert(&patient(1)).await.unwrap();
    assert_eq!(written.proof, tavola_client::Proof::Content);
    // The same entity of another writer is not mistaken for it.
    let faulty = Faulty::new(store, &[Fate::LostRequest]);
    let options = ClientOptions::default().encryption(encryption());
    let losing = TableServiceClient::on(faulty, Some(options)).table_client("ward");
    let error = losing.insert(&patient(1)).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert_eq!(*get(&keyed, 1).await.unwrap(), patient(1));
}

/// Index rows are encrypted for their own key; a log's entries too.
#[tokio::test]
async fn patterns_encrypt_their_copies() {
    let (_, keyed, raw) = table().await;
    let indexed = keyed.indexed::<Patient>();
    indexed.insert(&patient(1)).await.unwrap();
    let by_name = || Patient::by_name().ward("East").name("Ann").id(1);
    let stored = row(&raw, "name_Ann!0001").await;
    assert!(matches!(stored.value("ssn"), Some(Value::Binary(_))));
    let base = row(&raw, "p_0001").await;
    assert_ne!(stored.value("ssn"), base.value("ssn"));
    let found = indexed.row(by_name()).await.unwrap().unwrap();
    assert_eq!(found.get::<String>("ssn").unwrap(), "078-05-1120");
    assert_eq!(*indexed.find(by_name()).await.unwrap().unwrap(), patient(1));
    indexed.modify(Patient::key().ward("East").id(1), |ann| ann.ssn.push('!')).await.unwrap();
    assert!(indexed.verify("East").await.unwrap().is_clean());
    // Drift is seen in the values, and what mends it is encrypted.
    keyed.delete_at::<DynEntity>(("East", "name_Ann!0001"), IfMatch::Any).await.unwrap();
    assert_eq!(indexed.rebuild("East").await.unwrap().mended, 1);
    let stored = row(&raw, "name_Ann!0001").await;
    assert!(matches!(stored.value("ssn"), Some(Value::Binary(_))));
    // A rule that looks at the entity's row holds for the copies.
    let rule = |_: &str, row: &str, name: &str| row.starts_with("p_") && name == "name";
    let ruled = keyed.with_encryption(encryption().rule(rule));
    ruled.indexed::<Patient>().insert(&patient(2)).await.unwrap();
    let stored = row(&raw, "name_Ann!0002").await;
    assert!(matches!(stored.value("name"), Some(Value::Binary(_))));

    let log = LogTail::<Address>::new(&keyed).stream("log");
    let entry = Address { city: "Bonn".into(), street: "Am Hang 3".into() };
    let place = log.append(&entry).await.unwrap();
    assert_eq!(log.latest(1).await.unwrap()[0].value, entry);
    let stored = raw.get::<DynEntity>(place.key()).await.unwrap().unwrap();
    assert!(matches!(stored.value("street"), Some(Value::Binary(_))));
    assert_eq!(stored.get::<String>("city").unwrap(), "Bonn");
}
