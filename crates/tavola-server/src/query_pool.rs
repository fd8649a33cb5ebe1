//! The query pool: threads of their own, of lower priority than those that serve sockets.
//!
//! A page of a thousand entities takes milliseconds to find and to write down. On the threads of
//! sockets every point request behind it would wait for all of it. Here the system's scheduler lets
//! point requests go first.

use std::future::Future;
use std::panic::resume_unwind;

use tavola_fair::{InTurns, Turn};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

/// A third of the weight of a thread that serves sockets, while both want the processor; all of it
/// otherwise. More would also put queries behind everything else that the machine does: with 10 a
/// busy one served 29 and 45 a second, with 5 55 and 63.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 5;

/// More than there are cores: some wait for the disk.
const THREADS_PER_CORE: usize = 2;
const THREADS_MIN: usize = 8;

/// Runs queries.
#[derive(Debug)]
pub(crate) struct QueryPool {
    runtime: Option<Runtime>,
}

impl QueryPool {
    /// # Errors
    /// If threads cannot be had.
    pub(crate) fn start() -> std::io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        builder.worker_threads((THREADS_PER_CORE * cores).max(THREADS_MIN));
        let runtime =
            builder.thread_name("query").on_thread_start(step_back).enable_all().build()?;
        Ok(Self { runtime: Some(runtime) })
    }

    /// Runs `query`. Whenever it yields, other accounts may go first. When nobody waits for it any
    /// more it is dropped where it next waits itself; what it does in between has to watch its own
    /// [`StopToken`](tavola_store::StopToken).
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        turn: Turn,
        query: impl Future<Output = T> + Send + 'static,
    ) -> T {
        self.spawn(InTurns::new(turn, query)).await
    }

    /// Runs work that takes milliseconds and never pauses, and that is shared out already.
    pub(crate) async fn run_at_once<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        self.spawn(async move { work() }).await
    }

    /// A panic there goes on here, where the request is.
    async fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let mut running = AbortOnDrop(match &self.runtime {
            Some(runtime) => runtime.spawn(work),
            None => Handle::current().spawn(work),
        });
        (&mut running.0).await.unwrap_or_else(|ended| resume_unwind(ended.into_panic()))
    }
}

/// A query that ends with whoever waits for it.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Drop for QueryPool {
    fn drop(&mut self) {
        // A runtime must not be waited for inside another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// On Linux a priority is that of a thread. Elsewhere it would be that of the whole server.
fn step_back() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "a query thread keeps its priority");
    }
}
