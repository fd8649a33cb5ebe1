//! The queue of those who wait for the disk: bounded, and drained in groups.
//!
//! Who drains it has the *turn*. There is one, so that groups are carried out one after another;
//! whoever comes to the queue while nobody has it and nobody waits may take it with what it brings.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// After so many turns of one thing whoever comes next probably comes alone too. With fewer, 64
/// writers that happened to come one after the other got into each other's way.
const SOLO_STREAK_MIN: u32 = 16;

/// What a queue asks of the things in it.
pub(crate) trait MemSize {
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
    /// Somebody has the turn.
    has_leader: bool,
    /// So many turns before this one were of one thing each.
    solo_streak: u32,
}

/// The turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct LeaderGuard<'a, T: MemSize>(&'a Queue<T>);

impl<T: MemSize> Drop for LeaderGuard<'_, T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.has_leader = false;
        let (closed, has_more) = (state.closed, !state.waiting.is_empty());
        // Who is woken while we hold the lock only goes to sleep again.
        drop(state);
        if closed {
            self.0.filled.notify_all();
        } else if has_more {
            self.0.filled.notify_one();
        }
    }
}

/// What became of a thing that was brought to the queue.
#[derive(Debug)]
pub(crate) enum Enqueued<'a, T: MemSize> {
    /// It waits.
    Waiting,
    /// Whoever brought it has the turn, and does it.
    Leading(LeaderGuard<'a, T>, T),
}

impl<T: MemSize> Queue<T> {
    pub(crate) fn new(bounds: Bounds, group: Bounds) -> Self {
        let waiting = VecDeque::new();
        let state = State {
            waiting,
            bytes: 0,
            closed: false,
            has_leader: false,
            solo_streak: SOLO_STREAK_MIN,
        };
        Self { state: Mutex::new(state), filled: Condvar::new(), bounds, group }
    }

    /// Takes `item` in if there is room. An empty queue takes anything, so that nothing is too
    /// large for ever.
    pub(crate) fn enqueue(&self, item: T) -> Result<(), QueueError> {
        let state = self.lock();
        self.insert_if_free(state, item)
    }

    /// The same, but if nobody waits and nobody has the turn, and everybody came alone lately, it
    /// is the caller's. Under load a turn of one thing would only delay those who come right after
    /// it.
    pub(crate) fn enqueue_or_lead(&self, item: T) -> Result<Enqueued<'_, T>, QueueError> {
        let mut state = self.lock();
        let is_idle = state.waiting.is_empty() && !state.has_leader && !state.closed;
        if is_idle && state.solo_streak >= SOLO_STREAK_MIN {
            state.has_leader = true;
            return Ok(Enqueued::Leading(LeaderGuard(self), item));
        }
        self.insert_if_free(state, item).map(|()| Enqueued::Waiting)
    }

    /// Takes `item` in whether or not there is room; for work of our own, of which there is little.
    pub(crate) fn enqueue_always(&self, item: T) -> Result<(), QueueError> {
        let state = self.lock();
        self.insert(state, item)
    }

    fn insert_if_free(&self, state: MutexGuard<'_, State<T>>, item: T) -> Result<(), QueueError> {
        let room = state.waiting.len() < self.bounds.count_max
            && state.bytes.saturating_add(item.bytes()) <= self.bounds.bytes_max;
        if !room && !state.waiting.is_empty() {
            return Err(QueueError::Full);
        }
        self.insert(state, item)
    }

    fn insert(&self, mut state: MutexGuard<'_, State<T>>, item: T) -> Result<(), QueueError> {
        if state.closed {
            return Err(QueueError::Closed);
        }
        state.bytes += item.bytes();
        state.waiting.push_back(item);
        // Whoever has the turn looks when it ends.
        let is_idle = !state.has_leader;
        drop(state);
        if is_idle {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Waits for work and the turn, and takes as much as one group may hold; `None` once the queue
    /// is closed and empty.
    pub(crate) fn lead(&self) -> Option<(LeaderGuard<'_, T>, Vec<T>)> {
        let is_early = |state: &mut State<T>| {
            if state.waiting.is_empty() { !state.closed } else { state.has_leader }
        };
        let mut state =
            self.filled.wait_while(self.lock(), is_early).unwrap_or_else(PoisonError::into_inner);
        let mut group = Vec::with_capacity(state.waiting.len().min(self.group.count_max));
        let mut bytes = 0;
        while let Some(next) = state.waiting.front() {
            let fits =
                group.len() < self.group.count_max && bytes + next.bytes() <= self.group.bytes_max;
            if !fits && !group.is_empty() {
                break;
            }
            bytes += next.bytes();
            group.extend(state.waiting.pop_front());
        }
        state.bytes -= bytes;
        if group.is_empty() {
            return None;
        }
        state.has_leader = true;
        state.solo_streak = if group.len() == 1 { state.solo_streak.saturating_add(1) } else { 0 };
        Some((LeaderGuard(self), group))
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

    #[cfg(test)]
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Takes nothing more in; what waits is still handed out.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    /// Waits until nobody has the turn.
    pub(crate) fn wait_for_leader(&self) {
        let has_leader = |state: &mut State<T>| state.has_leader;
        drop(
            self.filled.wait_while(self.lock(), has_leader).unwrap_or_else(PoisonError::into_inner),
        );
    }

    // Nothing under this lock can panic half-way: poisoning would say nothing.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bounds, Enqueued, MemSize, Queue, QueueError, SOLO_STREAK_MIN};

    impl MemSize for usize {
        fn bytes(&self) -> usize {
            *self
        }
    }

    fn queue() -> Queue<usize> {
        Queue::new(Bounds { count_max: 4, bytes_max: 100 }, Bounds { count_max: 3, bytes_max: 50 })
    }

    fn taken(queue: &Queue<usize>) -> Option<Vec<usize>> {
        queue.lead().map(|(_turn, group)| group)
    }

    fn leads(queue: &Queue<usize>) -> bool {
        matches!(queue.enqueue_or_lead(1), Ok(Enqueued::Leading(..)))
    }

    #[test]
    fn who_comes_alone_leads() {
        let queue = queue();
        assert!(leads(&queue));
        assert!(leads(&queue), "the turn has ended");
        let Ok(Enqueued::Leading(turn, 7)) = queue.enqueue_or_lead(7) else {
            panic!("nobody else is there")
        };
        assert!(!leads(&queue), "somebody has the turn");
        drop(turn);
        assert!(!leads(&queue), "somebody waits");
        assert_eq!(taken(&queue), Some(vec![1, 1]));
        for _ in 0..SOLO_STREAK_MIN {
            assert!(!leads(&queue), "there were two not long ago");
            assert_eq!(taken(&queue), Some(vec![1]));
        }
        assert!(leads(&queue), "since then all came alone");
        queue.close();
        assert!(matches!(queue.enqueue_or_lead(1), Err(QueueError::Closed)));
    }

    /// Nobody is woken for what comes while somebody has the turn, so the end of the turn must wake
    /// somebody.
    #[test]
    fn the_end_of_a_turn_wakes_who_takes_the_rest() {
        let queue = queue();
        let Ok(Enqueued::Leading(turn, _)) = queue.enqueue_or_lead(1) else {
            panic!("nobody else is there")
        };
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| taken(&queue));
            queue.enqueue(2).unwrap();
            queue.enqueue(3).unwrap();
            drop(turn);
            assert_eq!(waiting.join().unwrap(), Some(vec![2, 3]));
        });
    }

    #[test]
    fn all_who_wait_hear_of_the_closing() {
        let queue = queue();
        let Ok(Enqueued::Leading(turn, _)) = queue.enqueue_or_lead(1) else {
            panic!("nobody else is there")
        };
        std::thread::scope(|scope| {
            let waiting = [0; 3].map(|_| scope.spawn(|| taken(&queue)));
            queue.enqueue(2).unwrap();
            queue.close();
            drop(turn);
            let mut groups = waiting.map(|waiting| waiting.join().unwrap());
            groups.sort();
            assert_eq!(groups, [None, None, Some(vec![2])]);
        });
    }

    #[test]
    fn bounded_by_count() {
        let queue = queue();
        for item in [1, 1, 1, 1] {
            assert_eq!(queue.enqueue(item), Ok(()));
        }
        assert_eq!(queue.enqueue(1), Err(QueueError::Full));
        assert_eq!(queue.enqueue_always(1), Ok(()));
        assert_eq!(taken(&queue), Some(vec![1, 1, 1]));
        assert_eq!(taken(&queue), Some(vec![1, 1]));
    }

    #[test]
    fn bounded_by_bytes_but_nothing_is_too_large_for_ever() {
        let queue = queue();
        assert_eq!(queue.enqueue(200), Ok(()));
        assert_eq!(queue.enqueue(1), Err(QueueError::Full));
        assert_eq!(taken(&queue), Some(vec![200]));
        assert_eq!(queue.enqueue(30), Ok(()));
        assert_eq!(queue.enqueue(30), Ok(()));
        assert_eq!(queue.enqueue(41), Err(QueueError::Full));
        assert_eq!(taken(&queue), Some(vec![30]), "a group has at most 50 bytes");
        assert_eq!(taken(&queue), Some(vec![30]));
    }

    #[test]
    fn closing_hands_out_the_rest() {
        let queue = queue();
        queue.enqueue(1).unwrap();
        queue.close();
        assert_eq!(queue.enqueue(1), Err(QueueError::Closed));
        assert_eq!(taken(&queue), Some(vec![1]));
        assert_eq!(taken(&queue), None);
    }
}
