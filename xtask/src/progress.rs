//! What the person at the terminal sees while a long thing runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Counts finished pieces of work from several threads: `[12/50] db_compaction-0 (14 s)`.
#[derive(Debug)]
pub(crate) struct Counter {
    done: AtomicUsize,
    total: usize,
}

impl Counter {
    pub(crate) fn new(total: usize) -> Self {
        Self { done: AtomicUsize::new(0), total }
    }

    pub(crate) fn finished(&self, what: &str, since: Instant) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let width = self.total.to_string().len();
        println!("[{done:>width$}/{}] {what} ({})", self.total, seconds(since.elapsed()));
    }
}

/// `4.2 s` below ten seconds, `48 s` below two minutes, then `6 min 03 s`.
pub(crate) fn seconds(duration: Duration) -> String {
    let whole = duration.as_secs();
    match whole {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..120 => format!("{whole} s"),
        _ => format!("{} min {:02} s", whole / 60, whole % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short_to_read() {
        assert_eq!(seconds(Duration::from_millis(4_240)), "4.2 s");
        assert_eq!(seconds(Duration::from_secs(48)), "48 s");
        assert_eq!(seconds(Duration::from_secs(363)), "6 min 03 s");
    }
}
