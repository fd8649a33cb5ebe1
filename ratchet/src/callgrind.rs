//! One case under callgrind.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::cases::{Case, Way};
use crate::counted::SYMBOL_PATTERN;
use crate::failure::Result;

/// Instructions per call. What callgrind wrote stays in `folder`.
pub(crate) fn count(case: &Case, folder: &Path) -> Result<u64> {
    match case.way {
        Way::Inside(calls) => {
            let only_counted =
                ["--collect-atstart=no", &format!("--toggle-collect={SYMBOL_PATTERN}")];
            Ok(run(case, calls, &only_counted, &out_file(folder, case.name))? / calls as u64)
        }
        Way::Between { few, many } => {
            let base = run(case, few, &[], &folder.join(format!("{}-base.out", case.name)))?;
            let whole = run(case, many, &[], &out_file(folder, case.name))?;
            let difference = whole.checked_sub(base).ok_or("more calls cost less")?;
            Ok(difference / (many - few) as u64)
        }
    }
}

/// Where the counts of a case lie, function by function.
pub(crate) fn out_file(folder: &Path, case: &str) -> PathBuf {
    folder.join(format!("{case}.out"))
}

/// A program under valgrind, in an environment of a fixed size: even that moves the stack, and with
/// it a few counts.
pub(crate) fn valgrind(options: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Command> {
    let mut command = Command::new("valgrind");
    command.env_clear().args(options).arg(env::current_exe()?).stdin(Stdio::null());
    for kept in ["PATH", "VALGRIND_LIB"] {
        command.envs(env::var_os(kept).map(|value| (kept, value)));
    }
    Ok(command)
}

fn run(case: &Case, calls: usize, options: &[&str], out: &Path) -> Result<u64> {
    let data = tempfile::tempdir()?;
    let out_option = format!("--callgrind-out-file={}", out.display());
    let mut command = valgrind(["--tool=callgrind", "--quiet", &out_option].iter().chain(options))?;
    command.args(["run", case.name, "--calls", &calls.to_string(), "--folder"]).arg(data.path());
    let output =
        command.output().map_err(|error| format!("valgrind cannot be started: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(
            format!("{} failed under callgrind ({}): {said}", case.name, output.status).into()
        );
    }
    let text = fs::read_to_string(out)
        .map_err(|error| format!("callgrind left no {}: {error}", out.display()))?;
    read_total(&text).map_err(|problem| format!("{}: {problem}", out.display()).into())
}

/// The instructions in all that callgrind collected.
fn read_total(text: &str) -> Result<u64> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    if field("events:") != Some("Ir") {
        return Err("does not count instructions".into());
    }
    match field("totals:").and_then(|total| total.parse().ok()) {
        Some(0) => {
            Err("nothing was collected: the counted function was not called, or bears another name"
                .into())
        }
        Some(total) => Ok(total),
        None => Err("has no total: the program did not come to its end".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::read_total;

    const OUT: &str = "# callgrind format\nversion: 1\ncreator: callgrind-3.19.0\npid: 7\ncmd:  tavola-ratchet run x\npart: 1\n\n\n\
                       desc: I1 cache: \n\npositions: line\nevents: Ir\nsummary: 812345\n\n\nob=(1) /bin/x\nfl=(1) x.rs\n\
                       fn=(1) x\n12 812345\n\ntotals: 812345\n";

    #[test]
    fn the_total_is_found() {
        assert_eq!(read_total(OUT).unwrap(), 812_345);
    }

    #[test]
    fn an_output_without_a_count_is_refused() {
        let cut = &OUT[..OUT.find("totals").unwrap()];
        for (text, why) in [
            (cut.to_owned(), "no total"),
            (OUT.replace("totals: 812345", "totals: 0"), "nothing was collected"),
            (OUT.replace("events: Ir", "events: Dr Dw"), "does not count instructions"),
            (String::new(), "does not count instructions"),
        ] {
            let error = read_total(&text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
