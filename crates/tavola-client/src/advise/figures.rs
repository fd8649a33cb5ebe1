//! Figures about one table, and what they say.

use std::collections::{BTreeMap, BTreeSet};

use tavola_core::Filter as CoreFilter;
use tavola_core::filter::Comparison;

use super::keys::KeyFigures;
use crate::explain::{Access, Advice, Explain};

/// Properties by which scans are counted.
const PROPERTIES_MAX: usize = 64;
/// Below so many scans, somebody may have looked at something once.
const SCANS_MIN: u64 = 10;
const LOG_ROWS_MIN: u64 = 100;

/// What went through the client for one table.
#[derive(Debug, Default)]
pub(super) struct TableFigures {
    keys: KeyFigures,
    /// Writes to rows that were there already.
    changes: u64,
    /// Pages of scans.
    scans: u64,
    /// Scans that compared a property with a value: pages, and rows that came back.
    compared: BTreeMap<String, (u64, u64)>,
}

impl TableFigures {
    pub(super) fn on_new(&mut self, partition: &str, row: &str) {
        self.keys.add(partition, row);
    }

    pub(super) fn on_change(&mut self) {
        self.changes += 1;
    }

    pub(super) fn on_page(&mut self, filter: Option<&CoreFilter>, returned: usize) {
        if Explain::of(filter, None).here < Access::PartitionScan {
            return;
        }
        self.scans += 1;
        let mut names = BTreeSet::new();
        if let Some(filter) = filter {
            equal_properties(filter, &mut names);
        }
        for name in names {
            if self.compared.len() < PROPERTIES_MAX || self.compared.contains_key(name) {
                let (pages, rows) = self.compared.entry(name.to_owned()).or_default();
                *pages += 1;
                *rows += returned as u64;
            }
        }
    }

    pub(super) fn advice(&self, table: &str) -> Vec<Advice> {
        let mut advice = self.keys.advice(table);
        advice.extend(self.drained_log(table));
        let repeated = self.compared.iter().filter(|(_, (pages, _))| *pages >= SCANS_MIN);
        advice.extend(repeated.map(|(name, (pages, rows))| Advice {
            lint: "repeated-scan",
            evidence: format!("{table}: {pages} pages of scans for `{name}` returned {rows} rows"),
            reason: "each reads whole partitions for a few rows",
            cure: "keep an index: in the partition (docs/patterns/indexed.md), in another one \
                   (docs/patterns/indexed-eventually.md), or a list for each value \
                   (docs/patterns/index-list.md)",
        }));
        advice
    }

    /// Rows that are only added, by time, and searched by scans.
    fn drained_log(&self, table: &str) -> Option<Advice> {
        let rows = self.keys.rows();
        let is_log = rows >= LOG_ROWS_MIN && self.changes * 100 <= rows && self.keys.are_timed();
        (is_log && self.scans >= SCANS_MIN).then(|| Advice {
            lint: "log-drained-by-scans",
            evidence: format!(
                "{table}: {rows} rows with a time in their key were added, {} changed, {} pages of \
                 scans",
                self.changes, self.scans
            ),
            reason: "keys by time make one partition hot, keys by source must be searched in all",
            cure: "keep the newest first (docs/patterns/log-tail.md) in tables that are dropped as \
                   a whole (docs/patterns/rolling.md); logs proper belong into blobs",
        })
    }
}

/// The properties, keys aside, that a filter compares for equality.
fn equal_properties<'a>(filter: &'a CoreFilter, names: &mut BTreeSet<&'a str>) {
    match filter {
        CoreFilter::And(terms) | CoreFilter::Or(terms) => {
            terms.iter().for_each(|term| equal_properties(term, names));
        }
        CoreFilter::Compare { property, comparison: Comparison::Equal, .. } => {
            let name = property.as_str();
            if !matches!(name, "PartitionKey" | "RowKey" | "Timestamp") {
                names.insert(name);
            }
        }
        _ => {}
    }
}
