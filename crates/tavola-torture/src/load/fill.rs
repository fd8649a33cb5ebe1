//! Fills a table quickly: batches of a hundred over a few connections.

use std::fmt::Write as _;
use std::ops::Range;

use tokio::task::JoinSet;

use super::scene::Scene;
use super::wire::{Connection, Wire};
use crate::Violation;

const BATCH_ENTITIES: u64 = 100;
const PARTITION_ENTITIES: u64 = 1000;
const CONNECTIONS: u64 = 8;
const MEDIA_TYPE: &str = "multipart/mixed; boundary=batch_1";

/// What the table is filled with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Filling {
    pub(super) table: &'static str,
    /// A multiple of a hundred.
    pub(super) entities: u64,
    /// Bytes of each entity beside its keys.
    pub(super) payload_bytes: usize,
}

/// Fills the table; every entity is there when this returns. What is there from before may stay.
pub(super) fn fill(scene: &Scene<'_>, filling: Filling) -> Result<(), Violation> {
    scene.client()?.create_table(filling.table);
    let result = scene.runtime.block_on(async {
        let mut fillers = JoinSet::new();
        for number in 0..CONNECTIONS {
            fillers.spawn(fill_share(scene.wire.clone(), filling, number));
        }
        let mut results = fillers.join_all().await.into_iter();
        results.find(Result::is_err).unwrap_or(Ok(()))
    });
    result.map_err(|problem| Violation::new(format!("the table could not be filled: {problem}")))
}

async fn fill_share(wire: Wire, filling: Filling, share: u64) -> Result<(), String> {
    let mut connection =
        Connection::open(&wire.authority).await.map_err(|error| error.to_string())?;
    let payload = "x".repeat(filling.payload_bytes);
    for batch in (share..filling.entities / BATCH_ENTITIES).step_by(CONNECTIONS as usize) {
        let request = batch_request(&wire, filling.table, batch, &payload);
        let answer = connection.ask(&request).await.map_err(|error| error.to_string())?;
        let body = String::from_utf8_lossy(&answer.body);
        let done = body.matches("HTTP/1.1 204").count() as u64;
        if answer.status != 202 || done != BATCH_ENTITIES {
            return Err(format!("batch {batch} was answered with {}: {body:.300}", answer.status));
        }
    }
    Ok(())
}

/// A batch of a table that is filled.
pub(super) fn batch_request(wire: &Wire, table: &str, batch: u64, payload: &str) -> Vec<u8> {
    let first = batch * BATCH_ENTITIES;
    let partition = format!("p{:06}", first / PARTITION_ENTITIES);
    let entity = |number| format!("{{\"Number\":{number},\"Payload\":\"{payload}\"}}");
    upserts(
        wire,
        table,
        &partition,
        first..first + BATCH_ENTITIES,
        |row| format!("r{row:09}"),
        entity,
    )
}

/// A batch of equal entities.
pub(super) fn batch_of(
    wire: &Wire,
    table: &str,
    partition: &str,
    rows: Range<u64>,
    entity: &str,
) -> Vec<u8> {
    upserts(wire, table, partition, rows, |row| format!("r{row:08}"), |_| entity.to_owned())
}

/// Upserts, so that a folder that was filled before can be filled again.
fn upserts(
    wire: &Wire,
    table: &str,
    partition: &str,
    rows: Range<u64>,
    row_key: impl Fn(u64) -> String,
    entity: impl Fn(u64) -> String,
) -> Vec<u8> {
    let mut body =
        String::from("--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n");
    for number in rows {
        let (row, entity) = (row_key(number), entity(number));
        let _infallible = write!(
            body,
            "--changeset_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             PUT http://{}/{}/{table}(PartitionKey='{partition}',RowKey='{row}') HTTP/1.1\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{entity}\r\n",
            wire.authority,
            wire.account,
            entity.len()
        );
    }
    body.push_str("--changeset_1--\r\n--batch_1--\r\n");
    wire.request("POST", "$batch", &[("content-type", MEDIA_TYPE)], body.as_bytes())
}
