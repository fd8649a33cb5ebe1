//! What the person at the terminal sees while a long thing runs, on the error stream: figures go to
//! the other.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use tavola_load::text;

/// Into a file or a pipe a line goes only this often.
const QUIET_INTERVAL: Duration = Duration::from_secs(10);

/// One line that is written over and over.
#[derive(Debug)]
pub(crate) struct Progress {
    is_terminal: bool,
    last_line: Instant,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { is_terminal: std::io::stderr().is_terminal(), last_line: Instant::now() }
    }

    /// Replaces the line.
    pub(crate) fn show(&mut self, line: &str) {
        if self.is_terminal {
            eprint!("\r\x1b[K{line}");
            let _ = std::io::stderr().flush();
        } else if self.last_line.elapsed() >= QUIET_INTERVAL {
            self.last_line = Instant::now();
            eprintln!("{line}");
        }
    }

    /// Removes the line, before something else is printed.
    pub(crate) fn clear(&mut self) {
        if self.is_terminal {
            eprint!("\r\x1b[K");
        }
    }

    /// Leaves a last line behind.
    pub(crate) fn done(&mut self, line: &str) {
        self.clear();
        eprintln!("{line}");
    }
}

/// `412,000 of 1,000,000 entities, 51,200/s, 11 s left`
pub(crate) fn share(done: u64, total: u64, elapsed: Duration) -> String {
    let rate = done as f64 / elapsed.as_secs_f64().max(0.001);
    let left =
        Duration::from_secs_f64(((total.saturating_sub(done)) as f64 / rate.max(1.0)).min(1e6));
    let (done, total) = (text::number(done as f64), text::number(total as f64));
    format!("{done} of {total} entities, {}/s, {} left", text::number(rate), text::seconds(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_the_rate() {
        let line = share(400_000, 1_000_000, Duration::from_secs(8));
        assert_eq!(line, "400,000 of 1,000,000 entities, 50,000/s, 12 s left");
    }
}
