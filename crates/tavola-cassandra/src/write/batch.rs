//! From an attempt to one conditional CQL batch, and from its reply to an answer.
//!
//! The batch is the guard and one statement per operation, all of one partition of the cluster, so
//! that it is applied as a whole or not at all.

use scylla::errors::ExecutionError;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use tavola_core::Timestamp;

use super::attempt::Attempt;
use super::bind::Bind;
use crate::cluster::{Cluster, Partition};
use crate::error::Failure;
#[cfg(feature = "mutants")]
use crate::mutants::{self, Mutant};
use crate::plan::{Condition, RowWrite};
use crate::reply::{self, Reply};
use crate::stats::Kind;

/// Documents of one batch. A transaction may bring 4 MiB; the cluster takes less than 16 in one
/// mutation.
pub(crate) const BATCH_BYTES_MAX: usize = 4 << 20;

impl Cluster {
    /// Sends the guard of an attempt with these statements, and reads the reply.
    pub(crate) async fn send<'a>(
        &self,
        partition: &Partition,
        attempt: &Attempt,
        writes: impl Iterator<Item = (Timestamp, &'a RowWrite)>,
    ) -> Result<Reply, Failure> {
        let mut batch = Batch::new(BatchType::Unlogged);
        batch.set_consistency(self.quorums.plain);
        batch.set_serial_consistency(Some(self.quorums.serial));
        let mut values = Vec::new();
        let (guard, bound) = attempt.guard(self, partition, attempt.id);
        batch.append_statement(guard.clone());
        values.push(bound);
        for (version, write) in writes {
            assert!(version <= attempt.last, "no row is above its partition's highest version");
            let (statement, bound) = self.statement(partition, version, write);
            #[cfg(feature = "mutants")]
            if mutants::is(Mutant::PlainWrite) && write.condition == Condition::None {
                self.execute(Kind::Write, statement, bound)
                    .await
                    .map_err(|error| Failure::of_write(&error))?;
                continue;
            }
            batch.append_statement(statement.clone());
            values.push(bound);
        }
        assert_eq!(batch.statements.len(), values.len(), "every statement has its values");
        let result = self.batch(Kind::Write, &batch, values).await;
        result.map_err(|error: ExecutionError| Failure::of_write(&error)).and_then(reply::read)
    }

    fn statement<'a>(
        &'a self,
        partition: &'a Partition,
        version: Timestamp,
        write: &'a RowWrite,
    ) -> (&'a PreparedStatement, Vec<Bind<'a>>) {
        let row = [Bind::Big(partition.table), Bind::Blob(&partition.key), Bind::Blob(&write.row)];
        let statements = &self.statements;
        let mut values = Vec::with_capacity(6);
        if let Some(document) = &write.document {
            values.extend([Bind::Big(version.ticks().cast_signed()), Bind::Blob(document)]);
        }
        values.extend(row);
        let statement = match (&write.document, write.condition) {
            (Some(_), Condition::None) => &statements.put,
            (Some(_), Condition::Absent) => &statements.put_absent,
            (Some(_), Condition::Present) => &statements.put_present,
            (Some(_), Condition::At(wanted)) => {
                values.push(Bind::Big(wanted.cast_signed()));
                &statements.put_at
            }
            (None, Condition::At(wanted)) => {
                values.push(Bind::Big(wanted.cast_signed()));
                &statements.delete_at
            }
            (None, condition) => {
                assert_eq!(condition, Condition::Present, "a delete always needs its row");
                &statements.delete_present
            }
        };
        (statement, values)
    }
}
