//! `cargo xtask conformance`: runs the wire suite against a server and prints the ledger.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::args::Args;
use crate::failure::{Context, Failure, Result};
use crate::ledger::{self, Ledger};
use crate::server::{self, Endpoint, ScratchFolder, Server};
use crate::{carriers, rocksdb, shell, workspace};

pub(crate) const HELP: &str = "\
cargo xtask conformance [--guide] [--endpoint URL --account NAME --key KEY] [--json FILE] [-- arguments of the suite]

Runs the wire suite over a socket and prints statement, tests and result for every statement of
statements.txt and guide.txt. Fails if a test fails, or if a statement has neither a carrier nor a
reasoned line in COMPATIBILITY.md. What carries a statement:

  - a case of the wire suite that names and passes it;
  - a test under crates/ whose doc comment names it (`/// G122, G130: ...`, `/// Statement 252: ...`),
    or a file of tests or an example whose header does (`//! G76: ...`);
  - a page under docs/ that names it.

Lines of the guide about planned services (queue, blob, analytics, advisor, cluster) are listed as such.

  --guide          only the guide's lines about client, patterns and documents: nothing is built or run
  --endpoint URL   another server, with its account in the path or host; default: our release build on a free port
  --account NAME   its account; default devstoreaccount1
  --key KEY        its key; default the development key
  --key2 KEY       its other key; without it the case about both keys is skipped
  --admin ADDRESS  host:port of its metrics; without it the cases about cost are skipped
  --json FILE      keep the suite's own report";

/// The suite itself, a binary of `tavola-conformance`.
const SUITE: &str = "wire-conformance";

pub(crate) fn command(mut args: Args) -> Result {
    if args.flag("--guide") {
        args.finish()?;
        return print(&join(None)?);
    }
    let endpoint = endpoint(&mut args)?;
    let json = args.value("--json")?.map(PathBuf::from);
    run(endpoint, json.as_deref(), &args.passed_through())
}

/// The check that guards a merge: our own server, nothing kept.
pub(crate) fn check() -> Result {
    run(None, None, &[])
}

/// The same against a server that is already running.
pub(crate) fn run_against(endpoint: &Endpoint) -> Result {
    run(Some(endpoint.clone()), None, &[])
}

fn endpoint(args: &mut Args) -> Result<Option<Endpoint>> {
    let (account, key) = (args.value("--account")?, args.value("--key")?);
    let (second_key, admin) = (args.value("--key2")?, args.value("--admin")?);
    let Some(url) = args.value("--endpoint")? else {
        return match account.or(key).or(second_key).or(admin) {
            Some(_) => Err(Failure::new("--account, --key, --key2 and --admin need --endpoint")),
            None => Ok(None),
        };
    };
    Ok(Some(Endpoint {
        url: url.trim_end_matches('/').to_owned(),
        account: account.unwrap_or_else(|| server::ACCOUNT.into()),
        key: key.unwrap_or_else(|| server::KEY.into()),
        second_key,
        admin,
    }))
}

fn run(endpoint: Option<Endpoint>, json: Option<&Path>, more: &[String]) -> Result {
    let scratch = ScratchFolder::new("conformance")?;
    let report_file = json.map_or_else(|| scratch.path.join("report.json"), Path::to_owned);
    // A report of an earlier run must not pass for this one's.
    let _ = fs::remove_file(&report_file);
    let mut suite = Command::new(build_suite()?);
    suite
        .args(more)
        .arg("--json")
        .arg(std::path::absolute(&report_file).context(|| "path of the report".into())?);
    let outcome = match endpoint {
        Some(endpoint) => run_suite(&mut suite, &endpoint),
        None => {
            let server = Server::start_with_two_keys(&server::build()?, "conformance")?;
            run_suite(&mut suite, &server.endpoint)
        }
    };
    let report = match read_report(&report_file) {
        Ok(report) => report,
        // Without a report the suite's own failure says more.
        Err(failure) => return outcome.and(Err(failure)),
    };
    print(&join(Some(&report))?)
}

/// Builds the suite and says where it is.
pub(crate) fn build_suite() -> Result<PathBuf> {
    rocksdb::ensure()?;
    // With the features of the whole workspace, or what `cargo test --workspace` compiled would be
    // compiled again.
    shell::run(workspace::cargo()?.args(["build", "--workspace", "--bin", SUITE]))?;
    Ok(workspace::target()?.join("debug").join(SUITE))
}

fn run_suite(suite: &mut Command, endpoint: &Endpoint) -> Result {
    suite.args([
        "--endpoint",
        &endpoint.url,
        "--account",
        &endpoint.account,
        "--key",
        &endpoint.key,
    ]);
    if let Some(key) = &endpoint.second_key {
        suite.args(["--key2", key]);
    }
    if let Some(admin) = &endpoint.admin {
        let address = admin.trim_start_matches("http://");
        suite.arg("--admin").arg(format!("http://{address}"));
    }
    shell::run_unsaid(suite)
}

fn read_report(file: &Path) -> Result<Value> {
    let text = fs::read_to_string(file)
        .context(|| format!("the wire suite left no report at {}", file.display()))?;
    serde_json::from_str(&text).context(|| format!("report {}", file.display()))
}

fn join(report: Option<&Value>) -> Result<Ledger> {
    let root = workspace::root()?;
    let read = |path: &str| {
        let file = root.join(path);
        fs::read_to_string(&file).context(|| format!("cannot read {}", file.display()))
    };
    let mut statements = ledger::parse_statements(&read("xtask/statements.txt")?)?;
    statements.extend(ledger::parse_guide(&read("xtask/guide.txt")?)?);
    let reasons = ledger::parse_reasons(&read("COMPATIBILITY.md")?)?;
    ledger::join(&statements, report, &carriers::find(&root)?, &reasons)
}

fn print(ledger: &Ledger) -> Result {
    print!("{}", ledger.text);
    println!(
        "{} cases of the wire suite passed, {} failed; {} tests and pages name a statement",
        ledger.tests_passed, ledger.tests_failed, ledger.named
    );
    if ledger.problems.is_empty() {
        return Ok(());
    }
    for problem in &ledger.problems {
        println!("problem: {problem}");
    }
    Err(Failure::new(format!("the ledger has {} problems", ledger.problems.len())))
}
