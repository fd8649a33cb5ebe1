//! What a client needs of the world beside its service: clocks, timers and chance. Tests replace
//! them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

/// A future on the heap that any thread may run.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Clocks, timers and chance.
#[doc(hidden)]
pub trait Runtime: fmt::Debug + Send + Sync {
    /// Time since some moment; it never goes back.
    fn now(&self) -> Duration;
    /// The time of day.
    fn time_of_day(&self) -> SystemTime;
    /// Ready after this time.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
    /// A number that nobody can guess.
    fn random(&self) -> u64;
}

/// Time, timers of tokio and the machine's randomness.
#[cfg(feature = "http")]
#[derive(Debug)]
pub(crate) struct SystemRuntime {
    begun: tokio::time::Instant,
}

#[cfg(feature = "http")]
impl SystemRuntime {
    pub(crate) fn new() -> Self {
        Self { begun: tokio::time::Instant::now() }
    }
}

#[cfg(feature = "http")]
impl Runtime for SystemRuntime {
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
        getrandom::u64().unwrap_or_else(|_| {
            // A machine without randomness still has addresses and clocks.
            use std::hash::{BuildHasher, Hasher, RandomState};
            RandomState::new().build_hasher().finish()
        })
    }
}

/// A random UUID.
pub(crate) fn random_uuid(runtime: &dyn Runtime) -> uuid::Uuid {
    let random = (u128::from(runtime.random()) << 64) | u128::from(runtime.random());
    uuid::Builder::from_random_bytes(random.to_be_bytes()).into_uuid()
}

/// What `future` gives, or `None` if the time is over first; then the future is dropped.
pub(crate) async fn within<T>(
    runtime: &dyn Runtime,
    time: Option<Duration>,
    future: impl Future<Output = T> + Send,
) -> Option<T> {
    let Some(time) = time else { return Some(future.await) };
    let mut timer = runtime.sleep(time);
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| {
        if let std::task::Poll::Ready(value) = future.as_mut().poll(context) {
            return std::task::Poll::Ready(Some(value));
        }
        timer.as_mut().poll(context).map(|()| None)
    })
    .await
}
