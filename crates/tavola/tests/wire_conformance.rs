//! Every case of the wire conformance suite as a named test against a real server process.

#[path = "it/common/mod.rs"]
mod common;

use std::process::ExitCode;
use std::sync::Arc;

use common::{ACCOUNT, KEY, RunningServer};
use libtest_mimic::{Arguments, Failed, Trial};
use tavola_conformance::wire_conformance::{Case, Endpoint, Failure, cases};
use tavola_testkit::record;

/// A second key, so that the statement about both keys can be asked.
const KEY2: &str = "c2Vjb25kIGtleSBvZiB0aGUgZGV2ZWxvcG1lbnQgYWNjb3VudA==";
/// An account with keys of its own: only there do pages of other sites get what the protocol says.
const PRIVATE: &str = "private";
const ORIGINS: [&str; 2] = ["248", "249"];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = RunningServer::start_with(folder.path(), |command| {
        command.env("AZURITE_ACCOUNTS", format!("{ACCOUNT}:{KEY}:{KEY2};{PRIVATE}:{KEY2}"))
    });
    let endpoint = Endpoint::new(&server.endpoint(), ACCOUNT, KEY)
        .and_then(|endpoint| endpoint.with_second_key(KEY2))
        .and_then(|endpoint| endpoint.with_admin(&format!("http://{}", server.admin)))
        .expect("the endpoint of a server that runs");
    let endpoint = Arc::new(endpoint.with_observer(record::exchange));
    let private = Endpoint::new(&format!("http://{}/{PRIVATE}", server.table), PRIVATE, KEY2);
    let private = private.expect("the other account of that server");
    let private = Arc::new(private.with_observer(record::exchange));
    let about_origins =
        |case: &Case| case.statements.iter().any(|statement| ORIGINS.contains(statement));
    let again = cases()
        .into_iter()
        .filter(about_origins)
        .map(|case| trial(case, &private).with_kind(PRIVATE));
    let trials = cases().into_iter().map(|case| trial(case, &endpoint)).chain(again).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(case: Case, endpoint: &Arc<Endpoint>) -> Trial {
    let endpoint = Arc::clone(endpoint);
    Trial::test(case.name, move || match case.execute(&endpoint) {
        Ok(()) => Ok(()),
        // Our own server can be asked everything: a skip here is a hole.
        Err(Failure::Skipped(reason)) => Err(Failed::from(format!("skipped: {reason}"))),
        Err(failure) => Err(Failed::from(failure.to_string())),
    })
}
