//! Keyspaces that cannot be used, on a real cluster: nothing is changed in them, and the message
//! says why.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::time::Duration;

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use tavola_cassandra::{CassandraStore, Created, OpenError, Options, init, inspect};
use tavola_core::{
    EntityGroupTransaction, EntityKey, EntityOperation, NewEntity, PartitionKey, Precondition,
    Properties, RowKey, TableId, Timestamp,
};
use tavola_store::{Peer, SharedStore, Store, StoreError};

/// A keyspace with a name of its own, dropped by [`Keyspace::end`].
struct Keyspace {
    session: Session,
    options: Options,
}

impl Keyspace {
    async fn new() -> Self {
        let keyspace = format!("t{}", uuid::Uuid::new_v4().simple());
        let options = Options { keyspace, create: false, ..common::options() };
        let session =
            SessionBuilder::new().known_nodes(&options.contact_points).build().await.unwrap();
        Self { session, options }
    }

    async fn run(&self, statement: &str) {
        let statement = statement.replace("{k}", &self.options.keyspace);
        self.session.query_unpaged(statement, ()).await.unwrap();
    }

    /// Why neither a server nor `init` can use it.
    async fn refusal(&self) -> String {
        let opened = CassandraStore::open(self.options.clone()).await.unwrap_err();
        let inspected = inspect(&self.options).await.unwrap().keyspace.unwrap_err();
        assert_eq!(opened.to_string(), inspected.to_string());
        assert!(opened.to_string().contains("store.keyspace"), "the setting is named: {opened}");
        assert!(
            opened.to_string().contains(&self.options.keyspace),
            "the keyspace is named: {opened}"
        );
        opened.to_string()
    }

    async fn end(self) {
        self.run("DROP KEYSPACE {k}").await;
    }
}

#[tokio::test]
async fn a_keyspace_of_another_layout_is_left_alone() {
    let keyspace = Keyspace::new().await;
    assert!(matches!(
        CassandraStore::open(keyspace.options.clone()).await,
        Err(OpenError::NoKeyspace { .. })
    ));
    let created = init(&keyspace.options).await.unwrap();
    assert_eq!(
        created,
        Created { keyspace: true, tables: vec!["entity", "pdir", "front_end", "meta"], slots: 16 }
    );
    assert_eq!(init(&keyspace.options).await.unwrap(), Created { slots: 16, ..Created::default() });
    drop(CassandraStore::open(keyspace.options.clone()).await.unwrap());

    keyspace.run("UPDATE {k}.meta SET value='99' WHERE key='layout' IF EXISTS").await;
    keyspace.run("DROP TABLE {k}.pdir").await;
    assert!(keyspace.refusal().await.contains("its layout is version \"99\""));
    let refused = init(&keyspace.options).await.unwrap_err();
    assert!(refused.to_string().contains("its layout is version \"99\""), "{refused}");
    let pdir =
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name=? AND table_name='pdir'";
    let found = keyspace.session.query_unpaged(pdir, (&keyspace.options.keyspace,)).await.unwrap();
    assert_eq!(found.into_rows_result().unwrap().rows_num(), 0, "nothing was added to it");
    keyspace.end().await;
}

#[tokio::test]
async fn a_keyspace_of_another_program_is_left_alone() {
    let keyspace = Keyspace::new().await;
    keyspace.run("CREATE KEYSPACE {k} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").await;
    keyspace.run("CREATE TABLE {k}.theirs (a int PRIMARY KEY)").await;
    assert!(keyspace.refusal().await.contains("not made by `tavola store init`"));
    let refused = init(&keyspace.options).await.unwrap_err();
    assert!(refused.to_string().contains("tables of another program: theirs"), "{refused}");
    keyspace.end().await;
}

/// The process ended between the tables and what `meta` says about them.
#[tokio::test]
async fn a_creation_that_was_cut_short_goes_on() {
    let keyspace = Keyspace::new().await;
    init(&keyspace.options).await.unwrap();
    keyspace.run("DROP TABLE {k}.meta").await;
    let created = init(&keyspace.options).await.unwrap();
    assert_eq!((created.keyspace, created.tables), (false, vec!["meta"]));
    keyspace.run("DELETE FROM {k}.meta WHERE key='layout' IF EXISTS").await;
    assert!(keyspace.refusal().await.contains("its layout is version \"\""));
    init(&keyspace.options).await.unwrap();
    drop(CassandraStore::open(keyspace.options.clone()).await.unwrap());
    keyspace.end().await;
}

#[tokio::test]
async fn quorums_of_another_scope_are_refused() {
    let keyspace = Keyspace::new().await;
    init(&keyspace.options).await.unwrap();
    let centre = keyspace.session.get_cluster_state().get_nodes_info()[0].datacenter.clone();
    let local = Options { data_centre: centre, ..keyspace.options.clone() };
    let refused = CassandraStore::open(local).await.unwrap_err();
    assert!(refused.to_string().contains("store.data_centre"), "{refused}");
    keyspace.end().await;
}

/// The list forgets nodes that send no heartbeat, and those that leave.
#[tokio::test]
async fn nodes_are_listed() {
    let keyspace = Keyspace::new().await;
    init(&keyspace.options).await.unwrap();
    let store = CassandraStore::open(keyspace.options.clone()).await.unwrap();
    let peer = |id: u8| Peer { id: [id; 16], address: format!("127.0.0.{id}:1") };
    let (one, other) = (peer(1), peer(2));
    let long = Duration::from_secs(600);
    assert_eq!(store.heartbeat(&one, long).await.unwrap(), std::slice::from_ref(&one));
    assert_eq!(
        store.heartbeat(&other, Duration::from_secs(1)).await.unwrap(),
        [one.clone(), other.clone()]
    );
    while store.heartbeat(&one, long).await.unwrap() != [one.clone()] {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    store.heartbeat(&other, long).await.unwrap();
    store.leave(&one).await.unwrap();
    assert_eq!(store.heartbeat(&other, long).await.unwrap(), [other]);
    let another = CassandraStore::open(keyspace.options.clone()).await.unwrap();
    let secret = store.shared_secret().await.unwrap();
    assert!(secret.len() >= 32 && secret == another.shared_secret().await.unwrap());
    keyspace.end().await;
}

/// Keyspaces that were made before there was a list can be served, and get one from `init`.
#[tokio::test]
async fn a_keyspace_without_a_list_gets_one() {
    let keyspace = Keyspace::new().await;
    init(&keyspace.options).await.unwrap();
    keyspace.run("DROP TABLE {k}.front_end").await;
    keyspace.run("DELETE FROM {k}.meta WHERE key='secret'").await;
    let store = CassandraStore::open(keyspace.options.clone()).await.unwrap();
    let own = Peer { id: [1; 16], address: "127.0.0.1:1".to_owned() };
    let long = Duration::from_secs(600);
    let refused =
        [store.heartbeat(&own, long).await.unwrap_err(), store.shared_secret().await.unwrap_err()];
    for error in refused {
        assert!(error.to_string().contains("`tavola store init`"), "{error}");
    }
    assert_eq!(init(&keyspace.options).await.unwrap().tables, ["front_end"]);
    assert_eq!(store.heartbeat(&own, long).await.unwrap(), [own]);
    assert!(store.shared_secret().await.is_ok());
    keyspace.end().await;
}

/// A write that needs a damaged row was tried again and again and then answered with "unavailable".
/// The answer is damage, at once; writes to other rows of the partition go on.
#[tokio::test]
async fn a_write_to_a_damaged_row_is_answered_with_damage() {
    let keyspace = Keyspace::new().await;
    init(&keyspace.options).await.unwrap();
    let store = CassandraStore::open(keyspace.options.clone()).await.unwrap();
    let table = TableId::new(7000);
    let commit = async |operation: EntityOperation| {
        let partition_key = PartitionKey::new("p").unwrap();
        let transaction = EntityGroupTransaction::single(partition_key, operation);
        store.commit(table, &transaction, Timestamp::MIN).await
    };
    let new = |row: &str| {
        let key = EntityKey::new(PartitionKey::new("p").unwrap(), RowKey::new(row).unwrap());
        NewEntity::new(key, Properties::default()).unwrap().1
    };
    for row in ["bad", "good"] {
        commit(EntityOperation::Insert(new(row))).await.unwrap().unwrap();
    }
    let damage = "UPDATE {k}.entity SET doc = 0xff WHERE tid = 7000 AND pk = 0x70 AND rk = 0x626164 \
                  IF EXISTS";
    keyspace.run(damage).await;
    let merge = |row: &str| EntityOperation::Merge(new(row), Precondition::Exists);
    let retries = store.stats().retries;
    let answer = commit(merge("bad")).await;
    assert!(matches!(answer, Err(StoreError::Corrupt(_))), "{answer:?}");
    assert_eq!(store.stats().retries, retries, "to ask again would give the same");
    commit(merge("good")).await.unwrap().unwrap();
    keyspace.end().await;
}
