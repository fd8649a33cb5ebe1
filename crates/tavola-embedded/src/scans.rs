//! The scans that run: at most so many at a time, and a way to wait for those that run now.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tavola_store::StoreError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

#[derive(Debug)]
pub(crate) struct Scans {
    permits: Arc<Semaphore>,
    running: Mutex<Running>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Running {
    /// The number of the next scan.
    next: u64,
    numbers: BTreeSet<u64>,
}

/// One scan while it runs.
#[derive(Debug)]
pub(crate) struct RunningScan {
    scans: Arc<Scans>,
    number: u64,
    _permit: OwnedSemaphorePermit,
}

impl Scans {
    pub(crate) fn new(scans_max: usize) -> Self {
        // A semaphore without permits would admit no scan.
        let permits = Arc::new(Semaphore::new(scans_max.max(1)));
        Self { permits, running: Mutex::default(), ended: Condvar::new() }
    }

    /// Waits for a permit, first come, first served.
    pub(crate) async fn begin(self: &Arc<Self>) -> Result<RunningScan, StoreError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit =
            permit.map_err(|closed| StoreError::unavailable("the store is closed", closed))?;
        let mut running = self.lock();
        let number = running.next;
        running.next += 1;
        assert!(running.numbers.insert(number), "the number of a scan is new");
        Ok(RunningScan { scans: Arc::clone(self), number, _permit: permit })
    }

    /// Blocks until every scan that runs now has ended. Scans are bounded in what they read, so
    /// this ends.
    pub(crate) fn wait_for_running(&self) {
        let running = self.lock();
        let now = running.next;
        let older =
            |running: &mut Running| running.numbers.first().is_some_and(|&oldest| oldest < now);
        drop(self.ended.wait_while(running, older).unwrap_or_else(PoisonError::into_inner));
    }

    // A panic under this lock leaves the set as it was.
    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunningScan {
    fn drop(&mut self) {
        let was_running = self.scans.lock().numbers.remove(&self.number);
        assert!(was_running, "a scan ends once");
        self.scans.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::Scans;

    #[tokio::test]
    async fn only_so_many_run_at_once() {
        let scans = Arc::new(Scans::new(2));
        let first = scans.begin().await.unwrap();
        let _second = scans.begin().await.unwrap();
        let third = tokio::spawn({
            let scans = Arc::clone(&scans);
            async move { scans.begin().await.map(|_| ()) }
        });
        tokio::task::yield_now().await;
        assert!(!third.is_finished());
        drop(first);
        third.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn those_that_run_are_waited_for_and_later_ones_are_not() {
        let scans = Arc::new(Scans::new(4));
        let running = scans.begin().await.unwrap();
        let waiting = std::thread::spawn({
            let scans = Arc::clone(&scans);
            move || scans.wait_for_running()
        });
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished());
        let _later = scans.begin().await.unwrap();
        drop(running);
        waiting.join().unwrap();
    }
}
