//! `cargo xtask doc-snippets`: every command and snippet of the documents, run as a reader would.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::Args;
use crate::failure::{Context, Failure, Result};
use crate::markdown::{self, Action, Block};
use crate::server::{self, Endpoint, ScratchFolder, Server};
use crate::toolchain;
use crate::{cache, sdk, workspace};

pub(crate) const HELP: &str = "\
cargo xtask doc-snippets [FILE.md …]

Runs the fenced blocks `sh` and `python` of *.md and docs/**/*.md, in order, each document with a
fresh server on free ports and a scratch folder of its own. `127.0.0.1:10002` and `:10003` in a
block become that server's addresses; TAVOLA_ENDPOINT, TAVOLA_ACCOUNT and TAVOLA_KEY are set;
`tavola` is on the PATH; Python has the SDK. A block marked `sh no-run`, `python no-run` or
`console` is not run, and needs an HTML comment before it that says why.";

pub(crate) fn command(mut args: Args) -> Result {
    let files = args.positional();
    args.finish()?;
    if files.is_empty() { check() } else { run(files.into_iter().map(PathBuf::from).collect()) }
}

/// The check that guards a merge: all documents.
pub(crate) fn check() -> Result {
    run(documents()?)
}

fn documents() -> Result<Vec<PathBuf>> {
    let root = workspace::root()?;
    let mut files = Vec::new();
    collect_markdown(&root, &mut files, false)?;
    collect_markdown(&root.join("docs"), &mut files, true)?;
    Ok(files)
}

fn collect_markdown(folder: &Path, files: &mut Vec<PathBuf>, deep: bool) -> Result {
    let entries = fs::read_dir(folder).context(|| format!("cannot read {}", folder.display()))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && deep {
            collect_markdown(&path, files, deep)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
    Ok(())
}

fn run(files: Vec<PathBuf>) -> Result {
    let mut documents = Vec::new();
    // All are read before the first is run: a wrong fence should not cost a build.
    for file in files {
        let text =
            fs::read_to_string(&file).context(|| format!("cannot read {}", file.display()))?;
        let blocks =
            markdown::blocks(&text).map_err(|problem| format!("{}, {problem}", file.display()))?;
        documents.push((file, blocks));
    }
    documents.retain(|(_, blocks)| blocks.iter().any(|block| block.action != Action::Leave));
    if documents.is_empty() {
        println!("no block to run");
        return Ok(());
    }
    let binary = server::build()?;
    documents.iter().try_for_each(|(file, blocks)| run_document(file, blocks, &binary))
}

fn run_document(file: &Path, blocks: &[Block], binary: &Path) -> Result {
    let server = Server::start(binary, "snippets")?;
    let scratch = ScratchFolder::new("snippets")?;
    for block in blocks {
        let mut command = match block.action {
            Action::Leave => continue,
            Action::RunShell => shell_command(&block.text, &server),
            Action::RunPython => python_command(&block.text, &server)?,
        };
        println!("{}:{}", file.display(), block.line);
        server.endpoint.set_variables(&mut command);
        command.current_dir(&scratch.path).env("PATH", toolchain::path_with(binary.parent())?);
        let status = command.status().context(|| "cannot start the block".into())?;
        if !status.success() {
            return Err(Failure::new(format!(
                "{}:{}: the block failed ({status})",
                file.display(),
                block.line
            )));
        }
    }
    Ok(())
}

fn shell_command(text: &str, server: &Server) -> Command {
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", &at_server(text, &server.endpoint)]);
    command
}

fn python_command(text: &str, server: &Server) -> Result<Command> {
    let mut command = Command::new(python_with_sdk(server)?);
    command.args(["-c", &at_server(text, &server.endpoint)]);
    Ok(command)
}

/// Documents show what a reader has after `cargo xtask serve`: the default ports.
fn at_server(text: &str, endpoint: &Endpoint) -> String {
    let table = text
        .replace("127.0.0.1:10002", endpoint.address())
        .replace("localhost:10002", endpoint.address());
    let admin = endpoint.admin.as_deref().unwrap_or_default();
    table.replace("127.0.0.1:10003", admin).replace("localhost:10003", admin)
}

/// The environment that the Python suite installs; runs the suite once if it is missing.
fn python_with_sdk(server: &Server) -> Result<PathBuf> {
    let folder = cache::root()?.join("sdk/python");
    let find = || {
        ["venv/bin/python", "bin/python"]
            .iter()
            .map(|path| folder.join(path))
            .find(|path| path.is_file())
    };
    if find().is_none() {
        println!("Running the Python suite once, which installs the SDK");
        sdk::run_python(&server.endpoint)?;
    }
    find().ok_or_else(|| {
        Failure::new(format!("the Python suite left no environment in {}", folder.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shown_address_becomes_the_real_one() {
        let endpoint = Endpoint {
            url: "http://127.0.0.1:4/devstoreaccount1".into(),
            account: String::new(),
            key: String::new(),
            second_key: None,
            admin: Some("127.0.0.1:5".into()),
        };
        let shown = "curl http://127.0.0.1:10002/a http://localhost:10003/metrics";
        assert_eq!(
            at_server(shown, &endpoint),
            "curl http://127.0.0.1:4/a http://127.0.0.1:5/metrics"
        );
    }
}
