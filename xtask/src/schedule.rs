//! Runs steps in the order of a table, some of them beside each other.
//!
//! A table row says in which lane its step runs and which steps of other lanes must have ended
//! before. The steps of one lane run one after the other, in the order of the table.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::Result;

/// Where a step runs. The lanes run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Steps that take the whole machine. Their output is shown while they run.
    Front,
    /// Steps that leave a core or more to the front lane.
    Side,
    /// Steps that wait for the network.
    Network,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: fn() -> Result,
    pub(crate) lane: Lane,
    /// Why it may run beside the front lane; empty in the front lane itself.
    pub(crate) beside: &'static str,
    /// Steps that must have ended before, and why. The table names them earlier.
    pub(crate) after: &'static [(&'static str, &'static str)],
}

impl Step {
    pub(crate) const fn front(
        name: &'static str,
        about: &'static str,
        run: fn() -> Result,
    ) -> Self {
        Self { name, about, run, lane: Lane::Front, beside: "", after: &[] }
    }

    /// The same step in another lane.
    pub(crate) const fn beside(self, lane: Lane, why: &'static str) -> Self {
        Self { lane, beside: why, ..self }
    }

    /// The same step after others.
    pub(crate) const fn after(self, steps: &'static [(&'static str, &'static str)]) -> Self {
        Self { after: steps, ..self }
    }
}

/// For each step those that must have ended before it begins, directly or through others.
#[derive(Debug)]
pub(crate) struct Order(BTreeMap<&'static str, BTreeSet<&'static str>>);

impl Order {
    /// Of a whole table: a step that was not chosen still connects those that were.
    pub(crate) fn new(table: &[Step]) -> Self {
        let mut order: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (index, step) in table.iter().enumerate() {
            let earlier = table.iter().take(index);
            let in_its_lane = earlier.filter(|other| other.lane == step.lane);
            let direct = in_its_lane.map(|other| other.name);
            let direct = direct.chain(step.after.iter().map(|(name, _)| *name));
            let all = direct.flat_map(|name| {
                let through_it = order.get(name).cloned().unwrap_or_default();
                through_it.into_iter().chain([name])
            });
            let all = all.collect();
            order.insert(step.name, all);
        }
        Self(order)
    }

    fn waits_for(&self, step: &str, other: &str) -> bool {
        self.0.get(step).is_some_and(|before| before.contains(other))
    }

    /// Whether two steps can run at the same time.
    pub(crate) fn allows_beside(&self, one: &str, other: &str) -> bool {
        one != other && !self.waits_for(one, other) && !self.waits_for(other, one)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed(String),
    /// Another step failed before this one could begin.
    NotRun,
}

#[derive(Debug, Clone)]
pub(crate) struct Report {
    pub(crate) name: &'static str,
    pub(crate) outcome: Outcome,
    pub(crate) elapsed: Duration,
    /// The steps that ran at the same time, at least for a moment.
    pub(crate) beside: Vec<&'static str>,
}

/// What the caller is told while steps run. Calls come from one thread.
pub(crate) enum Event<'a> {
    Began(&'a Step),
    Ended(&'a Step, &'a Report),
}

/// Runs the steps and reports on each, in the order of the table.
///
/// After a failure no step begins, unless told to keep going; those that run go on to their end,
/// because some of them have something to clean up.
pub(crate) fn run(
    steps: &[&Step],
    order: &Order,
    keep_going: bool,
    execute: impl Fn(&Step) -> Result + Sync,
    mut tell: impl FnMut(Event<'_>),
) -> Vec<Report> {
    let mut run = Run::new(steps, order, keep_going);
    let (sender, receiver) = mpsc::channel();
    let execute = &execute;
    thread::scope(|scope| {
        loop {
            while let Some((index, step)) = run.begin_next() {
                tell(Event::Began(step));
                let sender = sender.clone();
                scope.spawn(move || {
                    let start = Instant::now();
                    let outcome = outcome(step, execute);
                    // The receiver lives as long as this scope.
                    let _ = sender.send((index, outcome, start.elapsed()));
                });
            }
            if !run.is_anything_running() {
                return;
            }
            let Ok((index, outcome, elapsed)) = receiver.recv() else { return };
            let (step, report) = run.end(index, outcome, elapsed);
            tell(Event::Ended(step, report));
        }
    });
    run.reports
}

/// A step that panics must not leave the others waiting for it.
fn outcome(step: &Step, execute: impl Fn(&Step) -> Result) -> Outcome {
    match catch_unwind(AssertUnwindSafe(|| execute(step))) {
        Ok(Ok(())) => Outcome::Passed,
        Ok(Err(failure)) => Outcome::Failed(failure.to_string()),
        Err(_) => Outcome::Failed("it panicked".into()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Ended,
}

/// How far a run is.
struct Run<'a> {
    steps: &'a [&'a Step],
    order: &'a Order,
    keep_going: bool,
    states: Vec<State>,
    reports: Vec<Report>,
}

impl<'a> Run<'a> {
    fn new(steps: &'a [&'a Step], order: &'a Order, keep_going: bool) -> Self {
        let report = |step: &&Step| Report {
            name: step.name,
            outcome: Outcome::NotRun,
            elapsed: Duration::ZERO,
            beside: Vec::new(),
        };
        let reports = steps.iter().map(report).collect();
        Self { steps, order, keep_going, states: vec![State::Waiting; steps.len()], reports }
    }

    fn is_anything_running(&self) -> bool {
        self.states.contains(&State::Running)
    }

    /// The first step that can begin now; it counts as running from here on.
    fn begin_next(&mut self) -> Option<(usize, &'a Step)> {
        let has_failed =
            self.reports.iter().any(|report| matches!(report.outcome, Outcome::Failed(_)));
        if has_failed && !self.keep_going {
            return None;
        }
        let index = (0..self.steps.len()).find(|index| self.is_ready(*index))?;
        for other in 0..self.steps.len() {
            if self.states[other] == State::Running {
                self.reports[other].beside.push(self.steps[index].name);
                self.reports[index].beside.push(self.steps[other].name);
            }
        }
        self.states[index] = State::Running;
        Some((index, self.steps[index]))
    }

    fn is_ready(&self, index: usize) -> bool {
        let is_open = |(other, state): (&&Step, &State)| {
            *state != State::Ended && self.order.waits_for(self.steps[index].name, other.name)
        };
        self.states[index] == State::Waiting && !self.steps.iter().zip(&self.states).any(is_open)
    }

    fn end(&mut self, index: usize, outcome: Outcome, elapsed: Duration) -> (&'a Step, &Report) {
        self.states[index] = State::Ended;
        let report = &mut self.reports[index];
        (report.outcome, report.elapsed) = (outcome, elapsed);
        (self.steps[index], report)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, Mutex};

    use super::*;

    const fn step(name: &'static str, lane: Lane) -> Step {
        Step::front(name, "", || Ok(())).beside(lane, "")
    }

    /// `slow` may run beside `one` and `two`, `quick` beside `three`, and nothing beside `last`.
    const TABLE: [Step; 6] = [
        step("one", Lane::Front),
        step("slow", Lane::Side),
        step("two", Lane::Front),
        step("three", Lane::Front).after(&[("slow", "it uses its output")]),
        step("quick", Lane::Side).after(&[("two", "")]),
        step("last", Lane::Front).after(&[("quick", "it runs alone")]),
    ];

    fn chosen(names: &[&str]) -> Vec<&'static Step> {
        TABLE.iter().filter(|step| names.is_empty() || names.contains(&step.name)).collect()
    }

    /// What a run told, `+name` for a step that began and `-name` for one that ended. A step ends
    /// when it is its turn in `ends`; those that are not listed end at once.
    fn play(
        names: &[&str],
        ends: &[&str],
        failing: &[&str],
        keep_going: bool,
    ) -> (String, Vec<Report>) {
        let (ended, has_changed) = (Mutex::new(0), Condvar::new());
        let execute = |step: &Step| {
            if let Some(turn) = ends.iter().position(|name| *name == step.name) {
                let guard = ended.lock().unwrap();
                drop(has_changed.wait_while(guard, |ended| *ended < turn).unwrap());
            }
            if failing.contains(&step.name) { Err("broken".into()) } else { Ok(()) }
        };
        let mut told = Vec::new();
        let tell = |event: Event<'_>| match event {
            Event::Began(step) => told.push(format!("+{}", step.name)),
            Event::Ended(step, _) => {
                told.push(format!("-{}", step.name));
                *ended.lock().unwrap() += usize::from(ends.contains(&step.name));
                has_changed.notify_all();
            }
        };
        let reports = run(&chosen(names), &Order::new(&TABLE), keep_going, execute, tell);
        (told.join(" "), reports)
    }

    fn outcomes(reports: &[Report]) -> Vec<(&str, &str)> {
        let word = |outcome: &Outcome| match outcome {
            Outcome::Passed => "passed",
            Outcome::Failed(_) => "failed",
            Outcome::NotRun => "not run",
        };
        reports.iter().map(|report| (report.name, word(&report.outcome))).collect()
    }

    #[test]
    fn lanes_run_beside_each_other_and_in_their_own_order() {
        let (told, reports) = play(&[], &["one", "two", "slow", "quick", "three"], &[], false);
        let expected = "+one +slow -one +two -two -slow +three +quick -quick -three +last -last";
        assert_eq!(told, expected);
        let beside: Vec<_> =
            reports.iter().map(|report| (report.name, report.beside.join(","))).collect();
        let expected = [
            ("one", "slow"),
            ("slow", "one,two"),
            ("two", "slow"),
            ("three", "quick"),
            ("quick", "three"),
            ("last", ""),
        ];
        assert_eq!(beside, expected.map(|(name, others)| (name, others.to_owned())));
    }

    #[test]
    fn a_step_that_was_not_chosen_still_connects_the_others() {
        let (told, _) = play(&["slow", "last"], &[], &[], false);
        assert_eq!(told, "+slow -slow +last -last");
        let (told, _) = play(&["two", "quick"], &[], &[], false);
        assert_eq!(told, "+two -two +quick -quick");
    }

    #[test]
    fn after_a_failure_nothing_begins_and_what_runs_goes_on() {
        let (told, reports) = play(&[], &["one", "slow"], &["one"], false);
        assert_eq!(told, "+one +slow -one -slow");
        let rest = ["two", "three", "quick", "last"].map(|name| (name, "not run"));
        let expected = [("one", "failed"), ("slow", "passed")];
        assert_eq!(outcomes(&reports)[..2], expected);
        assert_eq!(outcomes(&reports)[2..], rest);
    }

    #[test]
    fn a_failure_beside_counts_under_its_own_name() {
        let (told, reports) = play(&[], &["slow", "one"], &["slow"], false);
        assert_eq!(told, "+one +slow -slow -one");
        assert_eq!(outcomes(&reports)[..2], [("one", "passed"), ("slow", "failed")]);
        assert_eq!(reports[1].outcome, Outcome::Failed("broken".into()));
    }

    #[test]
    fn told_to_keep_going_all_steps_run() {
        let (_, reports) = play(&[], &[], &["slow", "two"], true);
        let failed: Vec<_> =
            outcomes(&reports).into_iter().filter(|(_, word)| *word == "failed").collect();
        assert_eq!(failed, [("slow", "failed"), ("two", "failed")]);
        assert!(!outcomes(&reports).iter().any(|(_, word)| *word == "not run"));
    }

    #[test]
    fn a_panic_fails_its_step() {
        let execute = |step: &Step| if step.name == "slow" { panic!("on purpose") } else { Ok(()) };
        let reports = run(&chosen(&["slow"]), &Order::new(&TABLE), false, execute, |_| {});
        assert_eq!(outcomes(&reports), [("slow", "failed")]);
    }

    #[test]
    fn what_may_run_at_the_same_time() {
        let order = Order::new(&TABLE);
        assert!(order.allows_beside("one", "slow") && order.allows_beside("slow", "two"));
        assert!(order.allows_beside("quick", "three"));
        for (one, other) in [("one", "two"), ("slow", "three"), ("one", "quick"), ("slow", "last")]
        {
            assert!(!order.allows_beside(one, other) && !order.allows_beside(other, one));
        }
        assert!(TABLE.iter().all(|step| !order.allows_beside("last", step.name)));
    }
}
