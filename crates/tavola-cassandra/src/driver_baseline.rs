//! The baseline of benchmarks: the driver alone, with the statements of the store on its tables,
//! and nothing of a table service.

use tavola_core::{PartitionKey, TableId, Timestamp};
use tavola_store::keys::encode_text;

use crate::cluster::{Cluster, Partition, connect};
use crate::error::{Failure, OpenError};
use crate::options::Options;
use crate::plan::{Condition, RowWrite};
use crate::registration::{FIRST_GENERATION, Registration};
use crate::reply::Reply;
use crate::schema;
use crate::stats::Kind;
use crate::write::Attempt;

/// A session and its statements.
#[derive(Debug)]
pub struct DriverBaseline {
    cluster: Cluster,
    slots: u16,
}

impl DriverBaseline {
    /// # Errors
    /// If the cluster cannot be reached or the keyspace cannot be used.
    pub async fn open(options: &Options) -> Result<Self, OpenError> {
        let session = connect(options).await?;
        let layout = schema::check(&session, options).await?;
        Ok(Self { cluster: Cluster::open(session, options).await?, slots: layout.slots })
    }

    /// One conditional write of one row in a partition that was written before: what the store
    /// sends for an upsert. The version must be above those of the partition.
    ///
    /// # Errors
    /// If it failed or was refused.
    pub async fn write(
        &self,
        table: TableId,
        partition_key: &PartitionKey,
        row_key: &str,
        version: Timestamp,
        document: Vec<u8>,
    ) -> Result<(), String> {
        let write = RowWrite {
            row: encode_text(row_key),
            condition: Condition::None,
            document: Some(document),
            outcome: tavola_core::Outcome::Written(version),
            depends_on_read: false,
        };
        let registration = Registration::Active(FIRST_GENERATION);
        let attempt = Attempt::without_members(registration, version);
        let partition = Partition::new(table, partition_key);
        match self.cluster.send(&partition, &attempt, [(version, &write)].into_iter()).await {
            Ok(Reply::Applied) => Ok(()),
            Ok(Reply::Refused(refused)) => Err(format!("refused: {refused:?}")),
            Err(failure) => Err(Failure::text(failure)),
        }
    }

    /// One point read; the bytes of the document.
    ///
    /// # Errors
    /// If it failed.
    pub async fn get(
        &self,
        table: TableId,
        partition_key: &PartitionKey,
        row_key: &str,
        is_strict: bool,
    ) -> Result<Option<usize>, String> {
        let statements = &self.cluster.statements;
        let statement = if is_strict { &statements.get_strict } else { &statements.get_fast };
        let partition = Partition::new(table, partition_key);
        let values = (partition.table, &partition.key[..], encode_text(row_key));
        let result = self
            .cluster
            .execute(Kind::Get, statement, values)
            .await
            .map_err(|error| error.to_string())?;
        let rows = result.into_rows_result().map_err(|error| error.to_string())?;
        let row = rows.maybe_first_row::<(&[u8],)>().map_err(|error| error.to_string())?;
        Ok(row.map(|(document,)| document.len()))
    }

    /// The first rows of a partition; how many, and their bytes.
    ///
    /// # Errors
    /// If it failed.
    pub async fn slice(
        &self,
        table: TableId,
        partition_key: &PartitionKey,
        limit: i32,
        is_strict: bool,
    ) -> Result<(usize, usize), String> {
        let partition = Partition::new(table, partition_key);
        let values = (partition.table, &partition.key[..], &[][..] as &[u8], &[0xFFu8][..], limit);
        let statements = &self.cluster.statements;
        let statement = if is_strict { &statements.slice_strict } else { &statements.slice_fast };
        let result = self.cluster.execute(Kind::Slice, statement, values).await;
        let rows = result
            .map_err(|error| error.to_string())?
            .into_rows_result()
            .map_err(|error| error.to_string())?;
        let (mut count, mut bytes) = (0, 0);
        for row in rows.rows::<(&[u8], &[u8])>().map_err(|error| error.to_string())? {
            let (_, document) = row.map_err(|error| error.to_string())?;
            count += 1;
            bytes += document.len();
        }
        Ok((count, bytes))
    }

    /// Writes a row without consensus, which is fast. Only for rows that no other write touches.
    ///
    /// # Errors
    /// If it failed.
    pub async fn fill(
        &self,
        table: TableId,
        partition_key: &PartitionKey,
        row_key: &str,
        version: Timestamp,
        document: &[u8],
    ) -> Result<(), String> {
        let partition = Partition::new(table, partition_key);
        let (number, key) = (partition.table, &partition.key[..]);
        let statements = &self.cluster.statements;
        self.cluster.enter(&partition, self.slots, FIRST_GENERATION).await?;
        let values = (version.ticks().cast_signed(), document, number, key, encode_text(row_key));
        self.cluster
            .execute(Kind::Write, &statements.put, values)
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    }
}
