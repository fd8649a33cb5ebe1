//! What a failed write or sync means, and how the store recovers from a full disk.
//!
//! After a failed sync the content of the disk is unknown, and nothing is acknowledged until the
//! store is opened again. A full disk is the exception: see the module above.

use std::time::{Duration, Instant};

use super::draft::Draft;
use super::journal::{Journal, WriteError};
use super::leader::{Leader, Shared};
use crate::write_halt::WriteHalt;

/// An engine that ran out of space looks for some every five seconds. If it has had enough for this
/// long without recovering, it met a worse error and has given up.
const ENGINE_RECOVERY: Duration = Duration::from_secs(15);

impl<J: Journal> Shared<J> {
    /// After a full disk: tries whether the engine writes again.
    pub(super) fn recover(&self, leader: &mut Leader) -> Result<(), WriteHalt> {
        let halt = match self.halt.get() {
            None => return Ok(()),
            Some(halt @ WriteHalt::Broken(_)) => return Err(halt),
            Some(halt @ WriteHalt::Full(_)) => halt,
        };
        let mut probe = Draft::new(&*self.journal, leader.last_version);
        probe.is_probe = true;
        match probe.write() {
            Ok(_) => {
                leader.space_since = None;
                self.halt.recovered();
                Ok(())
            }
            Err(error) => {
                self.still_fails(leader, error);
                Err(self.halt.get().unwrap_or(halt))
            }
        }
    }

    fn still_fails(&self, leader: &mut Leader, error: WriteError) {
        leader.space_since = match self.journal.has_space_to_recover() {
            true => leader.space_since.or_else(|| Some(Instant::now())),
            false => None,
        };
        let has_given_up =
            leader.space_since.is_some_and(|since| since.elapsed() > ENGINE_RECOVERY);
        match error {
            WriteError::NoSpace(what) if has_given_up => {
                self.halt.broken(&format!(
                    "the disk has room again, and the engine did not recover: {what}"
                ));
            }
            error => self.failed(error),
        }
    }

    /// Halts writes: until the disk has space, or until the store is opened again.
    pub(super) fn failed(&self, error: WriteError) {
        match error {
            WriteError::NoSpace(what) => self.halt.full(&what),
            WriteError::Failed(error) => match self.journal.damage() {
                Some(damage) => self.halt.stopped_by_damage(&damage),
                None => self.halt.broken(&format!("a write failed: {error}")),
            },
        }
        assert!(self.halt.get().is_some(), "a failed write halts all later ones");
    }
}
