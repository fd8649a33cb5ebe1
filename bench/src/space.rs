//! How much disk entities take, once the engine has nothing left to merge.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use tavola_load::{Context, ENTITY_BYTES, EntityTemplate, Family, Result};

use crate::folders::Scratch;
use crate::process;
use crate::server::{BenchServer, RunningServer};
use crate::server_target::{ServerTarget, TABLE};

/// Without any change for so long, merging has come to rest.
const REST: Duration = Duration::from_secs(5);
const REST_MAX: Duration = Duration::from_secs(300);

#[derive(Debug, Serialize)]
pub(crate) struct Space {
    pub(crate) entities: u64,
    pub(crate) json_bytes: u64,
    /// All files of the data folder, after a clean stop.
    pub(crate) disk_bytes: u64,
    /// What went to the disk until then.
    pub(crate) written_bytes: u64,
}

pub(crate) fn measure(
    server: &dyn BenchServer,
    entities: u64,
    template: &EntityTemplate,
    scratch: &Scratch,
) -> Result<Space> {
    let folder = scratch.folder("space")?;
    let mut target =
        ServerTarget::on(RunningServer::start(server, &folder)?, server.name(), entities);
    target.fill(TABLE, Family::Loaded, entities, template)?;
    rest(&folder)?;
    let written_bytes = process::written_bytes(target.server.process())?;
    target.server.stop()?;
    let json_bytes = entities * ENTITY_BYTES as u64;
    Ok(Space { entities, json_bytes, disk_bytes: size(&folder)?, written_bytes })
}

/// Waits until files no longer change.
pub(crate) fn rest(folder: &Path) -> Result {
    let started = Instant::now();
    let (mut before, mut since) = (size(folder)?, Instant::now());
    while since.elapsed() < REST && started.elapsed() < REST_MAX {
        thread::sleep(Duration::from_millis(200));
        let now = size(folder)?;
        if now != before {
            (before, since) = (now, Instant::now());
        }
    }
    Ok(())
}

/// Bytes of all files below a folder. One that goes while we look has no size.
pub(crate) fn size(folder: &Path) -> Result<u64> {
    let entries = fs::read_dir(folder).context(|| format!("cannot list {}", folder.display()))?;
    let mut bytes = 0;
    for entry in entries.flatten() {
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes += size(&entry.path())?,
            Ok(metadata) => bytes += metadata.len(),
            Err(_gone) => {}
        }
    }
    Ok(bytes)
}
