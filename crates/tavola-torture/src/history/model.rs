//! One partition as a sequential program: what a call does to it, and what it must answer.
//!
//! Written anew, not with the store's own `decide`: a mistake there must not be a mistake here too.

use std::collections::HashMap;
use std::fmt;

use super::record::{Answer, Ask, Call, Condition, Content, DomainError, Verb, Version, Write};

/// The rows of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct State(pub(super) Vec<Option<Content>>);

impl State {
    pub(super) fn empty(rows: u8) -> Self {
        Self(vec![None; usize::from(rows)])
    }

    fn row(&self, row: u8) -> Option<Content> {
        self.0[usize::from(row)]
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |(row, content): (usize, &Option<Content>)| match content {
            Some(content) => format!("r{row:02} {content}"),
            None => format!("r{row:02} nothing"),
        };
        let words: Vec<String> = self.0.iter().enumerate().map(word).collect();
        f.write_str(&words.join("; "))
    }
}

/// What a call would have to find instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// A read saw something else in this row.
    Differs(u8),
    /// A write that was done would have been refused.
    Refused(usize, DomainError),
    /// A write that was refused would have been done, or refused for another reason.
    NotRefused(usize),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Differs(row) => write!(f, "r{row:02} is not what it saw"),
            Self::Refused(index, domain_error) => {
                write!(f, "its operation {index} would be refused: {domain_error:?}")
            }
            Self::NotRefused(index) => write!(f, "its operation {index} would not be refused so"),
        }
    }
}

/// Which version the write with a number made.
#[derive(Debug, Default)]
pub(super) struct Versions(HashMap<u32, Version>);

impl Versions {
    /// Collects what answers say about versions.
    ///
    /// # Errors
    /// If they contradict each other: one write with two versions, one version of two commits, an
    /// unknown write.
    pub(super) fn collect(calls: &[Call]) -> Result<Self, String> {
        let mut writers: HashMap<u32, usize> = HashMap::new();
        for (index, call) in calls.iter().enumerate() {
            let writes = call.possible_writes().iter().filter(|write| write.verb != Verb::Delete);
            writers.extend(writes.map(|write| (write.content.last(), index)));
        }
        let mut versions = Self::default();
        let (mut commit_of, mut version_of) = (HashMap::new(), HashMap::new());
        for call in calls {
            for (number, version) in told(call) {
                let Some(&writer) = writers.get(&number) else {
                    return Err(format!(
                        "write {number} was never asked for, or was refused, and yet it shows:\n  {call}"
                    ));
                };
                versions.0.insert(number, version);
                if *version_of.entry(writer).or_insert(version) != version {
                    return Err(format!(
                        "one commit has two versions:\n  {}\n  {call}",
                        calls[writer]
                    ));
                }
                let commit = *commit_of.entry(version).or_insert(writer);
                if commit != writer {
                    let (one, other) = (&calls[commit], &calls[writer]);
                    return Err(format!(
                        "two commits have one version:\n  {one}\n  {other}\n  {call}"
                    ));
                }
            }
        }
        Ok(versions)
    }

    /// The version that a call made, if anybody was told.
    pub(super) fn of_call(&self, call: &Call) -> Option<Version> {
        call.possible_writes().iter().find_map(|write| self.0.get(&write.content.last()).copied())
    }

    fn of(&self, content: Content) -> Option<Version> {
        self.0.get(&content.last()).copied()
    }
}

/// What an answer says: this write has this version.
fn told(call: &Call) -> Vec<(u32, Version)> {
    match (&call.ask, &call.answer) {
        (_, Answer::Found(Some(entity))) => vec![(entity.content.last(), entity.version)],
        (_, Answer::Rows(rows)) => {
            rows.iter().map(|(_, seen)| (seen.content.last(), seen.version)).collect()
        }
        (Ask::Write(writes), Answer::Written(versions)) => {
            let puts = writes.iter().zip(versions);
            puts.filter_map(|(write, version)| Some((write.content.last(), (*version)?))).collect()
        }
        _ => Vec::new(),
    }
}

/// Carries a call out: the rows after it if it changes them.
///
/// # Errors
/// If it could not have got its answer here.
pub(super) fn step(
    state: &State,
    call: &Call,
    versions: &Versions,
) -> Result<Option<State>, Obstacle> {
    match (&call.ask, &call.answer) {
        (Ask::Get(row), Answer::Found(found)) => {
            let same = state.row(*row) == found.map(|entity| entity.content);
            if same { Ok(None) } else { Err(Obstacle::Differs(*row)) }
        }
        (Ask::Page(range), Answer::Rows(rows)) => {
            let listed =
                |row: u8| rows.iter().find(|(of, _)| *of == row).map(|(_, entity)| entity.content);
            match range.clone().find(|row| state.row(*row) != listed(*row)) {
                Some(row) => Err(Obstacle::Differs(row)),
                None => Ok(None),
            }
        }
        (Ask::Write(writes), Answer::Refused(failed, domain_error)) => {
            match write(state, writes, versions) {
                Err((index, reason)) if index == *failed && reason == *domain_error => Ok(None),
                _ => Err(Obstacle::NotRefused(*failed)),
            }
        }
        // A call without an answer matters only if it was done.
        (Ask::Write(writes), _) => write(state, writes, versions)
            .map(Some)
            .map_err(|(index, domain_error)| Obstacle::Refused(index, domain_error)),
        (ask, answer) => unreachable!("no server answers {ask:?} with {answer:?}"),
    }
}

/// All writes, or the first that cannot be done and why.
fn write(
    state: &State,
    writes: &[Write],
    versions: &Versions,
) -> Result<State, (usize, DomainError)> {
    let mut after = state.clone();
    for (index, write) in writes.iter().enumerate() {
        let current = state.row(write.row);
        after.0[usize::from(write.row)] =
            write_row(current, write, versions).map_err(|domain_error| (index, domain_error))?;
    }
    Ok(after)
}

fn write_row(
    current: Option<Content>,
    write: &Write,
    versions: &Versions,
) -> Result<Option<Content>, DomainError> {
    match (write.condition, current) {
        (Condition::Exists | Condition::Version(_), None) => return Err(DomainError::Missing),
        // If no client was ever told the version, a write that names one names another.
        (Condition::Version(wanted), Some(content)) if versions.of(content) != Some(wanted) => {
            return Err(DomainError::Changed);
        }
        _ => {}
    }
    match (write.verb, current) {
        (Verb::Insert, Some(_)) => Err(DomainError::Exists),
        (Verb::Insert | Verb::Replace, _) => Ok(Some(write.content)),
        (Verb::Merge, current) => Ok(Some(current.unwrap_or_default().merged(write.content))),
        (Verb::Delete, None) => Err(DomainError::Missing),
        (Verb::Delete, Some(_)) => Ok(None),
    }
}
