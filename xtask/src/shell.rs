//! Running other programs: said before, checked after.

use std::env;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::{Context, Failure, Result};

/// `cargo run` hands the `[env]` table of its configuration to this program, and a variable wins over that table. Left
/// in place, the values from before `local.toml` was rewritten would reach the next cargo.
const STALE_VARIABLES: [&str; 2] = ["ROCKSDB_LIB_DIR", "ROCKSDB_STATIC"];

/// The cargo that started us, so that `cargo +nightly xtask` stays on nightly.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for variable in STALE_VARIABLES {
        command.env_remove(variable);
    }
    command
}

/// Runs to the end with the terminal shared; fails if the program does.
pub(crate) fn run(command: &mut Command) -> Result {
    println!("$ {}", describe(command));
    run_unsaid(command)
}

/// The same without showing the command line, which may hold a key.
pub(crate) fn run_unsaid(command: &mut Command) -> Result {
    let status = command.status().context(|| format!("cannot start `{}`", name(command)))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::new(format!("`{}` failed ({status})", name(command))))
}

/// Runs to the end and gives what it wrote on standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output().context(|| format!("cannot start `{}`", name(command)))?;
    if !output.status.success() {
        return Err(Failure::new(format!("`{}` failed ({})", describe(command), output.status)));
    }
    String::from_utf8(output.stdout).context(|| format!("output of `{}`", name(command)))
}

/// Whether a program can be found on the PATH.
pub(crate) fn has_program(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The command line as a person would type it.
fn describe(command: &Command) -> String {
    let mut words = vec![name(command)];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

fn name(command: &Command) -> String {
    let program = Path::new(command.get_program());
    program.file_name().unwrap_or(OsStr::new("?")).to_string_lossy().into_owned()
}
