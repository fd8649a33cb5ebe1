//! `tavola repair`: saves what can be read of a damaged data folder into a new one, and says first
//! what is lost.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::{Value, json};
use tavola_embedded::check::{Finding, Severity};
use tavola_embedded::repair::{self, RepairSpace};
use tavola_embedded::{Compression, EmbeddedStore};
use tavola_service::{Clock, SystemClock};

use crate::commands::check::{
    Checked, examine, finding_json, finding_text, location, location_argument,
};
use crate::commands::{described, output_flag};
use crate::exit::Failure;
use crate::flags;
use crate::open_store::cannot_open;
use crate::progress_bar::Shown;

const MIB: u64 = 1024 * 1024;
const ABOUT: &str = "Save the readable rows of a damaged data folder into a new one, after a \
 report of what is lost";
const EXAMPLES: &str = "\
Examples:
  tavola repair --dry-run
      What would be saved and what is lost, of the folder that `tavola serve` would use
  tavola repair /var/lib/tavola --into /var/lib/tavola-saved
      The same, a question, and then the new folder
  tavola repair /var/lib/tavola --into /var/lib/tavola-saved-2 --yes
      Without the question";
const EXIT_CODES: &str = "\
The damaged folder is never changed. Restoring a backup loses less if it is recent: compare.

A repair may be interrupted: the same command resumes it. Until it is complete, the new folder is
called NEW_FOLDER.unfinished; remove that folder to start over.

Exit codes: 0 saved, or nothing to do, 1 the disk failed, 2 wrong usage or not confirmed,
3 the folder cannot be read.";

pub(crate) fn command() -> Command {
    let switch = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    described("repair", ABOUT, EXAMPLES)
        .after_help(EXIT_CODES)
        .arg(location_argument())
        .arg(
            Arg::new("into")
                .long("into")
                .value_name("NEW_FOLDER")
                .value_parser(value_parser!(PathBuf))
                .required_unless_present("dry-run")
                .help("New folder; it must be empty or not exist"),
        )
        .arg(switch("dry-run", "Report what would be saved and what is lost, and write nothing"))
        .arg(switch("yes", "Do not ask for confirmation"))
        .arg(flags::config_file_flag())
        .arg(output_flag(&["text", "json"]))
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let folder = location(matches)?;
    let into = matches.get_one::<PathBuf>("into").filter(|_| !matches.get_flag("dry-run"));
    if let Some(into) = into {
        repair::refuse_occupied(into).map_err(|error| Failure::Usage(error.to_string()))?;
    }
    let plan = Plan { checked: examine(&folder).map_err(cannot_open)?, folder };
    let is_json = matches.get_one::<String>("output").is_some_and(|format| format == "json");
    if is_json {
        println!("{:#}", plan.to_json());
    } else {
        plan.print();
    }
    match into {
        None => Ok(()),
        Some(_) if plan.checked.damages() == 0 => {
            eprintln!("nothing is damaged: there is nothing to repair, and nothing was written");
            Ok(())
        }
        Some(into) => {
            plan.check_room(into)?;
            confirm(matches.get_flag("yes"), into)?;
            plan.carry_out(into)
        }
    }
}

/// What a repair would do.
struct Plan {
    folder: PathBuf,
    checked: Checked,
}

impl Plan {
    fn damages(&self) -> impl Iterator<Item = &Finding> {
        self.checked.report.findings.iter().filter(|finding| finding.severity == Severity::Damage)
    }

    fn print(&self) {
        self.damages().for_each(|finding| println!("{}", finding_text(finding)));
        println!("{}", self.summary());
        for warning in self.checked.warnings() {
            println!("mind    {warning}");
        }
        for amendment in self.checked.audited.amendments() {
            println!("add     {amendment}");
        }
    }

    fn summary(&self) -> String {
        let (rows, (living, _)) = (self.checked.report.counts.rows, self.checked.tables());
        format!("{rows} rows and {living} tables can be saved; {}", self.checked.losses())
    }

    fn to_json(&self) -> Value {
        let (living, _) = self.checked.tables();
        json!({
            "folder": self.folder.display().to_string(),
            "damaged": self.checked.damages() > 0,
            "rows_saved": self.checked.report.counts.rows,
            "tables_saved": living,
            "rows_lost_max": self.checked.report.rows_lost_max(),
            "files_unknown": self.checked.report.files_unknown,
            "log_end_unknown": self.checked.report.log_end_unknown,
            "summary": self.summary(),
            "findings": self.damages().map(|finding| finding_json(finding, &self.folder)).collect::<Vec<_>>(),
            "warnings": self.checked.warnings(),
            "amendments": self.checked.audited.amendments(),
        })
    }

    /// Before anything is written or asked.
    fn check_room(&self, into: &Path) -> Result<(), Failure> {
        let space = RepairSpace::for_saving(&self.checked.report, into);
        if space.is_enough() {
            return Ok(());
        }
        let (needed, free) = (space.needed.div_ceil(MIB), space.free.unwrap_or(0) / MIB);
        Err(Failure::System(format!(
            "there is not enough space for {}: about {needed} MiB are needed, and {free} MiB are \
             free on its disk. Name a folder on another disk, or make room; nothing was written",
            into.display()
        )))
    }

    fn carry_out(&self, into: &Path) -> Result<(), Failure> {
        let unfinished = repair::unfinished_name(into);
        if unfinished.exists() {
            eprintln!(
                "{} exists: resuming it if it was made from the same files",
                unfinished.display()
            );
        }
        let compression =
            if self.checked.report.has_zstd { Compression::Zstd } else { Compression::Lz4 };
        let mut progress = Shown::new();
        let saved = repair::salvage(&self.folder, into, compression, &mut progress, |store| {
            self.amend(store)
        });
        progress.end();
        let salvaged = saved.map_err(|error| {
            if unfinished.exists() {
                let unfinished = unfinished.display();
                eprintln!(
                    "what was saved so far is kept in {unfinished}: the same command resumes it"
                );
            }
            cannot_open(error)
        })?;
        if salvaged.rows_before > 0 {
            eprintln!(
                "{} rows were there from a repair that was interrupted",
                salvaged.rows_before
            );
        }
        self.check_saved(into)
    }

    fn check_saved(&self, into: &Path) -> Result<(), Failure> {
        let saved = examine(into).map_err(cannot_open)?;
        eprintln!(
            "{} now contains {} rows; {} is unchanged",
            into.display(),
            saved.report.counts.rows,
            self.folder.display()
        );
        match saved.damages() {
            0 => Ok(()),
            _ => {
                saved
                    .report
                    .findings
                    .iter()
                    .for_each(|finding| eprintln!("{}", finding_text(finding)));
                Err(Failure::Data(format!(
                    "{} was written, but does not pass the check",
                    into.display()
                )))
            }
        }
    }

    fn amend(&self, store: &EmbeddedStore) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        runtime
            .block_on(self.checked.audited.amend(store, SystemClock.now()))
            .map_err(|error| error.to_string())
    }
}

fn confirm(yes: bool, into: &Path) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Usage(
            "not confirmed: standard input is not a terminal; repeat with --yes".to_owned(),
        ));
    }
    eprint!("Save this into {}? [y/N] ", into.display());
    let mut answer = String::new();
    let asked =
        std::io::stderr().flush().and_then(|()| std::io::stdin().lock().read_line(&mut answer));
    match asked {
        Ok(_) if matches!(answer.trim(), "y" | "Y" | "yes") => Ok(()),
        _ => Err(Failure::Usage("not confirmed; nothing was written".to_owned())),
    }
}
