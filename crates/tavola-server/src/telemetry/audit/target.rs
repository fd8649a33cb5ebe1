//! What a request is about, in an audit: the container and the keys, never content.

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Target {
    /// The table, queue or container.
    pub container: Option<String>,
    /// The partition, if there is one.
    pub partition_key: Option<String>,
    /// The row, if there is one.
    pub row_key: Option<String>,
    /// What a transaction does to which rows.
    pub operations: Vec<(&'static str, String)>,
}
