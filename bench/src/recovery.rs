//! How long a server takes to its first reply on a large folder, after a kill and after a clean
//! stop.

use serde::Serialize;
use tavola_load::source::BatchSource;
use tavola_load::{EntityTemplate, Family, Load, Pace, Result, Signer};

use crate::folders::Scratch;
use crate::server::{BenchServer, RunningServer};
use crate::server_target::{ServerTarget, TABLE};

const TIMES: u64 = 5;
/// Written just before each kill, so that there is something to recover: more than half of a
/// memtable.
const LAST_ENTITIES: u64 = 80_000;

#[derive(Debug, Serialize)]
pub(crate) struct Recovery {
    pub(crate) entities: u64,
    /// From the start of the process to the first reply.
    pub(crate) after_kill_ms: Vec<f64>,
    pub(crate) after_stop_ms: Vec<f64>,
}

pub(crate) fn measure(
    server: &dyn BenchServer,
    entities: u64,
    template: &EntityTemplate,
    scratch: &Scratch,
) -> Result<Recovery> {
    let folder = scratch.folder("recovery")?;
    let mut target =
        ServerTarget::on(RunningServer::start(server, &folder)?, server.name(), entities);
    target.fill(TABLE, Family::Loaded, entities, template)?;
    let mut running = target.server;
    let (mut written, mut after_kill_ms, mut after_stop_ms) = (0, Vec::new(), Vec::new());
    for time in 1..=TIMES {
        write_more(&running, template, &mut written, time * LAST_ENTITIES)?;
        running.kill();
        running = RunningServer::start(server, &folder)?;
        after_kill_ms.push(running.times.first_reply.as_secs_f64() * 1e3);
        write_more(&running, template, &mut written, time * LAST_ENTITIES)?;
        running.stop()?;
        running = RunningServer::start(server, &folder)?;
        after_stop_ms.push(running.times.first_reply.as_secs_f64() * 1e3);
    }
    Ok(Recovery { entities, after_kill_ms, after_stop_ms })
}

fn write_more(
    running: &RunningServer,
    template: &EntityTemplate,
    written: &mut u64,
    up_to: u64,
) -> Result {
    let signer = Signer::new(&running.site);
    let mut source =
        BatchSource::new(&signer, TABLE, template, written).load(Family::Batched, up_to);
    let load =
        Load { connections: 8, duration: std::time::Duration::from_secs(600), pace: Pace::Closed };
    tavola_load::run(&running.site, load, &mut source, &mut |_| {})?;
    Ok(())
}
