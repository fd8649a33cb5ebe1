//! Client-side encryption: what is stored, what is read, what is refused (G163 to G167, G177).

use std::sync::Arc;

use futures_util::TryStreamExt as _;
use tavola_client::{
    ClientOptions, DynEntity, Encryption, EncryptionFault, Entity, Error, ErrorKind, IfMatch,
    LocalKeys, Mode, Outcome, Projection, Properties, TableClient, TableServiceClient, Value, only,
    prop,
};
use tavola_local::LocalStore;

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(kind = "patient", partition = "{ward}", row = "p_{id:04}")]
#[entity(index(name, row = "name_{name}!{id:04}", copy(name, ssn)))]
pub(super) struct Patient {
    pub(super) ward: String,
    pub(super) id: u32,
    pub(super) name: String,
    #[entity(encrypt)]
    pub(super) ssn: String,
    #[entity(encrypt)]
    pub(super) weight: Option<f64>,
    #[entity(encrypt, json)]
    pub(super) notes: Vec<String>,
    #[entity(flatten, prefix = "home_")]
    pub(super) home: Address,
}

#[derive(Properties, Debug, Clone, PartialEq)]
pub(super) struct Address {
    pub(super) city: String,
    #[entity(encrypt)]
    pub(super) street: String,
}

/// The same rows for a program that knows less.
#[derive(Entity, Debug, Clone)]
#[entity(kind = "patient", partition = "{ward}", row = "p_{id:04}")]
struct Name {
    ward: String,
    id: u32,
    name: String,
    #[entity(rest)]
    rest: Vec<(String, Value)>,
}

#[derive(Projection, Debug, PartialEq)]
#[projection(of = Patient)]
struct Card {
    name: String,
    ssn: String,
    weight: Option<f64>,
}

pub(super) fn patient(id: u32) -> Patient {
    Patient {
        ward: "East".into(),
        id,
        name: "Ann".into(),
        ssn: "078-05-1120".into(),
        weight: Some(61.5),
        notes: vec!["tired".into()],
        home: Address { city: "Bonn".into(), street: "Am Hang 3".into() },
    }
}

const SECRETS: [&str; 4] = ["078-05-1120", "61.5", "tired", "Am Hang"];

fn keys() -> LocalKeys {
    LocalKeys::new("k1", &[7; 32])
}

pub(super) fn encryption() -> Encryption {
    Encryption::new(keys())
}

fn client(store: &Arc<LocalStore>, encryption: Option<Encryption>) -> TableClient {
    let options = encryption.map(|encryption| ClientOptions::default().encryption(encryption));
    TableServiceClient::on(store.clone(), options).table_client("ward")
}

/// A table, and clients of it with and without keys.
pub(super) async fn table() -> (Arc<LocalStore>, TableClient, TableClient) {
    let store = tavola_local::in_memory();
    let (keyed, raw) = (client(&store, Some(encryption())), client(&store, None));
    keyed.create().await.unwrap();
    (store, keyed, raw)
}

pub(super) async fn get(
    table: &TableClient,
    id: u32,
) -> Result<tavola_client::Stored<Patient>, Error> {
    table.get(Patient::key().ward("East").id(id)).await.map(Option::unwrap)
}

pub(super) async fn row(table: &TableClient, row: &str) -> tavola_client::Stored<DynEntity> {
    table.get::<DynEntity>(("East", row)).await.unwrap().unwrap()
}

fn fault(error: &Error) -> EncryptionFault {
    match error.kind() {
        ErrorKind::Encryption { fault, .. } => *fault,
        other => panic!("{other:?}: {error}"),
    }
}

/// G163, G164: what the type says is stored as Binary and read back as its type.
#[tokio::test]
async fn a_type_says_what_is_encrypted() {
    let (_, keyed, raw) = table().await;
    keyed.insert(&patient(1)).await.unwrap();
    let stored = row(&raw, "p_0001").await;
    for name in ["ssn", "weight", "notes", "home_street", "tv_enc"] {
        assert!(matches!(stored.value(name), Some(Value::Binary(_))), "{name}");
    }
    assert_eq!(stored.get::<String>("name").unwrap(), "Ann");
    assert_eq!(stored.get::<String>("home_city").unwrap(), "Bonn");
    let shown = format!("{stored:?}");
    assert!(SECRETS.iter().all(|secret| !shown.contains(secret)));

    assert_eq!(get(&keyed, 1).await.unwrap().into_inner(), patient(1));
    // Absent values are absent.
    let thin = Patient { id: 2, weight: None, ..patient(2) };
    keyed.insert(&thin).await.unwrap();
    assert_eq!(get(&keyed, 2).await.unwrap().into_inner(), thin);
}

/// G165: a client with the keys reads everything, whatever type; nothing gets plain on the way back.
#[tokio::test]
async fn readers_need_keys_and_no_choice() {
    let (_, keyed, raw) = table().await;
    keyed.insert(&patient(1)).await.unwrap();

    // Without a type.
    let mut dynamic = row(&keyed, "p_0001").await;
    assert_eq!(dynamic.get::<String>("ssn").unwrap(), "078-05-1120");
    assert!(dynamic.is_encrypted("ssn") && !dynamic.is_encrypted("name"));
    assert!(!format!("{dynamic:?}").contains("078-05-1120"), "{dynamic:?}");
    dynamic.set("ssn", "078-05-1121");
    keyed.replace(&mut dynamic).await.unwrap();
    assert_eq!(get(&keyed, 1).await.unwrap().ssn, "078-05-1121");

    // With a type that does not know those properties.
    let key = || Name::key().ward("East").id(1);
    keyed.modify(key(), |name| name.name = "Anna".into()).await.unwrap();
    let mut name = keyed.get(key()).await.unwrap().unwrap();
    name.name.push('!');
    keyed.replace(&mut name).await.unwrap();
    let patient = get(&keyed, 1).await.unwrap();
    assert_eq!((patient.name.as_str(), patient.ssn.as_str()), ("Anna!", "078-05-1121"));
    let stored = row(&raw, "p_0001").await;
    assert!(matches!(stored.value("ssn"), Some(Value::Binary(_))));

    // A copy under another key is encrypted for its own place.
    let mut copy = DynEntity::new("West", "p_0001");
    for (name, value) in row(&keyed, "p_0001").await.iter() {
        copy.set(name, value.clone());
    }
    keyed.insert(&copy).await.unwrap();
    let found = raw.get::<DynEntity>(("West", "p_0001")).await.unwrap().unwrap();
    assert!(matches!(found.value("ssn"), Some(Value::Binary(_))));
    let found = keyed.get::<DynEntity>(("West", "p_0001")).await.unwrap().unwrap();
    assert_eq!(found.get::<String>("ssn").unwrap(), "078-05-1121");
}

/// Without keys a typed read is refused with the reason; a raw copy of a row is left alone.
#[tokio::test]
async fn without_keys_nothing_is_mistaken() {
    let (_, keyed, raw) = table().await;
    keyed.insert(&patient(1)).await.unwrap();
    let error = get(&raw, 1).await.unwrap_err();
    assert_eq!(fault(&error), EncryptionFault::NoKeys);
    let query = raw.query(Patient::key().ward("East"));
    let error = query.select(only::<Card>()).stream().try_next().await.unwrap_err();
    assert_eq!(fault(&error), EncryptionFault::NoKeys);
    let error = raw.insert(&patient(2)).await.unwrap_err();
    assert_eq!((fault(&error), error.outcome()), (EncryptionFault::NoKeys, Outcome::NotSent));

    // What it does not touch stays as it is, also over a raw write.
    let mut stored = row(&raw, "p_0001").await;
    stored.set("name", "Anna");
    raw.replace(&mut stored).await.unwrap();
    raw.modify::<DynEntity>(("East", "p_0001"), |row| drop(row.set("age", 40))).await.unwrap();
    let patient = get(&keyed, 1).await.unwrap();
    assert_eq!((patient.name.as_str(), patient.ssn.as_str()), ("Anna", "078-05-1120"));
    // What is encrypted already is not encrypted once more.
    assert!(stored.set_encrypted("age", 41).is_err());
}

/// G164: a rule by PartitionKey, RowKey and name; entities of one table are encrypted differently.
#[tokio::test]
async fn a_rule_chooses_by_keys_and_name() {
    let (store, keyed, raw) = table().await;
    let rule = |partition: &str, row: &str, name: &str| match (partition, row) {
        ("East", "all") => true,
        ("East", _) => name == "Ssn",
        _ => false,
    };
    let ruled = client(&store, Some(encryption().rule(rule)));
    for (partition, row) in [("East", "all"), ("East", "one"), ("West", "none")] {
        let mut entity = DynEntity::new(partition, row);
        entity.set("EntityType", "person");
        entity.set("Ssn", "078-05-1120");
        entity.set("Age", 42);
        ruled.insert(&entity).await.unwrap();
    }
    let binary = |row: &DynEntity, name| matches!(row.value(name), Some(Value::Binary(_)));
    for (partition, row, all, ssn) in
        [("East", "all", true, true), ("East", "one", false, true), ("West", "none", false, false)]
    {
        let stored = raw.get::<DynEntity>((partition, row)).await.unwrap().unwrap();
        assert_eq!((binary(&stored, "Age"), binary(&stored, "Ssn")), (all, ssn), "{row}");
        assert_eq!(binary(&stored, "tv_enc"), ssn);
        // A reader needs no rule.
        let found = keyed.get::<DynEntity>((partition, row)).await.unwrap().unwrap();
        assert_eq!(found.get::<String>("Ssn").unwrap(), "078-05-1120");
        assert_eq!(found.get::<i32>("Age").unwrap(), 42);
        assert_eq!(found.kind(), Some("person"));
    }
    // All three in one query, and in one projection.
    let names = vec!["Ssn".to_owned()];
    let rows: Vec<_> =
        keyed.scan::<DynEntity>().select(names).stream().try_collect().await.unwrap();
    let ssn = |row: &tavola_client::Projected<DynEntity>| row.get::<String>("Ssn").unwrap();
    assert_eq!(rows.iter().map(ssn).collect::<Vec<_>>(), ["078-05-1120"; 3]);
}

/// G164, G177: the policy is one of the client, of a handle or of a call.
#[tokio::test]
async fn a_policy_on_client_handle_and_call() {
    let (_, keyed, raw) = table().await;
    raw.insert(&patient(1)).encryption(encryption()).await.unwrap();
    raw.with_encryption(encryption()).insert(&patient(2)).await.unwrap();
    keyed.insert(&patient(3)).await.unwrap();
    for id in 1..=3 {
        let key = Patient::key().ward("East").id(id);
        let found = raw.get(key).encryption(encryption()).await.unwrap().unwrap();
        assert_eq!(*found, patient(id));
    }
    let query = raw.query(Patient::key().ward("East")).encryption(encryption());
    let cards: Vec<_> = query.select(only::<Card>()).stream().try_collect().await.unwrap();
    assert_eq!(cards.len(), 3);
    let expected = Card { name: "Ann".into(), ssn: "078-05-1120".into(), weight: Some(61.5) };
    assert_eq!(*cards[0], expected);
    let mut all = raw.transaction("East");
    all.upsert(&patient(4), Mode::Replace).unwrap().insert(&patient(5)).unwrap();
    all.commit().encryption(encryption()).await.unwrap();
    assert_eq!(*get(&keyed, 5).await.unwrap(), patient(5));
}

/// G166: every way to merge is refused with the reason, and nothing is sent.
#[tokio::test]
async fn merges_are_refused_with_the_reason() {
    let (_, keyed, _) = table().await;
    keyed.insert(&patient(1)).await.unwrap();
    let refused = |error: Error| {
        assert_eq!(fault(&error), EncryptionFault::MergeOfEncrypted, "{error}");
        assert_eq!(error.outcome(), Outcome::NotSent);
        assert!(error.to_string().contains("under the old content key"), "{error}");
    };
    refused(keyed.upsert(&patient(1), Mode::Merge).await.unwrap_err());
    refused(keyed.update(&patient(1), Mode::Merge, IfMatch::Any).await.unwrap_err());
    let mut all = keyed.transaction("East");
    all.upsert(&patient(1), Mode::Merge).unwrap();
    refused(all.commit().await.unwrap_err());
    let report = keyed.bulk().upsert_all([patient(1)], Mode::Merge).await.unwrap();
    refused(report.failed.into_iter().next().unwrap().error);
    let ruled = keyed.with_encryption(encryption().rule(|_, _, name| name == "Ssn"));
    let mut entity = DynEntity::new("East", "x");
    entity.set("Ssn", "1");
    refused(ruled.upsert(&entity, Mode::Merge).await.unwrap_err());
    // Also if nothing of it is present: it would depend on the values.
    #[derive(Entity)]
    #[entity(partition = "{p}", row = "{r}")]
    struct Optional {
        p: String,
        r: String,
        #[entity(encrypt)]
        secret: Option<String>,
    }
    let none = Optional { p: "East".into(), r: "none".into(), secret: None };
    refused(keyed.upsert(&none, Mode::Merge).await.unwrap_err());
    keyed.insert(&none).await.unwrap();
    assert!(row(&keyed, "none").await.value("tv_enc").is_none());
    // A merge of other properties leaves the encrypted ones alone, and a modify replaces.
    let mut other = DynEntity::new("East", "p_0001");
    other.set("age", 40);
    keyed.upsert(&other, Mode::Merge).await.unwrap();
    let changed = keyed.modify(Patient::key().ward("East").id(1), |ann| ann.weight = None).await;
    assert!(changed.unwrap().written.is_some());
    let same = keyed.modify::<Patient>(("East", "p_0001"), |_| ()).await.unwrap();
    assert!(same.written.is_none());
    let ann = row(&keyed, "p_0001").await;
    assert_eq!(ann.get::<i32>("age").unwrap(), 40);
    assert!(ann.value("weight").is_none() && ann.is_encrypted("ssn"));
}

/// G167: filters by names are refused before anything is sent; by columns they do not compile.
#[tokio::test]
async fn filters_on_encrypted_properties_are_refused() {
    let (_, keyed, raw) = table().await;
    for name in ["ssn", "home_street"] {
        let filter = || prop("PartitionKey").eq("East").and(prop(name).eq("x"));
        let error = raw.filter::<Patient>(filter()).stream().try_next().await.unwrap_err();
        assert_eq!(fault(&error), EncryptionFault::EncryptedFilter);
        let error = raw.delete_where::<Patient>(filter()).dry_run().run().await.unwrap_err();
        assert_eq!(
            (fault(&error), error.outcome()),
            (EncryptionFault::EncryptedFilter, Outcome::NotSent)
        );
    }
    let ruled =
        keyed.with_encryption(encryption().rule(|pk, _, name| pk != "West" && name == "Ssn"));
    let of = |partition: &str| prop("PartitionKey").eq(partition).and(prop("Ssn").ne("x").not());
    let error = ruled.filter::<DynEntity>(of("East")).stream().try_next().await.unwrap_err();
    assert_eq!(fault(&error), EncryptionFault::EncryptedFilter);
    let none = ruled.filter::<DynEntity>(of("West")).stream().try_next().await.unwrap();
    assert!(none.is_none());
}

/// Plain rows where encrypted ones are expected: refused, unless the table is being changed over.
#[tokio::test]
async fn plain_rows_are_refused_unless_allowed() {
    let (store, keyed, raw) = table().await;
    let mut plain = DynEntity::from_entity(&patient(1)).unwrap();
    plain.remove("tv_enc");
    raw.insert(&plain).await.unwrap();
    keyed.insert(&patient(2)).await.unwrap();
    for reader in [&keyed, &raw] {
        let error = get(reader, 1).await.unwrap_err();
        assert_eq!(fault(&error), EncryptionFault::NotEncrypted);
        assert!(error.to_string().contains("('East', 'p_0001')"), "{error}");
        assert!(!format!("{error} {error:?}").contains("078-05-1120"));
    }
    let rule = |_: &str, _: &str, name: &str| name == "ssn";
    let ruled = keyed.with_encryption(encryption().rule(rule));
    let error = ruled.get::<DynEntity>(("East", "p_0001")).await.unwrap_err();
    assert_eq!(fault(&error), EncryptionFault::NotEncrypted);

    let lenient = client(&store, Some(encryption().require(false)));
    let mut ann = get(&lenient, 1).await.unwrap();
    assert_eq!(*ann, patient(1));
    lenient.replace(&mut ann).await.unwrap();
    assert_eq!(*get(&keyed, 1).await.unwrap(), patient(1));
    let all: Vec<_> =
        keyed.query(Patient::key().ward("East")).stream().try_collect().await.unwrap();
    assert_eq!(all.len(), 2);
}
