//! Is there an order of these calls that explains every answer?
//!
//! The calls of one partition are *linearizable* if each can be given one moment between its
//! invocation and its return such that the calls, carried out one after another at these moments by
//! the sequential `model`, give the answers that were given. This is the search of Wing and Gong
//! with Lowe's memory of what was tried: place a call that no unplaced call must precede, go on
//! from there, and never try the same calls with the same rows again.
//!
//! Three things keep it small, so that hundreds of calls of a dozen clients on one partition are
//! decided:
//!
//! - What changes nothing (reads, refusals) is placed as soon as it fits: waiting could only make
//!   it harder.
//! - Versions grow with every commit of a partition. That is a promise of the store, so writes
//!   whose version is known have only one order, and a server that breaks the promise is reported.
//!   Left to be tried are deletes, which have no version, and writes without an answer that nobody
//!   has seen.
//! - A call without an answer may be left out, and cannot happen any more once the process it was
//!   sent to is dead.
//!
//! Why not the crate `porcupine-rs` (0.3.0)? It has no calls that may be left out, no way to say
//! that versions order writes, reports a search that ran out of time as a violation when it is
//! asked for details, and brings a benchmark framework and an unmaintained macro crate into every
//! build.

use std::collections::HashSet;

use super::model::{Obstacle, State, Versions, step};
use super::record::{Answer, Call, Moment};

/// So many points of the search; beyond, the history is left undecided. About ten seconds of an
/// unoptimised build.
const POINTS_MAX: usize = 200_000;

/// What the search found.
#[derive(Debug)]
pub(super) enum SearchResult {
    Linearizable,
    Undecided,
    /// No order explains the answers; this one explains most.
    Impossible(Box<Stuck>),
}

/// How far the search came.
#[derive(Debug)]
pub(super) struct Stuck {
    /// The calls that could be placed, by their index.
    pub(super) order: Vec<usize>,
    /// The rows after them.
    pub(super) state: State,
    /// The calls of which one had to be next, and why it cannot be.
    pub(super) blocked: Vec<(usize, Blocked)>,
}

/// Why a call cannot be next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blocked {
    /// It would have been answered otherwise.
    By(Obstacle),
    /// It could, but then this one, whose version is lower, would be too late.
    Version(usize),
    /// It could, but that leads nowhere.
    InVain,
}

/// Searches an order for the calls of one partition, which are sorted by their invocation.
pub(super) fn check(calls: &[Call], versions: &Versions, rows: u8) -> SearchResult {
    check_within(calls, versions, rows, POINTS_MAX)
}

pub(super) fn check_within(
    calls: &[Call],
    versions: &Versions,
    rows: u8,
    points_max: usize,
) -> SearchResult {
    let mut search = Search::new(calls, versions, points_max);
    let start = Point {
        placed: vec![0; calls.len().div_ceil(64)],
        first: 0,
        certain_left: search.is_certain.iter().filter(|is_certain| **is_certain).count(),
        versions_placed: 0,
        last_invoked: 0,
        order: Vec::new(),
        state: State::empty(rows),
    };
    if search.finish(start) {
        return SearchResult::Linearizable;
    }
    match search.deepest.take() {
        Some(deepest) if search.tried.len() < points_max => {
            SearchResult::Impossible(Box::new(search.stuck(deepest)))
        }
        _ => SearchResult::Undecided,
    }
}

struct Search<'a> {
    calls: &'a [Call],
    model: &'a Versions,
    /// True if the call must be placed: it was answered, or somebody saw what it did.
    is_certain: Vec<bool>,
    /// The version of each call, where it is known.
    versions: Vec<Option<u64>>,
    /// The calls with a known version, in its order.
    by_version: Vec<usize>,
    tried: HashSet<(Vec<u64>, State)>,
    points_max: usize,
    deepest: Option<Point>,
}

/// Some calls placed, in some order.
#[derive(Debug, Clone)]
struct Point {
    /// One bit per call.
    placed: Vec<u64>,
    /// Every call before this one is placed, or cannot happen any more.
    first: usize,
    /// How many calls must still be placed.
    certain_left: usize,
    /// How many of `Search::by_version`.
    versions_placed: usize,
    /// The latest invocation of a placed call: what ended before it cannot happen any more.
    last_invoked: Moment,
    order: Vec<usize>,
    state: State,
}

impl Point {
    fn has(&self, call: usize) -> bool {
        self.placed[call / 64] & (1 << (call % 64)) != 0
    }
}

impl<'a> Search<'a> {
    fn new(calls: &'a [Call], model: &'a Versions, points_max: usize) -> Self {
        let versions: Vec<Option<u64>> = calls.iter().map(|call| model.of_call(call)).collect();
        // The version of a call without an answer is known because a reader saw it.
        let is_certain = |(call, version): (&Call, &Option<u64>)| {
            call.answer != Answer::Unknown || version.is_some()
        };
        let is_certain = calls.iter().zip(&versions).map(is_certain).collect();
        let mut by_version: Vec<usize> =
            (0..calls.len()).filter(|&call| versions[call].is_some()).collect();
        by_version.sort_by_key(|&call| versions[call]);
        Self {
            calls,
            model,
            is_certain,
            versions,
            by_version,
            tried: HashSet::new(),
            points_max,
            deepest: None,
        }
    }

    /// True if the calls that are left can be placed behind these.
    fn finish(&mut self, mut point: Point) -> bool {
        self.place_what_changes_nothing(&mut point);
        // Calls that need not have happened come last in the search, so the first point that is as
        // deep has fewest.
        if self.deepest.as_ref().is_none_or(|deepest| point.certain_left < deepest.certain_left) {
            self.deepest = Some(point.clone());
        }
        if point.certain_left == 0 {
            return true;
        }
        if self.tried.len() >= self.points_max
            || !self.tried.insert((point.placed.clone(), point.state.clone()))
        {
            return false;
        }
        let next = self.next(&point);
        next.into_iter().any(|call| match self.placed(&point, call) {
            Ok(point) => self.finish(point),
            Err(_) => false,
        })
    }

    /// Calls that may be next: none that is left must precede them. Those that need not have
    /// happened come last.
    fn next(&self, point: &Point) -> Vec<usize> {
        let mut horizon = Moment::MAX;
        let mut next: Vec<usize> = Vec::new();
        for call in point.first..self.calls.len() {
            if self.calls[call].invoked > horizon {
                break;
            }
            if point.has(call) {
                continue;
            }
            if self.is_certain[call] {
                horizon = horizon.min(self.calls[call].returned);
            }
            next.push(call);
        }
        next.retain(|&call| {
            self.calls[call].invoked <= horizon && self.calls[call].returned >= point.last_invoked
        });
        next.sort_by_key(|&call| (!self.is_certain[call], self.calls[call].returned));
        next
    }

    /// Waiting could only make it harder to place these, unless that rules out a call that need not
    /// have happened.
    fn place_what_changes_nothing(&self, point: &mut Point) {
        loop {
            let next = self.next(point);
            let may_end = next.iter().filter(|&&call| !self.is_certain[call]);
            let first_end =
                may_end.map(|&call| self.calls[call].returned).min().unwrap_or(Moment::MAX);
            let fits = next.into_iter().filter(|&call| {
                let call = &self.calls[call];
                call.invoked <= first_end
                    && matches!(step(&point.state, call, self.model), Ok(None))
            });
            let fits: Vec<usize> = fits.collect();
            if fits.is_empty() {
                return;
            }
            fits.into_iter().for_each(|call| self.put(point, call));
        }
    }

    /// The point after one more call.
    fn placed(&self, point: &Point, call: usize) -> Result<Point, Blocked> {
        let after = step(&point.state, &self.calls[call], self.model).map_err(Blocked::By)?;
        if self.versions[call].is_some() && self.by_version[point.versions_placed] != call {
            return Err(Blocked::Version(self.by_version[point.versions_placed]));
        }
        let mut next = point.clone();
        self.put(&mut next, call);
        if let Some(after) = after {
            next.state = after;
        }
        Ok(next)
    }

    fn put(&self, point: &mut Point, call: usize) {
        point.placed[call / 64] |= 1 << (call % 64);
        point.order.push(call);
        point.versions_placed += usize::from(self.versions[call].is_some());
        point.certain_left -= usize::from(self.is_certain[call]);
        point.last_invoked = point.last_invoked.max(self.calls[call].invoked);
        while let Some(first) = self.calls.get(point.first)
            && (point.has(point.first) || first.returned < point.last_invoked)
        {
            point.first += 1;
        }
    }

    fn stuck(&self, point: Point) -> Stuck {
        let why = |call| (call, self.placed(&point, call).err().unwrap_or(Blocked::InVain));
        let blocked = self.next(&point).into_iter().map(why).collect();
        Stuck { order: point.order, state: point.state, blocked }
    }
}
