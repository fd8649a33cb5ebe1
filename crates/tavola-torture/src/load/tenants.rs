//! A hostile account beside a polite one. Whatever the hostile one does, the polite one has its
//! share: it is never refused, and none of its requests is starved.
//!
//! Latencies are reported, beside those that the polite account has next to an equally loud polite
//! one.

use std::fmt::Write as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use super::latency::{Latencies, micros};
use super::memory::{Guests, resident_mb_max};
use super::scene::{Neighbour, Scene, nothing_more};
use super::wire::{Connection, Wire};
use crate::Violation;
use tavola_testkit::server_process::{ACCOUNT, KEY};

const HOSTILE: &str = "hostile";
const HOSTILE_KEY: &str =
    "aG9zdGlsZWhvc3RpbGVob3N0aWxlaG9zdGlsZWhvc3RpbGVob3N0aWxlaG9zdGlsZWhvc3RpbGU=";
const TABLE: &str = "tenants";
/// Connections of the hostile account: several for each place that there is.
const HOSTILE_CLIENTS: usize = 32;
/// Connections of the polite account.
const POLITE_CLIENTS: usize = 4;
/// Rows of the hostile account, each as wide as rows get.
const WIDE_ROWS: u64 = 2_000;
const WIDE_PROPERTIES: u64 = 250;
const TERMS: u64 = 400;
/// Rows of the polite account.
const POLITE_ROWS: u64 = 100;
/// No two inserts have the same key.
static NEXT_ROW: AtomicU64 = AtomicU64::new(0);
/// A polite request that takes longer was starved.
const STARVED: Duration = Duration::from_secs(10);
/// Of a hundred polite requests, so many should be within twice the latency beside an equally loud
/// polite account.
const WITHIN_TWICE_PERCENT: u64 = 80;

pub(super) const NEIGHBOUR: Neighbour = Neighbour {
    name: "tenants",
    resident: "MB with a hostile account",
    resident_mb_max: resident_mb_max(Guests {
        queries: true,
        bodies: true,
        senders: HOSTILE_CLIENTS as u64,
        ..Guests::modest((HOSTILE_CLIENTS + POLITE_CLIENTS) as u64)
    }),
    descriptors: None,
    configure: two_accounts,
    attack,
    evaluate: nothing_more,
};

fn two_accounts(command: &mut Command) -> &mut Command {
    command
        .env("TAVOLA_ACCOUNTS__HOSTILE__KEY1", HOSTILE_KEY)
        .env(format!("TAVOLA_ACCOUNTS__{}__KEY1", ACCOUNT.to_uppercase()), KEY)
}

/// What the loud account does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loudness {
    /// What the polite one does.
    Polite,
    /// Queries that compare much and find nothing.
    Filters,
    /// Pages of the widest rows.
    Pages,
    /// Pages that are never taken.
    Unread,
    /// Batches that are as large as they may be.
    Batches,
}

const ATTACKS: [(Loudness, &str, &str); 4] = [
    (Loudness::Filters, "us p80 beside filters", "% within twice, beside filters"),
    (Loudness::Pages, "us p80 beside pages", "% within twice, beside pages"),
    (Loudness::Unread, "us p80 beside unread pages", "% within twice, beside unread pages"),
    (Loudness::Batches, "us p80 beside batches", "% within twice, beside batches"),
];

fn attack(scene: &Scene<'_>) -> Result<(), Violation> {
    let polite = scene.wire.clone();
    let hostile = scene.wire.of(HOSTILE, HOSTILE_KEY);
    scene.runtime.block_on(async {
        fill(&hostile, WIDE_ROWS, &wide_entity()).await?;
        fill(&polite, POLITE_ROWS, "{\"Number\":1}").await
    })?;
    let lasting = scene.lasting(Duration::from_secs(2), Duration::from_secs(15));
    let beside = |loudness| scene.runtime.block_on(measure(&polite, &hostile, loudness, lasting));
    let usual = beside(Loudness::Polite)?;
    scene.peak("us p80 beside a polite account", micros(usual.percentile(0.8)));
    let mut late = Vec::new();
    for (loudness, p80, within) in ATTACKS {
        let latencies = beside(loudness)?;
        let twice = latencies.percent_within(2 * usual.percentile(0.8));
        scene.peak(p80, micros(latencies.percentile(0.8)));
        scene.peak(within, twice);
        scene.add("polite requests beside a hostile account", latencies.count() as u64);
        late.extend((twice < WITHIN_TWICE_PERCENT).then_some(loudness));
    }
    if !late.is_empty() {
        println!(
            "load: tenants: fewer than {WITHIN_TWICE_PERCENT} % within twice the usual latency beside {late:?}"
        );
    }
    Ok(())
}

/// What the polite account sees beside a loud one.
async fn measure(
    polite: &Wire,
    loud: &Wire,
    loudness: Loudness,
    lasting: Duration,
) -> Result<Latencies, Violation> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut noise = JoinSet::new();
    for number in 0..HOSTILE_CLIENTS {
        noise.spawn(make_noise(loud.clone(), loudness, number, Arc::clone(&stop)));
    }
    // Until all of them are at it.
    tokio::time::sleep(lasting / 4).await;
    let mut guests = JoinSet::new();
    for number in 0..POLITE_CLIENTS {
        guests.spawn(be_polite(polite.clone(), number, lasting));
    }
    let seen = guests.join_all().await;
    stop.store(true, Ordering::SeqCst);
    noise.shutdown().await;
    let mut all = Latencies::default();
    for latencies in seen {
        all.extend(
            latencies
                .map_err(|problem| Violation::new(format!("beside {loudness:?}: {problem}")))?,
        );
    }
    if all.count() == 0 {
        return Err(Violation::new(format!("beside {loudness:?} no polite request was answered")));
    }
    Ok(all)
}

/// A page, a point read and an insert, again and again. Nothing may be refused.
async fn be_polite(wire: Wire, number: usize, lasting: Duration) -> Result<Latencies, String> {
    let mut connection =
        Connection::open(&wire.authority).await.map_err(|error| error.to_string())?;
    let mut latencies = Latencies::default();
    let begun = Instant::now();
    while begun.elapsed() < lasting {
        let row = NEXT_ROW.fetch_add(1, Ordering::Relaxed);
        let requests = [
            (wire.page(TABLE, "?$filter=Number%20eq%201"), 200),
            (wire.get(TABLE, "p", "r00000001"), 200),
            (wire.insert(TABLE, &format!("own{number}"), &format!("{row:012}"), 1), 204),
        ];
        for (request, expected) in requests {
            let sent = Instant::now();
            let answer = tokio::time::timeout(STARVED, connection.ask(&request)).await;
            let answer =
                answer.map_err(|_| format!("a polite request had no answer within {STARVED:?}"))?;
            let answer =
                answer.map_err(|error| format!("a polite request had no answer: {error}"))?;
            if answer.status != expected {
                return Err(format!("a polite request was answered with {}", answer.head));
            }
            latencies.add(sent.elapsed());
        }
    }
    Ok(latencies)
}

/// One connection of the loud account. What it is answered does not matter.
async fn make_noise(wire: Wire, loudness: Loudness, number: usize, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::SeqCst) {
        let noise = async {
            let mut connection = Connection::open(&wire.authority).await?;
            match loudness {
                Loudness::Polite => {
                    drop(be_polite(wire.clone(), number, Duration::from_secs(1)).await)
                }
                Loudness::Filters => drop(
                    connection.ask(&wire.page(TABLE, &format!("?$filter={}", filter()))).await?,
                ),
                Loudness::Pages => drop(connection.ask(&wire.page(TABLE, "")).await?),
                Loudness::Unread => {
                    connection.stream.write_all(&wire.page(TABLE, "").repeat(8)).await?;
                    tokio::time::sleep(Duration::from_secs(60)).await;
                }
                Loudness::Batches => {
                    drop(
                        connection
                            .ask(&super::fill::batch_request(
                                &wire,
                                TABLE,
                                number as u64,
                                &"x".repeat(30_000),
                            ))
                            .await?,
                    );
                }
            }
            Ok::<_, std::io::Error>(())
        };
        // A refusal costs it a moment, as it would cost a client that heeds `Retry-After` not at
        // all.
        if noise.await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn filter() -> String {
    let terms: Vec<_> =
        (0..TERMS).map(|number| format!("P{:03}%20eq%20-1", number % WIDE_PROPERTIES)).collect();
    terms.join("%20or%20")
}

fn wide_entity() -> String {
    let mut entity = String::from("{\"P000\":0");
    for number in 1..WIDE_PROPERTIES {
        let _infallible = write!(entity, ",\"P{number:03}\":{number}");
    }
    entity.push('}');
    entity
}

/// Creates the table and puts so many rows into it.
async fn fill(wire: &Wire, rows: u64, entity: &str) -> Result<(), Violation> {
    let filled = async {
        let mut connection =
            Connection::open(&wire.authority).await.map_err(|error| error.to_string())?;
        let created =
            connection.ask(&wire.create_table(TABLE)).await.map_err(|error| error.to_string())?;
        if !matches!(created.status, 204 | 409) {
            return Err(format!("the table was not created: {}", created.head));
        }
        for first in (0..rows).step_by(100) {
            let request =
                super::fill::batch_of(wire, TABLE, "p", first..(first + 100).min(rows), entity);
            let answer = connection.ask(&request).await.map_err(|error| error.to_string())?;
            if answer.status != 202
                || !String::from_utf8_lossy(&answer.body).contains("HTTP/1.1 204")
            {
                return Err(format!("a batch was answered with {}", answer.head));
            }
        }
        Ok(())
    };
    filled.await.map_err(|problem: String| Violation::new(format!("{}: {problem}", wire.account)))
}
