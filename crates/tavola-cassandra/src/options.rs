//! How a cluster is reached and used.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zeroize::Zeroizing;

use crate::inspect::Risk;

/// How a cluster is reached and used. [`crate::settings`] says which of it an operator may choose, and
/// what is chosen otherwise.
#[derive(Clone)]
pub struct Options {
    /// Cassandra nodes to begin with, `host` or `host:port`; they name the others.
    pub contact_points: Vec<String>,
    /// Where the tables of this store are.
    pub keyspace: String,
    /// Prefer nodes of this data centre, and let quorums be its own. `None`: quorums are of the
    /// whole cluster.
    pub data_centre: Option<String>,
    /// Copies of each row in each data centre, for a keyspace that is created.
    pub replication: u8,
    /// Slots of each table's partition directory, for a keyspace that is created.
    pub slots: u16,
    /// Create the keyspace if it does not exist.
    pub create: bool,
    /// User and password.
    pub credentials: Option<(String, Zeroizing<String>)>,
    /// How connections are secured; `None`: not at all.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// Until a connection is established.
    pub connect_time: Duration,
    /// Until one statement is answered. Shorter than the cluster's own timeout, so that ours ends
    /// the wait.
    pub statement_time: Duration,
    /// Until a commit or a read is answered, whatever it takes.
    pub answer_time: Duration,
    /// What reads promise.
    pub reads: Reads,
    /// Transactions that may wait for one partition; more are refused.
    pub waiting_max: usize,
    /// A partition that was found empty is retired after this time.
    pub sweep_after: Duration,
    /// Findings that do not keep the store from opening.
    pub accepted_risks: Vec<Risk>,
}

/// What reads promise: of one entity, and of a partition's rows in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Linearizable (SERIAL): a transaction is seen whole or not at all, and from then on by every
    /// reader.
    Strict,
    /// A quorum's newest rows (QUORUM): a transaction that is still under way may be seen in part.
    Fast,
}

/// Without the password.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("contact_points", &self.contact_points)
            .field("keyspace", &self.keyspace)
            .field("data_centre", &self.data_centre)
            .field("user", &self.credentials.as_ref().map(|(user, _)| user))
            .field("tls", &self.tls.is_some())
            .field("reads", &self.reads)
            .finish_non_exhaustive()
    }
}
