//! The client library against services: one list of cases on the service in the process, on our
//! server over http and https, with the account's name in the path and in the host, with a key and
//! with a signature, and on Azurite.
//!
//! `TAVOLA_AZURITE` names Azurite's endpoint (`cargo xtask azurite` sets it); without it its
//! cases are not in the list.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../it/common/mod.rs"]
mod common;

mod cases;
mod site;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
use tokio::runtime::{Builder, Runtime};

use cases::Case;
use site::{Servers, Site};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let servers = Servers::start();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = Arc::new(runtime.expect("a runtime"));
    let sites = servers.sites(&runtime);
    let trials = sites.iter().flat_map(|site| {
        cases::all().into_iter().map(|(name, case)| trial(&runtime, site, name, case))
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn trial(runtime: &Arc<Runtime>, site: &Arc<Site>, name: &'static str, case: Case) -> Trial {
    let (runtime, site) = (Arc::clone(runtime), Arc::clone(site));
    Trial::test(format!("{}::{name}", site.name), move || {
        runtime.block_on(case(site));
        Ok(())
    })
}
