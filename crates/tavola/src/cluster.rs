//! A Cassandra cluster as the store: from settings to options, and what it says about itself.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tavola_cassandra::{CassandraStore, OpenError, Options, Risk};
use tavola_peers::keys::PeerKeys;
use tavola_peers::{ForwardingStore, Settings};
use tavola_service::{Clock, SystemClock};
use tavola_store::{Backend, Import, Sharing, Store, StoreError};

use crate::exit::Failure;
use crate::http_client::HttpClient;
use crate::store_config::ClusterConfig;

/// A forwarded write may wait as long on the other node as here, and a little for the way.
const FORWARD_TIMEOUT_FACTOR: u32 = 2;

/// What was configured, with what only this binary knows: whom to trust, and names of risks.
pub(crate) fn options(config: &ClusterConfig) -> Result<Options, Failure> {
    let tavola_cassandra::Config { tls, ca_file, options } = &config.store;
    let tls = tls.then(|| HttpClient::new(ca_file.clone()).trust()).transpose();
    Ok(Options {
        tls: tls.map_err(|error| Failure::Usage(format!("store.ca_file: {error}")))?,
        accepted_risks: accepted_risks(&config.accepted_risks)?,
        ..options.clone()
    })
}

fn accepted_risks(names: &[String]) -> Result<Vec<Risk>, Failure> {
    let parse = |name: &String| {
        let known = Risk::ALL.map(Risk::name).join(", ") + ", plain-peers";
        Risk::parse(name).ok_or_else(|| {
            Failure::Usage(format!("store.accept_risks: no risk {name:?}; there are {known}"))
        })
    };
    names.iter().map(parse).collect()
}

/// Settings and keyspaces are for people to look at; a cluster that is away may come back.
pub(crate) fn cannot_open(error: OpenError) -> Failure {
    match &error {
        OpenError::Connect { .. } | OpenError::Statement { .. } => {
            Failure::System(error.to_string())
        }
        _ => Failure::Data(error.to_string()),
    }
}

/// The store of a cluster, and the forwarding to other nodes of it if that is configured.
#[derive(Debug)]
pub(crate) struct ClusterStore {
    store: Arc<CassandraStore>,
    forwarding: Option<Arc<ForwardingStore>>,
    lease: Duration,
}

impl ClusterStore {
    pub(crate) async fn open(config: &ClusterConfig) -> Result<Self, Failure> {
        let settings =
            config.peers.address.map(|address| forwarding_settings(address, config)).transpose()?;
        let store = Arc::new(CassandraStore::open(options(config)?).await.map_err(cannot_open)?);
        let forwarding = match settings {
            Some(settings) => Some(Arc::new(open_forwarding(&store, &settings).await?)),
            None => None,
        };
        Ok(Self { store, forwarding, lease: config.lease })
    }

    /// Without peers, for commands that do not serve.
    pub(crate) async fn open_alone(config: &ClusterConfig) -> Result<Self, Failure> {
        let store = CassandraStore::open(options(config)?).await.map_err(cannot_open)?;
        Ok(Self { store: Arc::new(store), forwarding: None, lease: config.lease })
    }
}

/// How this node takes part; its keys are read before anything is asked of the cluster.
fn forwarding_settings(address: SocketAddr, config: &ClusterConfig) -> Result<Settings, Failure> {
    let forward_timeout = config.store.options.answer_time * FORWARD_TIMEOUT_FACTOR;
    let settings = Settings::new(address, forward_timeout, || SystemClock.now());
    Ok(Settings {
        affinity: config.peers.affinity,
        keys: peer_keys(config)?,
        accept_plain: config.accept_plain_peers,
        ..settings
    })
}

/// The keys that this node is configured with, if it has peers; checked.
pub(crate) fn peer_keys(config: &ClusterConfig) -> Result<Option<PeerKeys>, Failure> {
    let (Some(address), Some(folder)) = (config.peers.address, &config.peers.keys) else {
        return Ok(None);
    };
    let keys = PeerKeys::open(folder, address);
    keys.map(Some).map_err(|error| Failure::Usage(format!("store.peer_keys: {error}")))
}

async fn open_forwarding(
    store: &Arc<CassandraStore>,
    settings: &Settings,
) -> Result<ForwardingStore, Failure> {
    let forwarding = ForwardingStore::open(Arc::clone(store) as _, settings).await;
    let forwarding =
        forwarding.map_err(|error| Failure::System(format!("store.peers: {error}")))?;
    let (address, is_protected) = (forwarding.address(), settings.keys.is_some());
    tracing::info!(address, is_protected, "listening for peers");
    if settings.accept_plain {
        tracing::warn!(
            address,
            "peers may connect WITHOUT protection: whoever reaches this port can read what they write, and change it. \
             Give every node keys (`tavola store peer-keys`), then take plain-peers out of store.accept_risks"
        );
    }
    Ok(forwarding)
}

#[async_trait]
impl Backend for ClusterStore {
    fn store(self: Arc<Self>) -> Arc<dyn Store> {
        match &self.forwarding {
            Some(forwarding) => Arc::clone(forwarding) as _,
            None => Arc::clone(&self.store) as _,
        }
    }

    fn import(self: Arc<Self>) -> Option<Arc<dyn Import>> {
        Some(Arc::clone(&self.store) as _)
    }

    fn ready(&self) -> Result<(), String> {
        self.store.health()
    }

    fn sharing(&self) -> Sharing {
        Sharing::Shared { lease: self.lease }
    }

    async fn close(&self) -> Result<(), StoreError> {
        if let Some(forwarding) = &self.forwarding {
            forwarding.close().await;
        }
        Ok(())
    }
}

impl Collector for ClusterStore {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if let Some(forwarding) = &self.forwarding {
            forwarding.encode_metrics(&mut encoder)?;
        }
        self.store.encode_metrics(&mut encoder)
    }
}
