//! Writers that race: one request at a time is let go, in every order.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use super::cuts::check;
use super::sim::{Sim, SimStore, Stand, Task, scramble};
use super::{Broken, Checked, MakeStore, Part, make, part};
use crate::store::TableStore;

/// The executions that are tried before chance takes over.
const EXHAUSTIVE_MAX: usize = 2000;
const SEEDS: u64 = 200;

/// A test in which writers race.
#[must_use = "it does nothing until it is run"]
pub struct Race {
    store: MakeStore,
    seed: Option<Part>,
    writers: Vec<Part>,
    always: Option<Part>,
    finally: Option<Part>,
    at_most: usize,
    seeds: u64,
}

impl fmt::Debug for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Race").field("writers", &self.writers.len()).finish_non_exhaustive()
    }
}

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RaceReport {
    /// The executions.
    pub runs: usize,
    /// True if these were all.
    pub is_exhaustive: bool,
}

/// Writers that race, each time on a new store from `store`.
pub fn race<S: TableStore>(store: impl Fn() -> Arc<S> + 'static) -> Race {
    Race {
        store: make(store),
        seed: None,
        writers: Vec::new(),
        always: None,
        finally: None,
        at_most: EXHAUSTIVE_MAX,
        seeds: SEEDS,
    }
}

impl Race {
    /// What is in the store before.
    pub fn seed<F>(mut self, seed: impl Fn(Sim) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Checked> + Send + 'static,
    {
        self.seed = Some(part(seed));
        self
    }

    /// One of those who race. If it fails, the execution is wrong.
    pub fn writer<F>(mut self, writer: impl Fn(Sim) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Checked> + Send + 'static,
    {
        self.writers.push(part(writer));
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

    /// What holds in the end.
    pub fn finally<F>(mut self, finally: impl Fn(Sim) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Checked> + Send + 'static,
    {
        self.finally = Some(part(finally));
        self
    }

    /// If there are more than so many orders, `seeds` others follow, drawn by chance.
    pub fn at_most(mut self, executions: usize, seeds: u64) -> Self {
        (self.at_most, self.seeds) = (executions, seeds);
        self
    }

    /// Tries them.
    ///
    /// # Errors
    /// The first execution in which a check or a writer failed.
    pub async fn run(self) -> Result<RaceReport, Broken> {
        let mut choices = Choices::default();
        let mut runs = 0;
        let is_exhaustive = loop {
            self.execute(&mut choices).await?;
            runs += 1;
            if !choices.turn() {
                break true;
            }
            if runs == self.at_most {
                break false;
            }
        };
        if !is_exhaustive {
            for seed in 0..self.seeds {
                self.execute(&mut Choices { seed: Some(seed), ..Choices::default() }).await?;
                runs += 1;
            }
        }
        Ok(RaceReport { runs, is_exhaustive })
    }

    async fn execute(&self, choices: &mut Choices) -> Result<(), Broken> {
        let inner = (self.store)();
        let notes = Arc::new(Mutex::default());
        let plain = Sim::new(Arc::clone(&inner), &notes);
        check(self.seed.as_ref(), &plain, "the seed").await?;
        let writers = self.writers.iter().zip(1_u64..).map(|(writer, number)| {
            let always = self.always.clone().map(|always| (always, plain.clone()));
            let store = SimStore::new(&inner, scramble(number), always);
            store.gate();
            let sim = Sim::new(Arc::clone(&store) as Arc<dyn TableStore>, &notes);
            Task::new(writer, &store, sim)
        });
        let mut writers: Vec<_> = writers.map(Some).collect();
        let mut order = Vec::new();
        loop {
            let waiting = settle(&mut writers, &order).await?;
            if waiting.is_empty() {
                break;
            }
            let chosen = waiting[choices.choose(waiting.len())];
            order.push(chosen);
            if let Some(Some(writer)) = writers.get(chosen) {
                writer.store.release();
            }
        }
        let path = name(&order);
        check(self.always.as_ref(), &plain, &path).await?;
        check(self.finally.as_ref(), &plain, &path).await
    }
}

/// Lets all writers run until each has ended or waits to be released; returns those that wait.
async fn settle(writers: &mut [Option<Task>], order: &[usize]) -> Result<Vec<usize>, Broken> {
    std::future::poll_fn(|context| {
        let mut waiting = Vec::new();
        let mut is_outside = false;
        for (number, place) in writers.iter_mut().enumerate() {
            let Some(writer) = place else { continue };
            let stand = writer.advance(context);
            if let Some(broken) = writer.store.broken() {
                return Poll::Ready(Err(Broken::new(name(order), broken)));
            }
            match stand {
                Stand::Gated => waiting.push(number),
                Stand::Outside => is_outside = true,
                Stand::Ended(end) => {
                    *place = None;
                    if let Some(Err(error)) = end {
                        let reason = format!("writer {}: {error}", number + 1);
                        return Poll::Ready(Err(Broken::new(name(order), reason)));
                    }
                }
            }
        }
        if is_outside { Poll::Pending } else { Poll::Ready(Ok(waiting)) }
    })
    .await
}

fn name(order: &[usize]) -> String {
    let order: Vec<_> = order.iter().map(|writer| (writer + 1).to_string()).collect();
    format!("writers in the order {}", order.join(" "))
}

/// An odometer: the choices of one execution, and of each how many there were.
#[derive(Debug, Default)]
struct Choices {
    made: Vec<(usize, usize)>,
    at: usize,
    /// Instead of an odometer: chance.
    seed: Option<u64>,
}

impl Choices {
    fn choose(&mut self, options: usize) -> usize {
        if let Some(seed) = &mut self.seed {
            *seed = scramble(seed.wrapping_add(0x9e37_79b9_7f4a_7c15));
            return (*seed % options as u64) as usize;
        }
        if self.at == self.made.len() {
            self.made.push((0, options));
        }
        let chosen = self.made[self.at].0;
        self.at += 1;
        chosen.min(options - 1)
    }

    /// On to the next execution; false if that was the last.
    fn turn(&mut self) -> bool {
        self.at = 0;
        while let Some((chosen, options)) = self.made.pop() {
            if chosen + 1 < options {
                self.made.push((chosen + 1, options));
                return true;
            }
        }
        false
    }
}
