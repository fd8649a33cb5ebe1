//! A hundred clients that hammer one partition: a counter that they all raise must add up, and
//! nothing they insert may be missing.

use tokio::task::JoinSet;

use super::memory::{Guests, resident_mb_max};
use super::scene::{Neighbour, Scene, TABLE, as_it_is, nothing_more};
use super::wire::{Answer, Connection, Wire};
use crate::Violation;

const CLIENTS: u64 = 100;
const PARTITION: &str = "hot";
const COUNTER: &str = "counter";
const JSON: (&str, &str) = ("content-type", "application/json");

pub(super) const NEIGHBOUR: Neighbour = Neighbour {
    name: "one-partition",
    resident: "MB with one hot partition",
    resident_mb_max: resident_mb_max(Guests::modest(CLIENTS)),
    descriptors: None,
    configure: as_it_is,
    attack,
    evaluate: nothing_more,
};

fn attack(scene: &Scene<'_>) -> Result<(), Violation> {
    let raises = if scene.arena.is_short { 1 } else { 10 };
    scene.client()?;
    let (lost, inserted) = scene.runtime.block_on(async {
        let mut first = Connection::open(&scene.wire.authority).await.map_err(closed)?;
        let counter =
            first.ask(&scene.wire.insert(TABLE, PARTITION, COUNTER, 0)).await.map_err(closed)?;
        expect(&counter, &[204])?;
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            clients.spawn(hammer(scene.wire.clone(), number, raises));
        }
        let mut lost = 0;
        for races in clients.join_all().await {
            lost += races?;
        }
        // A new one: the first may have been idle for too long.
        let mut last = Connection::open(&scene.wire.authority).await.map_err(closed)?;
        let counter = read(&mut last, &scene.wire, COUNTER).await?.0;
        if counter != CLIENTS * raises {
            let wanted = CLIENTS * raises;
            return Err(Violation::new(format!(
                "the counter was raised {wanted} times and is {counter}"
            )));
        }
        check_inserts(&mut last, &scene.wire, raises).await?;
        Ok((lost, CLIENTS * raises))
    })?;
    scene.add("raises of one counter", inserted);
    scene.add("races lost by ETag", lost);
    Ok(())
}

/// Raises the counter and inserts a row of its own, `raises` times. How often another one was
/// faster.
async fn hammer(wire: Wire, number: u64, raises: u64) -> Result<u64, Violation> {
    let mut connection = Connection::open(&wire.authority).await.map_err(closed)?;
    let mut lost = 0;
    for raise in 0..raises {
        let insert = wire.insert(TABLE, PARTITION, &format!("{number:03}-{raise:03}"), raise);
        expect(&ask(&mut connection, &insert).await?, &[204])?;
        loop {
            let (value, etag) = read(&mut connection, &wire, COUNTER).await?;
            let target = format!("{TABLE}(PartitionKey='{PARTITION}',RowKey='{COUNTER}')");
            let body = format!("{{\"Value\":{}}}", value + 1);
            let replace =
                wire.request("PUT", &target, &[JSON, ("if-match", &etag)], body.as_bytes());
            let answer = ask(&mut connection, &replace).await?;
            expect(&answer, &[204, 412])?;
            if answer.status == 204 {
                break;
            }
            lost += 1;
        }
    }
    Ok(lost)
}

async fn check_inserts(
    connection: &mut Connection,
    wire: &Wire,
    raises: u64,
) -> Result<(), Violation> {
    for number in 0..CLIENTS {
        for raise in 0..raises {
            let (value, _) = read(connection, wire, &format!("{number:03}-{raise:03}")).await?;
            if value != raise {
                return Err(Violation::new(format!(
                    "row {number:03}-{raise:03} has the value {value}"
                )));
            }
        }
    }
    Ok(())
}

/// The value and the ETag of a row.
async fn read(
    connection: &mut Connection,
    wire: &Wire,
    row: &str,
) -> Result<(u64, String), Violation> {
    let answer = ask(connection, &wire.get(TABLE, PARTITION, row)).await?;
    expect(&answer, &[200])?;
    let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let etag =
        answer.header("etag").ok_or_else(|| Violation::new("an answer has no ETag"))?.to_owned();
    let value = body["Value"]
        .as_u64()
        .ok_or_else(|| Violation::new(format!("{row} has no value: {body}")))?;
    Ok((value, etag))
}

/// Comes again when the server is busy.
async fn ask(connection: &mut Connection, request: &[u8]) -> Result<Answer, Violation> {
    loop {
        let answer = connection.ask(request).await.map_err(closed)?;
        if !answer.is_server_busy() {
            return Ok(answer);
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

fn expect(answer: &Answer, statuses: &[u16]) -> Result<(), Violation> {
    if statuses.contains(&answer.status) {
        return Ok(());
    }
    Err(Violation::new(format!("{}: {}", answer.head, String::from_utf8_lossy(&answer.body))))
}

fn closed(error: std::io::Error) -> Violation {
    Violation::new(format!("a client of the hot partition was cut off: {error}"))
}
