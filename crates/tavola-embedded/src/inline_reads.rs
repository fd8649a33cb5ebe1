//! Whether a read that may need the disk runs inline, on the thread that asked for it.
//!
//! Handing a read over to a blocking thread costs several times what the read itself costs while
//! the page cache holds the file, which is the usual case. But a thread that serves sockets must
//! not wait for a disk, and whether a read will is known only afterwards. So reads run inline in a
//! *probe window*. The time that a slow read takes is charged to the *slow-read budget*, which a
//! quarter of the elapsed time refills. When the budget is overdrawn the window closes, and reads
//! go to blocking threads for a pause; each window that closes early doubles the next pause. A slow
//! disk therefore costs the threads of sockets a few hundredths of a second in ten.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Few disks answer within this time; the page cache almost always does.
const FAST: Duration = Duration::from_micros(200);
/// More than threads of a busy machine usually wait for a processor.
const SLOW_READ_BUDGET: Duration = Duration::from_millis(50);
/// One part in so many of the elapsed time refills the budget.
const REFILL_DIVISOR: u32 = 4;
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// A window that stayed open this long resets the pause to its minimum.
const LONG_WINDOW: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct InlineReadGovernor {
    /// False if no read ever runs inline.
    is_enabled: bool,
    opened: Instant,
    /// Nanoseconds after `opened` until which reads go to blocking threads.
    pause_end: AtomicU64,
    window: Mutex<ProbeWindow>,
}

#[derive(Debug, Default)]
struct ProbeWindow {
    /// When it opens, as time after the governor started. In the future during a pause.
    opens: Duration,
    /// How much of the slow-read budget is used, as of `used_at`.
    used: Duration,
    used_at: Duration,
    /// The length of the last pause.
    pause: Duration,
}

impl InlineReadGovernor {
    pub(crate) fn new(is_enabled: bool) -> Self {
        Self {
            is_enabled,
            opened: Instant::now(),
            pause_end: AtomicU64::new(0),
            window: Mutex::default(),
        }
    }

    /// True while the probe window is open.
    pub(crate) fn is_inline(&self) -> bool {
        let pause_end = self.pause_end.load(Ordering::Relaxed);
        self.is_enabled && (pause_end == 0 || self.opened.elapsed().as_nanos() as u64 >= pause_end)
    }

    /// Runs a read inline, and charges it to the budget if it was slow.
    pub(crate) fn watch<T>(&self, read: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = read();
        let took = started.elapsed();
        if took > FAST {
            self.charge(took, self.opened.elapsed());
        }
        result
    }

    fn charge(&self, took: Duration, now: Duration) {
        // No code under this lock can panic between two changes, so poisoning means nothing.
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pause) = window.charge(took, now) {
            self.pause_end.store((now + pause).as_nanos() as u64, Ordering::Relaxed);
        }
    }
}

impl ProbeWindow {
    /// Charges a slow read. `Some` with the length of the pause if that overdraws the budget.
    fn charge(&mut self, took: Duration, now: Duration) -> Option<Duration> {
        // The read began before the pause, which must not grow for it.
        if now < self.opens {
            return None;
        }
        let refilled = now.saturating_sub(self.used_at) / REFILL_DIVISOR;
        self.used = self.used.saturating_sub(refilled) + took;
        self.used_at = now;
        if self.used <= SLOW_READ_BUDGET {
            return None;
        }
        let was_long = now.saturating_sub(self.opens) >= LONG_WINDOW;
        self.pause =
            if was_long { PAUSE_MIN } else { (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX) };
        self.used = Duration::ZERO;
        self.opens = now + self.pause;
        assert!((PAUSE_MIN..=PAUSE_MAX).contains(&self.pause), "a pause is bounded");
        Some(self.pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_few_slow_reads_are_forgiven() {
        let mut window = ProbeWindow::default();
        for second in 0..100 {
            assert_eq!(
                window.charge(40 * MS, second * 1000 * MS),
                None,
                "the budget is refilled before the next"
            );
        }
        assert_eq!(
            window.charge(40 * MS, 99_010 * MS),
            Some(PAUSE_MIN),
            "two at once are too many"
        );
    }

    #[test]
    fn a_slow_disk_gets_longer_and_longer_pauses() {
        let (mut window, mut now, mut pauses) =
            (ProbeWindow::default(), Duration::ZERO, Vec::new());
        for _ in 0..10 {
            loop {
                now += 10 * MS;
                if let Some(pause) = window.charge(10 * MS, now) {
                    pauses.push(pause.as_millis());
                    now += pause;
                    break;
                }
            }
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000]);
        now += LONG_WINDOW;
        assert_eq!(window.charge(60 * MS, now), Some(PAUSE_MIN), "the window was long");
    }

    #[test]
    fn reads_of_before_a_pause_do_not_prolong_it() {
        let mut window = ProbeWindow::default();
        assert_eq!(window.charge(60 * MS, 50 * MS), Some(PAUSE_MIN));
        assert_eq!(window.charge(60 * MS, 51 * MS), None);
    }

    #[test]
    fn a_pause_ends() {
        assert!(!InlineReadGovernor::new(false).is_inline());
        let governor = InlineReadGovernor::new(true);
        assert!(governor.is_inline());
        governor.watch(|| std::thread::sleep(SLOW_READ_BUDGET + MS));
        assert!(!governor.is_inline());
        while !governor.is_inline() {
            std::thread::sleep(MS);
        }
    }
}
