//! The engine alone, for benchmarks: the same options, the same grouping of writes, and nothing of
//! a table service.
//!
//! It takes rows as bytes. What it reaches is what a service on this engine could reach if it cost
//! nothing.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use rocksdb::{DB, WriteBatch, WriteOptions};

use crate::group_commit::GROUP;
use crate::log_check::LogState;
use crate::options::{Options, Walk, write_synced};
use crate::queue::{Bounds, MemSize, Queue};

/// As many as the store's own group commit has.
const LEADERS: usize = 2;

/// A key and its value.
pub type RowBytes = (Vec<u8>, Vec<u8>);

/// An engine on a new folder.
#[derive(Debug)]
pub struct EngineBaseline {
    shared: Arc<Shared>,
    leaders: Vec<JoinHandle<()>>,
}

struct Shared {
    db: DB,
    synced: WriteOptions,
    queue: Queue<Waiting>,
}

struct Waiting {
    rows: Vec<RowBytes>,
    answer: mpsc::SyncSender<Result<(), String>>,
}

impl MemSize for Waiting {
    fn bytes(&self) -> usize {
        bytes_of(&self.rows)
    }
}

fn bytes_of(rows: &[RowBytes]) -> usize {
    rows.iter().map(|(key, value)| key.len() + value.len()).sum()
}

impl EngineBaseline {
    /// # Errors
    /// If the folder is not empty or cannot be used.
    pub fn create(folder: &Path, options: &Options) -> Result<Self, String> {
        let db = DB::open(&options.engine(&options.cache(), true, LogState::Whole), folder)
            .map_err(String::from)?;
        let bounds = Bounds {
            count_max: options.queue_transactions_max,
            bytes_max: options.queue_bytes_max,
        };
        let queue = Queue::new(bounds, GROUP);
        let shared = Arc::new(Shared { db, synced: write_synced(), queue });
        let lead = |_| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.run())
        };
        let leaders = (0..LEADERS).map(lead).collect();
        Ok(Self { shared, leaders })
    }

    /// Writes rows at once and durably, together with those of other threads that wait.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn write_in_group(&self, rows: Vec<RowBytes>) -> Result<(), String> {
        let (answer, done) = mpsc::sync_channel(1);
        self.shared
            .queue
            .enqueue(Waiting { rows, answer })
            .map_err(|error| format!("{error:?}"))?;
        done.recv().map_err(|error| error.to_string())?
    }

    /// The same without a group and on the caller's thread: the least that a writer can cost.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn write_alone(&self, rows: &[RowBytes]) -> Result<(), String> {
        let mut batch = WriteBatch::default();
        rows.iter().for_each(|(key, value)| batch.put(key, value));
        self.shared.db.write_opt(batch, &self.shared.synced).map_err(String::from)
    }

    /// Walks over all rows from `start` up to `end`; how many there are, and a sum over their
    /// bytes.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn walk(&self, start: &[u8], end: Vec<u8>) -> Result<(u64, u64), String> {
        let walk = Walk { fills_cache: true, ..Walk::WHOLE };
        let mut iterator = self.shared.db.raw_iterator_opt(walk.read_options(end));
        iterator.seek(start);
        let (mut rows, mut sum) = (0, 0);
        while let Some((key, value)) = iterator.item() {
            rows += 1;
            sum += key.len() as u64 + value.first().copied().map_or(0, u64::from);
            iterator.next();
        }
        iterator.status().map_err(String::from)?;
        Ok((rows, sum))
    }
}

impl Shared {
    fn run(&self) {
        loop {
            let Some((leadership, group)) = self.queue.lead() else { return };
            let mut batch = WriteBatch::default();
            group
                .iter()
                .flat_map(|waiting| &waiting.rows)
                .for_each(|(key, value)| batch.put(key, value));
            let written = self.db.write_opt(batch, &self.synced).map_err(String::from);
            drop(leadership);
            group.into_iter().for_each(|waiting| drop(waiting.answer.send(written.clone())));
        }
    }
}

impl Drop for EngineBaseline {
    fn drop(&mut self) {
        self.shared.queue.close();
        for leader in self.leaders.drain(..) {
            let _ = leader.join();
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::EngineBaseline;
    use crate::options::Options;

    #[test]
    fn what_is_written_is_met() {
        let folder = tempfile::tempdir().unwrap();
        let engine = EngineBaseline::create(folder.path(), &Options::default()).unwrap();
        let row = |number: u8| (vec![number], vec![number; 3]);
        std::thread::scope(|scope| {
            for number in 0..20 {
                let engine = &engine;
                scope.spawn(move || {
                    engine.write_in_group(vec![row(number), row(number + 100)]).unwrap()
                });
            }
        });
        engine.write_alone(&[row(50)]).unwrap();
        assert_eq!(engine.walk(&[0], vec![100]).unwrap().0, 21);
        assert_eq!(engine.walk(&[10], vec![200]).unwrap().0, 31);
    }
}
