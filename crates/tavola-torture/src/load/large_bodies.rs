//! Bodies of a hundred megabytes, rightly signed, fifty at a time: announced, and in chunks without
//! end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::task::JoinSet;

use super::memory::{Guests, resident_mb_max};
use super::scene::{Neighbour, Scene, TABLE, as_it_is, nothing_more};
use super::wire::{Answer, Connection, Wire};
use crate::Violation;

const BODIES: usize = 50;
const BODY_BYTES: usize = 100 << 20;
const CHUNK_BYTES: usize = 64 << 10;
/// Refused early: the server reads 16 MiB before the answer and 32 MiB after it; the system's
/// buffers hold some.
const SENT_BYTES_MAX: usize = 64 << 20;
/// A little more than the service takes: the whole body is read, and the connection goes on.
const SLIGHTLY_TOO_LARGE_BYTES: usize = (4 << 20) + 1;
const TIME_MAX: Duration = Duration::from_secs(60);
const JSON: (&str, &str) = ("content-type", "application/json");

pub(super) const NEIGHBOUR: Neighbour = Neighbour {
    name: "large-bodies",
    resident: "MB with bodies of 100 MB",
    resident_mb_max: resident_mb_max(Guests {
        senders: BODIES as u64,
        bodies: true,
        ..Guests::modest(BODIES as u64)
    }),
    descriptors: None,
    configure: as_it_is,
    attack,
    evaluate: nothing_more,
};

#[derive(Debug, Clone, Copy)]
enum Framing {
    Announced,
    Chunked,
}

fn attack(scene: &Scene<'_>) -> Result<(), Violation> {
    scene.client()?;
    let rounds = if scene.arena.is_short { 1 } else { 10 };
    for _ in 0..rounds {
        let results = scene.runtime.block_on(async {
            let mut bodies = JoinSet::new();
            for number in 0..BODIES {
                let framing =
                    if number.is_multiple_of(2) { Framing::Announced } else { Framing::Chunked };
                bodies.spawn(tokio::time::timeout(TIME_MAX, send(scene.wire.clone(), framing)));
            }
            bodies.join_all().await
        });
        for result in results {
            let sent = result.map_err(|_| {
                Violation::new(format!("a large body had no answer for {TIME_MAX:?}"))
            })??;
            scene.peak("MB sent of a body of 100", sent as u64 >> 20);
        }
        scene.add("bodies of 100 MB", BODIES as u64);
    }
    scene.runtime.block_on(connection_goes_on(&scene.wire))
}

/// How much was sent until the answer came.
async fn send(wire: Wire, framing: Framing) -> Result<usize, Violation> {
    let failed =
        |error: std::io::Error| Violation::new(format!("a large body ({framing:?}): {error}"));
    let mut head = wire.head("POST", TABLE, &[JSON]);
    match framing {
        Framing::Announced => {
            head.extend_from_slice(format!("content-length: {BODY_BYTES}\r\n\r\n").as_bytes())
        }
        Framing::Chunked => head.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n"),
    }
    let mut connection = Connection::open(&wire.authority).await.map_err(failed)?;
    connection.stream.write_all(&head).await.map_err(failed)?;
    let stream = connection.stream.into_std().map_err(failed)?;
    let writer = stream.try_clone().and_then(tokio::net::TcpStream::from_std).map_err(failed)?;
    let mut connection = Connection::over(tokio::net::TcpStream::from_std(stream).map_err(failed)?);
    let sent = Arc::new(AtomicUsize::new(0));
    let sending = tokio::spawn(send_until_refused(writer, framing, Arc::clone(&sent)));
    let answer = connection.answer().await;
    // A client that was told stops; one that goes on is reset in the end.
    sending.abort();
    let sent = sent.load(Ordering::SeqCst);
    expect_too_large(&answer.map_err(failed)?)?;
    if sent > SENT_BYTES_MAX {
        return Err(Violation::new(format!(
            "{sent} bytes of a large body ({framing:?}) were taken before it was refused"
        )));
    }
    Ok(sent)
}

async fn send_until_refused(
    mut writer: impl AsyncWrite + Unpin,
    framing: Framing,
    sent: Arc<AtomicUsize>,
) {
    let data = vec![b'x'; CHUNK_BYTES];
    let chunk = [format!("{CHUNK_BYTES:x}\r\n").as_bytes(), &data, b"\r\n"].concat();
    let piece = match framing {
        Framing::Announced => data,
        Framing::Chunked => chunk,
    };
    while sent.load(Ordering::SeqCst) < BODY_BYTES && writer.write_all(&piece).await.is_ok() {
        sent.fetch_add(CHUNK_BYTES, Ordering::SeqCst);
    }
}

fn expect_too_large(answer: &Answer) -> Result<(), Violation> {
    let body = String::from_utf8_lossy(&answer.body);
    if answer.status == 413 && body.contains("RequestBodyTooLarge") {
        return Ok(());
    }
    Err(Violation::new(format!("a large body was answered with {}: {body}", answer.head)))
}

async fn connection_goes_on(wire: &Wire) -> Result<(), Violation> {
    let failed =
        |error: std::io::Error| Violation::new(format!("a slightly too large body: {error}"));
    let mut connection = Connection::open(&wire.authority).await.map_err(failed)?;
    let too_large = wire.request("POST", TABLE, &[JSON], &vec![b'x'; SLIGHTLY_TOO_LARGE_BYTES]);
    expect_too_large(&connection.ask(&too_large).await.map_err(failed)?)?;
    let answer =
        connection.ask(&wire.get(super::polite::TABLE, "known", "known")).await.map_err(failed)?;
    match answer.status {
        200 => Ok(()),
        _ => Err(Violation::new(format!("after a slightly too large body: {}", answer.head))),
    }
}
