//! The register of a partition: the static columns that every conditional write reads and changes.

use scylla::value::CqlValue;
use uuid::Uuid;

use crate::cluster::{Cluster, Partition};
use crate::stats::Kind;

/// The register of a partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Register {
    pub(crate) generation: Option<i32>,
    pub(crate) version: Option<u64>,
    pub(crate) writer: Option<Uuid>,
    /// True if the partition has a row.
    pub(crate) has_rows: bool,
}

impl Cluster {
    /// The register of a partition, linearizable.
    pub(crate) async fn register(&self, partition: &Partition) -> Result<Register, String> {
        let values = (partition.table, &partition.key[..]);
        let result = self.execute(Kind::Register, &self.statements.register, values).await;
        let result = result.map_err(|error| error.to_string())?;
        let result = result.into_rows_result().map_err(|error| error.to_string())?;
        let row =
            result.maybe_first_row::<(Option<i32>, Option<i64>, Option<Uuid>, Option<CqlValue>)>();
        let Some((generation, version, writer, row)) = row.map_err(|error| error.to_string())?
        else {
            return Ok(Register::default());
        };
        let version = version.and_then(|version| u64::try_from(version).ok());
        Ok(Register { generation, version, writer, has_rows: row.is_some() })
    }
}
