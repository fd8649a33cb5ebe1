//! `cargo xtask bench`: the benchmarks, in release mode.

use crate::args::Args;
use crate::cassandra::{Cluster, Shape};
use crate::failure::Result;
use crate::{rocksdb, server, shell, workspace};

pub(crate) const HELP: &str = "\
cargo xtask bench [--] [arguments of tavola-bench]
cargo xtask bench cluster [--nodes N] [--] [arguments of tavola-bench-cluster]

Builds the server and the benchmark in release mode and runs the benchmark; `-- --help` lists its
arguments.

  cluster    the store on Cassandra against its driver alone, on a cluster that is started for it
    --nodes  of the cluster; default 1";

pub(crate) fn command(mut args: Args) -> Result {
    if args.flag("cluster") {
        return cluster(args);
    }
    // The benchmark starts the server itself; it only has to be there and fresh.
    server::build()?;
    let mut cargo = workspace::cargo()?;
    cargo.args(["run", "--release", "--package", "tavola-bench", "--"]);
    shell::run(cargo.args(args.passed_through()))
}

fn cluster(mut args: Args) -> Result {
    let nodes = args
        .value("--nodes")?
        .map_or(Ok(1), |text| text.parse())
        .map_err(|_| "--nodes needs a number")?;
    rocksdb::ensure()?;
    shell::run(workspace::cargo()?.args([
        "build",
        "--release",
        "--package",
        "tavola-bench-cluster",
    ]))?;
    let cluster = Cluster::up(&Shape::new("bench", nodes)?, true)?;
    let contact_points: Vec<String> =
        cluster.contact_points().iter().map(ToString::to_string).collect();
    let mut bench =
        std::process::Command::new(workspace::target()?.join("release/tavola-bench-cluster"));
    bench.args([
        "--contact-points",
        &contact_points.join(","),
        "--replication",
        &nodes.min(3).to_string(),
    ]);
    let outcome = shell::run(bench.args(args.passed_through()));
    cluster.down(false).and(outcome)
}
