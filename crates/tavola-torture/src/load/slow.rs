//! Two hundred connections that send a byte a second: half of them their heads, half of them their
//! bodies.

use std::process::Command;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use super::memory::{Guests, resident_mb_max};
use super::scene::{Neighbour, Scene, TABLE};
use super::wire::Connection;
use crate::Violation;

const CONNECTIONS: usize = 200;
const PAUSE: Duration = Duration::from_secs(1);
/// What the server gives a head and a body; the same bounds as in production, only shorter.
const READ_TIMEOUT: Duration = Duration::from_secs(3);
/// After this timeout the server must have let go of a connection within this.
const GRACE: Duration = Duration::from_secs(20);
/// Fewer than the slow ones: they must not take the place of requests that have arrived.
const REQUESTS_IN_FLIGHT: usize = 50;

pub(super) const NEIGHBOUR: Neighbour = Neighbour {
    name: "slow",
    resident: "MB with slow connections",
    resident_mb_max: resident_mb_max(Guests::modest(CONNECTIONS as u64)),
    descriptors: None,
    configure,
    attack,
    evaluate: |_, experience| match experience.busy {
        0 => Ok(()),
        busy => Err(Violation::new(format!(
            "slow connections made the server refuse {busy} polite requests"
        ))),
    },
};

fn configure(command: &mut Command) -> &mut Command {
    let seconds = READ_TIMEOUT.as_secs().to_string();
    command
        .env("TAVOLA_LIMITS__HEADER_SECONDS", &seconds)
        .env("TAVOLA_LIMITS__BODY_SECONDS", &seconds)
        .env("TAVOLA_LIMITS__REQUESTS_IN_FLIGHT", REQUESTS_IN_FLIGHT.to_string())
}

fn attack(scene: &Scene<'_>) -> Result<(), Violation> {
    scene.client()?;
    let request = scene.wire.insert(TABLE, "slow", "slow", 1);
    let body = request.windows(4).position(|window| window == b"\r\n\r\n").map_or(0, |end| end + 4);
    let rounds = if scene.arena.is_short { 1 } else { 5 };
    for _ in 0..rounds {
        let ended = scene.runtime.block_on(async {
            let mut slow = JoinSet::new();
            for number in 0..CONNECTIONS {
                let at_once = if number.is_multiple_of(2) { 1 } else { body };
                slow.spawn(trickle(scene.wire.authority.clone(), request.clone(), at_once));
            }
            slow.join_all().await
        });
        let kept = ended.iter().filter(|ended| !**ended).count();
        if kept > 0 {
            return Err(Violation::new(format!(
                "{kept} slow connections were kept longer than {READ_TIMEOUT:?}"
            )));
        }
        scene.add("slow connections", CONNECTIONS as u64);
    }
    Ok(())
}

/// True if the server ended it in time, with or without a word.
async fn trickle(authority: String, request: Vec<u8>, at_once: usize) -> bool {
    let Ok(mut connection) = Connection::open(&authority).await else { return false };
    let begun = Instant::now();
    let (first, rest) = request.split_at(at_once);
    if connection.stream.write_all(first).await.is_err() {
        return true;
    }
    for byte in rest {
        if begun.elapsed() > READ_TIMEOUT + GRACE {
            return false;
        }
        let ended = tokio::time::timeout(PAUSE, connection.answer()).await.is_ok();
        if ended || connection.stream.write_all(&[*byte]).await.is_err() {
            return true;
        }
    }
    false
}
