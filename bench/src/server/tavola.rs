//! Our own server, from the release build beside this program or from where `--server` points, and
//! another build of it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::BenchServer;
use tavola_load::{Context, Failure, Result};

#[derive(Debug)]
pub(crate) struct Tavola {
    name: &'static str,
    binary: PathBuf,
    version: String,
    settings: Vec<(String, String)>,
}

impl Tavola {
    pub(crate) fn find(given: Option<&Path>, settings: &[(String, String)]) -> Result<Self> {
        let binary = match given {
            Some(path) => path.to_owned(),
            None => env::current_exe()
                .context(|| "cannot find this program".into())?
                .with_file_name("tavola"),
        };
        let output = Command::new(&binary).arg("--version").output();
        let output = output.map_err(|error| {
            let path = binary.display();
            Failure::new(format!(
                "no server at {path} ({error}): `cargo build --release -p tavola` makes one"
            ))
        })?;
        let version =
            String::from_utf8_lossy(&output.stdout).trim().trim_start_matches("tavola ").to_owned();
        Ok(Self { name: "tavola", binary, version, settings: settings.to_vec() })
    }

    /// Another build, as a rival of ours.
    pub(crate) fn before(binary: &Path, settings: &[(String, String)]) -> Result<Self> {
        Ok(Self { name: "before", ..Self::find(Some(binary), settings)? })
    }
}

impl BenchServer for Tavola {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn command(&self, folder: &Path) -> Result<Command> {
        let mut command = Command::new(&self.binary);
        command
            .args(["serve", "--silent", "--table-port", "0", "--admin-port", "0", "--location"])
            .arg(folder);
        for (name, value) in &self.settings {
            command.env(format!("TAVOLA_{}", name.to_uppercase().replace('.', "__")), value);
        }
        Ok(command)
    }

    fn listening_words(&self) -> &'static str {
        "listening at "
    }

    fn metrics_words(&self) -> Option<&'static str> {
        Some("metrics: ")
    }
}
