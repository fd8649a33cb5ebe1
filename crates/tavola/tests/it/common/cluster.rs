//! Commands and servers of ours on the cluster that `TAVOLA_CASSANDRA` names.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::cli::{Done, in_folder, run};
use super::tavola;

/// A home for commands and a keyspace of its own, which is not made yet.
pub(crate) struct Home {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) nodes: String,
    pub(crate) keyspace: String,
}

impl Home {
    pub(crate) fn new(what: &str) -> Self {
        let nodes =
            std::env::var("TAVOLA_CASSANDRA").unwrap_or_else(|_| "127.0.0.1:9042".to_owned());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        Self { folder: tempfile::tempdir().unwrap(), nodes, keyspace: format!("t{now}_{what}") }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Done {
        run(in_folder(self.folder.path()).args(arguments))
    }

    /// With the flags that name the cluster.
    pub(crate) fn on_cluster(&self, arguments: &[&str]) -> Done {
        let cluster = ["--contact-points", &self.nodes, "--keyspace", &self.keyspace];
        self.run(&[arguments, &cluster[..]].concat())
    }

    pub(crate) fn init(&self) -> Done {
        self.on_cluster(&["store", "init", "--replication", "1"])
    }

    pub(crate) fn place(&self) -> String {
        format!("cassandra:{}/{}", self.nodes, self.keyspace)
    }

    pub(crate) fn copy(&self, from: &str, to: &str) -> Value {
        let arguments = [
            "store",
            "copy",
            "--accept-risks",
            "replication",
            "-o",
            "json",
            "--from",
            from,
            "--to",
            to,
        ];
        let done = self.run(&arguments);
        assert_eq!(done.code, Some(0), "{done:?}");
        serde_json::from_str(&done.stdout).unwrap()
    }

    pub(crate) fn serve(&self, with: &[&str]) -> Command {
        let mut command = tavola();
        command.args([
            "serve",
            "--silent",
            "--table-port",
            "0",
            "--admin-port",
            "0",
            "--store",
            "cassandra",
        ]);
        command.args(["--contact-points", &self.nodes, "--keyspace", &self.keyspace]).args(with);
        command.current_dir(self.folder.path());
        command
    }
}
