//! Measures the Table service side by side with others: one load generator, rounds that alternate,
//! ratios within a run.
//!
//! In reading order: the command line, what a workload asks, the targets that it asks, and what becomes
//! of the figures. It knows servers only over the wire and through `/proc`, but for the check of
//! credentials, which is measured as the function it is; nothing else in the workspace depends on
//! it. Linux only.

mod args;
mod authentication;
mod client;
mod drop_table;
mod engine;
mod folders;
mod machine;
mod null_server;
mod packages;
mod postgres;
mod process;
mod progress;
mod recovery;
mod redis;
mod report;
mod round;
mod run;
mod series;
mod server;
mod server_target;
mod space;
mod start;
mod target;

use std::env;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use tavola_load::Result;

use crate::args::Args;

fn main() -> ExitCode {
    match dispatch() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Two of the baselines are this program under another name.
fn dispatch() -> Result {
    let words: Vec<String> = env::args().skip(1).take(2).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [null_server::WORD, recorded] => null_server::main(Path::new(recorded)),
        [engine::WORD, folder] => engine::main(Path::new(folder)),
        _ => {
            let args = Args::parse();
            args.check()?;
            run::run(&args)
        }
    }
}
