//! Stored counts against measured ones.

use crate::counts::ByCase;

/// A count may grow by so much before somebody has to say why.
pub(crate) const GROWTH_PERCENT_MAX: u64 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountChange {
    /// Within the bound.
    Kept,
    Grown,
    Shrunk,
    /// Measured, but not stored.
    New,
    /// Stored, but there is no such case any more.
    Gone,
}

/// One case in the comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) case: String,
    pub(crate) stored: Option<u64>,
    pub(crate) measured: Option<u64>,
    pub(crate) verdict: CountChange,
}

impl Line {
    /// How much the count changed.
    pub(crate) fn percent(&self) -> Option<f64> {
        Some((self.measured? as f64 / self.stored? as f64 - 1.0) * 100.0)
    }
}

/// Compares what was measured. A stored count without a measured one is gone, unless `exists` says
/// that its case was only not chosen this time.
pub(crate) fn compare(
    stored: &ByCase,
    measured: &ByCase,
    exists: impl Fn(&str) -> bool,
) -> Vec<Line> {
    let line = |case: &str, stored: Option<u64>, measured: Option<u64>| Line {
        case: case.to_owned(),
        stored,
        measured,
        verdict: judge(stored, measured),
    };
    let gone = stored.iter().filter(|(case, _)| !measured.contains_key(*case) && !exists(case));
    let gone = gone.map(|(case, count)| line(case, Some(*count), None));
    measured
        .iter()
        .map(|(case, count)| line(case, stored.get(case).copied(), Some(*count)))
        .chain(gone)
        .collect()
}

fn judge(stored: Option<u64>, measured: Option<u64>) -> CountChange {
    match (stored, measured) {
        (None, _) => CountChange::New,
        (_, None) => CountChange::Gone,
        (Some(stored), Some(measured)) if measured * 100 > stored * (100 + GROWTH_PERCENT_MAX) => {
            CountChange::Grown
        }
        (Some(stored), Some(measured)) if measured * 100 < stored * (100 - GROWTH_PERCENT_MAX) => {
            CountChange::Shrunk
        }
        _ => CountChange::Kept,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_case(cases: &[(&str, u64)]) -> ByCase {
        cases.iter().map(|(case, count)| ((*case).to_owned(), *count)).collect()
    }

    #[test]
    fn five_percent_are_free_in_either_direction() {
        for (stored, measured, verdict) in [
            (1_000, 1_000, CountChange::Kept),
            (1_000, 1_050, CountChange::Kept),
            (1_000, 1_051, CountChange::Grown),
            (1_000, 950, CountChange::Kept),
            (1_000, 949, CountChange::Shrunk),
            (10_000_000_000, 10_500_000_001, CountChange::Grown),
        ] {
            assert_eq!(judge(Some(stored), Some(measured)), verdict, "{stored} to {measured}");
        }
    }

    #[test]
    fn every_case_is_judged_once() {
        let stored = by_case(&[("dropped", 7), ("grown", 100), ("not-chosen", 5), ("same", 100)]);
        let measured = by_case(&[("added", 3), ("grown", 120), ("same", 101)]);
        let lines = compare(&stored, &measured, |case| case != "dropped");
        let judged: Vec<_> = lines.iter().map(|line| (line.case.as_str(), line.verdict)).collect();
        assert_eq!(
            judged,
            [
                ("added", CountChange::New),
                ("grown", CountChange::Grown),
                ("same", CountChange::Kept),
                ("dropped", CountChange::Gone),
            ]
        );
        assert!((lines[1].percent().unwrap() - 20.0).abs() < 1e-9);
        assert_eq!(lines[0].percent(), None);
    }
}
