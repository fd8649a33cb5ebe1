//! What the drop of a large table costs: its reply, until its space is back, and what readers of
//! another table notice.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use tavola_load::source::PoolSource;
use tavola_load::{
    Client, EntityTemplate, Failure, Family, Load, Outcome, Pace, Result, Signer, Site,
};

use crate::args::Args;
use crate::folders::Scratch;
use crate::server::{BenchServer, RunningServer};
use crate::server_target::{ServerTarget, TABLE};
use crate::space::{rest, size};
use crate::target::Reached;

const OTHER_TABLE: &str = "Other";
const OTHER_ENTITIES: u64 = 10_000;
/// Readers ask at a fixed rate, so that a stall is not hidden by asking less.
const READS_PER_SECOND: f64 = 2_000.0;
const READ_CONNECTIONS: usize = 16;
const SPACE_MAX: Duration = Duration::from_secs(180);
/// Of the table's space: what is left belongs to the other table and to the engine itself.
const SPACE_LEFT_MAX: f64 = 0.1;

#[derive(Debug, Serialize)]
pub(crate) struct Drop {
    pub(crate) entities: u64,
    pub(crate) reply_ms: f64,
    pub(crate) bytes_before: u64,
    pub(crate) bytes_after: u64,
    /// Until less than a tenth of it is left.
    pub(crate) space_back_seconds: f64,
    pub(crate) quiet: Reached,
    /// From the drop until the space is back.
    pub(crate) meanwhile: Reached,
}

pub(crate) fn measure(
    server: &dyn BenchServer,
    entities: u64,
    args: &Args,
    template: &EntityTemplate,
    scratch: &Scratch,
) -> Result<Drop> {
    let folder = scratch.folder("drop")?;
    let mut target =
        ServerTarget::on(RunningServer::start(server, &folder)?, server.name(), entities);
    target.fill(OTHER_TABLE, Family::Loaded, OTHER_ENTITIES, template)?;
    target.fill(TABLE, Family::Loaded, entities, template)?;
    rest(&folder)?;
    let (site, bytes_before) = (&target.server.site, size(&folder)?);
    let quiet = read(site, args.duration().max(Duration::from_secs(5)), None)?;
    let (space_is_back, until) = mpsc::channel();
    let (drop, meanwhile) = thread::scope(|scope| {
        let reading = scope.spawn(|| read(site, SPACE_MAX, Some(until)));
        let drop = drop_and_wait(site, || size(&folder), bytes_before);
        // The reader ends when its channel is closed.
        std::mem::drop(space_is_back);
        (drop, reading.join())
    });
    let (reply, space_back, bytes_after) = drop?;
    let meanwhile = meanwhile.map_err(|_| "the reader panicked")??;
    Ok(Drop {
        entities,
        reply_ms: reply.as_secs_f64() * 1e3,
        bytes_before,
        bytes_after,
        space_back_seconds: space_back.as_secs_f64(),
        quiet: quiet.into(),
        meanwhile: meanwhile.into(),
    })
}

fn drop_and_wait(
    site: &Site,
    size: impl Fn() -> Result<u64>,
    before: u64,
) -> Result<(Duration, Duration, u64)> {
    let mut client = Client::connect(site)?;
    let request = Signer::new(site).delete(&format!("Tables('{TABLE}')"));
    let started = Instant::now();
    client.ask(&request, 204)?;
    let reply = started.elapsed();
    loop {
        let now = size()?;
        if (now as f64) < before as f64 * SPACE_LEFT_MAX {
            return Ok((reply, started.elapsed(), now));
        }
        if started.elapsed() > SPACE_MAX {
            return Err(Failure::new(format!("{now} of {before} bytes are still there")));
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Point reads of the other table, in parts of a second until `until` is closed.
fn read(site: &Site, duration: Duration, until: Option<mpsc::Receiver<()>>) -> Result<Outcome> {
    let signer = Signer::new(site);
    let mut source = PoolSource::points(&signer, OTHER_TABLE, OTHER_ENTITIES, 1);
    let part = if until.is_some() { Duration::from_secs(1) } else { duration };
    let load = Load {
        connections: READ_CONNECTIONS,
        duration: part,
        pace: Pace::PerSecond(READS_PER_SECOND),
    };
    let mut all = tavola_load::run(site, load, &mut source, &mut |_| {})?;
    while matches!(
        until.as_ref().map(mpsc::Receiver::try_recv),
        Some(Err(mpsc::TryRecvError::Empty))
    ) {
        let more = tavola_load::run(site, load, &mut source, &mut |_| {})?;
        all.requests += more.requests;
        all.entities += more.entities;
        all.elapsed += more.elapsed;
        all.latency
            .add(more.latency)
            .map_err(|error| Failure::new(format!("latencies: {error}")))?;
    }
    Ok(all)
}
