//! Plans as people and tests read them: `point eu/7`, `scan eu/[1..5), us/* where Age gt 30`, `scan
//! *`, `nothing`.
//!
//! A bracket is inclusive, a parenthesis exclusive, `*` is where nothing bounds. A bound without a
//! slash is a whole partition.

use std::fmt;

use crate::filter::plan::{AccessClass, Plan};
use crate::range::{Cut, KeyRange};

impl AccessClass {
    /// The class as people read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Point => "point",
            Self::RowRange => "row range",
            Self::PartitionScan => "partition scan",
            Self::PartitionRange => "partition range",
            Self::TableScan => "table scan",
        }
    }
}

impl fmt::Display for AccessClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ranges.is_empty() {
            return f.write_str("nothing");
        }
        f.write_str(if self.class == AccessClass::Point { "point" } else { "scan" })?;
        for (index, range) in self.ranges.iter().enumerate() {
            f.write_str(if index == 0 { " " } else { ", " })?;
            write_range(f, range)?;
        }
        match &self.residual {
            Some(residual) => write!(f, " where {residual}"),
            None => Ok(()),
        }
    }
}

fn write_range(f: &mut fmt::Formatter<'_>, range: &KeyRange) -> fmt::Result {
    match (AccessClass::of(range), &range.start) {
        (AccessClass::TableScan, _) => f.write_str("*"),
        (AccessClass::Point, Cut::Before(key)) => {
            write!(f, "{}/{}", key.partition_key, key.row_key)
        }
        (AccessClass::PartitionScan, Cut::Before(key)) => write!(f, "{}/*", key.partition_key),
        (AccessClass::RowRange, Cut::Before(key) | Cut::After(key)) => {
            write!(f, "{}/", key.partition_key)?;
            write_interval(f, range, row_bound)
        }
        _ => write_interval(f, range, key_bound),
    }
}

fn write_interval(
    f: &mut fmt::Formatter<'_>,
    range: &KeyRange,
    bound: fn(&Cut) -> Option<String>,
) -> fmt::Result {
    match (bound(&range.start), &range.start) {
        (None, _) => f.write_str("(*")?,
        (Some(text), Cut::Before(_)) => write!(f, "[{text}")?,
        (Some(text), _) => write!(f, "({text}")?,
    }
    match (bound(&range.end), &range.end) {
        (None, _) => f.write_str("..*)"),
        (Some(text), Cut::Before(_)) => write!(f, "..{text})"),
        (Some(text), _) => write!(f, "..{text}]"),
    }
}

/// A cut inside a partition; `None` at the partition's own ends.
fn row_bound(cut: &Cut) -> Option<String> {
    match cut {
        Cut::Before(key) if key.row_key.as_str().is_empty() => None,
        Cut::Before(key) | Cut::After(key) => Some(key.row_key.to_string()),
        Cut::Start | Cut::AfterPartition(_) | Cut::End => None,
    }
}

/// A cut of the table; `None` at the table's own ends.
fn key_bound(cut: &Cut) -> Option<String> {
    match cut {
        Cut::Start | Cut::End => None,
        Cut::Before(key) if key.row_key.as_str().is_empty() => Some(key.partition_key.to_string()),
        Cut::Before(key) | Cut::After(key) => {
            Some(format!("{}/{}", key.partition_key, key.row_key))
        }
        Cut::AfterPartition(partition_key) => Some(partition_key.to_string()),
    }
}
