//! The reply to a conditional write.
//!
//! Cassandra returns, for a refused batch, the condition columns of those conditioned rows that
//! exist, in the order of their keys; one line without a RowKey if only the static row does; and no
//! line's values at all if the partition does not. ScyllaDB returns one line per statement, in
//! their order, also when it was applied. So lines are found by their RowKey, and a row that is not
//! among them does not exist.

use std::collections::HashMap;

use scylla::response::query_result::QueryResult;
use scylla::value::{CqlValue, Row};

use crate::error::Failure;

/// What became of a conditional write.
#[derive(Debug)]
pub(crate) enum Reply {
    Applied,
    Refused(Refused),
}

/// The partition as it was when the write was refused; as much of it as the conditions named.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) generation: Option<i32>,
    /// The highest version given out.
    pub(crate) version: Option<u64>,
    /// The versions of the rows that exist.
    pub(crate) rows: HashMap<Vec<u8>, u64>,
}

/// Reads a reply. One that cannot be read says nothing about what was done.
pub(crate) fn read(result: QueryResult) -> Result<Reply, Failure> {
    let unreadable =
        |error: &dyn ToString| Failure::Unknown(format!("unreadable reply: {}", error.to_string()));
    let rows = result.into_rows_result().map_err(|error| unreadable(&error))?;
    let names: Vec<String> =
        rows.column_specs().iter().map(|column| column.name().to_owned()).collect();
    let mut refused = Refused::default();
    let mut applied = None;
    for row in rows.rows::<Row>().map_err(|error| unreadable(&error))? {
        let row = row.map_err(|error| unreadable(&error))?;
        applied = applied.or(read_line(&names, row, &mut refused));
    }
    match applied {
        Some(true) => {
            tracing::debug!("applied");
            Ok(Reply::Applied)
        }
        Some(false) => {
            let Refused { generation, version, rows } = &refused;
            tracing::debug!(generation, version, rows = rows.len(), "refused");
            Ok(Reply::Refused(refused))
        }
        None => Err(unreadable(&"it does not say whether it was applied")),
    }
}

/// Reads one line; whether it says "applied".
fn read_line(names: &[String], row: Row, refused: &mut Refused) -> Option<bool> {
    let (mut applied, mut key, mut version) = (None, None, None);
    for (name, value) in names.iter().zip(row.columns) {
        match (name.as_str(), value) {
            ("[applied]", Some(CqlValue::Boolean(value))) => applied = Some(value),
            ("gen", Some(CqlValue::Int(value))) => refused.generation = Some(value),
            ("pts", Some(CqlValue::BigInt(value))) => refused.version = u64::try_from(value).ok(),
            ("rk", Some(CqlValue::Blob(value))) => key = Some(value),
            ("rk", Some(CqlValue::Empty)) => key = Some(Vec::new()),
            ("ver", Some(CqlValue::BigInt(value))) => version = u64::try_from(value).ok(),
            _ => {}
        }
    }
    if let (Some(key), Some(version)) = (key, version) {
        refused.rows.insert(key, version);
    }
    applied
}
