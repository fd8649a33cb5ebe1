//! Tools of others that cargo installs: compiled once, into the cache.

use std::path::PathBuf;

use crate::failure::Result;
use crate::{cache, shell};

/// Tools run for seconds. Compiling one with its own release settings takes far longer than that
/// saves; with these `cargo-deny` took two minutes of processor time.
const QUICK_BUILD: [(&str, &str); 3] = [
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
];

/// A tool in one version: a check that passed does not fail with the next version of the tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
}

impl Tool {
    /// Where the tool is; compiles it into the cache if it is not there.
    pub(crate) fn ensure(self) -> Result<PathBuf> {
        let Self { name, version } = self;
        let tools = cache::root()?.join("tools");
        let folder = tools.join(format!("{name}-{version}"));
        let program = folder.join("bin").join(name);
        if program.is_file() {
            return Ok(program);
        }
        cache::create(&tools)?;
        let _lock = cache::lock(&tools.join("lock"), "another process installs a tool")?;
        if program.is_file() {
            return Ok(program);
        }
        println!("Installing {name} {version} into {}, which takes minutes", folder.display());
        let target = folder.join("target");
        let mut cargo = shell::cargo();
        cargo.args(["install", &format!("{name}@{version}"), "--locked", "--root"]).arg(&folder);
        shell::run(cargo.envs(QUICK_BUILD).env("CARGO_TARGET_DIR", &target))?;
        cache::remove_folder(&target)?;
        Ok(program)
    }
}
