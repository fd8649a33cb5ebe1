//! Eight full scans of a large table at the same time must not starve point reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::fill::{Filling, fill};
use super::latency::{Latencies, micros, percent};
use super::memory::{Guests, resident_mb_max};
use super::polite::{Experience, Phase};
use super::scene::{Neighbour, Scene, as_it_is};
use super::wire::{Connection, Wire};
use crate::Violation;
use tavola_testkit::client::Client;

/// Its own, because what is in it is counted.
const TABLE: &str = "scanned";
const SCANS: u64 = 8;
const ENTITIES_SHORT: u64 = 50_000;
const ENTITIES_LONG: u64 = 1_000_000;
const PAYLOAD_BYTES: usize = 200;
const PARTITION_ENTITIES: u64 = 1000;
/// The p99 of a point GET during the scans, in hundredths of the quiet one.
const P99_PERCENT_MAX: u64 = 500;

pub(super) const NEIGHBOUR: Neighbour = Neighbour {
    name: "scans",
    resident: "MB with eight full scans",
    resident_mb_max: resident_mb_max(Guests {
        queries: true,
        bodies: true,
        ..Guests::modest(SCANS)
    }),
    descriptors: None,
    configure: as_it_is,
    attack,
    evaluate,
};

fn attack(scene: &Scene<'_>) -> Result<(), Violation> {
    let entities = if scene.arena.is_short { ENTITIES_SHORT } else { ENTITIES_LONG };
    fill(scene, Filling { table: TABLE, entities, payload_bytes: PAYLOAD_BYTES })?;
    // Compactions of what was filled in are no part of the quiet.
    thread::sleep(scene.lasting(Duration::from_millis(500), Duration::from_secs(20)));
    let mut probe = Probe::new(scene, entities)?;
    let lasting = scene.lasting(Duration::from_secs(2), Duration::from_secs(15));
    let quiet = probe.measure(|begun| begun.elapsed() < lasting)?;
    let scanning = Arc::new(AtomicBool::new(true));
    let scans = scene.runtime.spawn(scan_all(scene.wire.clone(), entities, Arc::clone(&scanning)));
    let during = probe.measure(|_| scanning.load(Ordering::SeqCst));
    let pages =
        scene.runtime.block_on(scans).map_err(|error| Violation::new(error.to_string()))??;
    let during = during?;
    report(scene, &quiet, &during);
    scene.add("pages scanned", pages);
    let ratio = percent(during.p99(), quiet.p99());
    if ratio > P99_PERCENT_MAX && !scene.arena.is_short {
        return Err(Violation::new(format!(
            "during the scans the p99 of a point GET was {ratio} % of the quiet one"
        )));
    }
    Ok(())
}

fn report(scene: &Scene<'_>, quiet: &Latencies, during: &Latencies) {
    scene.peak("us p99 point GET, quiet", micros(quiet.p99()));
    scene.peak("us p99 point GET, eight scans", micros(during.p99()));
    scene.peak("us median point GET, quiet", micros(quiet.median()));
    scene.peak("us median point GET, eight scans", micros(during.median()));
    scene.peak("% of the quiet p99 during eight scans", percent(during.p99(), quiet.p99()));
    scene.add("point GETs, quiet", quiet.count() as u64);
    scene.add("point GETs, eight scans", during.count() as u64);
}

/// Point GETs of any entity of the large table.
struct Probe {
    client: Client,
    wire: Wire,
    entities: u64,
    rng: fastrand::Rng,
}

impl Probe {
    fn new(scene: &Scene<'_>, entities: u64) -> Result<Self, Violation> {
        let (client, wire, rng) = (scene.client()?, scene.wire.clone(), scene.arena.rng(8));
        Ok(Self { client, wire, entities, rng })
    }

    fn measure(&mut self, goes_on: impl Fn(Instant) -> bool) -> Result<Latencies, Violation> {
        let begun = Instant::now();
        let mut latencies = Latencies::default();
        while goes_on(begun) {
            latencies.add(self.get()?);
            thread::sleep(Duration::from_millis(1));
        }
        Ok(latencies)
    }

    fn get(&mut self) -> Result<Duration, Violation> {
        let number = self.rng.u64(0..self.entities);
        let partition = format!("p{:06}", number / PARTITION_ENTITIES);
        let request = self.wire.signed_get(TABLE, &partition, &format!("r{number:09}"));
        let sent = Instant::now();
        let answer = self
            .client
            .exchange(&request)
            .map_err(|_| Violation::new("no answer to a point GET"))?;
        let taken = sent.elapsed();
        let body = String::from_utf8_lossy(answer.body());
        if answer.status() != 200 || !body.contains(&format!("\"Number\":{number},")) {
            return Err(Violation::new(format!(
                "entity {number} was answered with {}: {body:.300}",
                answer.status()
            )));
        }
        Ok(taken)
    }
}

/// All scans at once; how many pages they read.
async fn scan_all(wire: Wire, entities: u64, scanning: Arc<AtomicBool>) -> Result<u64, Violation> {
    let mut scans = JoinSet::new();
    for number in 0..SCANS {
        scans.spawn(scan(wire.clone(), number == 0));
    }
    let results = scans.join_all().await;
    scanning.store(false, Ordering::SeqCst);
    let results = results.into_iter().collect::<Result<Vec<Scanned>, Violation>>()?;
    let seen = results.iter().find_map(|scanned| scanned.entities);
    let is_whole =
        seen == Some(entities) && results.iter().all(|scanned| scanned.pages == results[0].pages);
    if !is_whole {
        return Err(Violation::new(format!("scans of {entities} entities saw {results:?}")));
    }
    Ok(results.iter().map(|scanned| scanned.pages).sum())
}

#[derive(Debug)]
struct Scanned {
    pages: u64,
    /// Counted in one of the scans only: it would cost the machine more than the server has to do.
    entities: Option<u64>,
}

async fn scan(wire: Wire, counts: bool) -> Result<Scanned, Violation> {
    let failed = |error: std::io::Error| Violation::new(format!("a scan was cut off: {error}"));
    let mut connection = Connection::open(&wire.authority).await.map_err(failed)?;
    let (mut pages, mut seen, mut query) = (0, 0, String::new());
    loop {
        let answer = connection.ask(&wire.page(TABLE, &query)).await.map_err(failed)?;
        if answer.is_server_busy() {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        }
        if answer.status != 200 {
            return Err(Violation::new(format!("a page of a scan: {}", answer.head)));
        }
        pages += 1;
        seen += if counts { count(&answer.body, b"\"Number\":") } else { 0 };
        let next = |name| answer.header(name);
        match (next("x-ms-continuation-NextPartitionKey"), next("x-ms-continuation-NextRowKey")) {
            (Some(partition), Some(row)) => {
                query = format!("?NextPartitionKey={partition}&NextRowKey={row}")
            }
            _ => return Ok(Scanned { pages, entities: counts.then_some(seen) }),
        }
    }
}

fn count(text: &[u8], wanted: &[u8]) -> u64 {
    let mut rest = text;
    let mut found = 0;
    while let Some(start) = rest.iter().position(|byte| *byte == wanted[0]) {
        let here = &rest[start..];
        found += u64::from(here.starts_with(wanted));
        rest = &here[1..];
    }
    found
}

fn evaluate(scene: &Scene<'_>, experience: &Experience) -> Result<(), Violation> {
    scene.peak("us p99 insert, quiet", micros(experience.inserts(Phase::Quiet).p99()));
    scene.peak("us p99 insert, fill and scans", micros(experience.inserts(Phase::Attack).p99()));
    Ok(())
}
