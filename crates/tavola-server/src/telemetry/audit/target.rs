//! What a request is about: the table and the keys, never a property.

use tavola_core::TableRequest;

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Target {
    /// The table.
    pub(super) table: Option<String>,
    /// The partition, if there is one.
    pub(super) partition_key: Option<String>,
    /// The row, if there is one.
    pub(super) row_key: Option<String>,
    /// What a transaction does to which rows.
    pub(super) operations: Vec<(&'static str, String)>,
}

impl Target {
    /// What a request names.
    #[must_use]
    pub(crate) fn of(request: &TableRequest) -> Self {
        let table = request.table().map(|table| table.as_str().to_owned());
        let (partition_key, row_key) = match request {
            TableRequest::GetEntity(_, key) => (Some(&key.partition_key), Some(&key.row_key)),
            TableRequest::Write(_, partition_key, operation) => {
                (Some(partition_key), Some(operation.row_key()))
            }
            TableRequest::Transaction(_, transaction) => (Some(transaction.partition_key()), None),
            _ => (None, None),
        };
        let operations = match request {
            TableRequest::Transaction(_, transaction) => transaction.operations(),
            _ => &[],
        };
        Self {
            table,
            partition_key: partition_key.map(|key| key.as_str().to_owned()),
            row_key: row_key.map(|key| key.as_str().to_owned()),
            operations: operations
                .iter()
                .map(|one| (one.name(), one.row_key().as_str().to_owned()))
                .collect(),
        }
    }
}
