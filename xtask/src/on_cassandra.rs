//! The checks of a store and of the service, on one real node of Cassandra.

use std::process::Command;
use std::thread;

use crate::cassandra::{Cluster, Shape};
use crate::failure::Result;
use crate::server::{self, Server};
use crate::{conformance, sdk, shell, workspace};

/// Where tests of our crates find the cluster, and the authority that they must trust.
const VARIABLE: &str = "TAVOLA_CASSANDRA";
const AUTHORITY: &str = "TAVOLA_CASSANDRA_CA_FILE";

/// The check that guards a merge: first the shorter one, what a cluster gets that wants a password
/// and encryption and is not safe to use; then the contract of stores, the wire suite and the
/// Python SDK.
///
/// Both nodes start at the same time, because a start takes a minute and waits for most of it. Tests
/// begin when both serve: they have deadlines.
pub(crate) fn check() -> Result {
    let (guarded_shape, plain_shape) = (guarded()?, Shape::new("merge", 1)?);
    let (guarded, plain) = thread::scope(|scope| {
        let guarded = scope.spawn(|| Cluster::up(&guarded_shape, true));
        let plain = Cluster::up(&plain_shape, true);
        let guarded = guarded.join();
        (guarded.unwrap_or_else(|_| Err("starting the guarded node panicked".into())), plain)
    });
    // Whatever fails, no node may stay; the second one is not needed by the first check.
    let first = on(guarded, run_guarded);
    let second = on(plain, |cluster| if first.is_ok() { run(cluster) } else { Ok(()) });
    first.and(second)
}

fn on(cluster: Result<Cluster>, run: impl FnOnce(&Cluster) -> Result) -> Result {
    let cluster = cluster?;
    let outcome = run(&cluster);
    // Its logs stay, for the study of a failure.
    cluster.down(false).and(outcome)
}

fn guarded() -> Result<Shape> {
    let mut shape = Shape::new("merge-guarded", 1)?;
    (shape.password, shape.tls) = (true, true);
    let settings = [("commitlog_sync", "periodic"), ("paxos_variant", "v1")];
    shape.settings.extend(settings.map(|(key, value)| (key.to_owned(), value.to_owned())));
    Ok(shape)
}

fn run_guarded(cluster: &Cluster) -> Result {
    let authority = cluster.authority().ok_or("the guarded cluster has no authority")?;
    shell::run(tests("guarded_cluster", &contact_points(cluster))?.env(AUTHORITY, authority))
}

fn run(cluster: &Cluster) -> Result {
    let nodes = contact_points(cluster);
    shell::run(&mut tests("cluster_*", &nodes)?)?;
    let binary = server::build()?;
    let server = Server::start_with_settings(
        &binary,
        "conformance-cassandra",
        &settings(&nodes, "conformance"),
    )?;
    conformance::run_against(&server.endpoint)?;
    let server = Server::start_with_settings(&binary, "sdk-cassandra", &settings(&nodes, "sdk"))?;
    sdk::run_python(&server.endpoint)
}

fn contact_points(cluster: &Cluster) -> String {
    let nodes: Vec<String> = cluster.contact_points().iter().map(ToString::to_string).collect();
    nodes.join(",")
}

/// Tests of our crates on these nodes, with the features of the whole workspace, or what `cargo
/// test --workspace` compiled would be compiled again.
fn tests(name: &str, nodes: &str) -> Result<Command> {
    let mut tests = workspace::cargo()?;
    tests.args(["test", "--workspace", "--test", name]).env(VARIABLE, nodes);
    Ok(tests)
}

/// One node has one copy. Suites drop hundreds of tables, and each drop waits for the leases of
/// other nodes, of which there are none.
fn settings(nodes: &str, keyspace: &str) -> String {
    format!(
        "[store]\nkind = \"cassandra\"\ncontact_points = \"{nodes}\"\nkeyspace = \"{keyspace}\"\ncreate = true\n\
         replication = 1\naccept_risks = \"replication\"\nlease_ms = 50\n"
    )
}
