//! Who serves the keyspace: a list that forgets those who do not report.

use std::time::Duration;

use scylla::statement::prepared::PreparedStatement;
use tavola_store::FrontEnd;
use uuid::Uuid;

use crate::cluster::Cluster;
use crate::error::OpenError;
use crate::schema::{SECRET_KEY, facts};
use crate::stats::Kind;

/// All front ends of a keyspace are on one list.
const LIST: i32 = 0;

/// The list, as the cluster keeps it.
#[derive(Debug)]
pub(crate) struct Roll {
    report: PreparedStatement,
    read: PreparedStatement,
    leave: PreparedStatement,
}

impl Roll {
    /// Only front ends that know each other need it, and a keyspace may be older than the list.
    pub(crate) async fn open(cluster: &Cluster, keyspace: &str) -> Result<Self, String> {
        let table = format!("{keyspace}.front_end");
        let prepare = async |text: String| {
            let prepared = cluster.session.prepare(text).await.map_err(|error| error.to_string());
            prepared.map_err(|error| format!("the list of front ends: {error} (`tavola store init` makes it)"))
        };
        Ok(Self {
            report: prepare(format!("INSERT INTO {table} (list, id, address) VALUES (?, ?, ?) USING TTL ?")).await?,
            read: prepare(format!("SELECT id, address FROM {table} WHERE list=?")).await?,
            leave: prepare(format!("DELETE FROM {table} WHERE list=? AND id=?")).await?,
        })
    }

    pub(crate) async fn call(
        &self,
        cluster: &Cluster,
        own: &FrontEnd,
        time: Duration,
    ) -> Result<Vec<FrontEnd>, String> {
        let seconds = i32::try_from(time.as_secs().max(1)).unwrap_or(i32::MAX);
        let values = (LIST, Uuid::from_bytes(own.id), &own.address[..], seconds);
        cluster.execute(Kind::Roll, &self.report, values).await.map_err(|error| error.to_string())?;
        let result = cluster.execute(Kind::Roll, &self.read, (LIST,)).await.map_err(|error| error.to_string())?;
        let rows = result.into_rows_result().map_err(|error| error.to_string())?;
        let rows = rows.rows::<(Uuid, String)>().map_err(|error| error.to_string())?;
        let front_end = |(id, address): (Uuid, String)| FrontEnd { id: id.into_bytes(), address };
        rows.map(|row| row.map(front_end)).collect::<Result<_, _>>().map_err(|error| error.to_string())
    }

    pub(crate) async fn leave(&self, cluster: &Cluster, own: &FrontEnd) -> Result<(), String> {
        let values = (LIST, Uuid::from_bytes(own.id));
        cluster.execute(Kind::Roll, &self.leave, values).await.map(drop).map_err(|error| error.to_string())
    }
}

/// What front ends prove themselves to each other with.
pub(crate) async fn secret(cluster: &Cluster, keyspace: &str) -> Result<Vec<u8>, String> {
    let facts = facts(&cluster.session, keyspace).await.map_err(|error: OpenError| error.to_string())?;
    let secret = facts.get(SECRET_KEY).map(|secret| secret.clone().into_bytes());
    secret.ok_or_else(|| "the keyspace has no secret for front ends (`tavola store init` makes one)".to_owned())
}
