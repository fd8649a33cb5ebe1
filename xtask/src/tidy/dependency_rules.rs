//! Which crate may depend on which. Storage and wire formats never see each other; they meet only
//! in core types.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Finding;

/// The crates that test the others: a dev-dependency on them is allowed everywhere.
const TEST_SUPPORT: [&str; 3] = ["tavola-conformance", "tavola-testkit", "tavola-torture"];

/// A crate of ours and those it may use.
const ALLOWED: [(&str, &[&str]); 22] = [
    ("tavola-core", &[]),
    ("tavola-fair", &[]),
    ("tavola-store", &["tavola-core"]),
    ("tavola-embedded", &["tavola-store", "tavola-core"]),
    ("tavola-cassandra", &["tavola-store", "tavola-core"]),
    ("tavola-peers", &["tavola-store", "tavola-fair", "tavola-core"]),
    ("tavola-service", &["tavola-store", "tavola-fair", "tavola-core"]),
    ("tavola-protocol", &["tavola-core"]),
    (
        "tavola-server",
        &["tavola-protocol", "tavola-service", "tavola-store", "tavola-fair", "tavola-core"],
    ),
    (
        "tavola",
        &[
            "tavola-server",
            "tavola-embedded",
            "tavola-cassandra",
            "tavola-peers",
            "tavola-fair",
            "tavola-store",
            "tavola-core",
            "tavola-protocol",
            "tavola-service",
            "tavola-load",
            "tavola-client",
        ],
    ),
    // It knows servers over the wire only.
    ("tavola-load", &["tavola-protocol", "tavola-core"]),
    // The patterns also run on a store in the process.
    ("tavola-client", &["tavola-derive", "tavola-protocol", "tavola-core"]),
    ("tavola-derive", &[]),
    // The service in the process, as a client sees it.
    (
        "tavola-local",
        &["tavola-client", "tavola-service", "tavola-store", "tavola-protocol", "tavola-core"],
    ),
    // The wire suite knows none of them: see `OPTIONAL_ONLY`.
    ("tavola-conformance", &["tavola-store", "tavola-core"]),
    // Anything below the server, and the client's transport.
    (
        "tavola-testkit",
        &[
            "tavola-client",
            "tavola-embedded",
            "tavola-service",
            "tavola-protocol",
            "tavola-store",
            "tavola-core",
        ],
    ),
    // It knows servers over the wire only.
    ("tavola-torture", &["tavola-testkit", "tavola-protocol", "tavola-core"]),
    // Whatever is worth a figure.
    (
        "tavola-bench",
        &[
            "tavola-load",
            "tavola-client",
            "tavola-local",
            "tavola-testkit",
            "tavola-server",
            "tavola-embedded",
            "tavola-cassandra",
            "tavola-service",
            "tavola-protocol",
            "tavola-store",
            "tavola-core",
        ],
    ),
    (
        "tavola-ratchet",
        &[
            "tavola-server",
            "tavola-embedded",
            "tavola-service",
            "tavola-protocol",
            "tavola-store",
            "tavola-core",
        ],
    ),
    // Samples of the client library: it knows servers over the wire, or the one in the process.
    ("tavola-examples", &["tavola-client", "tavola-local"]),
    ("tavola-bench-cluster", &["tavola-cassandra", "tavola-peers", "tavola-store", "tavola-core"]),
    ("xtask", &[]),
];

/// This crate can be built without any of ours, so that others can run the wire suite.
const OPTIONAL_ONLY: &str = "tavola-conformance";

/// The only packages that the domain may name, besides those of its tests.
const CORE_MAY_USE: [&str; 3] = ["time", "uuid", "thiserror"];

/// Only this crate knows the engine.
const ENGINE: &str = "rocksdb";
const ENGINE_OWNER: &str = "tavola-embedded";

/// What must not appear anywhere below a crate, however deep.
const NEVER_BELOW: [(&str, &[&str]); 4] = [
    ("tavola-core", &["tokio", "hyper", "http", "serde", "rocksdb"]),
    ("tavola-store", &["hyper", "http", "rocksdb"]),
    ("tavola-service", &["hyper", "http", "rocksdb"]),
    ("tavola-protocol", &["tokio", "hyper", "rocksdb"]),
];

pub(super) fn check(metadata: &Value) -> Vec<Finding> {
    let members = members(metadata);
    let ours: BTreeSet<&str> =
        members.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut findings: Vec<_> =
        members.iter().flat_map(|package| check_package(package, &ours)).collect();
    findings.extend(check_closures(metadata));
    findings
}

fn members(metadata: &Value) -> Vec<&Value> {
    let ids = list(&metadata["workspace_members"]);
    list(&metadata["packages"]).iter().filter(|package| ids.contains(&package["id"])).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn check_package(package: &Value, ours: &BTreeSet<&str>) -> Vec<Finding> {
    let name = package["name"].as_str().unwrap_or_default();
    let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
        let problem = "a new crate: add its rule to xtask/src/tidy/dependency_rules.rs";
        return vec![Finding::new(name, problem)];
    };
    let dependencies = list(&package["dependencies"]).iter();
    let problems = dependencies.filter_map(|dependency| {
        let used = dependency["name"].as_str()?;
        let is_dev = dependency["kind"] == "dev";
        let is_ours = ours.contains(used);
        if name == OPTIONAL_ONLY && is_ours && dependency["optional"] != true {
            return Some(format!("must not need {used}: the wire suite is built without it"));
        }
        forbidden(name, used, is_dev, allowed, is_ours)
    });
    problems.map(|problem| Finding::new(name, problem)).collect()
}

fn forbidden(
    name: &str,
    used: &str,
    is_dev: bool,
    allowed: &[&str],
    is_ours: bool,
) -> Option<String> {
    // A crate's tests may switch on a feature of the crate itself; client and server meet in tests.
    let meet = [("tavola-client", "tavola-local"), ("tavola", "tavola-local")];
    let is_for_tests =
        is_dev && (TEST_SUPPORT.contains(&used) || used == name || meet.contains(&(name, used)));
    if is_ours && !allowed.contains(&used) && !is_for_tests {
        return Some(format!(
            "must not depend on {used}: ARCHITECTURE.md allows only the other direction"
        ));
    }
    if used == ENGINE && name != ENGINE_OWNER {
        return Some(format!("must not depend on {ENGINE}: only {ENGINE_OWNER} knows the engine"));
    }
    if name == "tavola-core" && !is_ours && !is_dev && !CORE_MAY_USE.contains(&used) {
        return Some(format!(
            "must not depend on {used}: the domain may use only {}",
            CORE_MAY_USE.join(", ")
        ));
    }
    None
}

/// Follows the resolved graph, dev-dependencies left out.
fn check_closures(metadata: &Value) -> Vec<Finding> {
    let names: BTreeMap<&str, &str> = list(&metadata["packages"])
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
        .collect();
    let graph = graph(metadata);
    let mut findings = Vec::new();
    for (id, name) in &names {
        let Some((_, never)) = NEVER_BELOW.iter().find(|(known, _)| known == name) else {
            continue;
        };
        let below = closure(&graph, id);
        let below: BTreeSet<&str> = below.iter().filter_map(|id| names.get(id).copied()).collect();
        let found = never.iter().filter(|forbidden| below.contains(**forbidden));
        findings.extend(
            found.map(|forbidden| {
                Finding::new(*name, format!("must not have {forbidden} below it"))
            }),
        );
    }
    findings
}

type Graph<'a> = BTreeMap<&'a str, Vec<&'a str>>;

fn graph(metadata: &Value) -> Graph<'_> {
    let nodes = list(&metadata["resolve"]["nodes"]).iter();
    nodes
        .filter_map(|node| {
            let uses = list(&node["deps"]).iter().filter(|dependency| is_linked(dependency));
            Some((
                node["id"].as_str()?,
                uses.filter_map(|dependency| dependency["pkg"].as_str()).collect(),
            ))
        })
        .collect()
}

/// Whether a dependency ends up in the library: neither for tests nor for build scripts only.
fn is_linked(dependency: &Value) -> bool {
    list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null())
}

fn closure<'a>(graph: &Graph<'a>, start: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![start];
    while let Some(id) = waiting.pop() {
        let uses = graph.get(id).map(Vec::as_slice).unwrap_or_default();
        waiting.extend(uses.iter().copied().filter(|used| reached.insert(*used)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `name -> dependency` lines, `~>` for a dev-dependency, `?>` for an optional one; names that
    /// begin with `tavola` or `xtask` are ours.
    fn check_edges(lines: &str) -> Vec<String> {
        let edges: Vec<_> =
            lines.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
        let names: BTreeSet<&str> = edges.iter().flat_map(|edge| [edge[0], edge[2]]).collect();
        let of =
            |name: &str| edges.iter().filter(|edge| edge[0] == name).cloned().collect::<Vec<_>>();
        let kind = |edge: &[&str]| if edge[1] == "~>" { json!("dev") } else { Value::Null };
        let packages: Vec<_> = names
            .iter()
            .map(|name| {
                let uses: Vec<_> = of(name)
                    .iter()
                    .map(|e| json!({"name": e[2], "kind": kind(e), "optional": e[1] == "?>"}))
                    .collect();
                json!({"id": name, "name": name, "dependencies": uses})
            })
            .collect();
        let nodes: Vec<_> = names
            .iter()
            .map(|name| {
                let uses: Vec<_> = of(name)
                    .iter()
                    .map(|e| json!({"pkg": e[2], "dep_kinds": [{"kind": kind(e)}]}))
                    .collect();
                json!({"id": name, "deps": uses})
            })
            .collect();
        let ours: Vec<_> =
            names.iter().filter(|name| name.starts_with("tavola") || **name == "xtask").collect();
        let metadata =
            json!({"packages": packages, "workspace_members": ours, "resolve": {"nodes": nodes}});
        check(&metadata)
            .into_iter()
            .map(|finding| format!("{}: {}", finding.place, finding.problem))
            .collect()
    }

    fn check_refused(line: &str) {
        assert!(!check_edges(line).is_empty(), "{line}");
    }

    #[test]
    fn allowed_dependencies_pass() {
        let allowed = "tavola-store -> tavola-core\ntavola-embedded -> rocksdb\ntavola-core -> time\n\
                     tavola-core ~> proptest\ntavola-core ~> tavola-testkit\ntavola-server -> hyper\n\
                     tavola-protocol ~> tavola-protocol\ntavola-client ~> tavola-local\n\
                     tavola-testkit -> tavola-service\ntavola-conformance ?> tavola-store\n\
                     tavola-torture -> tavola-testkit\ntavola ~> tavola-torture\ntavola -> tavola-embedded\n\
                     tavola-examples -> tavola-local";
        assert_eq!(check_edges(allowed), [""; 0]);
    }

    #[test]
    fn dependencies_in_the_other_direction_are_refused() {
        for line in [
            "tavola-core -> tavola-store",
            "tavola-store -> tavola-protocol",
            "tavola-protocol -> tavola-service",
            "tavola-service -> tavola-embedded",
            "tavola-testkit -> tavola-server",
            "tavola-server -> tavola-testkit",
            "tavola-conformance -> tavola-store",
            "tavola-torture -> tavola-store",
            "tavola-server -> tavola-embedded",
            "tavola-core -> xtask",
            "tavola-examples -> tavola-core",
            "tavola-service ~> tavola-server",
        ] {
            check_refused(line);
        }
    }

    #[test]
    fn foreign_packages_stay_where_they_belong() {
        for line in [
            "tavola-service -> rocksdb",
            "tavola-testkit ~> rocksdb",
            "tavola-core -> regex",
            "tavola-protocol -> tokio",
            "tavola-protocol -> helper\nhelper -> hyper",
        ] {
            check_refused(line);
        }
    }

    #[test]
    fn tests_may_use_more_than_the_library() {
        assert_eq!(
            check_edges("tavola-protocol -> helper\nhelper ~> tokio\ntavola-protocol ~> tokio"),
            [""; 0]
        );
    }

    #[test]
    fn a_new_crate_needs_a_rule() {
        check_refused("tavola-telepathy -> tavola-core");
    }
}
