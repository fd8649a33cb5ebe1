//! Places that are waited for.
//!
//! - A tenant that holds no place gets one at once, even beyond the capacity: nobody is starved,
//!   whatever others hold. So the capacity is exceeded by at most one request for each tenant.
//! - Beyond its first place a tenant takes what is free by the rule of [`crate::Pool`]: an eighth
//!   of what it then holds stays free for others.
//! - A place that becomes free goes to the waiting tenant that holds the least for its weight;
//!   inside a tenant work that was begun goes first, then the order of coming.
//!
//! Work that was begun goes first because it holds memory: so no more of it is under way than the
//! tenant has places.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::Stats;
use crate::pool::EAGERNESS;

/// How many times as long as others a tenant waits that has less than its share.
const PATIENCE: u32 = 20;

/// A bounded number of places, counted in units: heavy work takes several.
#[derive(Debug)]
pub struct Turns {
    capacity: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    /// How many wait in all lines: without any, giving back is a subtraction.
    waiting: usize,
    next_ticket: u64,
    lines: Vec<LineState>,
}

#[derive(Debug)]
struct LineState {
    weight: u64,
    used: u64,
    begun: VecDeque<Waiter>,
    fresh: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    units: u64,
    granted: oneshot::Sender<()>,
}

/// Waited for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused;

impl Turns {
    /// Places for `capacity` units of work, all free.
    #[must_use]
    pub fn new(capacity: u64) -> Arc<Self> {
        Arc::new(Self { capacity, state: Mutex::default() })
    }

    /// A tenant's line, for as long as the server runs: keep what you got.
    #[must_use]
    pub fn line(self: &Arc<Self>, weight: u32) -> Arc<Line> {
        let mut state = self.lock();
        let line = LineState {
            weight: u64::from(weight.max(1)),
            used: 0,
            begun: VecDeque::new(),
            fresh: VecDeque::new(),
        };
        state.lines.push(line);
        let index = state.lines.len() - 1;
        drop(state);
        Arc::new(Line {
            turns: Arc::clone(self),
            index,
            waits: Counter::default(),
            wait_nanos: Counter::default(),
            refused: Counter::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives units back, and the places that this makes free to those who wait.
    fn give_back(&self, line: usize, units: u64) {
        let mut state = self.lock();
        state.used -= units;
        state.lines[line].used -= units;
        while state.waiting > 0
            && let Some(next) = state.next_to_serve(self.capacity)
        {
            state.serve(next);
        }
    }
}

impl State {
    /// True if the line may take so many units more.
    fn admits(&self, capacity: u64, line: &LineState, units: u64) -> bool {
        let free = capacity.saturating_sub(self.used.saturating_add(units));
        let fits = self.used.saturating_add(units) <= capacity
            && line.used + units <= free.saturating_mul(EAGERNESS * line.weight);
        line.used == 0 || fits
    }

    /// The line that holds the least for its weight, if there is room for its next work.
    fn next_to_serve(&self, capacity: u64) -> Option<usize> {
        let waiting = self.lines.iter().enumerate().filter(|(_, line)| line.front().is_some());
        let (index, line) =
            waiting.min_by(|(_, a), (_, b)| (a.used * b.weight).cmp(&(b.used * a.weight)))?;
        let units = line.front()?.units;
        self.admits(capacity, line, units).then_some(index)
    }

    fn serve(&mut self, line: usize) {
        let line = &mut self.lines[line];
        let Some(waiter) = line.begun.pop_front().or_else(|| line.fresh.pop_front()) else {
            return;
        };
        self.waiting -= 1;
        // A waiter that gave up removes itself before it is gone, so that whoever is found here
        // still listens, or has a guard that gives back what was granted in the last moment.
        line.used += waiter.units;
        self.used += waiter.units;
        let _unheard = waiter.granted.send(());
    }
}

impl LineState {
    fn front(&self) -> Option<&Waiter> {
        self.begun.front().or_else(|| self.fresh.front())
    }
}

type Counter = AtomicU64;

/// One tenant of [`Turns`].
#[derive(Debug)]
pub struct Line {
    turns: Arc<Turns>,
    index: usize,
    waits: Counter,
    wait_nanos: Counter,
    refused: Counter,
}

impl Line {
    /// Changes what the tenant may have in proportion to others.
    pub fn set_weight(&self, weight: u32) {
        self.turns.lock().lines[self.index].weight = u64::from(weight.max(1));
    }

    /// A place for work of so many units, waited for until `time` is over. A tenant that has less
    /// than its share by then is not to blame for the wait, and is given many times as long.
    ///
    /// # Errors
    /// [`Refused`] if it is over first.
    pub async fn take(self: &Arc<Self>, units: u64, time: Duration) -> Result<Turn, Refused> {
        let waiting = match self.take_or_wait(units, Kind::Fresh) {
            Ok(turn) => return Ok(turn),
            Err(waiting) => waiting,
        };
        let mut granted = pin!(waiting.granted());
        for _ in 0..PATIENCE {
            match tokio::time::timeout(time, granted.as_mut()).await {
                Ok(turn) => return Ok(turn),
                Err(_elapsed) if self.has_its_share(units) => break,
                Err(_elapsed) => {}
            }
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(Refused)
    }

    /// True if so many units more would be beyond what it should hold, in proportion to all that
    /// hold or want something.
    fn has_its_share(&self, units: u64) -> bool {
        let state = self.turns.lock();
        let active = state.lines.iter().filter(|line| line.used > 0 || line.front().is_some());
        let weights: u64 = active.map(|line| line.weight).sum();
        let own = &state.lines[self.index];
        // When all hold as much as `admits` lets them, an eighth of a part stays free beside their
        // parts.
        let share = self.turns.capacity * EAGERNESS * own.weight / (EAGERNESS * weights + 1);
        own.used + units > share
    }

    /// What it had so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            used: self.turns.lock().lines[self.index].used,
            waits: self.waits.load(Ordering::Relaxed),
            wait_time: Duration::from_nanos(self.wait_nanos.load(Ordering::Relaxed)),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    fn take_or_wait(self: &Arc<Self>, units: u64, kind: Kind) -> Result<Turn, Waiting> {
        let mut state = self.turns.lock();
        let line = &state.lines[self.index];
        // Nobody overtakes work of its own tenant; that of others is served by `give_back` whenever
        // there is room.
        let goes_first = match kind {
            Kind::Begun => line.begun.is_empty(),
            Kind::Fresh => line.front().is_none(),
        };
        if goes_first && state.admits(self.turns.capacity, line, units) {
            state.used += units;
            state.lines[self.index].used += units;
            drop(state);
            return Ok(Turn { line: Arc::clone(self), units });
        }
        let (granted, receiver) = oneshot::channel();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting += 1;
        state.lines[self.index].queue(kind).push_back(Waiter { ticket, units, granted });
        drop(state);
        self.waits.fetch_add(1, Ordering::Relaxed);
        Err(Waiting {
            line: Arc::clone(self),
            units,
            kind,
            ticket,
            since: Instant::now(),
            receiver,
            has_turn: false,
        })
    }
}

impl LineState {
    fn queue(&mut self, kind: Kind) -> &mut VecDeque<Waiter> {
        match kind {
            Kind::Begun => &mut self.begun,
            Kind::Fresh => &mut self.fresh,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Begun,
    Fresh,
}

/// A place in a line. Whoever drops it leaves the line, or gives back what was granted meanwhile.
#[derive(Debug)]
pub(crate) struct Waiting {
    line: Arc<Line>,
    units: u64,
    kind: Kind,
    ticket: u64,
    since: Instant,
    receiver: oneshot::Receiver<()>,
    /// The grant was turned into a [`Turn`].
    has_turn: bool,
}

impl Waiting {
    pub(crate) async fn granted(mut self) -> Turn {
        // The sender is dropped only by being used: it stays in the line for as long as we do.
        let _sent = (&mut self.receiver).await;
        self.has_turn = true;
        Turn { line: Arc::clone(&self.line), units: self.units }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let nanos = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.line.wait_nanos.fetch_add(nanos, Ordering::Relaxed);
        if self.has_turn {
            return;
        }
        let mut state = self.line.turns.lock();
        let queue = state.lines[self.line.index].queue(self.kind);
        match queue.iter().position(|waiter| waiter.ticket == self.ticket) {
            Some(place) => {
                drop(queue.remove(place));
                state.waiting -= 1;
            }
            // Granted in the last moment.
            None => {
                drop(state);
                self.line.turns.give_back(self.line.index, self.units);
            }
        }
    }
}

/// A place; dropping gives it back.
#[derive(Debug)]
pub struct Turn {
    line: Arc<Line>,
    units: u64,
}

impl Turn {
    /// True if a tenant waits that would still not hold more than this one if it got this place.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        let state = self.line.turns.lock();
        if state.waiting == 0 {
            return false;
        }
        let own = &state.lines[self.line.index];
        let rest = own.used.saturating_sub(self.units);
        state.lines.iter().enumerate().any(|(index, other)| {
            let wanted = other.front().map_or(0, |waiter| waiter.units);
            wanted > 0
                && index != self.line.index
                && (other.used + wanted) * own.weight <= rest * other.weight
        })
    }

    /// Gives the place to the tenant with the best claim, and gets or waits for the next.
    pub(crate) fn pass(self) -> Result<Self, Waiting> {
        let (line, units) = (Arc::clone(&self.line), self.units);
        drop(self);
        line.take_or_wait(units, Kind::Begun)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.line.turns.give_back(self.line.index, self.units);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_millis(500);

    async fn take(line: &Arc<Line>) -> Result<Turn, Refused> {
        line.take(1, TIME).await
    }

    async fn take_all(line: &Arc<Line>) -> Vec<Turn> {
        let mut held = Vec::new();
        while let Ok(turn) = line.take(1, Duration::ZERO).await {
            held.push(turn);
        }
        held
    }

    #[tokio::test(start_paused = true)]
    async fn who_holds_nothing_never_waits() {
        let turns = Turns::new(8);
        let (greedy, polite) = (turns.line(1), turns.line(1));
        let held = take_all(&greedy).await;
        assert_eq!(held.len(), 7);
        let start = Instant::now();
        let _first = take(&polite).await.unwrap();
        let strangers: Vec<_> = (0..20).map(|_| turns.line(1)).collect();
        let mut theirs = Vec::new();
        for stranger in &strangers {
            theirs.push(take(stranger).await.unwrap());
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert_eq!(take(&polite).await.unwrap_err(), Refused, "its second place is not a right");
        assert_eq!(start.elapsed(), TIME);
        let stats = polite.stats();
        assert_eq!((stats.used, stats.waits, stats.wait_time, stats.refused), (1, 1, TIME, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_free_place_goes_to_whoever_holds_the_least() {
        let turns = Turns::new(8);
        let (greedy, polite) = (turns.line(1), turns.line(1));
        let mut held = take_all(&greedy).await;
        let more_greed = tokio::spawn({
            let greedy = Arc::clone(&greedy);
            async move { take(&greedy).await }
        });
        tokio::task::yield_now().await;
        let _first = take(&polite).await.unwrap();
        let second = tokio::spawn({
            let polite = Arc::clone(&polite);
            async move { take(&polite).await }
        });
        tokio::task::yield_now().await;
        drop(held.pop());
        drop(held.pop());
        let _second = second.await.unwrap().unwrap();
        assert_eq!(polite.stats().used, 2);
        assert_eq!(
            greedy.stats().used + 2,
            2 + held.len() as u64 + u64::from(more_greed.is_finished())
        );
        drop(held);
        more_greed.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_less_than_its_share_is_not_refused_soon() {
        let turns = Turns::new(8);
        let (greedy, polite) = (turns.line(1), turns.line(1));
        let held = take_all(&greedy).await;
        let _first = take(&polite).await.unwrap();
        let start = Instant::now();
        assert_eq!(take(&greedy).await.unwrap_err(), Refused);
        assert_eq!(start.elapsed(), TIME);
        let releasing = tokio::spawn(async move {
            tokio::time::sleep(5 * TIME).await;
            drop(held);
        });
        take(&polite).await.unwrap();
        releasing.await.unwrap();
    }

    /// One that is alone never holds all there is, and heavy work may leave much of it free.
    #[tokio::test(start_paused = true)]
    async fn a_tenant_alone_waits_behind_itself_for_no_longer_than_its_time() {
        for (capacity, units) in [(8, 1), (2048, 1), (2048, 1500)] {
            let line = Turns::new(capacity).line(1);
            let mut held = Vec::new();
            while let Ok(turn) = line.take(units, Duration::ZERO).await {
                held.push(turn);
            }
            let start = Instant::now();
            assert_eq!(line.take(units, TIME).await.unwrap_err(), Refused);
            assert_eq!(start.elapsed(), TIME, "{capacity} {units}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_leaves_no_trace() {
        let turns = Turns::new(2);
        let (first, second) = (turns.line(1), turns.line(1));
        let held = take(&first).await.unwrap();
        for _ in 0..3 {
            assert!(take(&first).await.is_err());
        }
        assert_eq!(turns.lock().waiting, 0);
        drop(held);
        drop((take(&first).await.unwrap(), take(&second).await.unwrap()));
        assert_eq!(turns.lock().used, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_granted_to_somebody_who_left_comes_back() {
        let turns = Turns::new(2);
        let line = turns.line(1);
        let held = take(&line).await.unwrap();
        let waiting = line.take_or_wait(1, Kind::Fresh).unwrap_err();
        drop(held);
        assert_eq!(line.stats().used, 1, "granted, and not yet noticed");
        drop(waiting);
        assert_eq!((line.stats().used, turns.lock().used), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn heavy_work_is_done_even_where_it_exceeds_the_capacity() {
        let turns = Turns::new(4);
        let line = turns.line(1);
        let heavy = line.take(100, TIME).await.unwrap();
        assert!(take(&line).await.is_err());
        drop(heavy);
        drop(take(&line).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn begun_work_goes_before_new_work_of_its_tenant() {
        let turns = Turns::new(2);
        let line = turns.line(1);
        let held = take(&line).await.unwrap();
        let fresh = line.take_or_wait(1, Kind::Fresh).unwrap_err();
        let begun = line.take_or_wait(1, Kind::Begun).unwrap_err();
        drop(held);
        let turn = begun.granted().await;
        assert_eq!(line.stats().used, 1);
        drop(turn);
        drop(fresh.granted().await);
    }
}
