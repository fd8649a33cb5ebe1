//! Figures about the keys of new rows, and what they say.

use std::collections::HashMap;

use super::numbers::Numbers;
use crate::explain::Advice;

/// Partitions that are counted; rows of others are counted together.
const PARTITIONS_MAX: usize = 1024;
/// Below so many rows, how they spread over partitions says nothing.
const ROWS_MIN: u64 = 1000;
/// Below so many rows, their order says nothing.
const GROWING_ROWS_MIN: u64 = 100;
const GROWING_STEPS_MIN: u64 = 3;

/// What is known of the keys of new rows, in the order in which they were written.
#[derive(Debug, Default)]
pub(super) struct KeyFigures {
    rows: u64,
    partitions: HashMap<String, u64>,
    bounds: Option<Bounds>,
    partition_numbers: Numbers,
    row_numbers: Numbers,
    /// Rows with a point in time in one of their keys.
    timed: u64,
}

/// The ends of the partitions so far, and how often a row went there or beyond.
#[derive(Debug)]
struct Bounds {
    least: String,
    greatest: String,
    at_least: u64,
    at_greatest: u64,
    steps_down: u64,
    steps_up: u64,
}

impl Bounds {
    fn new(partition: &str) -> Self {
        let (least, greatest) = (partition.to_owned(), partition.to_owned());
        Self { least, greatest, at_least: 1, at_greatest: 1, steps_down: 0, steps_up: 0 }
    }

    fn add(&mut self, partition: &str) {
        if partition >= self.greatest.as_str() {
            self.at_greatest += 1;
            if partition != self.greatest {
                partition.clone_into(&mut self.greatest);
                self.steps_up += 1;
            }
        }
        if partition <= self.least.as_str() {
            self.at_least += 1;
            if partition != self.least {
                partition.clone_into(&mut self.least);
                self.steps_down += 1;
            }
        }
    }
}

impl KeyFigures {
    pub(super) fn add(&mut self, partition: &str, row: &str) {
        self.rows += 1;
        let has_room = self.partitions.len() < PARTITIONS_MAX;
        match self.partitions.get_mut(partition) {
            Some(rows) => *rows += 1,
            None if has_room => drop(self.partitions.insert(partition.to_owned(), 1)),
            None => {}
        }
        match &mut self.bounds {
            None => self.bounds = Some(Bounds::new(partition)),
            Some(bounds) => bounds.add(partition),
        }
        self.partition_numbers.add(partition);
        self.row_numbers.add(row);
        self.timed += u64::from(has_time(partition) || has_time(row));
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// True if nine of ten rows have a point in time in their keys.
    pub(super) fn are_timed(&self) -> bool {
        self.timed * 10 >= self.rows * 9
    }

    pub(super) fn advice(&self, table: &str) -> Vec<Advice> {
        let all = [self.growing(table), self.one_partition(table), self.alone(table)];
        all.into_iter().flatten().chain(self.unpadded(table)).collect()
    }

    /// All new rows go to one end of the partitions, which moves on.
    fn growing(&self, table: &str) -> Option<Advice> {
        let bounds = self.bounds.as_ref().filter(|_| self.rows >= GROWING_ROWS_MIN)?;
        let is_most = |rows: u64| rows * 10 >= self.rows * 9;
        let (lint, rows, end) =
            if bounds.steps_up >= GROWING_STEPS_MIN && is_most(bounds.at_greatest) {
                ("append-keys", bounds.at_greatest, &bounds.greatest)
            } else if bounds.steps_down >= GROWING_STEPS_MIN && is_most(bounds.at_least) {
                ("prepend-keys", bounds.at_least, &bounds.least)
            } else {
                return None;
            };
        let end_name = if lint == "append-keys" { "last" } else { "first" };
        Some(Advice {
            lint,
            evidence: format!(
                "{table}: {rows} of {} new rows went to the {end_name} partition, now '{end}'",
                self.rows
            ),
            reason: "one server has the partition that is written at any time, and throttles",
            cure: "begin the PartitionKey with what spreads, such as a user or a source, or use \
                   `Spread` (docs/patterns/spread.md)",
        })
    }

    fn one_partition(&self, table: &str) -> Option<Advice> {
        let (partition, _) = self.partitions.iter().next()?;
        let is_one = self.partitions.len() == 1 && self.rows >= ROWS_MIN;
        is_one.then(|| Advice {
            lint: "one-partition",
            evidence: format!("{table}: all of {} new rows are in '{partition}'", self.rows),
            reason: "a partition is never divided, so that its throughput is the table's",
            cure: "choose a PartitionKey with many values that keeps together what changes \
                   together (docs/patterns/partition-key.md)",
        })
    }

    fn alone(&self, table: &str) -> Option<Advice> {
        let single = self.partitions.values().filter(|rows| **rows == 1).count();
        let is_most = single * 100 >= self.partitions.len() * 95;
        (self.rows >= ROWS_MIN && is_most).then(|| Advice {
            lint: "one-entity-per-partition",
            evidence: format!(
                "{table}: {single} of {} partitions have one row",
                self.partitions.len()
            ),
            reason: "no two rows can be changed in one transaction or read in one range",
            cure: "give rows that change together one PartitionKey (docs/patterns/partition-key.md)",
        })
    }

    fn unpadded(&self, table: &str) -> impl Iterator<Item = Advice> {
        let keys = [("PartitionKey", &self.partition_numbers), ("RowKey", &self.row_numbers)];
        let found = keys.map(|(key, numbers)| {
            let (greater, less) = numbers.misordered()?;
            Some(Advice {
                lint: "unpadded-numbers",
                evidence: format!("{table}: {key} '{greater}' sorts below '{less}'"),
                reason: "keys are texts, so that ranges over such numbers are wrong",
                cure: "write numbers with leading zeros: `{id:06}` in a key template \
                       (docs/patterns/compound-key.md)",
            })
        });
        found.into_iter().flatten()
    }
}

/// True if a word of the key looks like a date (`20140822`, with more digits behind it or not) or
/// like ticks of 100 ns since the year 1, inverted or not.
fn has_time(key: &str) -> bool {
    key.split(|c: char| !c.is_ascii_digit()).any(|digits| {
        let two = |at: usize| digits.get(at..at + 2).and_then(|two| two.parse::<u8>().ok());
        match digits.len() {
            // Years 1950 to 2100.
            19 if digits.starts_with("06") || digits.starts_with("25") => true,
            18 if digits.starts_with('6') => true,
            8..=17 => {
                matches!(two(0), Some(19 | 20))
                    && matches!(two(4), Some(1..=12))
                    && matches!(two(6), Some(1..=31))
            }
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{KeyFigures, has_time};

    fn lints(keys: impl Iterator<Item = (String, String)>) -> Vec<&'static str> {
        let mut figures = KeyFigures::default();
        keys.for_each(|(partition, row)| figures.add(&partition, &row));
        figures.advice("t").iter().map(|advice| advice.lint).collect()
    }

    /// A number that looks like chance and is the same each time.
    fn scattered(at: u64) -> u64 {
        at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
    }

    #[test]
    fn each_lint_and_its_opposite() {
        let hour = |at: u64| format!("20140822{:02}", at / 100);
        let row = |at: u64| format!("{at:06}");
        assert_eq!(lints((0..1000).map(|at| (hour(at), row(at)))), ["append-keys"]);
        let back = (0..1000).map(|at| (hour(999 - at), row(at)));
        assert_eq!(lints(back), ["prepend-keys"]);
        // The same rows below a volume, and spread by department.
        assert!(lints((0..90).map(|at| (hour(at * 100), row(at)))).is_empty());
        let spread = |at| format!("dept{:02}_{}", scattered(at) % 40, hour(at));
        assert!(lints((0..1000).map(|at| (spread(at), row(at)))).is_empty());

        assert_eq!(lints((0..1000).map(|at| ("all".into(), row(at)))), ["one-partition"]);
        assert!(lints((0..999).map(|at| ("all".into(), row(at)))).is_empty());
        let own = |at| (format!("{:08}", scattered(at)), "0".to_owned());
        assert_eq!(lints((0..5000).map(own)), ["one-entity-per-partition"]);
        let pairs = (0..5000).map(|at| (format!("{:08}", scattered(at / 2)), row(at)));
        assert!(lints(pairs).is_empty());
        assert_eq!(lints((1..11).map(|at| ("p".into(), at.to_string()))), ["unpadded-numbers"]);
    }

    #[test]
    fn times_in_keys() {
        for key in ["20140822", "login_20140822181530", "2519936321679999999!99999", "0635443..0"] {
            assert_eq!(has_time(key), !key.contains(".."), "{key}");
        }
        assert!(has_time("635443158320000000"));
        for key in ["000123", "20149922", "empid_000212", "193", ""] {
            assert!(!has_time(key), "{key}");
        }
    }
}
