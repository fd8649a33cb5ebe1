//! What a query would read, said without sending it.

/// How a query reaches its rows, from cheap to expensive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Access {
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
