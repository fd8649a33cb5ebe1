//! The queue in front of the disk: bounded, and drained in groups.
//!
//! Only the *leader* drains it. There is one leader at a time, so that groups are carried out one
//! after another. A caller that finds the queue empty and without a leader may become the leader
//! of its own item.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// After this many groups of one item each, the next item probably comes alone too. With fewer, 64
/// writers whose items happened to arrive one after the other got into each other's way.
const SOLO_STREAK_MIN: u32 = 16;

/// What a queue asks of its items.
pub(crate) trait MemSize {
    /// About how many bytes it takes in memory.
    fn bytes(&self) -> usize;
}

/// Why an item was not queued.
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
    /// Notified when an item waits for a leader, when leadership ends, and when the queue closes.
    changed: Condvar,
    bounds: Bounds,
    group: Bounds,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<T>,
    /// The sum over `waiting`.
    bytes: usize,
    closed: bool,
    has_leader: bool,
    /// How many of the last groups had one item each.
    solo_streak: u32,
}

impl<T> State<T> {
    fn appoint_leader(&mut self) {
        assert!(!self.has_leader, "there is one leader at a time");
        self.has_leader = true;
    }
}

/// Leadership, until it is dropped.
#[derive(Debug)]
pub(crate) struct LeaderGuard<'a, T: MemSize>(&'a Queue<T>);

impl<T: MemSize> Drop for LeaderGuard<'_, T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        assert!(state.has_leader, "only the leader gives up leadership");
        state.has_leader = false;
        let (closed, has_more) = (state.closed, !state.waiting.is_empty());
        // A thread woken before we unlock would only block again.
        drop(state);
        if closed {
            self.0.changed.notify_all();
        } else if has_more {
            self.0.changed.notify_one();
        }
    }
}

/// What became of an item.
#[derive(Debug)]
pub(crate) enum Enqueued<'a, T: MemSize> {
    Waiting,
    /// The caller is the leader, and its item the group.
    Leading(LeaderGuard<'a, T>, T),
}

impl<T: MemSize> Queue<T> {
    pub(crate) fn new(bounds: Bounds, group: Bounds) -> Self {
        let (waiting, solo_streak) = (VecDeque::new(), SOLO_STREAK_MIN);
        let state = State { waiting, bytes: 0, closed: false, has_leader: false, solo_streak };
        Self { state: Mutex::new(state), changed: Condvar::new(), bounds, group }
    }

    /// Queues `item` if the bounds allow it. An empty queue takes an item of any size, so that
    /// none is refused for ever.
    pub(crate) fn enqueue(&self, item: T) -> Result<(), QueueError> {
        let state = self.lock();
        self.insert_if_free(state, item)
    }

    /// The same, but after a solo streak the caller leads if the queue is empty and has no leader.
    /// Under load a group of one item would only delay the items right behind it.
    pub(crate) fn enqueue_or_lead(&self, item: T) -> Result<Enqueued<'_, T>, QueueError> {
        let mut state = self.lock();
        let is_idle = state.waiting.is_empty() && !state.has_leader && !state.closed;
        if is_idle && state.solo_streak >= SOLO_STREAK_MIN {
            state.appoint_leader();
            return Ok(Enqueued::Leading(LeaderGuard(self), item));
        }
        self.insert_if_free(state, item).map(|()| Enqueued::Waiting)
    }

    /// Queues `item` whatever the bounds say; for the store's own work, of which there is little.
    pub(crate) fn enqueue_always(&self, item: T) -> Result<(), QueueError> {
        let state = self.lock();
        self.insert(state, item)
    }

    fn insert_if_free(&self, state: MutexGuard<'_, State<T>>, item: T) -> Result<(), QueueError> {
        let fits = state.waiting.len() < self.bounds.count_max
            && state.bytes.saturating_add(item.bytes()) <= self.bounds.bytes_max;
        if !fits && !state.waiting.is_empty() {
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
        // A leader looks at the queue when it gives up leadership.
        let has_leader = state.has_leader;
        drop(state);
        if !has_leader {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Waits for items and for leadership, and takes as many items as one group may hold. `None`
    /// once the queue is closed and empty.
    pub(crate) fn lead(&self) -> Option<(LeaderGuard<'_, T>, Vec<T>)> {
        let is_early = |state: &mut State<T>| {
            if state.waiting.is_empty() { !state.closed } else { state.has_leader }
        };
        let mut state =
            self.changed.wait_while(self.lock(), is_early).unwrap_or_else(PoisonError::into_inner);
        let group = self.take_group(&mut state);
        if group.is_empty() {
            return None;
        }
        state.appoint_leader();
        state.solo_streak = if group.len() == 1 { state.solo_streak.saturating_add(1) } else { 0 };
        Some((LeaderGuard(self), group))
    }

    /// The first items, as many as one group may hold; one item of any size.
    fn take_group(&self, state: &mut State<T>) -> Vec<T> {
        let waiting = state.waiting.len();
        let mut group = Vec::with_capacity(waiting.min(self.group.count_max));
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
        assert!(state.bytes >= bytes, "the sizes of items are counted once");
        state.bytes -= bytes;
        assert_eq!(group.is_empty(), waiting == 0, "a queue that is not empty gives a group");
        assert_eq!(group.len() + state.waiting.len(), waiting, "no item is lost");
        group
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    #[cfg(test)]
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Takes no more items; those that wait are still handed out.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Takes no more items, and drops those that wait.
    pub(crate) fn abandon(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.bytes = 0;
        let dropped = std::mem::take(&mut state.waiting);
        // Dropping an item may run code of its owner.
        drop(state);
        drop(dropped);
        self.changed.notify_all();
    }

    /// Blocks until there is no leader.
    pub(crate) fn wait_for_leader(&self) {
        let has_leader = |state: &mut State<T>| state.has_leader;
        let waited = self.changed.wait_while(self.lock(), has_leader);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    // A panic under this lock is a broken invariant that `GroupCommit` reports; the state itself is
    // consistent, so poisoning adds nothing.
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
        queue.lead().map(|(_leadership, group)| group)
    }

    fn leads(queue: &Queue<usize>) -> bool {
        matches!(queue.enqueue_or_lead(1), Ok(Enqueued::Leading(..)))
    }

    #[test]
    fn a_caller_of_an_idle_queue_leads() {
        let queue = queue();
        assert!(leads(&queue));
        assert!(leads(&queue), "leadership was given up");
        let Ok(Enqueued::Leading(leadership, 7)) = queue.enqueue_or_lead(7) else {
            panic!("the queue is idle")
        };
        assert!(!leads(&queue), "there is a leader");
        drop(leadership);
        assert!(!leads(&queue), "an item waits");
        assert_eq!(taken(&queue), Some(vec![1, 1]));
        for _ in 0..SOLO_STREAK_MIN {
            assert!(!leads(&queue), "a group of two broke the solo streak");
            assert_eq!(taken(&queue), Some(vec![1]));
        }
        assert!(leads(&queue), "the streak is long enough again");
        queue.close();
        assert!(matches!(queue.enqueue_or_lead(1), Err(QueueError::Closed)));
    }

    /// No thread is woken for an item that comes while there is a leader, so the end of leadership
    /// must wake one.
    #[test]
    fn the_end_of_leadership_wakes_the_next_leader() {
        let queue = queue();
        let Ok(Enqueued::Leading(leadership, _)) = queue.enqueue_or_lead(1) else {
            panic!("the queue is idle")
        };
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| taken(&queue));
            queue.enqueue(2).unwrap();
            queue.enqueue(3).unwrap();
            drop(leadership);
            assert_eq!(waiting.join().unwrap(), Some(vec![2, 3]));
        });
    }

    #[test]
    fn closing_wakes_all_threads() {
        let queue = queue();
        let Ok(Enqueued::Leading(leadership, _)) = queue.enqueue_or_lead(1) else {
            panic!("the queue is idle")
        };
        std::thread::scope(|scope| {
            let waiting = [0; 3].map(|_| scope.spawn(|| taken(&queue)));
            queue.enqueue(2).unwrap();
            queue.close();
            drop(leadership);
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
    fn an_abandoned_queue_is_closed_and_empty() {
        let queue = queue();
        queue.enqueue(1).unwrap();
        queue.abandon();
        assert_eq!(queue.enqueue(1), Err(QueueError::Closed));
        assert_eq!(taken(&queue), None);
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
