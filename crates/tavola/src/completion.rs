//! Completion in shells: commands and flags from the command line itself, names of tables from the
//! server that the typed flags name.
//!
//! A shell calls `tavola` with a variable ([`VARIABLE`]) and the words typed so far.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap::{ArgMatches, Command};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use futures_util::{StreamExt as _, TryStreamExt as _};
use tavola_client::Retry;

use crate::commands::described;
use crate::exit::Failure;
use crate::{flags, tables};

const VARIABLE: &str = "TAVOLA_COMPLETE";
/// Longer than this the Tab key seems to do nothing.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
const NAMES_MAX: usize = 200;

const ABOUT: &str = "Print what a shell needs to complete commands, flags and names of tables";
const EXAMPLES: &str = "\
Examples:
  source <(tavola completions bash)
      For this session; the same line in ~/.bashrc for all
  tavola completions zsh > ~/.zfunc/_tavola
      A file in a folder of $fpath
  tavola completions fish > ~/.config/fish/completions/tavola.fish
      Where fish looks for it";

pub(crate) fn command() -> Command {
    let shells = ["bash", "elvish", "fish", "powershell", "zsh"];
    let shell = clap::Arg::new("shell").required(true).value_name("SHELL").value_parser(shells);
    described("completions", ABOUT, EXAMPLES).arg(shell.help("Which shell"))
}

/// Prints the script of a shell.
pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let shell = matches.get_one::<String>("shell").map(String::as_str).unwrap_or_default();
    let shells = clap_complete::env::Shells::builtins();
    let completer = shells.completer(shell).expect("clap checked the name of the shell");
    let mut script = Vec::new();
    completer
        .write_registration(VARIABLE, "tavola", "tavola", "tavola", &mut script)
        .map_err(|error| Failure::System(format!("cannot write the script: {error}")))?;
    match tables::say(String::from_utf8_lossy(&script).trim_end()) {
        Ok(()) | Err(tables::Stop::ReaderGone) => Ok(()),
        Err(tables::Stop::Failed(failure)) => Err(failure),
    }
}

/// Answers a shell, if one asks; then the process is over.
pub(crate) fn answer_shell() {
    CompleteEnv::with_factory(flags::command).var(VARIABLE).complete();
}

/// Completes the name of a table.
pub(crate) fn table_names() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let typed = typed.to_string_lossy();
        let names = names(&typed).unwrap_or_default();
        names.into_iter().map(CompletionCandidate::new).collect::<Vec<_>>()
    })
}

/// The names of tables that begin so; `None` if nobody answers. There is no place for a message.
fn names(typed: &str) -> Option<Vec<String>> {
    let words: Vec<OsString> =
        std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
    let matches = flags::command().ignore_errors(true).try_get_matches_from(words).ok()?;
    let mut matches = &matches;
    while let Some((_, inner)) = matches.subcommand() {
        matches = inner;
    }
    let account = tables::account(matches, Retry::none()).ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async {
        let service = account.tables().ok()?;
        let names = service.tables().try_filter(|name| {
            let is_such = name.to_ascii_lowercase().starts_with(&typed.to_ascii_lowercase());
            std::future::ready(is_such)
        });
        let names = names.take(NAMES_MAX).try_collect();
        tokio::time::timeout(ANSWER_TIMEOUT, names).await.ok()?.ok()
    })
}
