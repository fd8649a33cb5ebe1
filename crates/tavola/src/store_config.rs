//! The stores that this binary has: their settings joined with the server's, and the one that an
//! operator chose.

use std::sync::LazyLock;
use std::time::Duration;

use tavola_server::ConfigError;
use tavola_server::config::{Joined, Layers, Schema, SettingGroup};
use tavola_store::{Setting, SettingValues as _};

/// Every setting of this binary.
pub(crate) static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    Schema::new(Joined {
        groups: vec![
            SettingGroup::new("Storage", KIND),
            SettingGroup::new("Storage", tavola_embedded::settings::SETTINGS),
            SettingGroup::new(CLUSTER, tavola_cassandra::settings::SETTINGS),
            SettingGroup::new(CLUSTER, NODES),
            SettingGroup::new(CLUSTER, tavola_peers::settings::SETTINGS),
        ],
        old_names: tavola_peers::settings::OLD_NAMES.to_vec(),
        check: |layers| StoreConfig::read(layers).map(|_| ()),
    })
});

/// The heading of settings about a cluster in help.
const CLUSTER: &str = "Cluster";

const KIND: &[Setting] = &[Setting::new(
    "store.kind",
    Some("store"),
    "KIND",
    "embedded",
    "Storage backend: embedded (on disk), cassandra (a cluster) or memory",
)];

/// What concerns a cluster and its nodes alike.
const NODES: &[Setting] = &[
    Setting::new(
        "store.lease_ms",
        None,
        "MS",
        "2000",
        "How long a node may use cached tables, policies and properties that another node has \
         changed; a drop is acknowledged after it. Must be the same on every node",
    ),
    Setting::new(
        "store.accept_risks",
        Some("accept-risks"),
        "NAMES",
        "",
        "Known risks of the cluster to accept: commitlog, paxos, replication, settings, \
         plain-peers; see `tavola doctor`",
    ),
];

/// The risk that peers talk to each other without protection, while a cluster is switched over.
const PLAIN_PEERS: &str = "plain-peers";

/// Where entities are kept.
#[derive(Debug, Clone)]
pub(crate) enum StoreConfig {
    /// In memory; gone with the process.
    Memory,
    /// On this machine's disk.
    Embedded(tavola_embedded::Config),
    /// In a cluster that other nodes use too.
    Cassandra(Box<ClusterConfig>),
}

impl StoreConfig {
    /// Reads and checks the settings of the store that was chosen.
    pub(crate) fn read(layers: &Layers) -> Result<Self, ConfigError> {
        match layers.text("store.kind") {
            "memory" => Ok(Self::Memory),
            "embedded" => tavola_embedded::Config::read(layers).map(Self::Embedded),
            "cassandra" => {
                let cluster = ClusterConfig::read(layers)?;
                cluster.peers.check(layers, cluster.accept_plain_peers)?;
                Ok(Self::Cassandra(Box::new(cluster)))
            }
            other => {
                let problem =
                    format!("\"{other}\" is not a store; use embedded, cassandra or memory");
                Err(layers.error("store.kind", &problem))
            }
        }
    }
}

/// A cluster, and this node among others.
#[derive(Debug, Clone)]
pub(crate) struct ClusterConfig {
    pub(crate) store: tavola_cassandra::Config,
    pub(crate) peers: tavola_peers::settings::Config,
    /// How long tables, policies and properties are remembered.
    pub(crate) lease: Duration,
    /// Talk to peers beyond this machine without protection too.
    pub(crate) accept_plain_peers: bool,
    /// Names of findings that do not keep the server from starting.
    pub(crate) accepted_risks: Vec<String>,
}

impl ClusterConfig {
    pub(crate) fn read(layers: &Layers) -> Result<Self, ConfigError> {
        let risks = || layers.list("store.accept_risks");
        Ok(Self {
            store: tavola_cassandra::Config::read(layers)?,
            peers: tavola_peers::settings::Config::read(layers)?,
            lease: Duration::from_millis(layers.parse_in("store.lease_ms", 0, 60_000)?),
            accept_plain_peers: risks().any(|risk| risk == PLAIN_PEERS),
            accepted_risks: risks()
                .filter(|risk| *risk != PLAIN_PEERS)
                .map(str::to_owned)
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests;
