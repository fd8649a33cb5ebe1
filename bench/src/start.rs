//! How long a server takes from nothing to its first reply.

use serde::Serialize;

use crate::folders::Scratch;
use crate::process;
use crate::progress::Progress;
use crate::server::{BenchServer, RunningServer};
use crate::server_target::settle;
use tavola_load::Result;

pub(crate) const STARTS: u32 = 10;

/// One start on an empty folder.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Start {
    pub(crate) server: &'static str,
    /// Until the line that says where it listens.
    pub(crate) listening_ms: f64,
    /// Until the first request was answered.
    pub(crate) first_reply_ms: f64,
    pub(crate) idle_resident_bytes: u64,
}

/// Starts all servers in turn, ten times.
pub(crate) fn measure(servers: &[Box<dyn BenchServer>], scratch: &Scratch) -> Result<Vec<Start>> {
    let mut progress = Progress::new();
    let mut starts = Vec::new();
    for number in 1..=STARTS {
        for server in servers {
            progress.show(&format!("start: {number} of {STARTS}, {}", server.name()));
            starts.push(start(&**server, scratch)?);
        }
    }
    progress.clear();
    Ok(starts)
}

fn start(server: &dyn BenchServer, scratch: &Scratch) -> Result<Start> {
    let folder = scratch.folder(&format!("{}-start", server.name()))?;
    let running = RunningServer::start(server, &folder)?;
    settle(&[running.process()])?;
    Ok(Start {
        server: server.name(),
        listening_ms: running.times.listening.as_secs_f64() * 1e3,
        first_reply_ms: running.times.first_reply.as_secs_f64() * 1e3,
        idle_resident_bytes: process::memory(running.process())?.resident_bytes,
    })
}
