//! What an operator should know about a cluster before trusting it: its own settings, copies, versions and clocks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use scylla::client::session::Session;
use scylla::cluster::Node;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use scylla::value::CqlTimestamp;

use crate::cluster::connect;
use crate::error::OpenError;
use crate::options::Options;

/// Fewer copies do not survive the loss of a node with both data and service.
const COPIES_MIN: usize = 3;
/// Beyond it conditional writes of different coordinators hold each other up.
const CLOCK_OFFSET_MAX: Duration = Duration::from_millis(500);

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
}

impl Risk {
    /// Every risk.
    pub const ALL: [Self; 6] =
        [Self::Commitlog, Self::Paxos, Self::Replication, Self::Versions, Self::Clocks, Self::Nodes];

    /// The word by which it can be accepted.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Commitlog => "commitlog",
            Self::Paxos => "paxos",
            Self::Replication => "replication",
            Self::Versions => "versions",
            Self::Clocks => "clocks",
            Self::Nodes => "nodes",
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
    /// For a person: what, where, and what to do.
    pub text: String,
}

/// Looks at a cluster, node by node.
///
/// # Errors
/// If it cannot be reached.
pub async fn inspect(options: &Options) -> Result<Vec<Finding>, OpenError> {
    let session = connect(options).await?;
    inspect_session(&session, options).await
}

pub(crate) async fn inspect_session(session: &Session, options: &Options) -> Result<Vec<Finding>, OpenError> {
    let state = session.get_cluster_state();
    let mut findings = Vec::new();
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in state.get_nodes_info() {
        let name = node.address.to_string();
        match look_at(session, node).await {
            Ok(seen) => {
                versions.entry(seen.version.clone()).or_default().insert(name.clone());
                findings.extend(judge_node(&name, &seen));
            }
            Err(reason) => findings.push(Finding {
                risk: Risk::Nodes,
                dangerous: false,
                text: format!("node {name} could not be looked at: {reason}"),
            }),
        }
    }
    findings.extend(judge_versions(&versions));
    if let Some(copies) = copies(session, &options.keyspace) {
        findings.extend(judge_copies(&options.keyspace, copies));
    }
    Ok(findings)
}

/// What a node says of itself.
#[derive(Debug, Default)]
struct Seen {
    version: String,
    settings: BTreeMap<String, String>,
    /// How far its clock is from ours, as far as that can be told over a network.
    clock_offset: Duration,
}

async fn look_at(session: &Session, node: &Arc<Node>) -> Result<Seen, String> {
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
    let (version, at) = result.first_row::<(String, CqlTimestamp)>().map_err(|error| error.to_string())?;
    Ok(Seen { version, settings: settings(session, ask).await?, clock_offset: offset(before, after, at.0) })
}

/// Cassandra tells its settings in a virtual table; another database has none, and then nothing is said about them.
async fn settings(session: &Session, ask: impl Fn(&str) -> Statement) -> Result<BTreeMap<String, String>, String> {
    let select = ask("SELECT name, value FROM system_views.settings");
    let Ok(result) = session.query_unpaged(select, ()).await else { return Ok(BTreeMap::new()) };
    let result = result.into_rows_result().map_err(|error| error.to_string())?;
    let rows = result.rows::<(String, Option<String>)>().map_err(|error| error.to_string())?;
    rows.map(|row| row.map(|(name, value)| (name, value.unwrap_or_default())))
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())
}

/// Zero if the node's time lies between question and answer.
fn offset(before: SystemTime, after: SystemTime, millis: i64) -> Duration {
    let at = UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or_default());
    let early = before.duration_since(at).unwrap_or_default();
    let late = at.duration_since(after).unwrap_or_default();
    early.max(late)
}

fn judge_node(name: &str, seen: &Seen) -> Vec<Finding> {
    let mut findings = Vec::new();
    let setting = |key: &str| seen.settings.get(key).map(String::as_str);
    if let Some(sync) = setting("commitlog_sync").filter(|sync| sync.eq_ignore_ascii_case("periodic")) {
        let text = format!(
            "node {name} has commitlog_sync: {sync}: it acknowledges writes before they are on disk, and loses them \
             with its power; set commitlog_sync: batch in its cassandra.yaml"
        );
        findings.push(Finding { risk: Risk::Commitlog, dangerous: true, text });
    }
    if let Some(variant) = setting("paxos_variant").filter(|variant| variant.to_ascii_lowercase().starts_with("v1")) {
        let text = format!(
            "node {name} has paxos_variant: {variant}: linearizability is not kept when nodes come and go; \
             set paxos_variant: v2 in its cassandra.yaml"
        );
        findings.push(Finding { risk: Risk::Paxos, dangerous: true, text });
    }
    if seen.clock_offset > CLOCK_OFFSET_MAX {
        let text = format!(
            "the clock of node {name} is {} ms from this machine's: conditional writes will hold each other up; \
             synchronise the clocks",
            seen.clock_offset.as_millis()
        );
        findings.push(Finding { risk: Risk::Clocks, dangerous: false, text });
    }
    findings
}

fn judge_versions(versions: &BTreeMap<String, BTreeSet<String>>) -> Option<Finding> {
    if versions.len() < 2 {
        return None;
    }
    let list = |(version, nodes): (&String, &BTreeSet<String>)| {
        format!("{version} ({})", nodes.iter().cloned().collect::<Vec<_>>().join(", "))
    };
    let text = format!(
        "nodes have different versions: {}; finish the upgrade",
        versions.iter().map(list).collect::<Vec<_>>().join(", ")
    );
    Some(Finding { risk: Risk::Versions, dangerous: false, text })
}

/// Copies in the data centre that has the fewest.
fn copies(session: &Session, keyspace: &str) -> Option<usize> {
    use scylla::cluster::metadata::Strategy;
    let state = session.get_cluster_state();
    match &state.get_keyspace(keyspace)?.strategy {
        Strategy::SimpleStrategy { replication_factor } => Some(*replication_factor),
        Strategy::NetworkTopologyStrategy { datacenter_repfactors } => datacenter_repfactors.values().min().copied(),
        _ => None,
    }
}

fn judge_copies(keyspace: &str, copies: usize) -> Option<Finding> {
    if copies >= COPIES_MIN {
        return None;
    }
    let text = format!(
        "keyspace {keyspace} has {copies} {} of each row: the loss of one node stops or loses partitions; \
         give it three (ALTER KEYSPACE … WITH replication, then repair)",
        if copies == 1 { "copy" } else { "copies" }
    );
    Some(Finding { risk: Risk::Replication, dangerous: true, text })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::{Duration, UNIX_EPOCH};

    use super::{Risk, Seen, judge_copies, judge_node, judge_versions, offset};

    fn risks(settings: &[(&str, &str)], clock_offset: Duration) -> Vec<(Risk, bool)> {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let seen = Seen { settings, clock_offset, ..Seen::default() };
        judge_node("n", &seen).iter().map(|finding| (finding.risk, finding.dangerous)).collect()
    }

    #[test]
    fn settings_that_lose_something() {
        let none = Duration::ZERO;
        assert_eq!(risks(&[("commitlog_sync", "batch"), ("paxos_variant", "v2")], none), []);
        assert_eq!(risks(&[("commitlog_sync", "group")], none), []);
        assert_eq!(risks(&[("commitlog_sync", "periodic")], none), [(Risk::Commitlog, true)]);
        assert_eq!(risks(&[("paxos_variant", "v1")], none), [(Risk::Paxos, true)]);
        assert_eq!(risks(&[("paxos_variant", "v1_without_linearizable_reads")], none), [(Risk::Paxos, true)]);
        assert_eq!(risks(&[], Duration::from_secs(2)), [(Risk::Clocks, false)]);
        assert_eq!(risks(&[], none), []);
    }

    #[test]
    fn copies_and_versions() {
        assert!(judge_copies("k", 3).is_none());
        assert!(judge_copies("k", 2).is_some_and(|finding| finding.dangerous));
        let node = |version: &str, name: &str| (version.to_owned(), BTreeSet::from([name.to_owned()]));
        assert!(judge_versions(&BTreeMap::from([node("5.0.9", "a")])).is_none());
        let mixed = judge_versions(&BTreeMap::from([node("5.0.9", "a"), node("5.0.8", "b")])).unwrap();
        assert!(mixed.text.contains("5.0.8 (b)") && mixed.text.contains("5.0.9 (a)"), "{}", mixed.text);
    }

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
