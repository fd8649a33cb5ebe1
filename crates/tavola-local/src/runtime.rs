//! The clock of tokio, which tests can pause.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, SystemTime};

use tavola_client::__store::Runtime;
use tavola_client::BoxFuture;

/// Time and timers of tokio.
#[derive(Debug)]
pub struct TokioRuntime {
    begun: tokio::time::Instant,
    random: RandomState,
    count: std::sync::atomic::AtomicU64,
}

impl TokioRuntime {
    /// A clock that begins now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            begun: tokio::time::Instant::now(),
            random: RandomState::new(),
            count: std::sync::atomic::AtomicU64::new(0),
        }
    }
}

impl Default for TokioRuntime {
    fn default() -> Self {
        Self::new()
    }
}

impl Runtime for TokioRuntime {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn time_of_day(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn random(&self) -> u64 {
        let mut hasher = self.random.build_hasher();
        hasher.write_u64(self.count.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        hasher.finish()
    }
}
