//! Removes a dropped table: partition by partition through the directory, then the directory.
//!
//! These are plain deletes beside conditional writes. They are safe only because no new request
//! writes to the table; the second purge removes what an earlier request left behind.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tavola_core::TableId;
use tavola_store::StoreError;

use crate::cluster::{Cluster, table_number};
use crate::directory::Walk;
use crate::error::unavailable;
use crate::stats::Kind;

/// Partitions that are removed at a time: clients need the cluster meanwhile.
const AT_A_TIME: usize = 8;
const ABOVE_ALL: u8 = 0xFF;

pub(crate) async fn purge(cluster: &Cluster, slots: u16, table: TableId) -> Result<(), StoreError> {
    let table = table_number(table);
    let mut walk = Walk::new(cluster, table, slots, &[], vec![ABOVE_ALL]);
    let mut under_way = FuturesUnordered::new();
    while let Some(key) = walk.next().await? {
        under_way.push(async move {
            cluster.execute(Kind::Purge, &cluster.statements.delete_partition, (table, key)).await
        });
        if under_way.len() >= AT_A_TIME
            && let Some(done) = under_way.next().await
        {
            done.map_err(failed)?;
        }
    }
    while let Some(done) = under_way.next().await {
        done.map_err(failed)?;
    }
    for slot in 0..i16::try_from(slots).unwrap_or(i16::MAX) {
        cluster
            .execute(Kind::Purge, &cluster.statements.delete_slot, (table, slot))
            .await
            .map_err(failed)?;
    }
    Ok(())
}

fn failed(error: impl ToString) -> StoreError {
    unavailable(format!("removing a dropped table: {}", error.to_string()))
}
