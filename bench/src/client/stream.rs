//! The whole table as a stream: memory must not grow with it.

use std::process::id;
use std::time::Instant;

use futures_util::TryStreamExt as _;
use tavola_load::{Context, Failure, Result};

use super::sample::Typed;
use super::{Bench, Streamed};
use crate::process;
use crate::progress::{self, Progress};
use crate::server_target::TABLE;

/// Memory is looked at so often.
const LOOKS: u64 = 100;

pub(super) fn measure(bench: &Bench<'_>) -> Result<Streamed> {
    let (table, started) = (bench.client()?.table_client(TABLE), Instant::now());
    let total = bench.target.entities;
    let step = (total / LOOKS).max(1);
    let (mut entities, mut progress) = (0, Progress::new());
    let (mut early_bytes, mut highest_bytes) = (0, 0);
    bench.runtime.block_on(async {
        let mut stream = table.scan::<Typed>().stream();
        while stream.try_next().await.context(|| "the stream".into())?.is_some() {
            entities += 1;
            if entities % step != 0 {
                continue;
            }
            progress.show(&format!(
                "client-stream: {}",
                progress::share(entities, total, started.elapsed())
            ));
            let resident = process::memory(id())?.resident_bytes;
            if entities <= total / 10 {
                early_bytes = resident;
            }
            highest_bytes = highest_bytes.max(resident);
        }
        Result::Ok(())
    })?;
    progress.clear();
    if entities != total {
        return Err(Failure::new(format!("{entities} of {total} entities came")));
    }
    let per_second = entities as f64 / started.elapsed().as_secs_f64();
    Ok(Streamed { entities, per_second, early_bytes, highest_bytes })
}
