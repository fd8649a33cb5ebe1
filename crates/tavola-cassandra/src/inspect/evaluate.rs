//! From what Cassandra nodes say of themselves to findings: what is wrong, and what to do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Finding, NodeReport, Risk, Settings};

/// Fewer copies do not survive the loss of a node with both data and service.
const COPIES_MIN: usize = 3;
/// Beyond it conditional writes of different coordinators delay each other.
const CLOCK_OFFSET_MAX: Duration = Duration::from_millis(500);
/// The largest entity group transaction, with what the cluster's own encoding adds to it.
const MUTATION_BYTES_MIN: u64 = 5 << 20;

/// The findings about one Cassandra node.
pub(super) fn evaluate_node(name: &str, seen: &NodeReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |risk: Risk, dangerous: bool, text: String, advice: &str| {
        findings.push(Finding {
            risk,
            dangerous,
            node: Some(name.to_owned()),
            text,
            advice: advice.to_owned(),
        });
    };
    let setting = |key: &str| seen.settings.get(key);
    if let Some(sync) =
        setting("commitlog_sync").filter(|sync| sync.eq_ignore_ascii_case("periodic"))
    {
        let text = format!(
            "node {name} has commitlog_sync: {sync}: it acknowledges writes before they are on disk, and loses them with \
             its power"
        );
        find(
            Risk::Commitlog,
            true,
            text,
            "set commitlog_sync: batch in its cassandra.yaml and restart it",
        );
    }
    if let Some(variant) =
        setting("paxos_variant").filter(|variant| variant.to_ascii_lowercase().starts_with("v1"))
    {
        let text = format!(
            "node {name} has paxos_variant: {variant}: linearizability is not kept when nodes come and go"
        );
        find(Risk::Paxos, true, text, "set paxos_variant: v2 in its cassandra.yaml and restart it");
    }
    if let Some((bytes, why)) =
        mutation_bytes(setting).filter(|(bytes, _)| *bytes < MUTATION_BYTES_MIN)
    {
        let text = format!(
            "node {name} takes writes of {bytes} bytes at most ({why}): entity group transactions of up to 4 MiB fail"
        );
        let advice = "set commitlog_segment_size: 32MiB, and no smaller max_mutation_size than 5MiB, in its cassandra.yaml";
        find(Risk::Mutations, false, text, advice);
    }
    if seen.clock_offset > CLOCK_OFFSET_MAX {
        let text = format!(
            "the clock of node {name} is {} ms from this machine's: conditional writes will delay each other",
            seen.clock_offset.as_millis()
        );
        find(Risk::Clocks, false, text, "synchronise the clocks");
    }
    if let Some((what, advice)) = unknown_settings(&seen.settings) {
        let text = format!(
            "node {name} does not show {what}: whether it loses acknowledged writes or linearizability cannot be seen"
        );
        find(Risk::Settings, true, text, advice);
    }
    findings
}

/// Which of the settings that matter a node does not show, and what to do.
fn unknown_settings(settings: &Settings) -> Option<(String, &'static str)> {
    match settings {
        Settings::Denied => {
            let advice = "GRANT SELECT ON system_views.settings to the user of store.user";
            Some(("its settings to our user".to_owned(), advice))
        }
        Settings::NoTable => {
            let advice = "look at its configuration; ScyllaDB always syncs conditional writes";
            Some(("its settings".to_owned(), advice))
        }
        Settings::Known(_) => {
            let missing = ["commitlog_sync", "paxos_variant"]
                .into_iter()
                .filter(|key| settings.get(key).is_none());
            let missing = missing.collect::<Vec<_>>().join(" and ");
            (!missing.is_empty()).then_some((missing, "use Cassandra 4.1 or newer"))
        }
    }
}

/// The largest write that a Cassandra node accepts, and which setting says so.
fn mutation_bytes<'a>(setting: impl Fn(&str) -> Option<&'a str>) -> Option<(u64, String)> {
    let size = |key: &str| Some((size_bytes(setting(key)?)?, format!("{key}: {}", setting(key)?)));
    size("max_mutation_size").or_else(|| {
        // Unless it is set, it is half of a segment of the log.
        size("commitlog_segment_size").map(|(bytes, why)| (bytes / 2, why))
    })
}

/// `32MiB` in bytes.
fn size_bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|last: char| !last.is_ascii_digit());
    let number: u64 = digits.parse().ok()?;
    let shift = match text[digits.len()..].trim() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    number.checked_shl(shift)
}

/// A node that did not answer.
pub(super) fn unreachable_node(name: &str, reason: &str) -> Finding {
    Finding {
        risk: Risk::Nodes,
        dangerous: false,
        node: Some(name.to_owned()),
        text: format!("node {name} could not be inspected: {reason}"),
        advice:
            "start it, or take it out of the cluster if it is gone for good (nodetool removenode)"
                .to_owned(),
    }
}

/// Nodes of different versions.
pub(super) fn evaluate_versions(versions: &BTreeMap<String, BTreeSet<String>>) -> Option<Finding> {
    if versions.len() < 2 {
        return None;
    }
    let list = |(version, nodes): (&String, &BTreeSet<String>)| {
        format!("{version} ({})", nodes.iter().cloned().collect::<Vec<_>>().join(", "))
    };
    let text = format!(
        "nodes have different versions: {}",
        versions.iter().map(list).collect::<Vec<_>>().join(", ")
    );
    let advice = "finish the upgrade".to_owned();
    Some(Finding { risk: Risk::Versions, dangerous: false, node: None, text, advice })
}

/// Too few copies.
pub(super) fn evaluate_replication(keyspace: &str, copies: usize) -> Option<Finding> {
    if copies >= COPIES_MIN {
        return None;
    }
    let text = format!(
        "keyspace {keyspace} has {copies} {} of each row: the loss of one node stops or loses partitions",
        if copies == 1 { "copy" } else { "copies" }
    );
    let advice =
        "give it three: ALTER KEYSPACE with another replication, then nodetool repair --full"
            .to_owned();
    Some(Finding { risk: Risk::Replication, dangerous: true, node: None, text, advice })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use super::{
        NodeReport, Risk, Settings, evaluate_node, evaluate_replication, evaluate_versions,
        size_bytes,
    };

    /// Of a node that is set up well but for these.
    fn risks(settings: &[(&str, &str)], clock_offset: Duration) -> Vec<(Risk, bool)> {
        let mut all = BTreeMap::from([("commitlog_sync", "batch"), ("paxos_variant", "v2")]);
        all.extend(settings.iter().copied());
        let all =
            all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let seen =
            NodeReport { settings: Settings::Known(all), clock_offset, ..NodeReport::default() };
        evaluate_node("n", &seen).iter().map(|finding| (finding.risk, finding.dangerous)).collect()
    }

    #[test]
    fn settings_that_lose_something() {
        let none = Duration::ZERO;
        assert_eq!(risks(&[], none), []);
        assert_eq!(risks(&[("commitlog_sync", "group")], none), []);
        assert_eq!(risks(&[("commitlog_sync", "periodic")], none), [(Risk::Commitlog, true)]);
        assert_eq!(risks(&[("paxos_variant", "v1")], none), [(Risk::Paxos, true)]);
        assert_eq!(
            risks(&[("paxos_variant", "v1_without_linearizable_reads")], none),
            [(Risk::Paxos, true)]
        );
        assert_eq!(risks(&[], Duration::from_secs(2)), [(Risk::Clocks, false)]);
    }

    #[test]
    fn settings_that_refuse_large_transactions() {
        let none = Duration::ZERO;
        let too_small = [(Risk::Mutations, false)];
        assert_eq!(risks(&[("commitlog_segment_size", "8MiB")], none), too_small);
        assert_eq!(risks(&[("commitlog_segment_size", "32MiB")], none), []);
        assert_eq!(
            risks(&[("commitlog_segment_size", "32MiB"), ("max_mutation_size", "4096KiB")], none),
            too_small
        );
        assert_eq!(
            risks(&[("commitlog_segment_size", "8MiB"), ("max_mutation_size", "16MiB")], none),
            []
        );
        assert_eq!(
            risks(&[("commitlog_segment_size", "32MiB"), ("max_mutation_size", "null")], none),
            []
        );
    }

    #[test]
    fn sizes() {
        assert_eq!(size_bytes("8MiB"), Some(8 << 20));
        assert_eq!(size_bytes("16384KiB"), Some(16 << 20));
        assert_eq!(size_bytes("1GiB"), Some(1 << 30));
        assert_eq!(size_bytes("12"), Some(12));
        for none in ["", "null", "MiB", "8 parsecs"] {
            assert_eq!(size_bytes(none), None, "{none}");
        }
    }

    /// A server started on nodes whose settings its user may not read, and on nodes too old to have
    /// one of them.
    #[test]
    fn what_cannot_be_seen_is_not_called_safe() {
        for (settings, what) in [
            (Settings::NoTable, "its settings:"),
            (Settings::Denied, "its settings to our user:"),
            (Settings::Known(BTreeMap::new()), "commitlog_sync and paxos_variant:"),
            (
                Settings::Known(BTreeMap::from([("commitlog_sync".into(), "batch".into())])),
                "show paxos_variant:",
            ),
            (
                Settings::Known(BTreeMap::from([
                    ("commitlog_sync".into(), String::new()),
                    ("paxos_variant".into(), "v2".into()),
                ])),
                "show commitlog_sync:",
            ),
        ] {
            let findings = evaluate_node("n", &NodeReport { settings, ..NodeReport::default() });
            let [finding] = &findings[..] else { panic!("{what}: {findings:?}") };
            assert!(finding.risk == Risk::Settings && finding.dangerous, "{finding:?}");
            assert!(finding.text.contains(what), "{finding:?}");
        }
    }

    #[test]
    fn copies_and_versions() {
        assert!(evaluate_replication("k", 3).is_none());
        assert!(evaluate_replication("k", 2).is_some_and(|finding| finding.dangerous));
        let node =
            |version: &str, name: &str| (version.to_owned(), BTreeSet::from([name.to_owned()]));
        assert!(evaluate_versions(&BTreeMap::from([node("5.0.9", "a")])).is_none());
        let mixed =
            evaluate_versions(&BTreeMap::from([node("5.0.9", "a"), node("5.0.8", "b")])).unwrap();
        assert!(
            mixed.text.contains("5.0.8 (b)") && mixed.text.contains("5.0.9 (a)"),
            "{}",
            mixed.text
        );
    }
}
