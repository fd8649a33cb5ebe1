//! Workers: they do a step again and again until the time is over, and some are killed.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tavola_client::{BoxFuture, ErrorKind, Outcome};
use tokio::task::JoinHandle;

use super::{Checked, Failure, Stage};

/// Between two kills of workers.
const BETWEEN_KILLS: Duration = Duration::from_millis(120);
const BETWEEN_TICKS: Duration = Duration::from_millis(100);
/// After a step that the service could not do.
const PAUSE: Duration = Duration::from_millis(50);
/// A service that is away for longer does not come back.
const FAILURES_MAX: u32 = 400;

type Step = Arc<dyn Fn(Rng) -> BoxFuture<'static, Checked> + Send + Sync>;

/// Workers that run beside each other.
pub(crate) struct Crew {
    stage: Stage,
    steps: Vec<Step>,
}

impl Crew {
    pub(crate) fn new(stage: &Stage) -> Self {
        Self { stage: stage.clone(), steps: Vec::new() }
    }

    /// Adds so many workers. Each calls `step` until the time is over; a step that fails because
    /// the service was away is begun anew.
    pub(crate) fn workers<F>(
        mut self,
        count: usize,
        step: impl Fn(Rng) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Checked> + Send + 'static,
    {
        let step: Step = Arc::new(move |random| Box::pin(step(random)));
        self.steps.extend((0..count).map(|_| Arc::clone(&step)));
        self
    }

    /// Runs them to the end of the time.
    pub(crate) async fn run(self) -> Checked {
        let Self { stage, steps } = self;
        stage.begin();
        let start = |step: &Step| tokio::spawn(work(stage.clone(), Arc::clone(step)));
        let mut workers: Vec<_> = steps.iter().map(start).collect();
        let servers = async {
            match stage.has_chaos() {
                true => stage.kill_server_until_the_end().await,
                false => Ok(()),
            }
        };
        let watch = async {
            let mut since_kill = Duration::ZERO;
            while !stage.is_over() && !workers.iter().any(JoinHandle::is_finished) {
                tokio::time::sleep(BETWEEN_TICKS).await;
                stage.tick();
                since_kill += BETWEEN_TICKS;
                if stage.has_chaos() && since_kill >= BETWEEN_KILLS {
                    since_kill = Duration::ZERO;
                    let victim = fastrand::usize(..workers.len());
                    // In the middle of whatever request it waits for.
                    workers[victim].abort();
                    workers[victim] = start(&steps[victim]);
                    stage.note_killed();
                }
            }
        };
        let (served, ()) = tokio::join!(servers, watch);
        served?;
        for worker in workers {
            worker.await??;
        }
        Ok(())
    }
}

async fn work(stage: Stage, step: Step) -> Checked {
    let mut failures = 0;
    while !stage.is_over() {
        match step(Rng::new()).await {
            Ok(()) => {
                failures = 0;
                stage.note_done();
            }
            Err(failure) if is_passing(&failure) && failures < FAILURES_MAX => {
                failures += 1;
                stage.note_begun_anew();
                tokio::time::sleep(PAUSE).await;
            }
            Err(failure) => return Err(failure),
        }
        // Tables in this process never make a worker wait.
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Whether the service may be able to do it later, or others were faster. What became of a write
/// whose reply was lost, the invariants tell.
fn is_passing(failure: &Failure) -> bool {
    let Some(error) = failure.downcast_ref::<tavola_client::Error>() else { return false };
    let kind = matches!(
        error.kind(),
        ErrorKind::Connect | ErrorKind::Transport | ErrorKind::Deadline | ErrorKind::Modify { .. }
    );
    let is_unknown = error.outcome() == Outcome::Unknown;
    kind || is_unknown || error.is_changed() || error.is_throttled()
}
