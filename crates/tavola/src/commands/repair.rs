//! `tavola repair`: saves what can be read of a damaged data folder into a new one, and says first what is lost.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::{Value, json};
use tavola_embedded::check::{Finding, Place, Severity};
use tavola_embedded::{EmbeddedStore, repair};
use tavola_service::{Clock, SystemClock};

use crate::commands::check::{Checked, examine, finding_json, finding_text, location, location_argument};
use crate::commands::{described, output_flag};
use crate::exit::Failure;
use crate::flags;
use crate::open_store::cannot_open;
use crate::progress_bar::Shown;

const ABOUT: &str = "Save what can be read of a damaged data folder into a new one; says first what is lost";
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

Exit codes: 0 saved, or nothing to do, 1 the disk failed, 2 wrong usage or not confirmed, 3 the folder cannot be read.";

pub(crate) fn command() -> Command {
    let switch =
        |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    described("repair", ABOUT, EXAMPLES)
        .after_help(EXIT_CODES)
        .arg(location_argument())
        .arg(
            Arg::new("into")
                .long("into")
                .value_name("NEW_FOLDER")
                .value_parser(value_parser!(PathBuf))
                .required_unless_present("dry-run")
                .help("Where the new folder goes; it must not exist or be empty"),
        )
        .arg(switch("dry-run", "Say what would be saved and what is lost, and write nothing"))
        .arg(switch("yes", "Do not ask"))
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
        for warning in self.warnings() {
            println!("mind    {warning}");
        }
        for amendment in self.checked.audited.amendments() {
            println!("add     {amendment}");
        }
    }

    fn summary(&self) -> String {
        let (rows, (living, _)) = (self.checked.report.counts.rows, self.checked.tables());
        let losses: Vec<_> = self.damages().filter_map(|finding| finding.loss.as_ref()).collect();
        let known: u64 = losses.iter().filter_map(|loss| loss.rows).sum();
        let unknown = losses.iter().filter(|loss| loss.rows.is_none()).count();
        let lost = match (known, unknown) {
            (0, 0) => "no row is lost".to_owned(),
            (known, 0) => format!("{known} rows or changes of rows are lost"),
            (known, unknown) => {
                format!("{known} rows or changes of rows are lost, and in {unknown} places nobody can know how many")
            }
        };
        format!("{rows} rows and {living} tables can be saved; {lost}")
    }

    /// What people must know before they go on with what was saved.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let lost_in = |ending: &str| {
            let is_there = |place: &Place| matches!(place, Place::File { name, .. } if name.ends_with(ending));
            self.damages().any(|finding| finding.loss.is_some() && is_there(&finding.place))
        };
        if lost_in(".log") {
            warnings.push(
                "writes of the log before and after the damage are kept, each transaction whole; those in the damage were \
                 acknowledged and are lost. So a row may be missing, or older, or not deleted, while rows that were \
                 written after it are there"
                    .to_owned(),
            );
        }
        if lost_in(".sst") {
            warnings.push(
                "of rows in lost blocks an older state may appear, and deleted ones may come back; a transaction that wrote \
                 rows inside and outside of such a block is then there in part"
                    .to_owned(),
            );
        }
        if self.checked.report.files_unknown {
            warnings.push(
                "the record of files is lost, so that all table files and logs were read: rows that were deleted and \
                 tables that were dropped may come back"
                    .to_owned(),
            );
        }
        warnings
    }

    fn to_json(&self) -> Value {
        let (living, _) = self.checked.tables();
        json!({
            "folder": self.folder.display().to_string(),
            "damaged": self.checked.damages() > 0,
            "rows_saved": self.checked.report.counts.rows,
            "tables_saved": living,
            "summary": self.summary(),
            "findings": self.damages().map(|finding| finding_json(finding, &self.folder)).collect::<Vec<_>>(),
            "warnings": self.warnings(),
            "amendments": self.checked.audited.amendments(),
        })
    }

    fn carry_out(&self, into: &Path) -> Result<(), Failure> {
        let mut progress = Shown::new();
        let copied = repair::salvage(&self.folder, into, &mut progress, |store| self.amend(store));
        progress.end();
        copied.map_err(cannot_open)?;
        let saved = examine(into).map_err(cannot_open)?;
        eprintln!(
            "{} now holds {} rows; {} is as it was",
            into.display(),
            saved.report.counts.rows,
            self.folder.display()
        );
        match saved.damages() {
            0 => Ok(()),
            _ => {
                saved.report.findings.iter().for_each(|finding| eprintln!("{}", finding_text(finding)));
                Err(Failure::Data(format!("{} was written, but does not pass the check", into.display())))
            }
        }
    }

    fn amend(&self, store: &EmbeddedStore) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        runtime.block_on(self.checked.audited.amend(store, SystemClock.now())).map_err(|error| error.to_string())
    }
}

fn confirm(yes: bool, into: &Path) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Usage("nobody can be asked here: repeat with --yes to go on".to_owned()));
    }
    eprint!("Save this into {}? [y/N] ", into.display());
    let mut answer = String::new();
    let asked = std::io::stderr().flush().and_then(|()| std::io::stdin().lock().read_line(&mut answer));
    match asked {
        Ok(_) if matches!(answer.trim(), "y" | "Y" | "yes") => Ok(()),
        _ => Err(Failure::Usage("not confirmed; nothing was written".to_owned())),
    }
}
