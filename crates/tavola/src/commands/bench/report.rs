//! What was measured, for people and for scripts.

use std::io::Write as _;

use serde_json::{Value, json};
use tavola_load::{ENTITY_BYTES, Outcome, Pace, text};

use super::Plan;
use super::workload::Workload;
use crate::account_access::AccountAccess;

/// Above it the generator itself may be what was measured.
const GENERATOR_SHARE_MAX: f64 = 0.9;
/// Below it a server did not keep up with the rate that was asked of it.
const RATE_SHARE_MIN: f64 = 0.95;

/// One workload's figures.
#[derive(Debug)]
pub(super) struct Measured {
    workload: Workload,
    connections: usize,
    requests: u64,
    entities: u64,
    seconds: f64,
    /// In the workload's unit.
    per_second: f64,
    requests_per_second: f64,
    /// Microseconds.
    p50: f64,
    p99: f64,
    p999: f64,
    /// Of one core.
    generator_share: f64,
}

impl Measured {
    pub(super) fn new(
        workload: Workload,
        connections: usize,
        per_second: f64,
        outcome: &Outcome,
    ) -> Self {
        let microseconds = |quantile| outcome.latency.value_at_quantile(quantile) as f64 / 1e3;
        // Something has arrived, or the round would have failed.
        let seconds = outcome.elapsed.as_secs_f64().max(f64::EPSILON);
        Self {
            workload,
            connections,
            requests: outcome.requests,
            entities: outcome.entities,
            seconds,
            per_second,
            requests_per_second: outcome.requests as f64 / seconds,
            p50: microseconds(0.5),
            p99: microseconds(0.99),
            p999: microseconds(0.999),
            generator_share: outcome.generator_cpu.as_secs_f64() / seconds,
        }
    }

    /// A line of the table.
    pub(super) fn line(&self) -> String {
        let rate = format!("{} {}/s", text::number(self.per_second), self.workload.unit());
        let [p50, p99, p999] = [self.p50, self.p99, self.p999].map(text::latency);
        let share = text::percent(self.generator_share);
        row([self.workload.name(), &rate, &p50, &p99, &p999, &share])
    }

    /// What must be known to read the figures right.
    pub(super) fn notes(&self, pace: Pace) -> Vec<String> {
        let mut notes = Vec::new();
        let name = self.workload.name();
        if self.generator_share > GENERATOR_SHARE_MAX {
            let share = text::percent(self.generator_share);
            notes.push(format!(
                "{name}: the generator used {share} of a core: it may be the limit, not the server"
            ));
        }
        if let Pace::PerSecond(rate) = pace
            && self.requests_per_second < rate * RATE_SHARE_MIN
        {
            let (reached, rate) = (text::number(self.requests_per_second), text::number(rate));
            let cause =
                if self.connections == 1 { "the server, on one connection," } else { "the server" };
            notes.push(format!(
                "{name}: {cause} did not keep up: {reached} of {rate} requests/s; latencies grow \
                 until it ends"
            ));
        }
        notes
    }

    fn to_json(&self, pace: Pace) -> Value {
        json!({
            "workload": self.workload.name(),
            "connections": self.connections,
            "requests": self.requests,
            "entities": self.entities,
            "seconds": self.seconds,
            "unit": self.workload.unit(),
            "per_second": self.per_second,
            "p50_us": self.p50,
            "p99_us": self.p99,
            "p999_us": self.p999,
            "generator_cpu_share": self.generator_share,
            "notes": self.notes(pace),
        })
    }
}

/// What is measured, and the heads of the columns.
pub(super) fn heading(access: &AccountAccess, plan: &Plan) -> String {
    let (size, seconds) = (text::number(plan.entities as f64), plan.duration.as_secs_f64());
    let pace = match plan.pace {
        Pace::Closed => String::new(),
        Pace::PerSecond(rate) => format!(", {} requests/s", text::number(rate)),
    };
    let head = row(["workload", "rate", "p50", "p99", "p99.9", "generator"]);
    format!(
        "{}: {size} entities of {ENTITY_BYTES} bytes, up to {} connections{pace}, {seconds} s \
         each\n\n{head}",
        access.endpoint, plan.connections
    )
}

pub(super) fn json(access: &AccountAccess, plan: &Plan, measured: &[Measured]) -> String {
    let rate = match plan.pace {
        Pace::Closed => None,
        Pace::PerSecond(rate) => Some(rate),
    };
    let object = json!({
        "endpoint": access.endpoint.as_str(),
        "account": access.account.as_str(),
        "entities": plan.entities,
        "entity_bytes": ENTITY_BYTES,
        "connections": plan.connections,
        "seconds": plan.duration.as_secs_f64(),
        "rate": rate,
        "workloads": measured.iter().map(|measured| measured.to_json(plan.pace)).collect::<Vec<_>>(),
    });
    format!("{object:#}")
}

/// On standard output. A closed pipe must not keep the table from being dropped.
pub(super) fn say(text: &str) {
    let mut out = std::io::stdout();
    let _reader_gone = writeln!(out, "{text}").and_then(|()| out.flush());
}

fn row(cells: [&str; 6]) -> String {
    let [workload, rate, p50, p99, p999, share] = cells;
    format!("{workload:<8}  {rate:>20}  {p50:>9}  {p99:>9}  {p999:>9}  {share:>9}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(generator_share: f64, requests_per_second: f64) -> Measured {
        Measured {
            workload: Workload::Get,
            connections: 64,
            requests: 1_000,
            entities: 1_000,
            seconds: 1.0,
            per_second: requests_per_second,
            requests_per_second,
            p50: 812.0,
            p99: 2_150.0,
            p999: 1_200_000.0,
            generator_share,
        }
    }

    #[test]
    fn columns_line_up() {
        let head = row(["workload", "rate", "p50", "p99", "p99.9", "generator"]);
        let line = measured(0.71, 12_345.0).line();
        assert_eq!(
            line,
            "get          12,345 requests/s     812 µs    2.15 ms     1.20 s       71 %"
        );
        assert_eq!(head.chars().count(), line.chars().count());
    }

    #[test]
    fn limits_are_noted() {
        assert_eq!(measured(0.9, 500.0).notes(Pace::Closed), Vec::<String>::new());
        assert_eq!(measured(0.5, 480.0).notes(Pace::PerSecond(500.0)), Vec::<String>::new());
        let busy = "get: the generator used 97 % of a core: it may be the limit, not the server";
        assert_eq!(measured(0.97, 500.0).notes(Pace::Closed), [busy]);
        let slow =
            "get: the server did not keep up: 300 of 500 requests/s; latencies grow until it ends";
        assert_eq!(measured(0.1, 300.0).notes(Pace::PerSecond(500.0)), [slow]);
    }
}
