//! More connections than the server has descriptors for. It must keep those that its store needs,
//! refuse the surplus, and take new connections when others have gone.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpStream;

use super::fill::{Filling, fill};
use super::memory::{Guests, resident_mb_max};
use super::scene::{Neighbour, Scene, TABLE, as_it_is, nothing_more};
use super::wire::Connection;
use crate::Violation;

/// What the server gets, soft and hard.
const DESCRIPTORS: u64 = 700;
const CONNECTIONS: usize = 900;

pub(super) const NEIGHBOUR: Neighbour = Neighbour {
    name: "descriptors",
    resident: "MB with too few descriptors",
    resident_mb_max: resident_mb_max(Guests { senders: 8, ..Guests::modest(CONNECTIONS as u64) }),
    descriptors: Some(DESCRIPTORS),
    configure: as_it_is,
    attack,
    evaluate: nothing_more,
};

/// Our own soft limit, raised as far as it goes.
pub(super) fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(1 << 20);
    match setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit }) {
        Ok(()) => most,
        Err(_) => limit.current.unwrap_or(most),
    }
}

fn attack(scene: &Scene<'_>) -> Result<(), Violation> {
    let crowd = scene.runtime.block_on(connect_all(&scene.wire.authority))?;
    let (served, refused) = scene.runtime.block_on(speak(scene, crowd))?;
    scene.add("connections refused for want of descriptors", refused);
    if refused == 0 || served == 0 {
        return Err(Violation::new(format!(
            "{served} connections were served and {refused} refused; both should be"
        )));
    }
    // Enough for flushes and compactions, which need descriptors of their own.
    fill(scene, Filling { table: TABLE, entities: 20_000, payload_bytes: 2_000 })?;
    scene.runtime.block_on(is_served_again(scene))
}

async fn connect_all(authority: &str) -> Result<Vec<TcpStream>, Violation> {
    let mut crowd = Vec::new();
    for number in 0..CONNECTIONS {
        let stream =
            tokio::time::timeout(Duration::from_secs(10), TcpStream::connect(authority)).await;
        let stream = stream
            .map_err(|_| Violation::new(format!("connection {number} waited for ten seconds")))?;
        crowd
            .push(stream.map_err(|error| Violation::new(format!("connection {number}: {error}")))?);
    }
    Ok(crowd)
}

/// How many were served and how many not. Those that were served stay open until all have spoken.
async fn speak(scene: &Scene<'_>, crowd: Vec<TcpStream>) -> Result<(u64, u64), Violation> {
    let get = scene.wire.get(super::polite::TABLE, "known", "known");
    let (mut served, mut refused, mut open) = (0, 0, Vec::new());
    for stream in crowd {
        let mut connection = Connection::over(stream);
        let answer = tokio::time::timeout(Duration::from_secs(10), connection.ask(&get)).await;
        match answer.map_err(|_| {
            Violation::new("a connection got neither an answer nor an end for ten seconds")
        })? {
            Ok(answer) if answer.status == 200 => served += 1,
            Ok(answer) if answer.is_server_busy() => refused += 1,
            Ok(answer) => {
                return Err(Violation::new(format!(
                    "a connection was answered with {}",
                    answer.head
                )));
            }
            // Closed without a word.
            Err(_) => refused += 1,
        }
        open.push(connection);
    }
    Ok((served, refused))
}

async fn is_served_again(scene: &Scene<'_>) -> Result<(), Violation> {
    let get = scene.wire.get(super::polite::TABLE, "known", "known");
    for _ in 0..100 {
        if let Ok(mut connection) = Connection::open(&scene.wire.authority).await
            && let Ok(answer) = connection.ask(&get).await
            && answer.status == 200
        {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err(Violation::new("no new connection was served for ten seconds after the crowd had gone"))
}
