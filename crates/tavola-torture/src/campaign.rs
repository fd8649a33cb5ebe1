//! What an attack is, what it counts, and how it says that a promise was broken.

use std::collections::BTreeMap;
use std::fmt;

use super::Arena;

/// One way to attack the server.
#[derive(Debug, Clone, Copy)]
pub struct Campaign {
    /// As it is named on the command line.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Seeds of the short form, which every merge runs.
    pub short_seeds: u64,
    /// Whether it attacks a cluster, which must be started before; such a campaign runs only by
    /// its name.
    pub needs_cluster: bool,
    /// Figures that cannot be zero after as many seeds as the short form has: something else would
    /// have been tested.
    pub must_happen: &'static [&'static str],
    /// The attack with one seed, in a folder of its own.
    pub attack: fn(&Arena) -> Result<Tally, Violation>,
}

impl Campaign {
    /// What did not happen, though it must have after so many clean seeds.
    #[must_use]
    pub fn missing(&self, clean: u64, tally: &Tally) -> Vec<&'static str> {
        let is_sure = clean >= self.short_seeds;
        self.must_happen.iter().copied().filter(|what| is_sure && tally.get(what) == 0).collect()
    }
}

/// A promise that was not kept, in words that let a reader evaluate without running it again.
#[derive(Debug)]
pub struct Violation(String);

impl Violation {
    /// A violation in these words.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a run did, in figures that can be added up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    sums: BTreeMap<&'static str, u64>,
    peaks: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Counts `amount` more of something: `tally.add("kills", 1)`.
    pub fn add(&mut self, what: &'static str, amount: u64) {
        *self.sums.entry(what).or_default() += amount;
    }

    /// Keeps the highest value of something that cannot be summed: `tally.peak("resident MB",
    /// 120)`.
    pub fn peak(&mut self, what: &'static str, value: u64) {
        let highest = self.peaks.entry(what).or_default();
        *highest = value.max(*highest);
    }

    /// How much was counted so far.
    #[must_use]
    pub fn get(&self, what: &str) -> u64 {
        self.sums.get(what).or_else(|| self.peaks.get(what)).copied().unwrap_or_default()
    }

    /// Takes another run's figures in.
    pub fn merge(&mut self, other: &Self) {
        other.sums.iter().for_each(|(what, amount)| self.add(what, *amount));
        other.peaks.iter().for_each(|(what, value)| self.peak(what, *value));
    }

    /// Every figure by its name.
    pub fn figures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.sums.iter().chain(&self.peaks).map(|(what, figure)| (*what, *figure))
    }
}

/// `3 kills, 4711 writes`
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (what, figure)) in self.figures().enumerate() {
            write!(f, "{}{figure} {what}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_happen_is_missed_after_enough_seeds() {
        let campaign = Campaign {
            name: "test",
            about: "",
            short_seeds: 13,
            needs_cluster: false,
            must_happen: &["kills", "cuts"],
            attack: |_| Ok(Tally::default()),
        };
        let mut tally = Tally::default();
        tally.add("kills", 1);
        tally.add("cuts", 0);
        assert!(campaign.missing(12, &tally).is_empty());
        assert_eq!(campaign.missing(13, &tally), ["cuts"]);
        tally.add("cuts", 1);
        assert!(campaign.missing(13, &tally).is_empty());
    }

    #[test]
    fn sums_add_up_and_peaks_stay() {
        let mut all = Tally::default();
        for (kills, megabytes) in [(2, 80), (3, 60)] {
            let mut one = Tally::default();
            one.add("kills", kills);
            one.peak("resident MB", megabytes);
            all.merge(&one);
        }
        assert_eq!(all.to_string(), "5 kills, 80 resident MB");
        assert_eq!((all.get("kills"), all.get("resident MB"), all.get("other")), (5, 80, 0));
    }
}
