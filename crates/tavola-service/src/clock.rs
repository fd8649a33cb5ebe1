//! Where the service takes the time from.

use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

use tavola_core::{DateTime, Timestamp};

/// A clock. It may go back: stores see to it that versions do not.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::new(DateTime::from_unix(since_epoch))
    }
}
