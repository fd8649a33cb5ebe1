//! Programs to watch: scenarios of the design guide on the client library.
//!
//! Each module of `programs` is one of them and readable on its own; `frame` has what they share.

mod frame;
mod programs;

use std::process::ExitCode;

use clap::Parser;

use frame::{Failure, Options, Stage};

fn main() -> ExitCode {
    let options = Options::parse();
    let Some(name) = options.name.clone() else {
        print!("{}", programs::LIST);
        return ExitCode::SUCCESS;
    };
    let result = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::from)
        .and_then(|runtime| runtime.block_on(run(&name, options)));
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("error: {name}: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all invariants held.
async fn run(name: &str, options: Options) -> Result<bool, Failure> {
    let program = programs::named(name)?;
    if program.needs_server && options.in_memory {
        return Err("it needs a server; leave --in-memory out".into());
    }
    let stage = Stage::open(program.name, program.invariants, options).await?;
    let played = (program.run)(stage.clone()).await;
    stage.close(played).await
}
