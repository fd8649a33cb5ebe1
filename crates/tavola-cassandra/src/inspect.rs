//! What an operator should know about a cluster before trusting it: settings, replication, versions
//! and clocks of its Cassandra nodes. `evaluate` turns what they say into findings.

mod evaluate;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use scylla::client::session::Session;
use scylla::cluster::Node;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use scylla::value::CqlTimestamp;

use crate::cluster::connect;
use crate::error::OpenError;
use crate::options::Options;
use crate::schema;
use evaluate::{evaluate_node, evaluate_replication, evaluate_versions, unreachable_node};

/// What can be wrong, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Risk {
    /// Writes are acknowledged before they are on disk.
    Commitlog,
    /// An older consensus with known gaps.
    Paxos,
    /// Too few copies.
    Replication,
    /// Nodes of different versions.
    Versions,
    /// Clocks that differ.
    Clocks,
    /// A node that does not answer.
    Nodes,
    /// A node that takes no write as large as the largest transaction.
    Mutations,
    /// A node that does not show its settings: what cannot be seen cannot be called safe.
    Settings,
}

impl Risk {
    /// Every risk.
    pub const ALL: [Self; 8] = [
        Self::Commitlog,
        Self::Paxos,
        Self::Replication,
        Self::Versions,
        Self::Clocks,
        Self::Nodes,
        Self::Mutations,
        Self::Settings,
    ];

    /// The word in the setting `store.accept_risks`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Commitlog => "commitlog",
            Self::Paxos => "paxos",
            Self::Replication => "replication",
            Self::Versions => "versions",
            Self::Clocks => "clocks",
            Self::Nodes => "nodes",
            Self::Mutations => "mutations",
            Self::Settings => "settings",
        }
    }

    /// The risk of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|risk| risk.name() == name)
    }
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What kind.
    pub risk: Risk,
    /// Data or linearizability can be lost; the store does not open unless the risk is accepted.
    pub dangerous: bool,
    /// The node that it is about; `None`: all of them.
    pub node: Option<String>,
    /// For a person: what, and what follows from it.
    pub text: String,
    /// What to do.
    pub advice: String,
}

/// A Cassandra node that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InspectedNode {
    /// Its address.
    pub address: String,
    /// Its version.
    pub version: String,
    /// How far its clock is from ours, as exactly as a network allows.
    pub clock_offset: Duration,
    /// Its settings that matter, as `name: value`; empty if it shows none.
    pub settings: Vec<String>,
}

/// What an inspection of a cluster found.
#[derive(Debug)]
pub struct Inspection {
    /// Every node that answered.
    pub nodes: Vec<InspectedNode>,
    /// What should be otherwise.
    pub findings: Vec<Finding>,
    /// The slots of the directory of its keyspace, or why the store cannot use the keyspace.
    pub keyspace: Result<u16, OpenError>,
}

/// Inspects every Cassandra node of a cluster, and the keyspace.
///
/// # Errors
/// If it cannot be reached.
pub async fn inspect(options: &Options) -> Result<Inspection, OpenError> {
    let session = connect(options).await?;
    let keyspace = schema::check(&session, options).await.map(|layout| layout.slots);
    let (nodes, findings) = inspect_nodes(&session, options).await;
    Ok(Inspection { nodes, findings, keyspace })
}

/// What should be otherwise.
pub(crate) async fn findings(session: &Session, options: &Options) -> Vec<Finding> {
    inspect_nodes(session, options).await.1
}

async fn inspect_nodes(session: &Session, options: &Options) -> (Vec<InspectedNode>, Vec<Finding>) {
    let state = session.get_cluster_state();
    let (mut nodes, mut findings) = (Vec::new(), Vec::new());
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in state.get_nodes_info() {
        let address = node.address.to_string();
        match inspect_node(session, node).await {
            Ok(seen) => {
                versions.entry(seen.version.clone()).or_default().insert(address.clone());
                findings.extend(evaluate_node(&address, &seen));
                nodes.push(seen.into_inspected(address));
            }
            Err(reason) => findings.push(unreachable_node(&address, &reason)),
        }
    }
    findings.extend(evaluate_versions(&versions));
    if let Some(copies) = copies(session, &options.keyspace) {
        findings.extend(evaluate_replication(&options.keyspace, copies));
    }
    (nodes, findings)
}

/// What a Cassandra node says of itself.
#[derive(Debug, Default)]
struct NodeReport {
    version: String,
    settings: Settings,
    clock_offset: Duration,
}

/// The settings of a Cassandra node.
#[derive(Debug, Default)]
enum Settings {
    Known(BTreeMap<String, String>),
    /// It has no table of them, as ScyllaDB.
    #[default]
    NoTable,
    /// Our user may not read them.
    Denied,
}

impl Settings {
    fn get(&self, name: &str) -> Option<&str> {
        let Self::Known(settings) = self else { return None };
        settings.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// The settings that a report shows even if nothing is wrong with them.
const SHOWN: [&str; 3] = ["commitlog_sync", "paxos_variant", "commitlog_segment_size"];

impl NodeReport {
    fn into_inspected(self, address: String) -> InspectedNode {
        let line = |name: &str| self.settings.get(name).map(|value| format!("{name}: {value}"));
        let settings = SHOWN.into_iter().filter_map(line).collect();
        InspectedNode { address, version: self.version, clock_offset: self.clock_offset, settings }
    }
}

async fn inspect_node(session: &Session, node: &Arc<Node>) -> Result<NodeReport, String> {
    let ask = |text: &str| {
        let mut statement = Statement::new(text);
        statement.set_consistency(Consistency::One);
        let here = NodeIdentifier::Node(Arc::clone(node));
        statement.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(here, None)));
        statement
    };
    let before = SystemTime::now();
    let local = ask("SELECT release_version, toTimestamp(now()) FROM system.local");
    let result = session.query_unpaged(local, ()).await.map_err(|error| error.to_string())?;
    let after = SystemTime::now();
    let result = result.into_rows_result().map_err(|error| error.to_string())?;
    let (version, at) =
        result.first_row::<(String, CqlTimestamp)>().map_err(|error| error.to_string())?;
    Ok(NodeReport {
        version,
        settings: settings(session, ask).await?,
        clock_offset: offset(before, after, at.0),
    })
}

/// Cassandra shows its settings in a virtual table; another database has none.
async fn settings(session: &Session, ask: impl Fn(&str) -> Statement) -> Result<Settings, String> {
    let select = ask("SELECT name, value FROM system_views.settings");
    let result = match session.query_unpaged(select, ()).await {
        Ok(result) => result,
        // Any other failure says nothing about the settings, and must not pass for "none".
        Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(
            DbError::Invalid,
            _,
        ))) => {
            return Ok(Settings::NoTable);
        }
        Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(
            DbError::Unauthorized,
            _,
        ))) => {
            return Ok(Settings::Denied);
        }
        Err(error) => return Err(error.to_string()),
    };
    let result = result.into_rows_result().map_err(|error| error.to_string())?;
    let rows = result.rows::<(String, Option<String>)>().map_err(|error| error.to_string())?;
    let read = rows.map(|row| row.map(|(name, value)| (name, value.unwrap_or_default())));
    read.collect::<Result<_, _>>().map(Settings::Known).map_err(|error| error.to_string())
}

/// Zero if the node's time is between question and answer.
fn offset(before: SystemTime, after: SystemTime, millis: i64) -> Duration {
    let at = UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or_default());
    let early = before.duration_since(at).unwrap_or_default();
    let late = at.duration_since(after).unwrap_or_default();
    early.max(late)
}

/// Copies in the data centre that has the fewest.
fn copies(session: &Session, keyspace: &str) -> Option<usize> {
    use scylla::cluster::metadata::Strategy;
    let state = session.get_cluster_state();
    match &state.get_keyspace(keyspace)?.strategy {
        Strategy::SimpleStrategy { replication_factor } => Some(*replication_factor),
        Strategy::NetworkTopologyStrategy { datacenter_repfactors } => {
            datacenter_repfactors.values().min().copied()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::{Risk, offset};

    #[test]
    fn a_clock_between_question_and_answer_is_right() {
        let at = |millis| UNIX_EPOCH + Duration::from_millis(millis);
        assert_eq!(offset(at(1000), at(1010), 1005), Duration::ZERO);
        assert_eq!(offset(at(1000), at(1010), 900), Duration::from_millis(100));
        assert_eq!(offset(at(1000), at(1010), 1110), Duration::from_millis(100));
    }

    #[test]
    fn names_are_read_back() {
        for risk in Risk::ALL {
            assert_eq!(Risk::parse(risk.name()), Some(risk));
        }
        assert_eq!(Risk::parse("other"), None);
    }
}
