//! The four methods on a cluster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tavola_core::{EntityAddress, EntityGroupTransaction, PartitionKey, TableId, Timestamp};
use tavola_store::keys::encode_text;
use tavola_store::{
    Blocking, CommitResult, Peer, Row, Scan, ScanPage, SharedStore, Store, StoreError,
};
use tokio::sync::{OnceCell, oneshot};
use tokio::task::JoinHandle;

use crate::cluster::{Cluster, Partition, connect};
use crate::contention::Contention;
use crate::error::{OpenError, unavailable};
use crate::health::Health;
use crate::heartbeat::{self, NodeList};
use crate::hints::Hints;
use crate::inspect::{self, Finding, Risk};
use crate::options::{Options, Reads};
use crate::purge::purge;
use crate::queue::{Enqueued, PendingCommit, Queues};
use crate::scan::Scanner;
use crate::schema;
use crate::stats::{Kind, Stats, count};
use crate::sweep::Sweeper;
use crate::versions::Versions;
use crate::write::Writer;

/// Between tries of a read while the cluster does not answer.
const PAUSE: Duration = Duration::from_millis(20);

/// A store on a cluster.
#[derive(Debug)]
pub struct CassandraStore {
    writer: Arc<Writer>,
    scanner: Scanner,
    sweeper: Arc<Sweeper>,
    health: Arc<Health>,
    reads: Reads,
    keyspace: String,
    nodes: OnceCell<NodeList>,
    /// They end with the store.
    tasks: Vec<JoinHandle<()>>,
}

impl CassandraStore {
    /// Connects to a cluster, looks whether it is safe to use, and prepares the statements.
    ///
    /// # Errors
    /// If no node can be reached, the credentials or the keyspace are wrong, or the cluster would
    /// lose data or linearizability and the options do not accept that.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let session = connect(&options).await?;
        if options.create {
            schema::create(&session, &options).await?;
        }
        let layout = schema::check(&session, &options).await?;
        refuse_dangers(inspect::findings(&session, &options).await, &options.accepted_risks)?;
        // The driver must know a keyspace that was just created, to find its replicas.
        session
            .refresh_metadata()
            .await
            .map_err(|error| OpenError::statement("read the cluster's layout", &error))?;
        let cluster = Arc::new(Cluster::open(session, &options).await?);
        let writer = Arc::new(Writer {
            cluster: Arc::clone(&cluster),
            queues: Arc::new(Queues::new(options.waiting_max)),
            hints: Hints::default(),
            contention: Contention::default(),
            versions: Versions::default(),
            slots: layout.slots,
            answer_time: options.answer_time,
        });
        let (sweeper, health) = (Arc::new(Sweeper::default()), Arc::new(Health::default()));
        let tasks = vec![
            tokio::spawn(Arc::clone(&sweeper).run(Arc::clone(&writer), options.sweep_after)),
            tokio::spawn(Arc::clone(&health).run(cluster)),
        ];
        let Options { reads, keyspace, .. } = options;
        let scanner = Scanner::new(reads);
        Ok(Self {
            writer,
            scanner,
            sweeper,
            health,
            reads,
            keyspace,
            nodes: OnceCell::new(),
            tasks,
        })
    }

    /// Whether the cluster serves reads and writes.
    ///
    /// # Errors
    /// The reason why not, for people.
    pub fn health(&self) -> Result<(), String> {
        self.health.state(&self.writer.cluster)
    }

    /// What the store has done.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.writer.cluster.counters.read()
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    fn cluster(&self) -> &Cluster {
        &self.writer.cluster
    }

    async fn nodes(&self) -> Result<&NodeList, StoreError> {
        self.nodes
            .get_or_try_init(|| NodeList::open(self.cluster(), &self.keyspace))
            .await
            .map_err(unavailable)
    }

    async fn try_get(
        &self,
        address: &EntityAddress,
        partition: &Partition,
    ) -> Result<Option<Row>, StoreError> {
        let statements = &self.cluster().statements;
        let statement = match self.reads {
            Reads::Strict => &statements.get_strict,
            Reads::Fast => &statements.get_fast,
        };
        let (partition_key, row_key) =
            (address.key.partition_key.as_str(), address.key.row_key.as_str());
        let values = (partition.table, &partition.key[..], encode_text(row_key));
        let result = self.cluster().execute(Kind::Get, statement, values).await;
        let result = result.map_err(|error| unavailable(error.to_string()))?;
        let rows = result
            .into_rows_result()
            .map_err(|error| StoreError::Corrupt(format!("a reply: {error}")))?;
        let row = rows.maybe_first_row::<(&[u8],)>();
        let row = row.map_err(|error| StoreError::Corrupt(format!("a reply: {error}")))?;
        row.map(|(document,)| Row::new(partition_key, row_key, document)).transpose()
    }
}

fn refuse_dangers(findings: Vec<Finding>, accepted: &[Risk]) -> Result<(), OpenError> {
    let (accepted, refused): (Vec<_>, Vec<_>) = findings
        .into_iter()
        .partition(|finding| !finding.dangerous || accepted.contains(&finding.risk));
    for finding in accepted {
        tracing::warn!(risk = finding.risk.name(), "{}; {}", finding.text, finding.advice);
    }
    if refused.is_empty() { Ok(()) } else { Err(OpenError::Dangerous { findings: refused }) }
}

impl Drop for CassandraStore {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Repeats a read while the cluster cannot answer and there is time.
macro_rules! retry_until_deadline {
    ($store:expr, $read:expr) => {{
        let deadline = Instant::now() + $store.writer.answer_time;
        loop {
            match $read.await {
                Err(StoreError::Unavailable { .. }) if Instant::now() + PAUSE < deadline => {
                    tokio::time::sleep(PAUSE).await;
                }
                other => return other,
            }
        }
    }};
}

#[async_trait]
impl Store for CassandraStore {
    async fn get(&self, address: &EntityAddress, _: Blocking) -> Result<Option<Row>, StoreError> {
        let partition = Partition::new(address.table, &address.key.partition_key);
        self.cluster().check_quorum(&partition).map_err(unavailable)?;
        retry_until_deadline!(self, self.try_get(address, &partition))
    }

    async fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        retry_until_deadline!(
            self,
            self.scanner.scan(self.cluster(), self.writer.slots, &self.sweeper, scan)
        )
    }

    async fn commit(
        &self,
        table: TableId,
        transaction: &EntityGroupTransaction,
        now: Timestamp,
    ) -> Result<CommitResult, StoreError> {
        let partition_key = transaction.partition_key();
        let partition = Partition::new(table, partition_key);
        let (reply, answer) = oneshot::channel();
        let pending = PendingCommit {
            transaction: transaction.clone(),
            now,
            enqueued_at: Instant::now(),
            reply,
        };
        let counters = &self.cluster().counters;
        match self.writer.queues.enqueue_or_lead(&partition, pending) {
            Enqueued::Full => {
                count(&counters.contended, 1);
                return Err(StoreError::Contended);
            }
            Enqueued::Following => count(&counters.waiting, 1),
            Enqueued::Leading => {
                count(&counters.waiting, 1);
                // In a task of its own: a leader writes for other callers too, and its own caller
                // may leave before they are answered.
                tokio::spawn(Arc::clone(&self.writer).lead(partition_key.clone(), partition));
            }
        }
        // A leader that panicked may have written first.
        answer.await.unwrap_or(Err(StoreError::UnknownOutcome))
    }

    async fn purge(&self, table: TableId) -> Result<(), StoreError> {
        self.writer.hints.forget_table(crate::cluster::table_number(table));
        purge(self.cluster(), self.writer.slots, table).await
    }
}

#[async_trait]
impl SharedStore for CassandraStore {
    fn is_contended(&self, table: TableId, partition_key: &PartitionKey) -> bool {
        self.writer.contention.is_recent(&Partition::new(table, partition_key))
    }

    async fn heartbeat(&self, own: &Peer, ttl: Duration) -> Result<Vec<Peer>, StoreError> {
        let nodes = self.nodes().await?;
        nodes.heartbeat(self.cluster(), own, ttl).await.map_err(unavailable)
    }

    async fn leave(&self, own: &Peer) -> Result<(), StoreError> {
        let nodes = self.nodes().await?;
        nodes.leave(self.cluster(), own).await.map_err(unavailable)
    }

    async fn shared_secret(&self) -> Result<Vec<u8>, StoreError> {
        heartbeat::secret(self.cluster(), &self.keyspace).await.map_err(unavailable)
    }
}
