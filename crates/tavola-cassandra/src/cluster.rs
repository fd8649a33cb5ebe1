//! The session with the cluster, and one statement: timed, counted, traced.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::{ClusterState, Node};
use scylla::errors::ExecutionError;
use scylla::frame::response::result::TableSpec;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::response::query_result::QueryResult;
use scylla::routing::Token;
use scylla::serialize::batch::BatchValues;
use scylla::serialize::row::SerializeRow;
use scylla::statement::batch::{Batch, BatchStatement};
use scylla::statement::prepared::PreparedStatement;
use tavola_core::{PartitionKey, TableId};
use tavola_store::keys::encode_text;

use crate::error::OpenError;
use crate::options::Options;
use crate::routing::{OneCoordinator, replicas};
use crate::statements::{Quorums, Statements};
use crate::stats::{Counters, Kind};

/// A connection that is silent for so long is probed.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(2);

/// One partition, as the cluster names it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Partition {
    pub(crate) table: i64,
    /// In the order-preserving encoding.
    pub(crate) key: Arc<[u8]>,
}

impl Partition {
    pub(crate) fn new(table: TableId, partition_key: &PartitionKey) -> Self {
        Self { table: table_number(table), key: encode_text(partition_key.as_str()).into() }
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.table, String::from_utf8_lossy(&self.key))
    }
}

/// The id of a table in a column of signed numbers.
pub(crate) fn table_number(table: TableId) -> i64 {
    table.number().cast_signed()
}

/// Connects. The keyspace need not exist: statements name it.
pub(crate) async fn connect(options: &Options) -> Result<Session, OpenError> {
    check_keyspace_name(&options.keyspace)?;
    let quorums = Quorums::new(options.data_centre.is_some());
    let profile = ExecutionProfile::builder()
        .consistency(quorums.plain)
        .serial_consistency(Some(quorums.serial))
        .request_timeout(Some(options.statement_time))
        .load_balancing_policy(Arc::new(OneCoordinator {
            data_centre: options.data_centre.clone(),
        }))
        // The driver does not know what became of a conditional write, so it must not repeat one.
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .speculative_execution_policy(None)
        .build();
    let mut builder = SessionBuilder::new()
        .known_nodes(&options.contact_points)
        .connection_timeout(options.connect_time)
        .default_execution_profile_handle(profile.into_handle())
        .keepalive_interval(KEEPALIVE_EVERY)
        .keepalive_timeout(options.statement_time)
        .tcp_nodelay(true);
    if let Some((user, password)) = &options.credentials {
        builder = builder.user(user, password.as_str());
    }
    if let Some(tls) = &options.tls {
        builder = builder.tls_context(Some(Arc::clone(tls)));
    }
    builder.build().await.map_err(|error| OpenError::connect(options, &error))
}

/// The name is part of the text of statements, which cannot take it as a value.
fn check_keyspace_name(name: &str) -> Result<(), OpenError> {
    let is_legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    if begins && name.len() <= 48 && name.bytes().all(is_legal) {
        return Ok(());
    }
    let reason =
        "a name has up to 48 characters a-z, 0-9 and _, and begins with a letter".to_owned();
    Err(OpenError::Keyspace { keyspace: name.to_owned(), reason })
}

/// The session, its statements and its counters.
pub(crate) struct Cluster {
    pub(crate) session: Session,
    pub(crate) statements: Statements,
    pub(crate) quorums: Quorums,
    pub(crate) counters: Counters,
    data_centre: Option<String>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("counters", &self.counters).finish_non_exhaustive()
    }
}

impl Cluster {
    pub(crate) async fn open(session: Session, options: &Options) -> Result<Self, OpenError> {
        let quorums = Quorums::new(options.data_centre.is_some());
        let statements = Statements::prepare(&session, &options.keyspace, quorums).await?;
        let data_centre = options.data_centre.clone();
        Ok(Self { session, statements, quorums, counters: Counters::default(), data_centre })
    }

    /// One statement.
    pub(crate) async fn execute(
        &self,
        kind: Kind,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<QueryResult, ExecutionError> {
        let begun = Instant::now();
        let result = self.session.execute_unpaged(statement, values).await;
        self.observe(kind, begun, statement.get_statement(), &result);
        result
    }

    /// One conditional batch.
    pub(crate) async fn batch(
        &self,
        kind: Kind,
        batch: &Batch,
        values: impl BatchValues,
    ) -> Result<QueryResult, ExecutionError> {
        let begun = Instant::now();
        let result = self.session.batch(batch, values).await;
        self.observe(kind, begun, BatchText(batch), &result);
        result
    }

    /// A trace of a write shows each of its statements, and which Cassandra node answered. The text
    /// is made only then.
    fn observe(
        &self,
        kind: Kind,
        begun: Instant,
        cql: impl fmt::Display,
        result: &Result<QueryResult, ExecutionError>,
    ) {
        let took = begun.elapsed();
        self.counters.timed(kind, took, result.is_err());
        let (statement, micros) = (kind.name(), took.as_micros() as u64);
        match result {
            Ok(result) => {
                let node = || result.request_coordinator().connection_address();
                tracing::debug!(statement, micros, node = %node(), %cql, "answered");
            }
            Err(error) => tracing::debug!(statement, micros, %error, %cql, "failed"),
        }
    }

    /// Checks that we have connections to enough replicas of a partition. Without them nothing is
    /// tried: the outcome of a write would only be unknown.
    pub(crate) fn check_quorum(&self, partition: &Partition) -> Result<(), String> {
        let state = self.session.get_cluster_state();
        if all_connected(&state) {
            return Ok(());
        }
        let register = &self.statements.register;
        let token = register.calculate_token(&(partition.table, &partition.key[..])).ok().flatten();
        let (Some(token), Some(table)) = (token, register.get_table_spec()) else { return Ok(()) };
        self.check_replicas(&state, table, token)
    }

    /// The same for every token range.
    pub(crate) fn check_all_ranges(&self) -> Result<(), String> {
        let state = self.session.get_cluster_state();
        let Some(table) =
            self.statements.register.get_table_spec().filter(|_| !all_connected(&state))
        else {
            return Ok(());
        };
        let mut tokens = state.replica_locator().ring().iter().map(|(token, _)| *token);
        tokens.try_for_each(|token| self.check_replicas(&state, table, token))
    }

    fn check_replicas(
        &self,
        state: &ClusterState,
        table: &TableSpec<'_>,
        token: Token,
    ) -> Result<(), String> {
        let ours =
            |node: &&Arc<Node>| self.data_centre.is_none() || node.datacenter == self.data_centre;
        let all: Vec<_> =
            replicas(state, table, token).map(|(node, _)| node).filter(ours).collect();
        let connected = all.iter().filter(|node| node.is_connected()).count();
        if all.is_empty() || connected > all.len() / 2 {
            return Ok(());
        }
        let gone: Vec<String> = all
            .iter()
            .filter(|node| !node.is_connected())
            .map(|node| node.address.to_string())
            .collect();
        Err(format!(
            "{connected} of {} replicas can be reached; not {}",
            all.len(),
            gone.join(", ")
        ))
    }
}

/// The statements of a batch; runs of equal ones are counted.
struct BatchText<'a>(&'a Batch);

impl fmt::Display for BatchText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<&str> = self.0.statements.iter().map(statement_text).collect();
        for (index, like) in texts.chunk_by(|one, next| one == next).enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{}", like[0])?;
            if like.len() > 1 {
                write!(f, " ({} times)", like.len())?;
            }
        }
        Ok(())
    }
}

fn statement_text(statement: &BatchStatement) -> &str {
    match statement {
        BatchStatement::Query(statement) => &statement.contents,
        BatchStatement::PreparedStatement(statement) => statement.get_statement(),
        _ => "?",
    }
}

fn all_connected(state: &ClusterState) -> bool {
    state.get_nodes_info().iter().all(|node| node.is_connected())
}

#[cfg(test)]
mod tests {
    use scylla::statement::batch::{Batch, BatchType};

    use super::{BatchText, check_keyspace_name};

    #[test]
    fn a_batch_is_described_by_its_statements() {
        let mut batch = Batch::new(BatchType::Unlogged);
        ["guard", "put", "put", "delete"].iter().for_each(|text| batch.append_statement(*text));
        assert_eq!(BatchText(&batch).to_string(), "guard; put (2 times); delete");
    }

    #[test]
    fn names_of_keyspaces() {
        for good in ["tavola", "t", "tavola_2"] {
            assert!(check_keyspace_name(good).is_ok(), "{good}");
        }
        for bad in ["", "Tavola", "2tavola", "ta vola", "x;DROP", "tavola-2", &"a".repeat(49)] {
            assert!(check_keyspace_name(bad).is_err(), "{bad}");
        }
    }
}
