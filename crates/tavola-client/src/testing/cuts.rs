//! Each request of a scenario cut in each way.

use std::fmt;
use std::sync::{Arc, Mutex};

use super::sim::{Sim, SimStore, Task};
use super::{Broken, Checked, MakeStore, Part, make, part};
use crate::store::TableStore;

/// What happens to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cut {
    /// The client dies before the request is carried out.
    CrashBefore,
    /// The client dies after the request was carried out, before it hears of it.
    CrashAfter,
    /// The request is carried out, and the reply is lost.
    LostReply,
    /// The request is lost on the way.
    LostRequest,
}

impl Cut {
    const ALL: [Self; 4] =
        [Self::CrashBefore, Self::CrashAfter, Self::LostReply, Self::LostRequest];
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CrashBefore => "crash before",
            Self::CrashAfter => "crash after",
            Self::LostReply => "lost reply of",
            Self::LostRequest => "lost",
        })
    }
}

/// A test that cuts each request of a scenario in each way.
#[must_use = "it does nothing until it is run"]
pub struct EveryCut {
    store: MakeStore,
    seed: Option<Part>,
    scenario: Part,
    recover: Option<Part>,
    always: Option<Part>,
    finally: Option<Part>,
    depth: usize,
}

impl fmt::Debug for EveryCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EveryCut").field("depth", &self.depth).finish_non_exhaustive()
    }
}

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CutReport {
    /// The requests of the scenario when nothing is cut.
    pub requests: usize,
    /// The executions, the uncut one included.
    pub runs: usize,
}

/// Cuts each request of `scenario` in each way, each time on a new store from `store`.
///
/// A crash drops the scenario's future; after a lost reply or request the scenario goes on, and may
/// fail: what it was told it can note ([`Sim::note`]) for the checks.
pub fn every_cut<S: TableStore, F>(
    store: impl Fn() -> Arc<S> + 'static,
    scenario: impl Fn(Sim) -> F + Send + Sync + 'static,
) -> EveryCut
where
    F: Future<Output = Checked> + Send + 'static,
{
    EveryCut {
        store: make(store),
        seed: None,
        scenario: part(scenario),
        recover: None,
        always: None,
        finally: None,
        depth: 1,
    }
}

impl EveryCut {
    /// What is in the store before.
    pub fn seed<F>(mut self, seed: impl Fn(Sim) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Checked> + Send + 'static,
    {
        self.seed = Some(part(seed));
        self
    }

    /// What a new client does afterwards.
    pub fn recover<F>(mut self, recover: impl Fn(Sim) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Checked> + Send + 'static,
    {
        self.recover = Some(part(recover));
        self
    }

    /// What holds after every write.
    pub fn always<F>(mut self, always: impl Fn(Sim) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Checked> + Send + 'static,
    {
        self.always = Some(part(always));
        self
    }

    /// What holds in the end, after the recovery.
    pub fn finally<F>(mut self, finally: impl Fn(Sim) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Checked> + Send + 'static,
    {
        self.finally = Some(part(finally));
        self
    }

    /// So many cuts in one execution: with 2 each recovery is cut as well.
    pub fn depth(mut self, cuts: usize) -> Self {
        self.depth = cuts.max(1);
        self
    }

    /// Tries them all.
    ///
    /// # Errors
    /// The first execution in which a check failed.
    pub async fn run(self) -> Result<CutReport, Broken> {
        let whole = self.execute(&[]).await?;
        let mut report = CutReport { requests: whole.len(), runs: 1 };
        let mut paths: Vec<Vec<(usize, Cut)>> = all_cuts(&[], whole.len());
        while let Some(path) = paths.pop() {
            let next = self.execute(&path).await?;
            report.runs += 1;
            if path.len() < self.depth {
                paths.extend(all_cuts(&path, next.len()));
            }
        }
        Ok(report)
    }

    /// One execution: the scenario with the first cut, then a recovery with each further one, and
    /// one without. Returns the requests of the last.
    async fn execute(&self, path: &[(usize, Cut)]) -> Result<Vec<&'static str>, Broken> {
        let inner = (self.store)();
        let notes = Arc::new(Mutex::default());
        let plain = Sim::new(Arc::clone(&inner), &notes);
        let mut named = Vec::new();
        check(self.seed.as_ref(), &plain, "the seed").await?;
        let mut last = Vec::new();
        for phase in 0..=path.len() {
            let part = if phase == 0 { Some(&self.scenario) } else { self.recover.as_ref() };
            last.clear();
            let Some(part) = part else { continue };
            let always = self.always.clone().map(|always| (always, plain.clone()));
            let store = SimStore::new(&inner, phase as u64, always);
            let cut = path.get(phase).copied();
            store.cut(cut);
            let sim = Sim::new(Arc::clone(&store) as Arc<dyn TableStore>, &notes);
            let end = Task::new(part, &store, sim).run().await;
            last = store.seen();
            named.extend(cut.map(|cut| name(phase, cut, &last)));
            let path = if named.is_empty() { "uncut".to_owned() } else { named.join(", ") };
            if let Some(broken) = store.broken() {
                return Err(Broken::new(path, broken));
            }
            if let (None, Some(Err(error))) = (cut, end) {
                return Err(Broken::new(path, error));
            }
        }
        let path = if named.is_empty() { "uncut".to_owned() } else { named.join(", ") };
        check(self.always.as_ref(), &plain, &path).await?;
        check(self.finally.as_ref(), &plain, &path).await?;
        Ok(last)
    }
}

/// All cuts of so many requests, behind those of `path`; the first is the last, to be taken first.
fn all_cuts(path: &[(usize, Cut)], requests: usize) -> Vec<Vec<(usize, Cut)>> {
    let cuts = (0..requests).flat_map(|at| Cut::ALL.map(|cut| (at, cut)));
    let mut all: Vec<_> = cuts.map(|cut| [path, &[cut]].concat()).collect();
    all.reverse();
    all
}

fn name(phase: usize, (at, cut): (usize, Cut), seen: &[&'static str]) -> String {
    let request = seen.get(at).copied().unwrap_or("none");
    let of = if phase == 0 { "" } else { " of the recovery" };
    format!("{cut} request {}{of} ({request})", at + 1)
}

pub(super) async fn check(part: Option<&Part>, sim: &Sim, path: &str) -> Result<(), Broken> {
    match part {
        Some(part) => part(sim.clone()).await.map_err(|error| Broken::new(path, error)),
        None => Ok(()),
    }
}
