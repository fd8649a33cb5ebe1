//! What a user of the cluster must be allowed, on the node that
//! `crates/tavola/tests/guarded_cluster.rs` describes: there a user may do only what was
//! granted.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use tavola_cassandra::{CassandraStore, Inspection, OpenError, Options, Risk, init, inspect};
use tavola_core::{
    EntityAddress, EntityGroupTransaction, EntityKey, EntityOperation, NewEntity, PartitionKey,
    Properties, RowKey, TableId, Timestamp,
};
use tavola_store::Blocking;
use tavola_store::Store as _;

const PASSWORD: &str = "a password";

fn trust() -> Arc<ClientConfig> {
    let file =
        std::env::var("TAVOLA_CASSANDRA_CA_FILE").expect("TAVOLA_CASSANDRA_CA_FILE names a file");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    Arc::new(config.with_root_certificates(roots).with_no_client_auth())
}

/// A keyspace that the administrator made, and a user without rights.
struct Scene {
    admin: Session,
    /// Of the user.
    options: Options,
    user: String,
}

impl Scene {
    async fn new() -> Self {
        let word = uuid::Uuid::new_v4().simple();
        let (keyspace, user) = (format!("t{word}"), format!("u{word}"));
        let all = Options { keyspace, create: false, tls: Some(trust()), ..common::options() };
        let administrator = Some(("cassandra".to_owned(), "cassandra".to_owned().into()));
        init(&Options { credentials: administrator, ..all.clone() }).await.unwrap();
        let admin =
            SessionBuilder::new().known_nodes(&all.contact_points).user("cassandra", "cassandra");
        let admin = admin.tls_context(all.tls.clone()).build().await.unwrap();
        let scene = Self {
            admin,
            options: Options {
                credentials: Some((user.clone(), PASSWORD.to_owned().into())),
                ..all
            },
            user,
        };
        scene
            .run(&format!("CREATE ROLE {{u}} WITH LOGIN = true AND PASSWORD = '{PASSWORD}'"))
            .await;
        scene
    }

    async fn run(&self, statement: &str) {
        let statement = statement.replace("{u}", &self.user).replace("{k}", &self.options.keyspace);
        self.admin.query_unpaged(statement, ()).await.unwrap();
    }

    /// Inspects until a grant counts: Cassandra nodes cache for seconds what a user was not
    /// allowed.
    async fn inspect_until(&self, is_granted: impl Fn(&Inspection) -> bool) -> Inspection {
        for _ in 0..240 {
            let inspection = inspect(&self.options).await.unwrap();
            if is_granted(&inspection) {
                return inspection;
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        panic!("the grant does not count after a minute");
    }

    async fn open_with(&self, accepted: &[Risk]) -> Result<CassandraStore, OpenError> {
        CassandraStore::open(Options { accepted_risks: accepted.to_vec(), ..self.options.clone() })
            .await
    }
}

/// A server started on a Cassandra node that did not show its settings to our user.
#[tokio::test]
async fn settings_that_a_user_may_not_read_are_not_called_safe() {
    let scene = Scene::new().await;
    let stranger = scene.open_with(&Risk::ALL).await.unwrap_err().to_string();
    assert!(
        stranger.contains("read the keyspace's layout") && stranger.contains(&scene.user),
        "{stranger}"
    );

    scene.run("GRANT SELECT ON KEYSPACE {k} TO {u}").await;
    scene.run("GRANT MODIFY ON KEYSPACE {k} TO {u}").await;
    let inspection = scene.inspect_until(|seen| seen.keyspace.is_ok()).await;
    let found: Vec<(Risk, bool)> =
        inspection.findings.iter().map(|one| (one.risk, one.dangerous)).collect();
    assert_eq!(found, [(Risk::Settings, true), (Risk::Replication, true)]);
    assert!(inspection.nodes[0].settings.is_empty(), "{inspection:?}");
    let Err(OpenError::Dangerous { findings }) = scene.open_with(&[Risk::Replication]).await else {
        panic!()
    };
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert!(finding.text.contains("does not show its settings to our user"), "{finding:?}");
    assert!(finding.advice.starts_with("GRANT SELECT ON system_views.settings"), "{finding:?}");
    let store = scene.open_with(&[Risk::Replication, Risk::Settings]).await.unwrap();
    write_and_read(&store).await;

    scene.run("GRANT SELECT ON system_views.settings TO {u}").await;
    scene.inspect_until(|seen| !seen.nodes[0].settings.is_empty()).await;
    let Err(OpenError::Dangerous { findings }) = scene.open_with(&[Risk::Replication]).await else {
        panic!()
    };
    let risks: Vec<Risk> = findings.iter().map(|finding| finding.risk).collect();
    assert_eq!(risks, [Risk::Commitlog, Risk::Paxos], "now it can be seen what they are");
}

async fn write_and_read(store: &CassandraStore) {
    let key = EntityKey::new(PartitionKey::new("p").unwrap(), RowKey::new("r").unwrap());
    let (partition_key, new) =
        NewEntity::new(key.clone(), Properties::new(Vec::new()).unwrap()).unwrap();
    let transaction =
        EntityGroupTransaction::new(vec![(partition_key, EntityOperation::Insert(new))]).unwrap();
    let table = TableId::new(TableId::FIRST_USER);
    store
        .commit(table, &transaction, Timestamp::from_ticks(1_000_000).unwrap())
        .await
        .unwrap()
        .unwrap();
    assert!(store.get(&EntityAddress { table, key }, Blocking::Forbidden).await.unwrap().is_some());
    store.purge(table).await.unwrap();
}
