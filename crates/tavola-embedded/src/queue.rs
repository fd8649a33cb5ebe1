//! The queue of those who wait for the disk: bounded, and drained in groups.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What a queue asks of the things in it.
pub(crate) trait Weighed {
    /// Bytes that it takes in memory, about.
    fn bytes(&self) -> usize;
}

/// Why a thing was not taken into the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueError {
    Full,
    Closed,
}

/// How much a queue, or a group drained from it, may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) count_max: usize,
    pub(crate) bytes_max: usize,
}

#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
    bounds: Bounds,
    group: Bounds,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<T>,
    bytes: usize,
    closed: bool,
}

impl<T: Weighed> Queue<T> {
    pub(crate) fn new(bounds: Bounds, group: Bounds) -> Self {
        let state = State { waiting: VecDeque::new(), bytes: 0, closed: false };
        Self { state: Mutex::new(state), filled: Condvar::new(), bounds, group }
    }

    /// Takes `item` in if there is room. An empty queue takes anything, so that nothing is too large for ever.
    pub(crate) fn push(&self, item: T) -> Result<(), QueueError> {
        let mut state = self.lock();
        let room = state.waiting.len() < self.bounds.count_max
            && state.bytes.saturating_add(item.bytes()) <= self.bounds.bytes_max;
        if !room && !state.waiting.is_empty() {
            return Err(QueueError::Full);
        }
        self.take_in(&mut state, item)
    }

    /// Takes `item` in whether or not there is room; for work of our own, of which there is little.
    pub(crate) fn push_always(&self, item: T) -> Result<(), QueueError> {
        self.take_in(&mut self.lock(), item)
    }

    fn take_in(&self, state: &mut State<T>, item: T) -> Result<(), QueueError> {
        if state.closed {
            return Err(QueueError::Closed);
        }
        state.bytes += item.bytes();
        state.waiting.push_back(item);
        self.filled.notify_one();
        Ok(())
    }

    /// Waits for work and takes as much as one group may hold; `None` once the queue is closed and empty.
    pub(crate) fn take_group(&self) -> Option<Vec<T>> {
        let still_open = |state: &mut State<T>| state.waiting.is_empty() && !state.closed;
        let mut state = self.filled.wait_while(self.lock(), still_open).unwrap_or_else(PoisonError::into_inner);
        let mut group = Vec::with_capacity(state.waiting.len().min(self.group.count_max));
        let mut bytes = 0;
        while let Some(next) = state.waiting.front() {
            let fits = group.len() < self.group.count_max && bytes + next.bytes() <= self.group.bytes_max;
            if !fits && !group.is_empty() {
                break;
            }
            bytes += next.bytes();
            group.extend(state.waiting.pop_front());
        }
        state.bytes -= bytes;
        (!group.is_empty()).then_some(group)
    }

    /// True if nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Takes nothing more in; what waits is still handed out.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    // Nothing under this lock can panic half-way: poisoning would say nothing.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bounds, Queue, QueueError, Weighed};

    impl Weighed for usize {
        fn bytes(&self) -> usize {
            *self
        }
    }

    fn queue() -> Queue<usize> {
        Queue::new(Bounds { count_max: 4, bytes_max: 100 }, Bounds { count_max: 3, bytes_max: 50 })
    }

    #[test]
    fn bounded_by_count() {
        let queue = queue();
        for item in [1, 1, 1, 1] {
            assert_eq!(queue.push(item), Ok(()));
        }
        assert_eq!(queue.push(1), Err(QueueError::Full));
        assert_eq!(queue.push_always(1), Ok(()));
        assert_eq!(queue.take_group(), Some(vec![1, 1, 1]));
        assert_eq!(queue.take_group(), Some(vec![1, 1]));
    }

    #[test]
    fn bounded_by_bytes_but_nothing_is_too_large_for_ever() {
        let queue = queue();
        assert_eq!(queue.push(200), Ok(()));
        assert_eq!(queue.push(1), Err(QueueError::Full));
        assert_eq!(queue.take_group(), Some(vec![200]));
        assert_eq!(queue.push(30), Ok(()));
        assert_eq!(queue.push(30), Ok(()));
        assert_eq!(queue.push(41), Err(QueueError::Full));
        assert_eq!(queue.take_group(), Some(vec![30]), "a group has at most 50 bytes");
        assert_eq!(queue.take_group(), Some(vec![30]));
    }

    #[test]
    fn closing_hands_out_the_rest() {
        let queue = queue();
        queue.push(1).unwrap();
        queue.close();
        assert_eq!(queue.push(1), Err(QueueError::Closed));
        assert_eq!(queue.take_group(), Some(vec![1]));
        assert_eq!(queue.take_group(), None);
    }
}
