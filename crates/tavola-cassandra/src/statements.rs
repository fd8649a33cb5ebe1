//! Every statement on entities and their directory, prepared once.

use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};

use crate::error::OpenError;

/// What quorums are of: the whole cluster, or our data centre.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quorums {
    pub(crate) plain: Consistency,
    pub(crate) serial: SerialConsistency,
    pub(crate) serial_read: Consistency,
}

impl Quorums {
    pub(crate) fn new(of_data_centre: bool) -> Self {
        if of_data_centre {
            Self {
                plain: Consistency::LocalQuorum,
                serial: SerialConsistency::LocalSerial,
                serial_read: Consistency::LocalSerial,
            }
        } else {
            Self {
                plain: Consistency::Quorum,
                serial: SerialConsistency::Serial,
                serial_read: Consistency::Serial,
            }
        }
    }
}

/// The prepared statements.
#[derive(Debug)]
pub(crate) struct Statements {
    /// The guard of a registered partition: the new version is the highest so far.
    pub(crate) guard: PreparedStatement,
    /// The guard of the first write of all.
    pub(crate) guard_new: PreparedStatement,
    /// The guard of the first write after a retirement.
    pub(crate) guard_retired: PreparedStatement,
    pub(crate) put: PreparedStatement,
    pub(crate) put_absent: PreparedStatement,
    pub(crate) put_present: PreparedStatement,
    pub(crate) put_at: PreparedStatement,
    pub(crate) delete_present: PreparedStatement,
    pub(crate) delete_at: PreparedStatement,
    /// One entity, linearizable.
    pub(crate) get_strict: PreparedStatement,
    /// One entity, as a quorum has it.
    pub(crate) get_fast: PreparedStatement,
    /// Some entities of a partition, linearizable.
    pub(crate) get_some: PreparedStatement,
    /// Rows of a partition in order, linearizable.
    pub(crate) slice_strict: PreparedStatement,
    /// Rows of a partition in order, as a quorum has them.
    pub(crate) slice_fast: PreparedStatement,
    /// The register of a partition, and whether it has a row.
    pub(crate) register: PreparedStatement,
    pub(crate) retire: PreparedStatement,
    pub(crate) delete_partition: PreparedStatement,
    pub(crate) enter: PreparedStatement,
    pub(crate) leave: PreparedStatement,
    pub(crate) walk: PreparedStatement,
    pub(crate) delete_slot: PreparedStatement,
}

impl Statements {
    pub(crate) async fn prepare(
        session: &Session,
        keyspace: &str,
        quorums: Quorums,
    ) -> Result<Self, OpenError> {
        let prepare = Prepare { session, quorums };
        let (table, directory) = (format!("{keyspace}.entity"), format!("{keyspace}.pdir"));
        let whole = "WHERE tid=? AND pk=?";
        let row = "WHERE tid=? AND pk=? AND rk=?";
        let put = format!("UPDATE {table} SET ver=?, doc=? {row}");
        let slice = format!("SELECT rk, doc FROM {table} {whole} AND rk>=? AND rk<? LIMIT ?");
        let register = format!("UPDATE {table} SET gen=?, pts=?, wid=? {whole}");
        Ok(Self {
            guard: prepare
                .conditional(&format!("UPDATE {table} SET pts=?, wid=? {whole} IF gen=? AND pts<?"))
                .await?,
            guard_new: prepare.conditional(&format!("{register} IF gen=null")).await?,
            guard_retired: prepare.conditional(&format!("{register} IF gen=? AND pts<?")).await?,
            put: prepare.conditional(&put).await?,
            put_absent: prepare.conditional(&format!("{put} IF ver=null")).await?,
            put_present: prepare.conditional(&format!("{put} IF ver!=null")).await?,
            put_at: prepare.conditional(&format!("{put} IF ver=?")).await?,
            delete_present: prepare
                .conditional(&format!("DELETE FROM {table} {row} IF ver!=null"))
                .await?,
            delete_at: prepare.conditional(&format!("DELETE FROM {table} {row} IF ver=?")).await?,
            get_strict: prepare.strict(&format!("SELECT doc FROM {table} {row}")).await?,
            get_fast: prepare.plain(&format!("SELECT doc FROM {table} {row}")).await?,
            get_some: prepare
                .strict(&format!("SELECT rk, doc FROM {table} {whole} AND rk IN ?"))
                .await?,
            slice_strict: prepare.strict(&slice).await?,
            slice_fast: prepare.plain(&slice).await?,
            register: prepare
                .strict(&format!("SELECT gen, pts, wid, rk FROM {table} {whole} LIMIT 1"))
                .await?,
            retire: prepare
                .conditional(&format!("UPDATE {table} SET gen=? {whole} IF gen=? AND wid=?"))
                .await?,
            delete_partition: prepare.plain(&format!("DELETE FROM {table} {whole}")).await?,
            enter: prepare
                .plain(&format!("INSERT INTO {directory} (tid, slot, pk, gen) VALUES (?, ?, ?, ?)"))
                .await?,
            leave: prepare
                .plain(&format!(
                    "DELETE FROM {directory} WHERE tid=? AND slot=? AND pk=? AND gen<=?"
                ))
                .await?,
            walk: prepare
                .plain(&format!(
                    "SELECT pk FROM {directory} WHERE tid=? AND slot=? AND pk>=? AND pk<? LIMIT ?"
                ))
                .await?,
            delete_slot: prepare
                .plain(&format!("DELETE FROM {directory} WHERE tid=? AND slot=?"))
                .await?,
        })
    }
}

struct Prepare<'a> {
    session: &'a Session,
    quorums: Quorums,
}

impl Prepare<'_> {
    /// A conditional write, or a part of a conditional batch.
    async fn conditional(&self, text: &str) -> Result<PreparedStatement, OpenError> {
        let mut statement = self.plain(text).await?;
        statement.set_serial_consistency(Some(self.quorums.serial));
        Ok(statement)
    }

    async fn strict(&self, text: &str) -> Result<PreparedStatement, OpenError> {
        let mut statement = self.plain(text).await?;
        statement.set_consistency(self.quorums.serial_read);
        Ok(statement)
    }

    async fn plain(&self, text: &str) -> Result<PreparedStatement, OpenError> {
        let prepared = self.session.prepare(text).await;
        let mut statement =
            prepared.map_err(|error| OpenError::statement("prepare a statement", &error))?;
        statement.set_consistency(self.quorums.plain);
        Ok(statement)
    }
}
