//! Connections that are reset in the middle of a request, right after it, and in the middle of an
//! answer.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use super::fill::{Filling, fill};
use super::memory::{Guests, resident_mb_max};
use super::scene::{Neighbour, Scene, TABLE, as_it_is, nothing_more};
use super::wire::Connection;
use crate::Violation;

const CLIENTS: u64 = 50;
const PAGE_ENTITIES: u64 = 1000;
/// Until the server has noticed that all of them have gone.
const NOTICED: Duration = Duration::from_secs(30);

pub(super) const NEIGHBOUR: Neighbour = Neighbour {
    name: "resets",
    resident: "MB with resets",
    resident_mb_max: resident_mb_max(Guests {
        queries: true,
        bodies: true,
        ..Guests::modest(CLIENTS)
    }),
    descriptors: None,
    configure: as_it_is,
    attack,
    evaluate: nothing_more,
};

fn attack(scene: &Scene<'_>) -> Result<(), Violation> {
    fill(scene, Filling { table: TABLE, entities: PAGE_ENTITIES, payload_bytes: 1000 })?;
    let before = super::unread::descriptors(scene);
    let end = Instant::now() + scene.lasting(Duration::from_secs(3), Duration::from_secs(30));
    let page = scene.wire.page(TABLE, "");
    let resets = scene.runtime.block_on(async {
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let insert = scene.wire.insert(TABLE, "reset", &format!("{number:03}"), number);
            let (authority, page, rng) =
                (scene.wire.authority.clone(), page.clone(), scene.arena.rng(number));
            clients.spawn(reset_again_and_again(authority, insert, page, rng, end));
        }
        clients.join_all().await.into_iter().sum()
    });
    scene.add("resets", resets);
    if resets < CLIENTS {
        return Err(Violation::new(format!(
            "only {resets} resets: the server does not take connections"
        )));
    }
    super::unread::wait_until_let_go(scene, before, NOTICED)
}

async fn reset_again_and_again(
    authority: String,
    insert: Vec<u8>,
    page: Vec<u8>,
    mut rng: fastrand::Rng,
    end: Instant,
) -> u64 {
    let mut resets = 0;
    while Instant::now() < end {
        let (request, sent, read) = match rng.u8(0..4) {
            0 => (&insert, rng.usize(1..insert.len()), 0),
            1 => (&insert, insert.len(), 0),
            2 => (&page, page.len(), 0),
            _ => (&page, page.len(), rng.usize(1..100_000)),
        };
        if reset(&authority, &request[..sent], read).await.is_ok() {
            resets += 1;
        }
    }
    resets
}

async fn reset(authority: &str, request: &[u8], read: usize) -> std::io::Result<()> {
    let mut connection = Connection::open(authority).await?;
    connection.stream.set_zero_linger()?;
    connection.stream.write_all(request).await?;
    let mut answer = vec![0; read];
    // The answer may be shorter than what was to be read of it.
    let _read =
        tokio::time::timeout(Duration::from_millis(200), connection.stream.read_exact(&mut answer))
            .await;
    Ok(())
}
