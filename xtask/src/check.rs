//! `cargo xtask check`: the inner loop. It asks of the crates that a change touches what
//! `cargo xtask test` asks of all.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::args::Args;
use crate::failure::Result;
use crate::{progress, rocksdb, shell, tidy, workspace};

pub(crate) const HELP: &str = "\
cargo xtask check [--base REV]

Checks what changed since REV (HEAD unless told), files that git does not know included: format and
tidy of everything, clippy of the touched crates with all their targets, `cargo check` of the
workspace, of which cargo compiles only the touched crates and those that depend on them, and the
unit tests of the touched crates. Says what each part took, and stops at the first that fails.

  --base REV  compare with this revision: `main` for all that a branch changed";

/// A change of these can change every crate, and so can one in the folder `.cargo`.
const SHARED_FILES: [&str; 3] = ["Cargo.toml", "Cargo.lock", "clippy.toml"];

pub(crate) fn command(mut args: Args) -> Result {
    let base = args.value("--base")?.unwrap_or_else(|| "HEAD".into());
    args.finish()?;
    let members = members(&workspace::metadata(&["--no-deps"])?);
    let touched = touched(&changed_files(&base)?, &members);
    let names: Vec<&str> = touched.iter().map(|member| member.name.as_str()).collect();
    match names.as_slice() {
        [] => println!("No crate is touched since {base}"),
        names => println!("Touched since {base}: {}", names.join(", ")),
    }
    let mut times = Times::default();
    let outcome = run_parts(&touched, &mut times);
    times.print();
    outcome
}

/// Cheap ones first, and tests, which must be linked, last.
fn run_parts(touched: &[&Member], times: &mut Times) -> Result {
    times.measure("format", || run_cargo(&["fmt", "--all", "--check"], &[], &[]))?;
    times.measure("tidy", tidy::check)?;
    if touched.is_empty() {
        return Ok(());
    }
    rocksdb::ensure()?;
    let (libraries, programs): (Vec<_>, Vec<_>) =
        touched.iter().copied().partition(|member| member.has_library);
    times.measure("clippy", || {
        run_cargo(&["clippy", "--all-targets"], touched, &["--", "-D", "warnings"])
    })?;
    times.measure("dependents", || run_cargo(&["check", "--workspace"], &[], &[]))?;
    times.measure("unit tests", || {
        for (kind, some) in [("--lib", libraries), ("--bins", programs)] {
            if !some.is_empty() {
                run_cargo(&["test", "--quiet", kind], &some, &[])?;
            }
        }
        Ok(())
    })
}

fn run_cargo(arguments: &[&str], members: &[&Member], last: &[&str]) -> Result {
    let mut cargo = workspace::cargo()?;
    cargo.args(arguments);
    for member in members {
        cargo.args(["--package", &member.name]);
    }
    shell::run(cargo.args(last))
}

#[derive(Debug, Default)]
struct Times(Vec<(&'static str, Duration)>);

impl Times {
    fn measure(&mut self, part: &'static str, work: impl FnOnce() -> Result) -> Result {
        let start = Instant::now();
        let outcome = work();
        self.0.push((part, start.elapsed()));
        outcome
    }

    fn print(&self) {
        println!();
        for (part, time) in &self.0 {
            println!("{part:<12} {:>12}", progress::seconds(*time));
        }
        let total = self.0.iter().map(|(_, time)| *time).sum();
        println!("{:<12} {:>12}", "total", progress::seconds(total));
    }
}

/// A crate of the workspace.
#[derive(Debug, PartialEq, Eq)]
struct Member {
    name: String,
    /// Relative to the root of the clone, with a slash at its end.
    folder: String,
    has_library: bool,
}

fn members(metadata: &Value) -> Vec<Member> {
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    packages.iter().filter_map(|package| member(package, Path::new(root))).collect()
}

fn member(package: &Value, root: &Path) -> Option<Member> {
    let folder = Path::new(package["manifest_path"].as_str()?).parent()?;
    let is_library = |target: &Value| target["kind"] == Value::from(vec!["lib"]);
    Some(Member {
        name: package["name"].as_str()?.to_owned(),
        folder: format!("{}/", folder.strip_prefix(root).ok()?.to_str()?),
        has_library: package["targets"].as_array()?.iter().any(is_library),
    })
}

/// Every file that differs from `base` in the work tree, deleted and new ones included.
fn changed_files(base: &str) -> Result<BTreeSet<String>> {
    let mut files = BTreeSet::new();
    for arguments in [
        &["diff", "--name-only", "--no-renames", "-z", base, "--"][..],
        &["ls-files", "-z", "--others", "--exclude-standard"],
    ] {
        let list =
            shell::output(Command::new("git").current_dir(workspace::root()?).args(arguments))?;
        files.extend(list.split('\0').filter(|path| !path.is_empty()).map(str::to_owned));
    }
    Ok(files)
}

fn touched<'a>(files: &BTreeSet<String>, members: &'a [Member]) -> Vec<&'a Member> {
    let is_shared =
        |file: &String| SHARED_FILES.contains(&file.as_str()) || file.starts_with(".cargo/");
    if files.iter().any(is_shared) {
        return members.iter().collect();
    }
    let is_touched = |member: &&Member| files.iter().any(|file| file.starts_with(&member.folder));
    members.iter().filter(is_touched).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workspace() -> Vec<Member> {
        let package = |name: &str, folder: &str, kind: &str| {
            let manifest = format!("/clone/{folder}/Cargo.toml");
            json!({"name": name, "manifest_path": manifest, "targets": [{"kind": [kind]}]})
        };
        members(&json!({"workspace_root": "/clone", "packages": [
            package("tavola", "crates/tavola", "lib"),
            package("tavola-core", "crates/tavola-core", "lib"),
            package("xtask", "xtask", "bin"),
        ]}))
    }

    fn names(files: &[&str]) -> Vec<String> {
        let files = files.iter().map(|file| (*file).to_owned()).collect();
        touched(&files, &workspace()).iter().map(|member| member.name.clone()).collect()
    }

    #[test]
    fn a_file_touches_the_crate_that_it_is_in() {
        assert_eq!(names(&["crates/tavola-core/src/key.rs"]), ["tavola-core"]);
        assert_eq!(names(&["crates/tavola/tests/it/main.rs", "xtask/a"]), ["tavola", "xtask"]);
        assert_eq!(names(&["README.md", "fuzz/Cargo.toml", "docs/xtask/a.md"]), [""; 0]);
    }

    #[test]
    fn what_all_crates_share_touches_all() {
        for file in ["Cargo.lock", "clippy.toml", ".cargo/config.toml"] {
            assert_eq!(names(&[file]).len(), 3, "{file}");
        }
    }

    #[test]
    fn a_crate_without_a_library_has_its_tests_in_its_program() {
        let libraries: Vec<bool> = workspace().iter().map(|member| member.has_library).collect();
        assert_eq!(libraries, [true, true, false]);
    }
}
