//! Signals to processes, and whether they did what they are for.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::Violation;

/// A signal that was sent is a signal that will be seen to, unless the machine is frozen.
const SIGNAL_TIME_MAX: Duration = Duration::from_secs(30);
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// What a process does, as far as signals can change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It runs, or waits for something.
    Live,
    Stopped,
    /// It waits only to be counted, or is gone.
    Dead,
}

impl State {
    pub(super) fn of(pid: u32) -> Self {
        fs::read_to_string(format!("/proc/{pid}/stat"))
            .map_or(Self::Dead, |stat| Self::from_stat(&stat))
    }

    /// From the line of `/proc/PID/stat`. The name before the state is whatever the process calls
    /// itself.
    fn from_stat(stat: &str) -> Self {
        match stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()) {
            None | Some('Z' | 'X') => Self::Dead,
            Some('T' | 't') => Self::Stopped,
            Some(_) => Self::Live,
        }
    }
}

/// A process that was seen to have stopped.
#[derive(Debug)]
#[must_use = "it stays stopped"]
pub(super) struct Stopped(u32);

impl Stopped {
    /// Lets it go on.
    ///
    /// # Errors
    /// If it was not stopped all the time, as far as can be seen now, or does not go on.
    pub(super) fn go_on(self) -> Result<(), Violation> {
        let before = State::of(self.0);
        send("-CONT", self.0)?;
        if before != State::Stopped {
            return Err(Violation::new(format!(
                "process {} was to be stopped all the time: {before:?}",
                self.0
            )));
        }
        wait_for(self.0, "goes on", |state| state == State::Live)
    }
}

/// SIGSTOP, and waits until it has come.
///
/// # Errors
/// If the process does not stop.
pub(super) fn stop(pid: u32) -> Result<Stopped, Violation> {
    send("-STOP", pid)?;
    wait_for(pid, "stops", |state| state == State::Stopped)?;
    Ok(Stopped(pid))
}

/// The same command, for a process that is killed when this program ends, however it ends. What the
/// command does with its standard streams is not taken over.
pub(super) fn that_dies_with_us(command: &Command) -> Command {
    let mut mortal = Command::new("setpriv");
    mortal.args(["--pdeathsig", "KILL"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => mortal.env(name, value),
            None => mortal.env_remove(name),
        };
    }
    mortal
}

/// Sends a signal to a process.
pub(super) fn send(signal: &str, pid: u32) -> Result<(), Violation> {
    let sent = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status()
        .is_ok_and(|status| status.success());
    sent.then_some(())
        .ok_or_else(|| Violation::new(format!("cannot send {signal} to process {pid}")))
}

fn wait_for(pid: u32, what: &str, is_done: impl Fn(State) -> bool) -> Result<(), Violation> {
    let deadline = Instant::now() + SIGNAL_TIME_MAX;
    loop {
        let state = State::of(pid);
        if is_done(state) {
            return Ok(());
        }
        if state == State::Dead || Instant::now() >= deadline {
            return Err(Violation::new(format!("process {pid} never {what}: {state:?}")));
        }
        sleep(BETWEEN_LOOKS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_told_apart() {
        for (stat, expected) in [
            ("17 (java) S 1 17 17 0", State::Live),
            ("17 (a) T (b) R 1 17 17 0", State::Live),
            ("17 (java) T 1 17 17 0", State::Stopped),
            ("17 (java) Z 1 17 17 0", State::Dead),
            ("", State::Dead),
        ] {
            assert_eq!(State::from_stat(stat), expected, "{stat}");
        }
    }

    #[test]
    fn a_mortal_process_is_the_one_that_was_asked_for() {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "echo $$ $GIVEN $HOME", "with spaces"])
            .env("GIVEN", "this")
            .env_remove("HOME");
        let mut mortal = that_dies_with_us(&command);
        let child =
            mortal.stdout(std::process::Stdio::piped()).spawn().expect("setpriv can be run");
        let pid = child.id();
        let said = child.wait_with_output().expect("it ends").stdout;
        assert_eq!(String::from_utf8_lossy(&said), format!("{pid} this\n"));
    }

    #[test]
    fn a_process_stops_and_goes_on_and_dies() {
        let mut child = Command::new("sleep").arg("1000").spawn().expect("sleep can be run");
        let stopped = stop(child.id()).expect("it stops");
        assert_eq!(State::of(child.id()), State::Stopped);
        stopped.go_on().expect("it goes on");
        // Another process woke it: then it was not stopped for as long as it should be.
        let stopped = stop(child.id()).expect("it stops again");
        send("-CONT", child.id()).expect("it lives");
        wait_for(child.id(), "goes on", |state| state == State::Live).expect("it goes on");
        assert!(stopped.go_on().is_err());
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        assert_eq!(State::of(child.id()), State::Dead);
        assert!(stop(child.id()).is_err());
    }
}
