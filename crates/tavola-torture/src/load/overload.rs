//! Ten times more load than can be served. The surplus is told so, the polite client still gets its
//! answers, and when it is over it is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use super::fill::{Filling, fill};
use super::latency::{micros, percent};
use super::memory::{Guests, resident_mb_max};
use super::polite::{Experience, Phase};
use super::scene::{Neighbour, Scene, TABLE, as_it_is};
use super::wire::{Connection, Wire};
use crate::Violation;

/// Enough to keep the server busy, few enough not to keep anybody waiting: what it can serve.
const FEW: u64 = 16;
/// Each always has requests under way: hundreds of times what keeps the server busy.
const MANY: u64 = 4_000;
const MANY_SHORT: u64 = 1_500;
const FILLING: Filling = Filling { table: TABLE, entities: 20_000, payload_bytes: 200 };
/// What is asked ahead of the answers.
const PIPELINED: usize = 8;
/// The time that the server has to be as fast as before.
const RECOVERY: Duration = Duration::from_secs(2);
/// The latency that it must be back at then, in hundredths of the quiet one.
const RECOVERED_PERCENT_MAX: u64 = 200;
/// Of a hundred polite requests, so many must have their answer within two seconds.
const POLITE_PERCENT_MIN: u64 = 95;

pub(super) const NEIGHBOUR: Neighbour = Neighbour {
    name: "overload",
    resident: "MB with ten times too much load",
    resident_mb_max: resident_mb_max(Guests {
        queries: true,
        bodies: true,
        ..Guests::modest(MANY)
    }),
    descriptors: None,
    configure: as_it_is,
    attack,
    evaluate,
};

/// What happened to requests of one kind.
#[derive(Debug, Default)]
struct Count {
    asked: AtomicU64,
    served: AtomicU64,
    refused: AtomicU64,
}

/// Queries are what is too much; point requests come along.
#[derive(Debug, Default)]
struct Counts {
    queries: Count,
    points: Count,
}

/// What a greedy client asks again and again.
struct Burst {
    bytes: Vec<u8>,
    requests: u64,
    is_query: bool,
}

fn attack(scene: &Scene<'_>) -> Result<(), Violation> {
    super::descriptors::raise();
    fill(scene, FILLING)?;
    let lasting = scene.lasting(Duration::from_secs(1), Duration::from_secs(10));
    let few = crowd(scene, FEW, lasting)?;
    let per_second =
        |count: &AtomicU64, lasting: Duration| count.load(Ordering::Relaxed) / lasting.as_secs();
    let capacity = per_second(&few.queries.served, lasting);
    let lasting = scene.lasting(Duration::from_secs(6), Duration::from_secs(60));
    let many = crowd(scene, if scene.arena.is_short { MANY_SHORT } else { MANY }, lasting)?;
    let refused =
        many.queries.refused.load(Ordering::Relaxed) + many.points.refused.load(Ordering::Relaxed);
    scene.peak("queries/s that can be served", capacity);
    scene.peak("queries/s served under overload", per_second(&many.queries.served, lasting));
    scene.peak("queries/s asked for under overload", per_second(&many.queries.asked, lasting));
    scene.peak("point requests/s beside them", per_second(&many.points.served, lasting));
    scene.add("surplus requests refused", refused);
    scene.conductor.enter(Phase::Recovery);
    thread::sleep(RECOVERY);
    scene.conductor.enter(Phase::After);
    thread::sleep(scene.lasting(Duration::from_millis(500), Duration::from_secs(3)));
    Ok(())
}

/// So many greedy clients, each asking as fast as it is answered.
fn crowd(scene: &Scene<'_>, size: u64, lasting: Duration) -> Result<Counts, Violation> {
    let count = Arc::new(Counts::default());
    scene.runtime.block_on(async {
        let end = Instant::now() + lasting;
        let mut greedy = JoinSet::new();
        for number in 0..size {
            let burst = burst(&scene.wire, number);
            let authority = scene.wire.authority.clone();
            greedy.spawn(ask_until(authority, burst, end, Arc::clone(&count)));
        }
        while let Some(result) = greedy.join_next().await {
            result.map_err(|error| Violation::new(error.to_string()))??;
        }
        Ok::<_, Violation>(())
    })?;
    Ok(Arc::into_inner(count).unwrap_or_default())
}

/// Pages, searches through the whole table, point reads ahead of their answers, and upserts.
fn burst(wire: &Wire, number: u64) -> Burst {
    let (partition, row) = (format!("p{:06}", number % 20), format!("g{number:08}"));
    let query = |bytes| Burst { bytes, requests: 1, is_query: true };
    match number % 4 {
        0 => query(wire.page(TABLE, "")),
        1 => query(wire.page(TABLE, "?$filter=Number%20lt%200")),
        2 => {
            let bytes = wire.get(TABLE, "p000000", "r000000000").repeat(PIPELINED);
            Burst { bytes, requests: PIPELINED as u64, is_query: false }
        }
        _ => {
            let target = format!("{TABLE}(PartitionKey='{partition}',RowKey='{row}')");
            let body = format!("{{\"Number\":{number}}}");
            let bytes = wire.request(
                "PUT",
                &target,
                &[("content-type", "application/json")],
                body.as_bytes(),
            );
            Burst { bytes, requests: 1, is_query: false }
        }
    }
}

async fn ask_until(
    authority: String,
    burst: Burst,
    end: Instant,
    counts: Arc<Counts>,
) -> Result<(), Violation> {
    let failed =
        |error: std::io::Error| Violation::new(format!("a greedy client was cut off: {error}"));
    let count = if burst.is_query { &counts.queries } else { &counts.points };
    let mut connection = Connection::open(&authority).await.map_err(failed)?;
    while Instant::now() < end {
        connection.stream.write_all(&burst.bytes).await.map_err(failed)?;
        count.asked.fetch_add(burst.requests, Ordering::Relaxed);
        for _ in 0..burst.requests {
            // A request that still waits at the end gets no answer.
            let Ok(answer) = tokio::time::timeout_at(end.into(), connection.answer()).await else {
                return Ok(());
            };
            let answer = answer.map_err(failed)?;
            match answer.status {
                200 | 204 => count.served.fetch_add(1, Ordering::Relaxed),
                503 if answer.is_server_busy() => count.refused.fetch_add(1, Ordering::Relaxed),
                _ => {
                    let body = String::from_utf8_lossy(&answer.body);
                    return Err(Violation::new(format!(
                        "a greedy client got {}: {body:.200}",
                        answer.head
                    )));
                }
            };
        }
    }
    Ok(())
}

fn evaluate(scene: &Scene<'_>, experience: &Experience) -> Result<(), Violation> {
    let median = |phase| experience.gets(phase).median();
    let recovered = percent(median(Phase::After), median(Phase::Quiet));
    let in_time = experience.percent_in_time(Phase::Attack);
    scene.peak("us median GET, quiet", micros(median(Phase::Quiet)));
    scene.peak("us median GET, overload", micros(median(Phase::Attack)));
    scene.peak("us p99 GET, overload", micros(experience.gets(Phase::Attack).p99()));
    scene.peak("us p99 insert, overload", micros(experience.inserts(Phase::Attack).p99()));
    scene.peak("us median GET, after overload", micros(median(Phase::After)));
    scene.peak("% of the quiet median after overload", recovered);
    scene.peak("% of polite requests in time, overload", in_time);
    if scene.figure("surplus requests refused") == 0 {
        return Err(Violation::new("none of the surplus was refused"));
    }
    if experience.requests(Phase::Attack) == 0 || experience.requests(Phase::After) == 0 {
        return Err(Violation::new("the polite client got no answers"));
    }
    if scene.arena.is_short {
        return Ok(());
    }
    if recovered > RECOVERED_PERCENT_MAX {
        return Err(Violation::new(format!(
            "{RECOVERY:?} after the overload a GET took {recovered} % of the quiet time"
        )));
    }
    if in_time < POLITE_PERCENT_MIN {
        return Err(Violation::new(format!(
            "only {in_time} % of the polite requests were answered in time"
        )));
    }
    Ok(())
}
