//! Clients that ask for large pages and never read them. What they hold of the server is bounded,
//! and taken back.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;

use super::fill::{Filling, fill};
use super::memory::{Guests, resident_mb_max};
use super::scene::{Neighbour, Scene, TABLE, nothing_more};
use super::wire::Connection;
use crate::Violation;

const CONNECTIONS: u64 = 300;
/// Pages of four megabytes each, asked for ahead of any answer.
const PIPELINED: usize = 4;
const FILLING: Filling = Filling { table: TABLE, entities: 1000, payload_bytes: 4000 };
/// What the server gives a client to take an answer; the same bound as in production, only shorter.
const READ_TIMEOUT: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_secs(30);

pub(super) const NEIGHBOUR: Neighbour = Neighbour {
    name: "unread",
    resident: "MB with unread answers",
    resident_mb_max: resident_mb_max(Guests {
        queries: true,
        bodies: true,
        ..Guests::modest(CONNECTIONS)
    }),
    descriptors: None,
    configure,
    attack,
    evaluate: nothing_more,
};

fn configure(command: &mut Command) -> &mut Command {
    let seconds = READ_TIMEOUT.as_secs().to_string();
    // Those that were refused are idle then, and go too.
    command
        .env("TAVOLA_LIMITS__BODY_SECONDS", &seconds)
        .env("TAVOLA_LIMITS__HEADER_SECONDS", &seconds)
}

fn attack(scene: &Scene<'_>) -> Result<(), Violation> {
    fill(scene, FILLING)?;
    let before = descriptors(scene);
    let request = scene.wire.page(TABLE, "").repeat(PIPELINED);
    let held = scene.runtime.block_on(async {
        let mut held = Vec::new();
        for number in 0..CONNECTIONS {
            let connection = Connection::open(&scene.wire.authority).await;
            let failed = |error| Violation::new(format!("reader {number}: {error}"));
            let mut connection = connection.map_err(failed)?;
            connection.stream.write_all(&request).await.map_err(failed)?;
            held.push(connection);
        }
        Ok::<_, Violation>(held)
    })?;
    scene.add("answers that nobody read", CONNECTIONS);
    wait_until_let_go(scene, before, READ_TIMEOUT + GRACE)?;
    drop(held);
    // Large pages can be had again.
    scene.runtime.block_on(read_a_page(scene))
}

/// A busy machine may need more than one attempt.
async fn read_a_page(scene: &Scene<'_>) -> Result<(), Violation> {
    let failed =
        |error: std::io::Error| Violation::new(format!("a page after all had gone: {error}"));
    let mut connection = Connection::open(&scene.wire.authority).await.map_err(failed)?;
    let deadline = Instant::now() + GRACE;
    loop {
        let answer = connection.ask(&scene.wire.page(TABLE, "")).await.map_err(failed)?;
        match (answer.status, answer.body.len() as u64) {
            (200, bytes) if bytes > FILLING.entities * FILLING.payload_bytes as u64 / 2 => {
                return Ok(());
            }
            (503, _) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(200)).await
            }
            (status, bytes) => {
                return Err(Violation::new(format!(
                    "a page after all had gone: {status} with {bytes} bytes"
                )));
            }
        }
    }
}

/// What the server has open.
pub(super) fn descriptors(scene: &Scene<'_>) -> usize {
    fs::read_dir(format!("/proc/{}/fd", scene.server.pid())).map_or(0, Iterator::count)
}

/// Waits until the server has hardly more open than before: its store may open a file meanwhile.
pub(super) fn wait_until_let_go(
    scene: &Scene<'_>,
    before: usize,
    time_max: Duration,
) -> Result<(), Violation> {
    let deadline = Instant::now() + time_max;
    loop {
        let now = descriptors(scene);
        if now <= before + 20 {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Violation::new(format!(
                "the server has {now} descriptors open, {before} before"
            )));
        }
        thread::sleep(Duration::from_millis(50));
    }
}
