//! A step that hangs fails under its own name, while there is still time to say so.

use std::collections::HashMap;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// For a step whose programs were killed to notice it.
const GRACE: Duration = Duration::from_secs(60);

/// Does `work`. After `limit` its programs are killed, which fails it; if that does not end it,
/// this program ends.
pub(crate) fn within<T>(limit: Duration, step: &str, work: impl FnOnce() -> T) -> T {
    let (ended, end) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if end.recv_timeout(limit) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            eprintln!(
                "error: {step} has run for {} minutes: killing its programs",
                limit.as_secs() / 60
            );
            kill_descendants(std::process::id());
            if end.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
                eprintln!("error: {step} did not end although its programs did");
                std::process::exit(1);
            }
        });
        let done = work();
        drop(ended);
        done
    })
}

/// Kills all programs that `ancestor` started, and those that they started.
fn kill_descendants(ancestor: u32) {
    let pids = descendants(ancestor);
    let pids = pids.iter().map(u32::to_string);
    let _ = Command::new("kill").arg("-9").args(pids).stderr(Stdio::null()).status();
}

fn descendants(ancestor: u32) -> Vec<u32> {
    let parents: HashMap<u32, u32> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| {
            Some((pid, parent(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))
        })
        .collect();
    let is_ours = |mut pid: u32| {
        // A process that is its own ancestor does not exist, but these lines were not read at one
        // moment.
        for _ in 0..parents.len() {
            match parents.get(&pid) {
                Some(&parent) if parent == ancestor => return true,
                Some(&parent) => pid = parent,
                None => return false,
            }
        }
        false
    };
    parents.keys().copied().filter(|pid| is_ours(*pid)).collect()
}

/// The parent in a line of `/proc/PID/stat`: `PID (NAME) STATE PARENT …`, where the name may hold
/// anything.
fn parent(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_stands_behind_any_name() {
        assert_eq!(parent("12 (a) b) S 34 12 12"), Some(34));
        assert_eq!(parent("12 (a"), None);
    }

    #[test]
    fn what_ends_in_time_is_left_alone() {
        assert_eq!(within(Duration::from_secs(600), "quick", || 7), 7);
    }

    #[test]
    fn what_a_program_started_is_found_and_killed() {
        let mut shell = Command::new("sh").args(["-c", "sleep 3600; exit 7"]).spawn().unwrap();
        while descendants(shell.id()).is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
        kill_descendants(shell.id());
        assert_eq!(shell.wait().unwrap().code(), Some(7), "the shell saw its program end");
    }
}
