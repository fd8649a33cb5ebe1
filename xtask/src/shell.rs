//! Running other programs: said before, checked after.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use crate::failure::{Context, Failure, Result};

/// `cargo run` hands the `[env]` table of its configuration to this program, and a variable wins
/// over that table. Left in place, the values from before `local.toml` was rewritten would reach
/// the next cargo.
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

/// Runs to the end, showing what it writes and keeping it in a file.
pub(crate) fn run_recorded(command: &mut Command, file: &Path) -> Result {
    println!("$ {}", describe(command));
    let record =
        Mutex::new(File::create(file).context(|| format!("cannot write {}", file.display()))?);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.context(|| format!("cannot start `{}`", name(command)))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        scope.spawn(|| stdout.map(|from| pass_on(from, std::io::stdout(), &record)));
        scope.spawn(|| stderr.map(|from| pass_on(from, std::io::stderr(), &record)));
    });
    let status = child.wait().context(|| format!("cannot wait for `{}`", name(command)))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(format!("`{}` failed ({status})", name(command))))
    }
}

/// Line by line, so that the two streams do not cut each other's.
fn pass_on(from: impl Read, mut to: impl Write, record: &Mutex<File>) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let _ = to.write_all(&line);
        if let Ok(mut record) = record.lock() {
            let _ = record.write_all(&line);
        }
        line.clear();
    }
}

/// Runs to the end and gives what it wrote on standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .context(|| format!("cannot start `{}`", name(command)))?;
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
