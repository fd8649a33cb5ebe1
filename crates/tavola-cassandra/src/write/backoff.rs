//! How long a group waits before it tries again.

use std::time::Duration;

use uuid::Uuid;

const PAUSE: Duration = Duration::from_millis(2);
const PAUSE_DOUBLINGS_MAX: u32 = 6;

/// Longer each round, and never the same for two nodes that conflict.
pub(crate) fn pause(round: u32) -> Duration {
    let longest = PAUSE * 2u32.pow(round.min(PAUSE_DOUBLINGS_MAX));
    let share = u32::from(Uuid::new_v4().as_bytes()[0]) + 1;
    longest * share / 256
}

#[cfg(test)]
mod tests {
    use super::{PAUSE, PAUSE_DOUBLINGS_MAX, pause};

    #[test]
    fn pauses_are_bounded() {
        for round in [0, 1, PAUSE_DOUBLINGS_MAX, u32::MAX] {
            let longest = PAUSE * 2u32.pow(round.min(PAUSE_DOUBLINGS_MAX));
            assert!((0..100).all(|_| !pause(round).is_zero() && pause(round) <= longest));
        }
    }
}
