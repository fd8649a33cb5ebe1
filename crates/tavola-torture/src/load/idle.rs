//! Ten thousand connections that say nothing.

use std::process::Command;
use std::time::Duration;

use tokio::net::TcpStream;

use super::memory::{Guests, resident_mb_max};
use super::scene::{Neighbour, Scene, nothing_more};
use super::wire::Connection;
use crate::Violation;

const CONNECTIONS: usize = 10_000;
const CONNECTIONS_SHORT: usize = 4_000;
/// Beside them: the polite client, and one that tries the bound.
const RESERVE: usize = 2;

pub(super) const NEIGHBOUR: Neighbour = Neighbour {
    name: "idle",
    resident: "MB with idle connections",
    resident_mb_max: resident_mb_max(Guests::modest(CONNECTIONS as u64)),
    descriptors: None,
    configure: from_one_address,
    attack,
    evaluate: nothing_more,
};

/// This machine has one address to come from.
fn from_one_address(command: &mut Command) -> &mut Command {
    command.env("TAVOLA_LIMITS__CONNECTIONS_PER_ADDRESS", CONNECTIONS.to_string())
}

/// As many as this machine lets us have, if those are fewer: descriptors are needed here and in the
/// server.
fn attack(scene: &Scene<'_>) -> Result<(), Violation> {
    let own = super::descriptors::raise() as usize;
    let wanted = if scene.arena.is_short { CONNECTIONS_SHORT } else { CONNECTIONS };
    let count = wanted.min(own.saturating_sub(1000)) - RESERVE;
    let lasting = scene.lasting(Duration::from_secs(1), Duration::from_secs(20));
    let (idle, answered) = scene.runtime.block_on(async {
        let idle = open(&scene.wire.authority, count).await?;
        tokio::time::sleep(lasting).await;
        // They are connections, not only entries in a queue of the system: any of them is served
        // when it speaks.
        sample(scene, idle).await
    })?;
    scene.peak("idle connections", idle.len() as u64);
    scene.add("idle connections that spoke", answered);
    Ok(())
}

async fn open(authority: &str, count: usize) -> Result<Vec<TcpStream>, Violation> {
    let mut idle = Vec::with_capacity(count);
    while idle.len() < count {
        let stream = TcpStream::connect(authority).await;
        let number = idle.len();
        idle.push(stream.map_err(|error| {
            Violation::new(format!("connection {number} was not made: {error}"))
        })?);
    }
    Ok(idle)
}

async fn sample(
    scene: &Scene<'_>,
    idle: Vec<TcpStream>,
) -> Result<(Vec<TcpStream>, u64), Violation> {
    let get = scene.wire.get(super::polite::TABLE, "known", "known");
    let mut kept = Vec::with_capacity(idle.len());
    let mut answered = 0;
    for (number, stream) in idle.into_iter().enumerate() {
        if !number.is_multiple_of(50) {
            kept.push(stream);
            continue;
        }
        let mut connection = Connection::over(stream);
        let answer = connection.ask(&get).await;
        let answer =
            answer.map_err(|error| Violation::new(format!("idle connection {number}: {error}")))?;
        if answer.status != 200 {
            return Err(Violation::new(format!(
                "idle connection {number} was answered with {}",
                answer.status
            )));
        }
        answered += 1;
        kept.push(connection.stream);
    }
    Ok((kept, answered))
}
