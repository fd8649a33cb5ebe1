//! From a filter to what a query reads: key ranges, what remains to be checked, and a class that people see.

use crate::filter::Filter;
use crate::range::KeyRange;

/// How a query reaches its rows, from cheap to dear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessClass {
    /// Single entities by their keys.
    Point,
    /// Ranges of rows inside partitions.
    RowRange,
    /// Whole partitions.
    PartitionScan,
    /// A range of partitions.
    PartitionRange,
    /// Everything.
    TableScan,
}

/// What a query reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Disjoint, in ascending order; none if no entity can match.
    pub ranges: Vec<KeyRange>,
    /// What each row in the ranges must still satisfy.
    pub residual: Option<Filter>,
    /// The dearest of the ranges.
    pub class: AccessClass,
}

/// Plans a query.
#[must_use]
pub fn plan(_filter: Option<&Filter>) -> Plan {
    Plan { ranges: vec![KeyRange::ALL], residual: _filter.cloned(), class: AccessClass::TableScan }
}
