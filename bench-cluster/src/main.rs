//! Measures the store on a cluster against its driver alone: the same statements on the same
//! tables, in rounds that alternate, so that every figure is a ratio within a run.
//!
//! Store and driver run in this process, so that what is compared is the store and not HTTP.
//! `round` measures one thing for some seconds; `workloads` and `scale` say what; `report` prints
//! and keeps the figures.

mod report;
mod round;
mod scale;
mod workloads;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// The store on Cassandra against its driver alone.
#[derive(Debug, Parser)]
#[command(
    before_help = "Examples:\n  cargo xtask bench cluster\n  cargo xtask bench cluster --nodes 3 -- hot spread"
)]
pub(crate) struct Args {
    /// What to measure: spread, strict, fast, hot, page, directory, scale; default all
    pub(crate) workloads: Vec<String>,
    /// Nodes to begin with
    #[arg(long, value_delimiter = ',', default_value = "127.0.0.1:9042")]
    pub(crate) contact_points: Vec<String>,
    /// Copies of each row
    #[arg(long, default_value_t = 1)]
    pub(crate) replication: u8,
    /// Rounds of each target
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: usize,
    /// Seconds of a round
    #[arg(long, default_value_t = 4.0)]
    pub(crate) seconds: f64,
    /// Partitions of the large table of `directory`
    #[arg(long, default_value_t = 100_000)]
    pub(crate) partitions: usize,
    /// Keep every round in this file
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(workloads::run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
