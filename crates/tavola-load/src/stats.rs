//! Medians and ratios. Times on a shared machine are noisy, so every comparison is made within a
//! round.

use serde::Serialize;

/// The middle of several rounds, and how far they lie apart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// None without values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let (lower, upper) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Self { median: f64::midpoint(lower, upper), min, max })
    }

    /// The spread of the ratios of each round, which is not the ratio of the medians.
    pub fn of_ratios(ours: &[f64], theirs: &[f64]) -> Option<Self> {
        Self::of(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs))
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    fn spread(median: f64, min: f64, max: f64) -> Option<Spread> {
        Some(Spread { median, min, max })
    }

    #[test]
    fn medians() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([3.0]), spread(3.0, 3.0, 3.0));
        assert_eq!(Spread::of([9.0, 1.0, 2.0]), spread(2.0, 1.0, 9.0));
        assert_eq!(Spread::of([4.0, 1.0, 9.0, 2.0]), spread(3.0, 1.0, 9.0));
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The machine was twice as slow in the second round; the ratio does not see it.
        assert_eq!(Spread::of_ratios(&[100.0, 50.0], &[10.0, 5.0]), spread(10.0, 10.0, 10.0));
        assert_eq!(
            Spread::of_ratios(&[10.0, 30.0, 80.0], &[10.0, 10.0, 10.0]),
            spread(3.0, 1.0, 8.0)
        );
        assert_eq!(Spread::of_ratios(&[], &[1.0]), None);
    }
}
