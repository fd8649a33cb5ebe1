//! Which nodes serve the keyspace: a list that forgets those that send no heartbeat.

use std::time::Duration;

use scylla::statement::prepared::PreparedStatement;
use tavola_store::Peer;
use uuid::Uuid;

use crate::cluster::Cluster;
use crate::error::OpenError;
use crate::schema::{NODE_LIST_NAME, SECRET_KEY, read_meta};
use crate::stats::Kind;

/// All nodes of a keyspace are in one partition of the list.
const LIST: i32 = 0;

/// The list, as the cluster keeps it.
#[derive(Debug)]
pub(crate) struct NodeList {
    insert: PreparedStatement,
    read: PreparedStatement,
    leave: PreparedStatement,
}

impl NodeList {
    /// Only nodes with peers need it, and a keyspace may be older than the list.
    pub(crate) async fn open(cluster: &Cluster, keyspace: &str) -> Result<Self, String> {
        let table = format!("{keyspace}.{NODE_LIST_NAME}");
        let prepare = async |text: String| {
            let prepared = cluster.session.prepare(text).await.map_err(|error| error.to_string());
            prepared.map_err(|error| {
                format!("the list of nodes: {error} (`tavola store init` makes it)")
            })
        };
        Ok(Self {
            insert: prepare(format!(
                "INSERT INTO {table} (list, id, address) VALUES (?, ?, ?) USING TTL ?"
            ))
            .await?,
            read: prepare(format!("SELECT id, address FROM {table} WHERE list=?")).await?,
            leave: prepare(format!("DELETE FROM {table} WHERE list=? AND id=?")).await?,
        })
    }

    pub(crate) async fn heartbeat(
        &self,
        cluster: &Cluster,
        own: &Peer,
        ttl: Duration,
    ) -> Result<Vec<Peer>, String> {
        let seconds = i32::try_from(ttl.as_secs().max(1)).unwrap_or(i32::MAX);
        let values = (LIST, Uuid::from_bytes(own.id), &own.address[..], seconds);
        cluster
            .execute(Kind::Heartbeat, &self.insert, values)
            .await
            .map_err(|error| error.to_string())?;
        let result = cluster
            .execute(Kind::Heartbeat, &self.read, (LIST,))
            .await
            .map_err(|error| error.to_string())?;
        let rows = result.into_rows_result().map_err(|error| error.to_string())?;
        let rows = rows.rows::<(Uuid, String)>().map_err(|error| error.to_string())?;
        let peer = |(id, address): (Uuid, String)| Peer { id: id.into_bytes(), address };
        rows.map(|row| row.map(peer)).collect::<Result<_, _>>().map_err(|error| error.to_string())
    }

    pub(crate) async fn leave(&self, cluster: &Cluster, own: &Peer) -> Result<(), String> {
        let values = (LIST, Uuid::from_bytes(own.id));
        cluster
            .execute(Kind::Heartbeat, &self.leave, values)
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

/// What nodes prove themselves to each other with.
pub(crate) async fn secret(cluster: &Cluster, keyspace: &str) -> Result<Vec<u8>, String> {
    let meta = read_meta(&cluster.session, keyspace)
        .await
        .map_err(|error: OpenError| error.to_string())?;
    let secret = meta.get(SECRET_KEY).map(|secret| secret.clone().into_bytes());
    secret.ok_or_else(|| {
        "the keyspace has no secret for its nodes (`tavola store init` makes one)".to_owned()
    })
}
