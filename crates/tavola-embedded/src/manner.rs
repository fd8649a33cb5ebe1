//! Whether a read that may need the disk is done where it is asked.
//!
//! Handing a read over to a thread that may wait costs several times what the read itself does when
//! the system has the file in its memory, which is the usual case. But a thread that serves sockets
//! must not wait for a disk, and nobody tells beforehand which of the two it will be. So reads are
//! done in place on trial: what they take beyond the time of a memory is a debt, which a quarter of
//! the time that passes pays off. When it grows too large, reads are handed over for a while; for
//! twice as long each time that the trial fails again soon. A slow disk so costs the threads of
//! sockets a few hundredths of a second in ten.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Few disks answer so fast, and memory almost always does.
const FAST: Duration = Duration::from_micros(200);
/// More than a busy machine makes threads wait for each other.
const DEBT_MAX: Duration = Duration::from_millis(50);
/// The share of the time that passes which pays off debt.
const PAID_PER: u32 = 4;
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// A trial that was good for so long is not held against the next one.
const GOOD: Duration = Duration::from_secs(10);

/// How reads went lately.
#[derive(Debug)]
pub(crate) struct Manner {
    /// Reads are tried in place at all.
    is_tried: bool,
    opened: Instant,
    /// Nanoseconds after `opened` until which reads are handed over.
    pause_end: AtomicU64,
    trial: Mutex<Trial>,
}

#[derive(Debug, Default)]
struct Trial {
    /// Nanoseconds after the opening.
    began: Duration,
    debt: Duration,
    debt_at: Duration,
    pause: Duration,
}

impl Manner {
    pub(crate) fn new(is_tried: bool) -> Self {
        Self {
            is_tried,
            opened: Instant::now(),
            pause_end: AtomicU64::new(0),
            trial: Mutex::default(),
        }
    }

    /// True if reads are done in place.
    pub(crate) fn is_in_place(&self) -> bool {
        let pause_end = self.pause_end.load(Ordering::Relaxed);
        self.is_tried && (pause_end == 0 || self.opened.elapsed().as_nanos() as u64 >= pause_end)
    }

    /// Does a read that others wait behind.
    pub(crate) fn watch<T>(&self, read: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = read();
        let took = started.elapsed();
        if took > FAST {
            self.slow(took, self.opened.elapsed());
        }
        result
    }

    fn slow(&self, took: Duration, now: Duration) {
        // Nothing under this lock can panic half-way: poisoning would say nothing.
        let mut trial = self.trial.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pause) = trial.slow(took, now) {
            self.pause_end.store((now + pause).as_nanos() as u64, Ordering::Relaxed);
        }
    }
}

impl Trial {
    /// A read was slow; for how long reads are to be handed over, if that was too much.
    fn slow(&mut self, took: Duration, now: Duration) -> Option<Duration> {
        // One that began before the pause.
        if now < self.began {
            return None;
        }
        let paid = now.saturating_sub(self.debt_at) / PAID_PER;
        self.debt = self.debt.saturating_sub(paid) + took;
        self.debt_at = now;
        if self.debt <= DEBT_MAX {
            return None;
        }
        let was_good = now.saturating_sub(self.began) >= GOOD;
        self.pause =
            if was_good { PAUSE_MIN } else { (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX) };
        self.debt = Duration::ZERO;
        self.began = now + self.pause;
        Some(self.pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_few_slow_reads_are_forgiven() {
        let mut trial = Trial::default();
        for second in 0..100 {
            assert_eq!(
                trial.slow(40 * MS, second * 1000 * MS),
                None,
                "each is paid off before the next"
            );
        }
        assert_eq!(trial.slow(40 * MS, 99_010 * MS), Some(PAUSE_MIN), "two at once are too many");
    }

    #[test]
    fn a_slow_disk_gets_longer_and_longer_pauses() {
        let (mut trial, mut now, mut pauses) = (Trial::default(), Duration::ZERO, Vec::new());
        for _ in 0..10 {
            loop {
                now += 10 * MS;
                if let Some(pause) = trial.slow(10 * MS, now) {
                    pauses.push(pause.as_millis());
                    now += pause;
                    break;
                }
            }
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000]);
        now += GOOD;
        assert_eq!(trial.slow(60 * MS, now), Some(PAUSE_MIN), "long ago");
    }

    #[test]
    fn reads_of_before_a_pause_do_not_prolong_it() {
        let mut trial = Trial::default();
        assert_eq!(trial.slow(60 * MS, 50 * MS), Some(PAUSE_MIN));
        assert_eq!(trial.slow(60 * MS, 51 * MS), None);
    }

    #[test]
    fn a_pause_ends() {
        assert!(!Manner::new(false).is_in_place());
        let manner = Manner::new(true);
        assert!(manner.is_in_place());
        manner.watch(|| std::thread::sleep(DEBT_MAX + MS));
        assert!(!manner.is_in_place());
        while !manner.is_in_place() {
            std::thread::sleep(MS);
        }
    }
}
