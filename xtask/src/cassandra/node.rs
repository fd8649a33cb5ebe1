//! One Cassandra node: its folder, its process, its log.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::address::{CQL_PORT, Place};
use super::jars::Programs;
use super::shape::Shape;
use super::{cql, script, yaml};
use crate::cache;
use crate::failure::{Context, Failure, Result};

const LOG_TAIL_BYTES: u64 = 64 * 1024;
const LOG_TAIL_LINES: usize = 12;

#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Counts from one; those of the ring come first.
    pub(super) number: u32,
    pub(super) place: Place,
    pub(super) is_spare: bool,
    pub(super) folder: PathBuf,
}

impl Node {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "number": self.number,
            "role": if self.is_spare { "spare" } else { "seed" },
            "address": self.place.address.to_string(),
            "cql_port": CQL_PORT,
            "jmx_port": self.place.jmx_port,
            "group": self.place.group(),
            "folder": self.folder.display().to_string(),
        })
    }

    /// Writes everything that a start needs; data that is there stays.
    pub(super) fn write_files(
        &self,
        shape: &Shape,
        places: &[Place],
        cluster: &Path,
        programs: &Programs,
    ) -> Result {
        for folder in ["data", "log", "tmp"] {
            cache::create(&self.folder.join(folder))?;
        }
        let yaml = yaml::text(shape, places, self.number, cluster);
        cache::write_if_changed(&self.folder.join("cassandra.yaml"), &yaml)?;
        cache::write_if_changed(&self.folder.join("logback.xml"), &script::logback(&self.folder))?;
        let start = script::start(shape, &self.place, self.number, &self.folder, programs);
        write_script(&self.folder.join("start"), &start)
    }

    /// Starts it in a session of its own, so that neither the end of this process nor that of the
    /// terminal reaches it.
    pub(super) fn start(&self) -> Result {
        let pid_file = self.folder.join("pid");
        if pid_file.exists() {
            fs::remove_file(&pid_file)
                .context(|| format!("cannot remove {}", pid_file.display()))?;
        }
        let mut command = Command::new("setsid");
        command.arg("--fork").arg(self.folder.join("start"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.status().context(|| "cannot start `setsid`".into())?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::new(format!("`setsid` could not start node {} ({status})", self.number)))
    }

    /// What the last start left behind; nothing in the moment between `setsid` and the script's
    /// first lines.
    pub(super) fn pid(&self) -> Option<u32> {
        fs::read_to_string(self.folder.join("pid")).ok()?.trim().parse().ok()
    }

    /// The process, if it lives and is this node: the number of one that is gone can be given to
    /// another program.
    pub(super) fn live_pid(&self) -> Option<u32> {
        self.pid().filter(|pid| is_alive(*pid) && belongs_to(*pid, &self.folder))
    }

    /// Whether it arrived is seen by what the process does: it may end just now.
    pub(super) fn signal(&self, signal: &str) {
        if let Some(pid) = self.live_pid() {
            let _ = Command::new("kill")
                .args([signal, &pid.to_string()])
                .stderr(Stdio::null())
                .status();
        }
    }

    /// True if it serves clients, as far as that can be seen without cryptography.
    pub(super) fn answers(&self, tls: bool) -> bool {
        let address = self.place.cql();
        if tls { cql::greets_encrypted(address) } else { cql::answers(address) }
    }

    pub(super) fn log(&self) -> PathBuf {
        self.logs().join("system.log")
    }

    fn logs(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// In the log or in one of its older files.
    pub(super) fn log_says(&self, words: &str) -> bool {
        let mut logs = fs::read_dir(self.logs()).into_iter().flatten().flatten();
        logs.any(|log| {
            fs::read(log.path()).is_ok_and(|text| String::from_utf8_lossy(&text).contains(words))
        })
    }

    /// The last lines of the log; of a Java that could not begin there are only those on its
    /// output.
    pub(super) fn log_tail(&self) -> String {
        let logs = [self.log(), self.logs().join("console.log")];
        logs.iter()
            .map(|log| tail(log))
            .filter(|tail| !tail.is_empty())
            .collect::<Vec<_>>()
            .join("\n")
    }
}

pub(super) fn node_folder(cluster: &Path, number: u32) -> PathBuf {
    cluster.join(format!("node{number}"))
}

pub(super) fn write_script(file: &Path, text: &str) -> Result {
    cache::write_if_changed(file, text)?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
        .context(|| format!("cannot change {}", file.display()))
}

/// A zombie does nothing any more; it only waits to be counted.
fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    process_state(&stat).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// The letter after the name, which may hold anything, also brackets.
fn process_state(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

/// The script and the Java that follows it both name the folder in their arguments.
fn belongs_to(pid: u32, folder: &Path) -> bool {
    let command_line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let folder = format!("{}/", folder.display());
    String::from_utf8_lossy(&command_line).contains(&folder)
}

/// Without the frames of stack traces, which push out what they explain.
fn tail(file: &Path) -> String {
    let read = || {
        let mut file = fs::File::open(file)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        std::io::Result::Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let is_frame = |line: &&str| line.starts_with("\tat ") || line.starts_with("\t... ");
    let lines: Vec<_> = text.lines().filter(|line| !is_frame(line)).collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ScratchFolder;

    #[test]
    fn the_state_stands_behind_any_name() {
        assert_eq!(process_state("7 (java) S 1 7"), Some('S'));
        assert_eq!(process_state("7 (a) b) Z 1 7"), Some('Z'));
        assert_eq!(process_state(""), None);
    }

    #[test]
    fn only_a_process_of_this_folder_is_the_node() {
        let own = std::process::id();
        assert!(is_alive(own));
        assert!(!belongs_to(own, Path::new("/no/such/folder")));
        let program = std::env::current_exe().unwrap();
        assert!(belongs_to(own, program.parent().unwrap()));
    }

    #[test]
    fn the_tail_of_a_log_is_its_last_lines() {
        let folder = ScratchFolder::new("tail").unwrap();
        let file = folder.path.join("log");
        assert_eq!(tail(&file), "");
        let lines: Vec<String> = (0..5000).map(|line| line.to_string()).collect();
        fs::write(&file, lines.join("\n")).unwrap();
        assert_eq!(tail(&file), lines[4988..].join("\n"));

        let trace =
            format!("java.lang.Error: why\n{}\t... 7 more\n", "\tat a.b.c(D.java:1)\n".repeat(50));
        fs::write(&file, trace).unwrap();
        assert_eq!(tail(&file), "java.lang.Error: why");
    }
}
