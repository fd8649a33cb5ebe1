//! Heads without end, very long URLs, and far too many headers.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use super::memory::{Guests, resident_mb_max};
use super::scene::{Neighbour, Scene, as_it_is, nothing_more};
use super::wire::Connection;
use crate::Violation;

const CONNECTIONS: usize = 60;
/// The server takes 128 KiB; the rest lies in the system's buffers, which hold some megabytes.
const HEAD_BYTES_MAX: usize = 64 << 20;
const TIME_MAX: Duration = Duration::from_secs(60);
/// Bad request, URI too long, header fields too large.
const STATUSES: [u16; 3] = [400, 414, 431];

pub(super) const NEIGHBOUR: Neighbour = Neighbour {
    name: "endless-heads",
    resident: "MB with endless heads",
    resident_mb_max: resident_mb_max(Guests {
        senders: CONNECTIONS as u64,
        ..Guests::modest(CONNECTIONS as u64)
    }),
    descriptors: None,
    configure: as_it_is,
    attack,
    evaluate: nothing_more,
};

/// What comes first, and what then comes again and again.
const HEADS: [(&[u8], &[u8]); 4] = [
    (
        b"GET /devstoreaccount1/crowd() HTTP/1.1\r\n",
        b"x-filler: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n",
    ),
    (
        b"GET /devstoreaccount1/crowd() HTTP/1.1\r\nx-endless: ",
        b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ),
    (b"GET /devstoreaccount1/crowd()?$filter=", b"PartitionKey%20eq%20'a'%20or%20"),
    (b"GET /devstoreaccount1/crowd() HTTP/1.1\r\n", b"a:b\r\n"),
];

fn attack(scene: &Scene<'_>) -> Result<(), Violation> {
    let rounds = if scene.arena.is_short { 1 } else { 5 };
    for _ in 0..rounds {
        let results = scene.runtime.block_on(async {
            let mut heads = JoinSet::new();
            for number in 0..CONNECTIONS {
                let head = HEADS[number % HEADS.len()];
                heads.spawn(tokio::time::timeout(
                    TIME_MAX,
                    send(scene.wire.authority.clone(), head),
                ));
            }
            heads.join_all().await
        });
        for result in results {
            result.map_err(|_| {
                Violation::new(format!("an endless head was listened to for {TIME_MAX:?}"))
            })??;
        }
        scene.add("endless heads", CONNECTIONS as u64);
    }
    Ok(())
}

/// Sends until the server has had enough: it answers, or closes.
async fn send(
    authority: String,
    (first, again): (&'static [u8], &'static [u8]),
) -> Result<(), Violation> {
    let failed = |error: std::io::Error| Violation::new(format!("an endless head: {error}"));
    let mut connection = Connection::open(&authority).await.map_err(failed)?;
    connection.stream.write_all(first).await.map_err(failed)?;
    let piece = again.repeat(1000);
    let mut sent = 0;
    while connection.stream.write_all(&piece).await.is_ok() {
        sent += piece.len();
        if sent > HEAD_BYTES_MAX {
            return Err(Violation::new(format!(
                "{sent} bytes of a head were taken: {:.40}",
                String::from_utf8_lossy(first)
            )));
        }
    }
    match connection.answer().await {
        Ok(answer) if !STATUSES.contains(&answer.status) => {
            Err(Violation::new(format!("an endless head was answered with {}", answer.head)))
        }
        // Closed: the answer may have been lost behind what we sent.
        _ => Ok(()),
    }
}
