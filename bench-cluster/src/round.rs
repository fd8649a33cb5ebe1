//! One target for some seconds: tasks that do the same again and again.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::task::JoinSet;

/// What one round came to.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Round {
    pub(crate) workload: String,
    pub(crate) target: String,
    pub(crate) per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) failed: u64,
}

/// Runs `work` in `tasks` tasks until time is over. It gets the number of its task and a number of
/// its own, and says how many units it did.
pub(crate) async fn measure<W, F>(
    name: (&str, &str),
    seconds: f64,
    tasks: usize,
    work: W,
) -> Result<Round, String>
where
    W: Fn(usize, u64) -> F + Send + Sync + 'static,
    F: Future<Output = Result<u64, String>> + Send,
{
    let (work, counter) = (Arc::new(work), Arc::new(AtomicU64::new(0)));
    let begun = Instant::now();
    let end = begun + Duration::from_secs_f64(seconds);
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let (work, counter) = (Arc::clone(&work), Arc::clone(&counter));
        running.spawn(async move {
            let (mut done, mut failed, mut times) = (0, 0, Vec::new());
            while Instant::now() < end {
                let one = Instant::now();
                match work(task, counter.fetch_add(1, Ordering::Relaxed)).await {
                    Ok(units) => done += units,
                    Err(reason) => {
                        if failed == 0 {
                            eprintln!("  one failed: {reason}");
                        }
                        failed += 1;
                    }
                }
                times.push(one.elapsed());
            }
            (done, failed, times)
        });
    }
    let (mut done, mut failed, mut times) = (0, 0, Vec::new());
    while let Some(task) = running.join_next().await {
        let (more, more_failed, more_times) = task.map_err(|error| error.to_string())?;
        done += more;
        failed += more_failed;
        times.extend(more_times);
    }
    if done == 0 {
        return Err(format!("{} of {}: nothing succeeded", name.0, name.1));
    }
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    Ok(Round {
        workload: name.0.to_owned(),
        target: name.1.to_owned(),
        per_second: done as f64 / begun.elapsed().as_secs_f64(),
        p50_ms: at(0.5),
        p99_ms: at(0.99),
        failed,
    })
}
