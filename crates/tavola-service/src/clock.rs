//! Where the service takes the time from.

use std::fmt::Debug;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
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
/// Versions never fall. So a clock that shows the year 9991 for one moment would mark every Timestamp from then on. A
/// process therefore takes the time of day from the machine only as long as it is within a day of what its own
/// monotonic clock says; otherwise it goes by the latter until the machine's clock is back, or the process is started anew.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// A jump of more than this is not adopted, and a store that is ahead of the clock by more is not served unasked.
pub const JUMP_MAX: Duration = Duration::from_secs(24 * 60 * 60);

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let (machine, steady) = (time_of_day(), BEGUN.time_of_day + self.elapsed());
        let has_jumped = machine.abs_diff(steady) > JUMP_MAX;
        let is_told = HAS_JUMPED.load(Ordering::Relaxed) == has_jumped;
        if !is_told && HAS_JUMPED.swap(has_jumped, Ordering::Relaxed) != has_jumped {
            tell(has_jumped, machine);
        }
        Timestamp::new(DateTime::from_unix(if has_jumped { steady } else { machine }))
    }

    fn elapsed(&self) -> Duration {
        since_boot().saturating_sub(BEGUN.since_boot)
    }
}

/// When this process first asked for the time.
struct Begun {
    time_of_day: Duration,
    since_boot: Duration,
}

static BEGUN: LazyLock<Begun> = LazyLock::new(|| Begun { time_of_day: time_of_day(), since_boot: since_boot() });
static HAS_JUMPED: AtomicBool = AtomicBool::new(false);

fn time_of_day() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// This clock goes on while the machine sleeps: a laptop that wakes up after a week has not jumped.
fn since_boot() -> Duration {
    #[cfg(target_os = "linux")]
    const STEADY: ClockId = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const STEADY: ClockId = ClockId::Monotonic;
    let time = clock_gettime(STEADY);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
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
    use super::{Clock, SystemClock, since_boot, time_of_day};
    use std::time::Duration;

    #[test]
    fn it_shows_the_time_of_day() {
        let before = time_of_day();
        let now = SystemClock.now().date_time();
        let since = now.ticks().abs_diff(tavola_core::DateTime::from_unix(before).ticks());
        assert!(since < 600 * 10_000_000, "{now}");
        assert!(since_boot() > Duration::ZERO && SystemClock.elapsed() < since_boot());
    }
}
