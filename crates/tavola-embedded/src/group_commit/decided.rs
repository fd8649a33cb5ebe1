//! A job after it was decided: its answer, which leaves once the group is on disk.

use tavola_store::{CommitResult, ImportError, StoreError};
use tokio::sync::oneshot;

use super::job::{Answer, Job};
use super::unavailable;

pub(super) struct Decided {
    pub(super) reply: Reply,
    pub(super) writes: bool,
}

pub(super) enum Reply {
    Commit(Answer<CommitResult>, Result<CommitResult, StoreError>),
    Delete(Answer<()>, Result<(), StoreError>),
    Import(oneshot::Sender<Result<(), ImportError>>, Result<(), ImportError>),
    /// No caller waits for it.
    Probe,
}

impl Decided {
    /// A job of which nothing is written.
    pub(super) fn refuse(job: Job, error: impl Fn() -> StoreError) -> Self {
        let reply = match job {
            Job::Commit(commit) => Reply::Commit(commit.answer, Err(error())),
            Job::Delete { answer, .. } => Reply::Delete(answer, Err(error())),
            Job::Import { answer, .. } => Reply::Import(answer, Err(error().into())),
            Job::Probe => Reply::Probe,
        };
        Self { reply, writes: false }
    }

    /// The group could not be written. The changes of a job that wrote may be on disk all the same;
    /// a job that only read may have read changes that are not.
    pub(super) fn fail(&mut self) {
        let error =
            || if self.writes { StoreError::UnknownOutcome } else { unavailable("a write failed") };
        match &mut self.reply {
            Reply::Commit(_, result) if result.is_ok() => *result = Err(error()),
            Reply::Delete(_, done) => *done = Err(error()),
            Reply::Import(_, done) if done.is_ok() => *done = Err(error().into()),
            Reply::Commit(..) | Reply::Import(..) | Reply::Probe => {}
        }
        assert!(!self.is_acknowledged(), "a failed group acknowledges nothing");
    }

    /// True if its caller is going to be told that its changes are on disk.
    pub(super) fn is_acknowledged(&self) -> bool {
        matches!(&self.reply, Reply::Commit(_, Ok(Ok(_))))
    }

    pub(super) fn answer(self) {
        // A caller that gave up dropped its receiver. What it asked for is done all the same.
        match self.reply {
            Reply::Commit(answer, result) => drop(answer.send(result)),
            Reply::Delete(answer, done) => drop(answer.send(done)),
            Reply::Import(answer, done) => drop(answer.send(done)),
            Reply::Probe => {}
        }
    }
}
