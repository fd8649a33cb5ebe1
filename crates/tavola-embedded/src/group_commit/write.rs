//! Carrying out one group: decide every job, write one batch with one sync.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tavola_store::StoreError;

use super::decided::Decided;
use super::draft::{Draft, probe_insert_keys};
use super::job::Job;
use super::journal::Journal;
use super::leader::{Leader, Shared};
use super::statistics::{count_results, count_writers};
use crate::disk_space::FreeSpace;

/// Between two lines in the log that say that the disk is full.
const FULL_LOG_INTERVAL: Duration = Duration::from_secs(60);

impl<J: Journal> Shared<J> {
    pub(super) fn commit_group(&self, leader: &mut Leader, mut group: Vec<Job>) -> Vec<Decided> {
        assert!(!group.is_empty(), "a group has at least one job");
        let jobs = group.len();
        let is_probe = self.is_probing.swap(false, Ordering::Relaxed);
        if let Err(halt) = self.recover(leader) {
            return group.into_iter().map(|job| Decided::refuse(job, || halt.refusal())).collect();
        }
        let background_errors =
            leader.is_to_ask(is_probe).then(|| self.journal.background_errors());
        probe_insert_keys(&*self.journal, &mut group);
        let mut draft = Draft::new(&*self.journal, leader.last_version);
        let mut decided = self.decide(leader, &mut draft, group);
        assert_eq!(decided.len(), jobs, "every job of a group is decided");
        self.write(leader, draft, background_errors, &mut decided);
        count_results(&self.counters, &decided);
        decided
    }

    /// Decides the jobs that the disk has space for, and refuses the rest.
    fn decide(
        &self,
        leader: &mut Leader,
        draft: &mut Draft<'_, J>,
        group: Vec<Job>,
    ) -> Vec<Decided> {
        let free_space = leader.free_space(|| self.journal.free_space());
        // Not each time: near the limit, free space comes and goes with every file that the engine
        // deletes.
        let is_logged = leader.full_logged.is_some_and(|at| at.elapsed() < FULL_LOG_INTERVAL);
        if free_space != FreeSpace::Enough && !is_logged {
            let reason = self.journal.describe_free_space();
            tracing::error!(reason, "the store refuses writes");
            leader.full_logged = Some(Instant::now());
        }
        let full = || StoreError::Full { reason: self.journal.describe_free_space() };
        let decide = |job: Job| {
            if job.fits(free_space) { draft.add(job) } else { Decided::refuse(job, full) }
        };
        group.into_iter().map(decide).collect()
    }

    /// Writes and syncs what was decided. If that fails, no job is acknowledged.
    fn write(
        &self,
        leader: &mut Leader,
        draft: Draft<'_, J>,
        background_errors: Option<u64>,
        decided: &mut [Decided],
    ) {
        let (last_version, bytes) = (draft.last_version, draft.batch.size_in_bytes());
        match draft.write() {
            Ok(false) => assert!(
                !decided.iter().any(Decided::is_acknowledged),
                "a transaction that is acknowledged was written"
            ),
            Ok(true) => {
                leader.spend_versions(last_version);
                if let Some(survived) = background_errors {
                    self.background_errors_survived.store(survived, Ordering::Relaxed);
                }
                count_writers(&self.counters, decided, bytes);
            }
            Err(error) => {
                // The failed write may be on disk, so its versions are spent.
                leader.spend_versions(last_version);
                self.failed(error);
                decided.iter_mut().for_each(Decided::fail);
            }
        }
    }
}
