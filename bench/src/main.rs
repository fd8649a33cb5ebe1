//! Measures the Table service side by side with others: one load generator, rounds that alternate, ratios within a run.
//!
//! In reading order: the command line, what is asked of a server, who asks, whom, and what becomes of the figures. It
//! knows servers only over the wire and through `/proc`, but for the check of credentials, which is measured as the
//! function it is; nothing else in the workspace depends on it. Linux only.

mod args;
mod authentication;
mod client;
mod entity;
mod failure;
mod folders;
mod generator;
mod machine;
mod process;
mod progress;
mod random;
mod reply;
mod report;
mod request;
mod round;
mod run;
mod series;
mod server;
mod source;
mod start;
mod stats;
mod target;
mod text;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::Args;

fn main() -> ExitCode {
    let args = Args::parse();
    match args.check().and_then(|()| run::run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
