//! A ratchet on the cost of a request that does not depend on noise: instructions, counted by
//! callgrind.
//!
//! Times tell what users feel, and differ from run to run by more than a careless change costs. The
//! number of instructions of a fixed piece of work is the same in every run, to well below a
//! percent. `counts.txt` holds one number per case; `cargo xtask ratchet` counts again and fails
//! when one grew by more than 5 %.
//!
//! What a count is not: time. A cache miss, a system call and an addition are one instruction each.
//! And counts can be compared only if compilers, C library and processor are the same. Valgrind
//! shows programs a processor of its own making: as many features as the real one has, but only
//! those that it can execute. It has no SHA extensions, for one, so a signature costs more here
//! than on the real machine. `counts.txt` says what it was counted with; where that differs, the
//! comparison is shown and does not fail.
//!
//! Reading order: `cases` for what is counted, `counted` and `callgrind` for how, `compare` for
//! what follows from it.

mod callgrind;
mod cases;
mod compare;
mod counted;
mod counts;
mod failure;
mod machine;
mod report;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;

use clap::{Parser, Subcommand};

use cases::{CASES, Case};
use counted::Run;
use counts::{ByCase, Counts};
use failure::Result;

/// Cases that run at the same time. Counts do not mind; people at the same machine do.
const AT_A_TIME: usize = 2;

#[derive(Debug, Parser)]
#[command(about = "Counts instructions and compares them with those that are stored")]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Counts cases and compares
    Check {
        /// All of them if none is named
        cases: Vec<String>,
        /// Store what was counted
        #[arg(long)]
        update: bool,
        /// The file of stored counts
        #[arg(long)]
        counts: PathBuf,
        /// Where callgrind's output is kept
        #[arg(long)]
        output: PathBuf,
    },
    /// Does the work of one case, for callgrind to count
    Run {
        case: String,
        #[arg(long)]
        calls: usize,
        #[arg(long)]
        folder: PathBuf,
    },
    /// Says which features of the processor this program can see
    Cpu,
}

fn main() -> ExitCode {
    let done = match CommandLine::parse().command {
        Command::Check { cases, update, counts, output } => check(&cases, update, &counts, &output),
        Command::Run { case, calls, folder } => {
            cases::find(&case).and_then(|case| (case.run)(&Run { calls, folder: &folder }))
        }
        Command::Cpu => {
            println!("{}", machine::cpu_features());
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn check(names: &[String], update: bool, file: &Path, output: &Path) -> Result {
    let chosen: Vec<&Case> = match names {
        [] => CASES.iter().collect(),
        names => names.iter().map(|name| cases::find(name)).collect::<Result<_>>()?,
    };
    let stored = match fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Counts::default(),
        text => Counts::parse(
            &text.map_err(|error| format!("cannot read {}: {error}", file.display()))?,
        )?,
    };
    fs::create_dir_all(output)?;
    let here = machine::describe()?;
    let elsewhere = machine::differences(&stored.machine, &here);
    if update && !names.is_empty() && !elsewhere.is_empty() {
        return Err(report::foreign_counts(&elsewhere).into());
    }
    let measured = count_all(&chosen, output)?;
    let lines = compare::compare(&stored.cases, &measured, |case| cases::find(case).is_ok());
    print!("{}", report::table(&lines));
    print!("{}", report::event_shares(&measured));
    if update {
        return store(file, &chosen, Counts { machine: here, cases: measured }, stored);
    }
    report::judge(&lines, &elsewhere, output)
}

/// Those that were not chosen stay; those that no case bears any more go.
fn store(file: &Path, chosen: &[&Case], measured: Counts, stored: Counts) -> Result {
    let kept = stored.cases.into_iter().filter(|(case, _)| cases::find(case).is_ok());
    let counts = Counts { cases: kept.chain(measured.cases).collect(), ..measured };
    fs::write(file, counts.to_text())
        .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    println!(
        "Stored {} count(s) in {}; the commit message says why they changed.",
        chosen.len(),
        file.display()
    );
    Ok(())
}

fn count_all(chosen: &[&Case], output: &Path) -> Result<ByCase> {
    let (waiting, counted) = (Mutex::new(chosen.iter()), Mutex::new(Vec::new()));
    let next = || waiting.lock().ok()?.next().copied();
    let work = || {
        while let Some(case) = next() {
            let count = callgrind::count(case, output);
            if let Ok(mut counted) = counted.lock() {
                eprintln!("counted {}", case.name);
                counted.push((case.name.to_owned(), count));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(work);
        }
    });
    let counted = counted.into_inner().map_err(|_poisoned| "a case panicked")?;
    counted.into_iter().map(|(case, count)| Ok((case, count?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_sorted_and_each_has_a_name_of_its_own() {
        assert!(CASES.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(cases::find("no-such-case").is_err());
    }

    /// The work itself, uncounted: a request of ours that is refused would be a case that counts
    /// nothing.
    #[test]
    fn every_case_does_its_work() {
        for case in CASES {
            let folder = tempfile::tempdir().unwrap();
            let run = Run { calls: 3, folder: folder.path() };
            (case.run)(&run).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        }
    }
}
