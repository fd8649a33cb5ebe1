//! What a round measures: a server over the wire, the engine in its own process, another
//! database with its own tool.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use tavola_load::{EntityTemplate, Outcome, Pace, Result};

use crate::series::Series;

/// Settings of a round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) series: Series,
    pub(crate) connections: usize,
    pub(crate) duration: Duration,
    pub(crate) pace: Pace,
}

/// What a round has reached, by its own clock.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Reached {
    pub(crate) requests: u64,
    pub(crate) entities: u64,
    pub(crate) seconds: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
}

impl Reached {
    /// `latency` is in nanoseconds.
    pub(crate) fn new(
        requests: u64,
        entities: u64,
        elapsed: Duration,
        latency: &Histogram<u64>,
    ) -> Self {
        let microseconds = |quantile| latency.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            requests,
            entities,
            seconds: elapsed.as_secs_f64(),
            p50_us: microseconds(0.5),
            p99_us: microseconds(0.99),
            p999_us: microseconds(0.999),
        }
    }
}

impl From<Outcome> for Reached {
    fn from(outcome: Outcome) -> Self {
        Self::new(outcome.requests, outcome.entities, outcome.elapsed, &outcome.latency)
    }
}

pub(crate) trait Target {
    fn name(&self) -> &'static str;
    /// Entities that were there before the first round.
    fn entities(&self) -> u64;
    /// The process whose costs count, if it is one.
    fn process(&self) -> Option<u32>;
    fn takes(&self, series: Series) -> bool;
    fn press(&mut self, shape: Shape, template: &EntityTemplate, round: u32) -> Result<Reached>;
    /// Syncs of its log so far, if it counts them.
    fn syncs(&self) -> Result<Option<f64>> {
        Ok(None)
    }
    /// What it had to say for itself.
    fn last_errors(&self) -> String {
        String::new()
    }

    /// `tavola 10k`
    fn label(&self) -> String {
        format!("{} {}", self.name(), tavola_load::text::size(self.entities()))
    }
}
