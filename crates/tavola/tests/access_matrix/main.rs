//! Who may do what: every operation by every kind of credential, over sockets, with the store
//! watched.
//!
//! Each case compares two things with tables of expectations that are written from the protocol
//! reference: what the server answers (status and code), and what it did meanwhile (which rows were
//! read, what was changed). The tables are the text files beside this one; they and
//! [`expectations`], which reads them, share no rule with the server.
//!
//! Reading order: [`operations`] and [`credentials`] say what is combined, [`families`] combines
//! them, [`world`] is the server, [`runner`] asks and compares.

mod credentials;
mod expectations;
mod families;
mod http;
mod operations;
mod rows;
mod runner;
mod signing;
mod tokens;
mod world;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tavola_embedded::{EmbeddedStore, Options};
use tavola_store::{MemoryStore, Store};

use credentials::{Credential, Kind, PLAIN};
use expectations::{Expectations, Expected};
use families::Family;
use runner::Runner;
use world::World;

/// The matrix must not shrink unseen.
const CASES_MIN: usize = 3_000;
const SHOWN_MAX: usize = 20;

/// What came of some cases.
#[derive(Debug, Default)]
struct Tally {
    cases: usize,
    mismatches: Vec<String>,
}

#[test]
fn in_memory() {
    run(families::all(), MemoryStore::new);
}

#[test]
fn on_disk() {
    let folder = tempfile::tempdir().expect("a folder can be had");
    let opened = AtomicUsize::new(0);
    run(families::about_rows(), || {
        let path = folder.path().join(opened.fetch_add(1, Ordering::Relaxed).to_string());
        EmbeddedStore::open(path, Options::default()).expect("an empty folder can be opened")
    });
}

#[test]
fn the_tables_are_complete() {
    let rows: BTreeSet<_> = Expectations::read().complete_rows().into_iter().collect();
    let asked: BTreeSet<_> =
        operations::everywhere().iter().map(|operation| operation.row()).collect();
    assert_eq!(rows, asked, "every operation has its row, and every row its operation");
}

/// Some lines of the table of roles, read aloud.
#[test]
fn roles_are_written_down() {
    let expectations = Expectations::read();
    let verdict = |column, name: &str| {
        let kind = Kind::Bearer { token: String::new(), column };
        let credential = Credential { kind, ..Credential::owner(PLAIN) };
        let operation =
            operations::everywhere().into_iter().find(|operation| operation.name == name);
        match expectations.verdict(&credential, &operation.expect("such an operation")) {
            Expected::Allowed => "allowed".to_owned(),
            Expected::Refused(domain_error) => domain_error.code.to_owned(),
            Expected::OperationRefused(domain_error, index) => {
                format!("{index}:{}", domain_error.code)
            }
        }
    };
    for (column, operation, expected) in [
        ("none", "get first", "0:AuthorizationPermissionMismatch"),
        ("none", "preflight", "allowed"),
        ("reader", "query all", "allowed"),
        ("reader", "batch mixed", "0:AuthorizationPermissionMismatch"),
        ("contributor", "batch mixed", "allowed"),
        ("contributor", "get-acl", "0:ResourceNotFound"),
        ("reader-of-orders", "query-tables", "0:AuthorizationPermissionMismatch"),
        ("contributor-of-orders", "delete after", "allowed"),
        ("contributor-of-other", "batched get b/3", "0:AuthorizationPermissionMismatch"),
    ] {
        assert_eq!(verdict(column, operation), expected, "{column} {operation}");
    }
}

fn run<S: Store>(families: Vec<Family>, store: impl Fn() -> S + Sync) {
    let expectations = Expectations::read();
    let tallies: Vec<(&str, Tally)> = thread::scope(|scope| {
        let run = |family: &Family| run_family(family, &expectations, World::start(store()));
        let running: Vec<_> =
            families.iter().map(|family| (family.name, scope.spawn(move || run(family)))).collect();
        running
            .into_iter()
            .map(|(name, thread)| (name, thread.join().expect("no case panics")))
            .collect()
    });
    for (name, tally) in &tallies {
        println!("{:>6} cases, {} wrong: {name}", tally.cases, tally.mismatches.len());
    }
    let cases: usize = tallies.iter().map(|(_, tally)| tally.cases).sum();
    let mismatches: Vec<_> = tallies.iter().flat_map(|(_, tally)| &tally.mismatches).collect();
    println!("{cases:>6} cases, {} wrong in all", mismatches.len());
    for mismatch in mismatches.iter().take(SHOWN_MAX) {
        println!("{mismatch}");
    }
    assert!(
        mismatches.is_empty(),
        "{} of {cases} cases are not as the tables say",
        mismatches.len()
    );
    assert!(cases > CASES_MIN, "only {cases} cases");
}

fn run_family(family: &Family, expectations: &Expectations, world: World) -> Tally {
    let mut runner = Runner::new(world, expectations);
    let mut tally = Tally::default();
    for (credential, operation) in family.cases() {
        tally.cases += 1;
        tally.mismatches.extend(runner.run(credential, operation).err());
    }
    tally.mismatches.extend(runner.check_rows().err());
    tally
}
