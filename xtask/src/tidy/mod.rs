//! `cargo xtask tidy`: what the compiler does not check, and a reviewer should not have to.

mod dependency_rules;
mod mutants;
mod rust_text;
mod source;
mod text;

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::args::Args;
use crate::failure::{Context, Failure, Result};
use crate::{shell, workspace};

pub(crate) const HELP: &str = "\
cargo xtask tidy

Checks the dependency rules of crates, that none of them turns on the feature `mutants`, and the
text of all files that git knows or would add: leftover notes and debugging, lints allowed without a
reason, ignored tests, files over 800 lines, paths of one machine, package hosts, blanks at line
ends, and crates that do not say what they are.";

/// Where something is wrong, and what.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// A file, a file and line, or a package.
    place: String,
    problem: String,
}

impl Finding {
    fn new(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { place: place.into(), problem: problem.into() }
    }

    fn at(file: &str, line: usize, problem: impl Into<String>) -> Self {
        Self::new(format!("{file}:{line}"), problem)
    }
}

/// A text file, with its path relative to the root of the clone.
#[derive(Debug)]
pub(crate) struct SourceFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

pub(crate) fn command(args: Args) -> Result {
    args.finish()?;
    check()
}

/// The check that guards a merge.
pub(crate) fn check() -> Result {
    let root = workspace::root()?;
    // `--locked`: a manifest that changed without its lock file is a finding too.
    let metadata =
        workspace::metadata(&["--locked"]).context(|| "Cargo.lock may be out of date".into())?;
    let files = read_files(&root)?;
    let mut findings = dependency_rules::check(&metadata);
    findings.extend(mutants::check(&metadata));
    findings.extend(files.iter().flat_map(check_file));
    report(&findings, files.len())
}

fn check_file(file: &SourceFile) -> Vec<Finding> {
    let mut findings = text::check(file);
    if file.path.ends_with(".rs") {
        findings.extend(rust_text::check(file));
    }
    findings
}

fn report(findings: &[Finding], files: usize) -> Result {
    for finding in findings {
        println!("{}: {}", finding.place, finding.problem);
    }
    if findings.is_empty() {
        println!("{files} files are tidy");
        return Ok(());
    }
    Err(Failure::new(format!("{} to tidy up", findings.len())))
}

/// Everything that git tracks or would add; binary files are left out.
pub(crate) fn read_files(root: &Path) -> Result<Vec<SourceFile>> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let list = shell::output(&mut git)?;
    let mut files = Vec::new();
    for path in list.split('\0').filter(|path| !path.is_empty()) {
        // A file deleted but not yet committed is listed as well.
        let Ok(bytes) = fs::read(root.join(path)) else { continue };
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(SourceFile { path: path.to_owned(), text });
        }
    }
    Ok(files)
}

#[cfg(test)]
fn source_file(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.to_owned(), text: text.to_owned() }
}
