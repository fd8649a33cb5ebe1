//! How long answers took, and what can be said about many of them.

use std::time::Duration;

/// Durations of one kind of request in one phase of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(super) fn add(&mut self, taken: Duration) {
        self.0.push(taken);
    }

    pub(super) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Of a hundred, so many took no longer than this.
    pub(super) fn percent_within(&self, time: Duration) -> u64 {
        let within = self.0.iter().filter(|taken| **taken <= time).count();
        (100 * within).checked_div(self.0.len()).unwrap_or(0) as u64
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The duration that this share of the requests did not exceed.
    pub(super) fn percentile(&self, share: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        sorted.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
    }

    pub(super) fn median(&self) -> Duration {
        self.percentile(0.5)
    }

    pub(super) fn p99(&self) -> Duration {
        self.percentile(0.99)
    }
}

/// `part` in hundredths of `whole`; a whole of nothing is not divided by.
pub(super) fn percent(part: Duration, whole: Duration) -> u64 {
    (100.0 * part.as_secs_f64() / whole.as_secs_f64().max(1e-9)) as u64
}

pub(super) fn micros(taken: Duration) -> u64 {
    u64::try_from(taken.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let mut latencies = Latencies::default();
        (1..=101).rev().for_each(|millis| latencies.add(Duration::from_millis(millis)));
        assert_eq!(latencies.median(), Duration::from_millis(51));
        assert_eq!(latencies.p99(), Duration::from_millis(100));
        assert_eq!(latencies.percentile(1.0), Duration::from_millis(101));
        assert_eq!(Latencies::default().p99(), Duration::ZERO);
        assert_eq!(percent(Duration::from_millis(3), Duration::from_millis(2)), 150);
    }
}
