//! The checks of a store and of the service, on one real node of Cassandra.

use crate::cassandra::{Cluster, Shape};
use crate::failure::Result;
use crate::server::{self, Server};
use crate::{conformance, sdk, shell, workspace};

/// Where tests of our crates find the cluster.
const VARIABLE: &str = "TAVOLA_CASSANDRA";
const NAME: &str = "landing";

/// The check that guards a landing: the contract of stores, the wire suite and the Python SDK.
pub(crate) fn check() -> Result {
    let cluster = Cluster::up(&Shape::new(NAME, 1)?, true)?;
    let outcome = run(&cluster);
    // Its logs stay, which is all that anybody wants of it after a failure.
    cluster.down(false).and(outcome)
}

fn run(cluster: &Cluster) -> Result {
    let nodes: Vec<String> = cluster.contact_points().iter().map(ToString::to_string).collect();
    let nodes = nodes.join(",");
    let mut tests = workspace::cargo()?;
    // With the features of the whole workspace, or what `cargo test --workspace` compiled would be compiled again.
    tests.args(["test", "--workspace", "--test", "cluster_*"]).env(VARIABLE, &nodes);
    shell::run(&mut tests)?;
    let binary = server::build()?;
    let server = Server::start_with_settings(&binary, "conformance-cassandra", &settings(&nodes, "conformance"))?;
    conformance::run_against(&server.endpoint)?;
    let server = Server::start_with_settings(&binary, "sdk-cassandra", &settings(&nodes, "sdk"))?;
    sdk::run_python(&server.endpoint)
}

/// One node has one copy. Suites drop hundreds of tables, each of which waits for the leases of front ends that there
/// are not.
fn settings(nodes: &str, keyspace: &str) -> String {
    format!(
        "[store]\nkind = \"cassandra\"\ncontact_points = \"{nodes}\"\nkeyspace = \"{keyspace}\"\ncreate = true\n\
         replication = 1\naccept_risks = \"replication\"\nlease_ms = 50\n"
    )
}
