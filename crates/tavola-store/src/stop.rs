//! When a scan has to end before its range does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Says when work has to end: at a moment, or when no caller waits for its result any more. Cheap
/// enough to be asked every few microseconds. The default never says so.
#[derive(Debug, Clone, Default)]
pub struct StopToken {
    deadline: Option<Instant>,
    abandoned: Option<Arc<AtomicBool>>,
}

/// Held by the caller that waits for the result; dropping it ends the work.
#[derive(Debug)]
pub struct StopOnDrop(Arc<AtomicBool>);

impl StopToken {
    /// Work that ends at `deadline` at the latest.
    #[must_use]
    pub fn at(deadline: Instant) -> Self {
        Self { deadline: Some(deadline), abandoned: None }
    }

    /// The same work, which also ends when the guard is dropped.
    #[must_use]
    pub fn guarded(self) -> (Self, StopOnDrop) {
        let abandoned = Arc::new(AtomicBool::new(false));
        (Self { abandoned: Some(Arc::clone(&abandoned)), ..self }, StopOnDrop(abandoned))
    }

    /// A part of this work, which ends at `deadline` if the whole does not end before.
    #[must_use]
    pub fn or_at(&self, deadline: Instant) -> Self {
        let deadline = self.deadline.map_or(deadline, |whole| whole.min(deadline));
        Self { deadline: Some(deadline), abandoned: self.abandoned.clone() }
    }

    /// True once the work has to end, and from then on.
    #[must_use]
    pub fn is_due(&self) -> bool {
        let is_abandoned =
            self.abandoned.as_ref().is_some_and(|abandoned| abandoned.load(Ordering::Relaxed));
        is_abandoned || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::StopToken;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_deadline_is_due_when_it_is_over() {
        let now = Instant::now();
        assert!(!StopToken::default().is_due());
        assert!(!StopToken::at(now + HOUR).is_due());
        assert!(StopToken::at(now).is_due());
        assert!(StopToken::at(now + HOUR).or_at(now).is_due(), "the part ends first");
        assert!(StopToken::at(now).or_at(now + HOUR).is_due(), "the whole ends first");
        assert!(StopToken::default().or_at(now).is_due());
    }

    #[test]
    fn a_dropped_guard_ends_the_work_and_its_parts() {
        let (stop, guard) = StopToken::at(Instant::now() + HOUR).guarded();
        let part = stop.or_at(Instant::now() + HOUR);
        assert!(!stop.is_due() && !part.is_due());
        drop(guard);
        assert!(stop.is_due() && part.is_due());
    }
}
