//! `cargo xtask bench`: the benchmarks, in release mode.

use crate::args::Args;
use crate::failure::Result;
use crate::{server, shell, workspace};

pub(crate) const HELP: &str = "\
cargo xtask bench [--] [arguments of tavola-bench]

Builds the server and the benchmark in release mode and runs the benchmark; `-- --help` lists its arguments.";

pub(crate) fn command(mut args: Args) -> Result {
    // The benchmark starts the server itself; it only has to be there and fresh.
    server::build()?;
    let mut cargo = workspace::cargo()?;
    cargo.args(["run", "--release", "--package", "tavola-bench", "--"]);
    shell::run(cargo.args(args.passed_through()))
}
