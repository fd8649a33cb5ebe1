//! A client whose clock, chance and requests the test holds in its hand.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use super::cuts::Cut;
use super::{Checked, Part};
use crate::client::{TableClient, TableServiceClient};
use crate::runtime::{BoxFuture, Runtime};
use crate::store::{Failure, Reply, Request, StoreTraits, TableStore};

/// The time of day at which every execution begins: the guide's example of a log tail.
const BEGINNING: Duration = Duration::from_secs(1_408_668_632);

/// What a scenario, a writer or a check is given: a client of its own, and notes that all parts of
/// an execution share.
#[derive(Clone)]
pub struct Sim {
    service: TableServiceClient,
    notes: Arc<Mutex<Vec<String>>>,
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").field("notes", &self.notes).finish_non_exhaustive()
    }
}

impl Sim {
    pub(super) fn new(store: Arc<dyn TableStore>, notes: &Arc<Mutex<Vec<String>>>) -> Self {
        Self { service: TableServiceClient::on(store, None), notes: Arc::clone(notes) }
    }

    /// The client.
    #[must_use]
    pub fn tables(&self) -> &TableServiceClient {
        &self.service
    }

    /// The client of one table.
    #[must_use]
    pub fn table(&self, name: &str) -> TableClient {
        self.service.table_client(name)
    }

    /// Remembers something for a later check, for example what was acknowledged.
    pub fn note(&self, text: impl Into<String>) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(text.into());
    }

    /// What was noted in this execution.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The store of one client: it lets requests through, cuts one, or keeps them until they are
/// released.
pub(super) struct SimStore {
    inner: Arc<dyn TableStore>,
    clock: Arc<SimClock>,
    state: Mutex<State>,
    /// Looks after every write.
    always: Option<(Part, Sim)>,
}

#[derive(Default)]
struct State {
    /// The names of the requests so far.
    seen: Vec<&'static str>,
    cut: Option<(usize, Cut)>,
    is_crashed: bool,
    broken: Option<String>,
    /// Requests in the store below.
    in_flight: usize,
    /// In a race: requests wait until they are released.
    is_gated: bool,
    waiting: usize,
    released: usize,
    /// Those who wait to be released: futures inside others are polled only if they are woken.
    wakers: Vec<Waker>,
}

impl fmt::Debug for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimStore").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl SimStore {
    pub(super) fn new(
        inner: &Arc<dyn TableStore>,
        seed: u64,
        always: Option<(Part, Sim)>,
    ) -> Arc<Self> {
        let clock = Arc::new(SimClock::new(seed));
        Arc::new(Self { inner: Arc::clone(inner), clock, state: Mutex::default(), always })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn cut(&self, cut: Option<(usize, Cut)>) {
        self.state().cut = cut;
    }

    pub(super) fn gate(&self) {
        self.state().is_gated = true;
    }

    /// Lets one request go.
    pub(super) fn release(&self) {
        let mut state = self.state();
        state.released += 1;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(super) fn seen(&self) -> Vec<&'static str> {
        self.state().seen.clone()
    }

    /// What a check found after a request.
    pub(super) fn broken(&self) -> Option<String> {
        self.state().broken.clone()
    }

    async fn answer(&self, request: Request) -> Result<Reply, Failure> {
        self.pass_gate().await;
        let fate = {
            let mut state = self.state();
            let number = state.seen.len();
            state.seen.push(request.operation.name());
            state.cut.filter(|(at, _)| *at == number).map(|(_, cut)| cut)
        };
        match fate {
            None => self.below(request).await,
            Some(Cut::LostRequest) => Err(Failure::lost("the request was lost")),
            Some(Cut::LostReply) => {
                let _unheard = self.below(request).await;
                Err(Failure::lost("the reply was lost"))
            }
            Some(Cut::CrashBefore) => self.crash().await,
            Some(Cut::CrashAfter) => {
                let _unheard = self.below(request).await;
                self.crash().await
            }
        }
    }

    async fn pass_gate(&self) {
        if !self.state().is_gated {
            return;
        }
        self.state().waiting += 1;
        std::future::poll_fn(|context| {
            let mut state = self.state();
            if state.released == 0 {
                state.wakers.push(context.waker().clone());
                return Poll::Pending;
            }
            state.released -= 1;
            state.waiting -= 1;
            Poll::Ready(())
        })
        .await;
    }

    async fn below(&self, request: Request) -> Result<Reply, Failure> {
        let is_write = request.operation.is_write();
        self.state().in_flight += 1;
        let answer = self.inner.execute(request).await;
        let check = match &self.always {
            Some((always, sim)) if is_write => always(sim.clone()).await,
            _ => Ok(()),
        };
        let mut state = self.state();
        state.in_flight -= 1;
        if let Err(error) = check {
            let number = state.seen.len();
            state.broken.get_or_insert_with(|| format!("after request {number}: {error}"));
        }
        answer
    }

    /// The client is gone; the harness sees that and drops it.
    async fn crash(&self) -> Result<Reply, Failure> {
        self.state().is_crashed = true;
        std::future::pending().await
    }
}

impl TableStore for SimStore {
    fn execute(&self, request: Request) -> BoxFuture<'_, Result<Reply, Failure>> {
        Box::pin(self.answer(request))
    }

    fn traits(&self) -> StoreTraits {
        self.inner.traits()
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::clone(&self.clock) as Arc<dyn Runtime>
    }
}

/// A client that runs, and the store that it runs on.
pub(super) struct Task {
    future: Option<BoxFuture<'static, Checked>>,
    pub(super) store: Arc<SimStore>,
}

/// Where a client stands.
pub(super) enum Stand {
    /// It ended; `None` if it crashed.
    Ended(Option<Checked>),
    /// It waits to be released.
    Gated,
    /// It waits for something outside.
    Outside,
}

impl Task {
    pub(super) fn new(part: &Part, store: &Arc<SimStore>, sim: Sim) -> Self {
        Self { future: Some(part(sim)), store: Arc::clone(store) }
    }

    /// Lets it run as far as it can; pauses of its own take no time.
    pub(super) fn advance(&mut self, context: &mut Context<'_>) -> Stand {
        loop {
            let Some(future) = &mut self.future else { return Stand::Ended(None) };
            if let Poll::Ready(done) = future.as_mut().poll(context) {
                self.future = None;
                return Stand::Ended(Some(done));
            }
            let (is_crashed, in_flight, can_go, waiting) = {
                let state = self.store.state();
                let can_go = state.released > 0;
                (state.is_crashed, state.in_flight, can_go, state.waiting)
            };
            if is_crashed {
                self.future = None;
                return Stand::Ended(None);
            }
            if in_flight > 0 {
                return Stand::Outside;
            }
            if waiting > 0 && !can_go {
                return Stand::Gated;
            }
            if !self.store.clock.jump() {
                return Stand::Outside;
            }
        }
    }

    /// Runs it to its end; `None` if it crashed.
    pub(super) async fn run(mut self) -> Option<Checked> {
        std::future::poll_fn(move |context| match self.advance(context) {
            Stand::Ended(end) => Poll::Ready(end),
            Stand::Gated | Stand::Outside => Poll::Pending,
        })
        .await
    }
}

/// A clock that stands still until nobody can do anything but wait.
#[derive(Debug)]
struct SimClock {
    state: Arc<Mutex<ClockState>>,
}

#[derive(Debug)]
struct ClockState {
    now: Duration,
    random: u64,
    timers: Vec<(Duration, Waker)>,
}

impl SimClock {
    fn new(seed: u64) -> Self {
        let state = ClockState { now: Duration::ZERO, random: seed, timers: Vec::new() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, ClockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on to the next moment for which somebody waits; false if nobody does.
    fn jump(&self) -> bool {
        let mut state = self.state();
        let Some(next) = state.timers.iter().map(|(at, _)| *at).min() else { return false };
        state.now = state.now.max(next);
        let now = state.now;
        let (over, later) = state.timers.drain(..).partition(|(at, _)| *at <= now);
        state.timers = later;
        drop(state);
        let over: Vec<(Duration, Waker)> = over;
        over.into_iter().for_each(|(_, waker)| waker.wake());
        true
    }
}

impl Runtime for SimClock {
    fn now(&self) -> Duration {
        self.state().now
    }

    fn time_of_day(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + BEGINNING + self.now()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let until = self.now() + time;
        let state = Arc::clone(&self.state);
        Box::pin(std::future::poll_fn(move |context| {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.now >= until {
                return Poll::Ready(());
            }
            state.timers.push((until, context.waker().clone()));
            Poll::Pending
        }))
    }

    fn random(&self) -> u64 {
        let mut state = self.state();
        state.random = state.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(state.random)
    }
}

/// SplitMix64: all executions of a test have the same numbers.
pub(super) fn scramble(seed: u64) -> u64 {
    let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
