//! A Cassandra cluster as the store: from settings to options, and what it says about itself.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use tavola_cassandra::{
    CassandraStore, LATENCY_EDGES_MS, OpenError, Options, Reads, Risk, WIDTH_EDGES,
};
use tavola_fair::Stats;
use tavola_peers::keys::PeerKeys;
use tavola_peers::{Affinity, ForwardingStore, Settings};
use tavola_server::Health;
use tavola_server::config::{ClusterAffinity, ClusterConfig, ClusterReads};
use tavola_service::{Clock, SystemClock};
use tavola_store::Store;

use crate::exit::Failure;
use crate::http_client::HttpClient;

/// A forwarded write may wait as long on the other node as here, and a little for the way.
const FORWARD_TIMEOUT_FACTOR: u32 = 2;

/// What the settings mean to the store.
pub(crate) fn options(config: &ClusterConfig) -> Result<Options, Failure> {
    let tls = config.tls.then(|| HttpClient::new(config.ca_file.clone()).trust()).transpose();
    Ok(Options {
        contact_points: config.contact_points.clone(),
        keyspace: config.keyspace.clone(),
        data_centre: config.data_centre.clone(),
        replication: config.replication,
        create: config.create,
        credentials: config.user.clone().map(|user| (user, config.password.to_string())),
        tls: tls.map_err(|error| Failure::Usage(format!("store.ca_file: {error}")))?,
        statement_time: config.statement_time,
        answer_time: config.answer_time,
        reads: match config.reads {
            ClusterReads::Strict => Reads::Strict,
            ClusterReads::Fast => Reads::Fast,
        },
        waiting_max: config.waiting_max,
        sweep_after: config.sweep_after,
        accepted_risks: accepted_risks(&config.accepted_risks)?,
        ..Options::default()
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
#[derive(Debug, Clone)]
pub(crate) struct ClusterStore {
    store: Arc<CassandraStore>,
    forwarding: Option<Arc<ForwardingStore>>,
}

impl ClusterStore {
    pub(crate) async fn open(config: &ClusterConfig) -> Result<Self, Failure> {
        let settings =
            config.peers.map(|address| forwarding_settings(address, config)).transpose()?;
        let store = Arc::new(CassandraStore::open(options(config)?).await.map_err(cannot_open)?);
        let forwarding = match settings {
            Some(settings) => Some(Arc::new(open_forwarding(&store, &settings).await?)),
            None => None,
        };
        Ok(Self { store, forwarding })
    }

    pub(crate) fn entities(&self) -> Arc<dyn Store> {
        match &self.forwarding {
            Some(forwarding) => Arc::clone(forwarding) as _,
            None => Arc::clone(&self.store) as _,
        }
    }

    pub(crate) async fn close(self) {
        if let Some(forwarding) = &self.forwarding {
            forwarding.close().await;
        }
    }
}

/// How this node takes part; its keys are read before anything is asked of the cluster.
fn forwarding_settings(address: SocketAddr, config: &ClusterConfig) -> Result<Settings, Failure> {
    let affinity = match config.affinity {
        ClusterAffinity::Contended => Affinity::Contended,
        ClusterAffinity::Always => Affinity::Always,
    };
    let forward_timeout = config.answer_time * FORWARD_TIMEOUT_FACTOR;
    let settings = Settings::new(address, forward_timeout, || SystemClock.now());
    Ok(Settings {
        affinity,
        keys: peer_keys(config)?,
        accept_plain: config.accept_plain_peers,
        ..settings
    })
}

/// The keys that this node is configured with, if it has peers; checked.
pub(crate) fn peer_keys(config: &ClusterConfig) -> Result<Option<PeerKeys>, Failure> {
    let (Some(address), Some(folder)) = (config.peers, &config.peer_keys) else { return Ok(None) };
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

impl Health for ClusterStore {
    fn ready(&self) -> Result<(), String> {
        self.store.health()
    }

    fn counters(&self) -> Vec<(&'static str, &'static str, u64)> {
        let stats = self.store.stats();
        let mut counters = vec![
            ("tavola_store_commits", "Transactions that were written", stats.commits),
            ("tavola_store_refusals", "Transactions that the domain refused", stats.refusals),
            (
                "tavola_store_contended",
                "Transactions that found their partition's queue full",
                stats.contended,
            ),
            ("tavola_store_attempts", "Conditional batches that were sent", stats.attempts),
            (
                "tavola_store_attempts_refused",
                "Conditional batches that were refused",
                stats.attempts_refused,
            ),
            ("tavola_store_retries", "Conditional batches that were repeated", stats.retries),
            (
                "tavola_store_unknown",
                "Conditional batches whose outcome was not told",
                stats.unknown,
            ),
            ("tavola_store_fences", "Fences that were put up to find out", stats.fences),
            (
                "tavola_store_unresolved",
                "Transactions answered with an unknown outcome",
                stats.unresolved,
            ),
            (
                "tavola_store_registrations",
                "Partitions entered into the directory",
                stats.registrations,
            ),
            (
                "tavola_store_retirements",
                "Empty partitions taken out of the directory",
                stats.retirements,
            ),
        ];
        if let Some(forwarding) = &self.forwarding {
            let stats = forwarding.stats();
            counters.extend([
                (
                    "tavola_peers_sent",
                    "Writes that another node carried out for this one",
                    stats.sent,
                ),
                ("tavola_peers_received", "Writes carried out for other nodes", stats.received),
                ("tavola_peers_declined", "Writes that another node did not begin", stats.declined),
                (
                    "tavola_peers_refused",
                    "Connections to the port for peers that were refused",
                    stats.refused,
                ),
                (
                    "tavola_peers_unanswered",
                    "Writes whose outcome another node did not tell",
                    stats.unanswered,
                ),
            ]);
        }
        counters
    }

    fn exposition(&self) -> String {
        let stats = self.store.stats();
        let mut text = String::new();
        if let Some(forwarding) = &self.forwarding {
            tenants(&mut text, &forwarding.tenants());
            let stats = forwarding.stats();
            gauge(&mut text, "tavola_peers", "Other nodes that can be reached", stats.present);
            if let Some(left) = stats.certificate_seconds_left {
                let left = u64::try_from(left).unwrap_or_default();
                gauge(
                    &mut text,
                    "tavola_peers_certificate_seconds",
                    "Until this node's certificate for peers ends",
                    left,
                );
            }
        }
        gauge(
            &mut text,
            "tavola_store_waiting",
            "Transactions that wait for their partition",
            stats.waiting,
        );
        let width = "tavola_store_batch_width";
        heading(&mut text, width, "histogram", "Transactions that share a conditional batch");
        let edges: Vec<String> = WIDTH_EDGES.iter().map(u64::to_string).collect();
        buckets(&mut text, width, "", &edges, &stats.widths);
        let time = "tavola_store_statement_seconds";
        heading(&mut text, time, "histogram", "Time until the cluster answered a statement");
        let edges: Vec<String> =
            LATENCY_EDGES_MS.iter().map(|edge| format!("{:.3}", *edge as f64 / 1e3)).collect();
        for latency in &stats.latencies {
            let label = format!("statement=\"{}\",", latency.statement);
            buckets(&mut text, time, &label, &edges, &latency.buckets);
            let _infallible = writeln!(
                text,
                "{time}_sum{{statement=\"{}\"}} {}",
                latency.statement,
                latency.total.as_secs_f64()
            );
        }
        let failed = "tavola_store_statement_failures";
        heading(
            &mut text,
            failed,
            "counter",
            "Statements that the cluster did not carry out, or did not say so",
        );
        for latency in &stats.latencies {
            let _infallible = writeln!(
                text,
                "{failed}_total{{statement=\"{}\"}} {}",
                latency.statement, latency.failed
            );
        }
        text
    }
}

fn heading(text: &mut String, name: &str, kind: &str, help: &str) {
    let _infallible = write!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}\n");
}

/// What accounts have of this node's places for the writes that other nodes forward.
fn tenants(text: &mut String, tenants: &[(String, Stats)]) {
    type Value = fn(&Stats) -> f64;
    let metrics: [(&str, &str, &str, Value); 4] = [
        ("used", "gauge", "Places for forwarded writes that an account holds", |stats| {
            stats.used as f64
        }),
        ("waits", "counter", "Times that an account waited for one", |stats| stats.waits as f64),
        ("wait_seconds", "counter", "Seconds that it waited", |stats| {
            stats.wait_time.as_secs_f64()
        }),
        ("refused", "counter", "Times that it was refused one", |stats| stats.refused as f64),
    ];
    for (name, kind, help, value) in metrics {
        let name = format!("tavola_peers_account_{name}");
        let suffix = if kind == "counter" { "_total" } else { "" };
        heading(text, &name, kind, help);
        for (account, stats) in tenants {
            let account = account.replace(['\\', '"', '\n'], "_");
            let _infallible =
                writeln!(text, "{name}{suffix}{{account=\"{account}\"}} {}", value(stats));
        }
    }
}

fn gauge(text: &mut String, name: &str, help: &str, value: u64) {
    heading(text, name, "gauge", help);
    let _infallible = writeln!(text, "{name} {value}");
}

/// Cumulative, as the format wants them; the last has no edge.
fn buckets(text: &mut String, name: &str, label: &str, edges: &[String], counts: &[u64]) {
    let mut sum = 0;
    for (edge, count) in edges.iter().map(String::as_str).chain(["+Inf"]).zip(counts) {
        sum += count;
        let _infallible = writeln!(text, "{name}_bucket{{{label}le=\"{edge}\"}} {sum}");
    }
    let label = label.trim_end_matches(',');
    let braces = if label.is_empty() { String::new() } else { format!("{{{label}}}") };
    let _infallible = writeln!(text, "{name}_count{braces} {sum}");
}

#[cfg(test)]
mod tests {
    use super::buckets;

    #[test]
    fn buckets_are_cumulative() {
        let mut text = String::new();
        buckets(
            &mut text,
            "n",
            "statement=\"get\",",
            &["1".to_owned(), "2".to_owned()],
            &[3, 0, 2],
        );
        let expected = [
            "n_bucket{statement=\"get\",le=\"1\"} 3",
            "n_bucket{statement=\"get\",le=\"2\"} 3",
            "n_bucket{statement=\"get\",le=\"+Inf\"} 5",
            "n_count{statement=\"get\"} 5",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }
}
