//! Where the service takes the time from.

use std::fmt::Debug;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tavola_core::{DateTime, Timestamp};

/// A clock. It may go back: stores see to it that versions do not.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The current time.
    fn now(&self) -> Timestamp;
    /// The time since some moment in the life of this process. It never goes back and never jumps.
    fn elapsed(&self) -> Duration;
}

/// The machine's clock, without its great jumps.
///
/// Versions never fall. So a clock that shows the year 9991 for one moment would mark every
/// Timestamp from then on. A process therefore takes the time of day from the machine only as long
/// as it is within a day of what its own monotonic clock says; otherwise it goes by the latter
/// until the machine's clock is back, or the process is started anew.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// A jump of more than this is not adopted, and a store that is ahead of the clock by more is not
/// served unasked.
pub const JUMP_MAX: Duration = Duration::from_secs(24 * 60 * 60);

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let machine = time_of_day();
        let is_near = |steady: Duration| machine.abs_diff(BEGUN.time_of_day + steady) <= JUMP_MAX;
        // The expensive clock is asked only where the cheap one finds something odd.
        let steady = if is_near(self.elapsed()) { self.elapsed() } else { since_begun() };
        let has_jumped = !is_near(steady);
        let is_told = HAS_JUMPED.load(Ordering::Relaxed) == has_jumped;
        if !is_told && HAS_JUMPED.swap(has_jumped, Ordering::Relaxed) != has_jumped {
            tell(has_jumped, machine);
        }
        Timestamp::new(DateTime::from_unix(if has_jumped {
            BEGUN.time_of_day + steady
        } else {
            machine
        }))
    }

    fn elapsed(&self) -> Duration {
        BEGUN.at.elapsed()
    }
}

/// When this process first asked for the time.
struct Begun {
    time_of_day: Duration,
    at: Instant,
    uptime: Option<Duration>,
}

static BEGUN: LazyLock<Begun> =
    LazyLock::new(|| Begun { time_of_day: time_of_day(), at: Instant::now(), uptime: uptime() });
static HAS_JUMPED: AtomicBool = AtomicBool::new(false);

fn time_of_day() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The time since this process began, with what the machine slept: a laptop that wakes up after a
/// week has not jumped.
fn since_begun() -> Duration {
    match (BEGUN.uptime, uptime()) {
        (Some(begun), Some(now)) => now.saturating_sub(begun),
        _ => BEGUN.at.elapsed(),
    }
}

/// How long the machine has been up, asleep or not; `None` where it does not tell. Unlike `Instant`
/// it goes on in its sleep.
fn uptime() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/uptime").ok()?;
    let seconds: f64 = text.split(' ').next()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn tell(has_jumped: bool, machine: Duration) {
    let machine = DateTime::from_unix(machine);
    if has_jumped {
        tracing::error!(
            %machine,
            "the machine's clock jumped by more than a day; Timestamps go on without the jump. If the clock is right now, \
             start the server again"
        );
    } else {
        tracing::info!(%machine, "the machine's clock is back");
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, SystemClock, since_begun, time_of_day};
    use std::time::Duration;

    #[test]
    fn it_shows_the_time_of_day() {
        let before = time_of_day();
        let now = SystemClock.now().date_time();
        let since = now.ticks().abs_diff(tavola_core::DateTime::from_unix(before).ticks());
        assert!(since < 600 * 10_000_000, "{now}");
        // The uptime is told in hundredths of a second.
        let (awake, all) = (SystemClock.elapsed(), since_begun());
        assert!(all + Duration::from_millis(20) >= awake, "{awake:?} {all:?}");
    }
}
