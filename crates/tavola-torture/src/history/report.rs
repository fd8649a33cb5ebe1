//! What to show of a history that no order explains: its shortest beginning of which that is true
//! already.

use std::fmt::Write as _;

use super::check::{Blocked, SearchResult, Stuck, check};
use super::model::Versions;
use super::record::{Answer, Ask, Call, Moment, NEVER};

/// So many calls before the point where it becomes impossible.
const SHOWN_BEFORE: usize = 12;

/// The words for calls that no order explains.
pub(super) fn report(partition: u8, calls: &[Call], stuck: Stuck, rows: u8) -> String {
    let (calls, stuck) = shortest(calls, rows).unwrap_or_else(|| (calls.to_vec(), stuck));
    let answered = calls.iter().enumerate().filter(|(_, call)| call.answer != Answer::Unknown);
    let last = answered.max_by_key(|(_, call)| call.returned).map(|(index, _)| index);
    let mut text =
        format!("partition p{partition}: no order of its calls explains their answers.\n");
    if let Some(last) = last {
        let _ = writeln!(text, "Until this answer there was one:\n  {}", calls[last]);
    }
    let skipped = stuck.order.len().saturating_sub(SHOWN_BEFORE);
    let _ = writeln!(text, "An order that explains as much as possible, after {skipped} others:");
    for &call in &stuck.order[skipped..] {
        let _ = writeln!(text, "  {}", calls[call]);
    }
    let _ = writeln!(text, "Then the rows are:\n  {}\nand none of these can be next:", stuck.state);
    for (call, why) in &stuck.blocked {
        let why = match why {
            Blocked::By(obstacle) => obstacle.to_string(),
            Blocked::Version(other) => format!("then it would be too late for: {}", calls[*other]),
            Blocked::InVain => "possible, but it leads nowhere".to_owned(),
        };
        let _ = writeln!(text, "  {}\n    {why}", calls[*call]);
    }
    text.truncate(text.trim_end().len());
    text
}

/// A history that can be explained can be explained up to every moment, so the first bad moment can
/// be searched by halves.
fn shortest(calls: &[Call], rows: u8) -> Option<(Vec<Call>, Stuck)> {
    let mut ends: Vec<Moment> =
        calls.iter().map(|call| call.returned).filter(|end| *end != NEVER).collect();
    ends.sort_unstable();
    let first_bad = ends.partition_point(|end| impossible(&until(calls, *end), rows).is_none());
    let shortest = until(calls, *ends.get(first_bad)?);
    let stuck = impossible(&shortest, rows)?;
    Some((shortest, stuck))
}

fn impossible(calls: &[Call], rows: u8) -> Option<Stuck> {
    match check(calls, &Versions::collect(calls).ok()?, rows) {
        SearchResult::Impossible(stuck) => Some(*stuck),
        SearchResult::Linearizable | SearchResult::Undecided => None,
    }
}

/// The history as it was known at a moment: what was under way then has no answer yet.
fn until(calls: &[Call], end: Moment) -> Vec<Call> {
    let begun = calls.iter().filter(|call| call.invoked <= end);
    let known = begun.filter_map(|call| match call.ask {
        _ if call.returned <= end => Some(call.clone()),
        Ask::Write(_) => Some(Call { answer: Answer::Unknown, returned: NEVER, ..call.clone() }),
        Ask::Get(_) | Ask::Page(_) => None,
    });
    known.collect()
}
