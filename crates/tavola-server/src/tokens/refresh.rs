//! An issuer's keys, kept fresh by one task per issuer.
//!
//! The task alone asks the issuer, so there is one question at a time, however many tokens wait for
//! the answer and whether or not their senders stay. Between two questions it rests, so that tokens
//! with invented key ids cannot make it ask more often than that.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tavola_protocol::auth::token::{KeySet, TrustedIssuer};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use super::Generation;
use super::fetch::{Answer, FetchError, Fetcher};

/// Between two questions, whoever wants to know.
const REST: Duration = Duration::from_secs(10);
/// Keys are asked for at least this often, and not more often if an issuer wishes so.
const FRESH_MAX: Duration = Duration::from_secs(60 * 60);
const FRESH_MIN: Duration = Duration::from_secs(60);
/// After a failure the pause doubles from [`REST`] up to this.
const RETRY_MAX: Duration = Duration::from_secs(5 * 60);
/// Keys of an issuer that does not answer stay in use this long. Beyond it a key that was withdrawn
/// may be among them.
const USABLE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The keys of one issuer, asked for when needed and then kept fresh.
#[derive(Debug)]
pub(super) struct FetchedKeys {
    shared: Arc<Shared>,
    /// Runs from the first use on, because only then is there surely a runtime.
    task: OnceLock<Task>,
}

#[derive(Debug)]
struct Shared {
    name: String,
    issuer: String,
    fetcher: Fetcher,
    current: ArcSwapOption<Current>,
    generation: Generation,
}

/// Keys, and since when they are known to be the issuer's.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) keys: KeySet,
    since: Instant,
}

#[derive(Debug)]
struct Task {
    handle: AbortHandle,
    nudge: Arc<Notify>,
    progress: watch::Receiver<Progress>,
}

/// Without its owner nobody needs the keys.
impl Drop for Task {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

#[derive(Debug, Clone, Copy)]
struct Progress {
    phase: Phase,
    /// Questions that were answered or given up.
    finished: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Asking,
    Resting,
    Ready,
}

impl FetchedKeys {
    pub(super) fn new(trusted: &TrustedIssuer, fetcher: Fetcher, generation: Generation) -> Self {
        let (name, issuer) = (trusted.name.clone(), trusted.issuer.clone());
        let current = ArcSwapOption::empty();
        Self {
            shared: Arc::new(Shared { name, issuer, fetcher, current, generation }),
            task: OnceLock::new(),
        }
    }

    /// The keys at hand, unless they are too old to trust.
    pub(super) fn current(&self) -> Option<Arc<Current>> {
        self.shared.current()
    }

    pub(super) fn start(&self) {
        self.task();
    }

    /// Waits for the answer to a question, asking it if need be; `false` if it is too early to ask
    /// again.
    pub(super) async fn refresh(&self) -> bool {
        let task = self.task();
        let mut progress = task.progress.clone();
        let seen = *progress.borrow_and_update();
        match seen.phase {
            Phase::Asking => {}
            Phase::Ready => task.nudge.notify_one(),
            Phase::Resting => return false,
        }
        progress.wait_for(|progress| progress.finished > seen.finished).await.is_ok()
    }

    fn task(&self) -> &Task {
        self.task.get_or_init(|| {
            let nudge = Arc::new(Notify::new());
            let (sender, progress) = watch::channel(Progress { phase: Phase::Asking, finished: 0 });
            let handle =
                tokio::spawn(keep_fresh(self.shared.clone(), nudge.clone(), sender)).abort_handle();
            Task { handle, nudge, progress }
        })
    }
}

impl Shared {
    fn current(&self) -> Option<Arc<Current>> {
        self.current.load_full().filter(|current| current.since.elapsed() < USABLE_MAX)
    }

    fn install(&self, keys: KeySet) {
        let changed = self.current.load().as_ref().is_none_or(|current| current.keys != keys);
        self.current.store(Some(Arc::new(Current { keys, since: Instant::now() })));
        if changed {
            self.generation.fetch_add(1, Ordering::Release);
        }
    }
}

async fn keep_fresh(shared: Arc<Shared>, nudge: Arc<Notify>, progress: watch::Sender<Progress>) {
    let mut state = State::Unknown;
    let mut retry = REST;
    loop {
        progress.send_modify(|progress| progress.phase = Phase::Asking);
        let answer = shared.fetcher.ask(&shared.issuer).await;
        let pause = match &answer {
            // A tenth earlier than the issuer wants, so that tokens find fresh keys.
            Ok(answer) => {
                answer.fresh_for.unwrap_or(FRESH_MAX).clamp(FRESH_MIN, FRESH_MAX) * 9 / 10
            }
            Err(_) => retry,
        };
        retry = if answer.is_ok() { REST } else { (retry * 2).min(RETRY_MAX) };
        state = settle(&shared, answer, state);
        progress.send_modify(|progress| {
            *progress = Progress { phase: Phase::Resting, finished: progress.finished + 1 }
        });
        sleep(REST).await;
        progress.send_modify(|progress| progress.phase = Phase::Ready);
        tokio::select! {
            () = sleep(pause.saturating_sub(REST)) => {}
            () = nudge.notified() => {}
        }
    }
}

/// What an operator should know about an issuer. Each change is logged, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unknown,
    Answering,
    OnOldKeys,
    WithoutKeys,
}

fn settle(shared: &Shared, answer: Result<Answer, FetchError>, before: State) -> State {
    let (state, error) = match answer {
        Ok(answer) => {
            shared.install(answer.keys);
            (State::Answering, None)
        }
        Err(error) if shared.current().is_some() => (State::OnOldKeys, Some(error)),
        Err(error) => (State::WithoutKeys, Some(error)),
    };
    if state != before {
        log(&shared.name, state, error.as_ref());
    }
    state
}

fn log(issuer: &str, state: State, error: Option<&FetchError>) {
    let error = error.map(tracing::field::display);
    match state {
        State::Unknown => {}
        State::Answering => tracing::info!(issuer, "the keys of an issuer of tokens were fetched"),
        State::OnOldKeys => {
            tracing::warn!(
                issuer,
                error,
                "cannot fetch an issuer's keys; the old ones stay in use for 24 hours"
            );
        }
        State::WithoutKeys => {
            tracing::warn!(issuer, error, "cannot fetch an issuer's keys; its tokens are refused")
        }
    }
}
