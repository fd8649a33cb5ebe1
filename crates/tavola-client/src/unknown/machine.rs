//! One write, from the first attempt to what the caller is told.

use super::{Claim, Decision, Observed, Proof, resolve_all, witnesses};

/// A write as states and events. It knows neither time nor sockets: the driver tells it what
/// happened and does what it says.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The claim of each operation, and whether it carries a write id.
    operations: Vec<(Claim, bool)>,
    guard: Guard,
    losses: u32,
    /// The operation that a repeat was refused for, if a condition was not met.
    refused: Option<usize>,
    reports: bool,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// The service carried the write out.
    Replied,
    /// The service refused it: which operation, and why.
    Refused(Option<usize>, Refusal),
    /// The attempt was certainly not applied: it was not sent, or turned away for lack of capacity.
    NotApplied,
    /// No readable reply.
    Lost,
    /// A point read of each witness.
    Seen(&'a [(usize, super::Row)]),
    /// A point read failed.
    ReadFailed,
    /// Attempts or time are used up.
    GaveUp,
}

/// Why the service refused a write, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// There is an entity or a table of that key.
    Exists,
    /// There is none.
    Missing,
    /// It has another version.
    Changed,
    /// Anything else.
    Other,
}

/// Under which conditions to send the operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Guard {
    /// Their own.
    Own,
    /// Unconditional ones only if the row is still as it was read: under its version, or as an
    /// insert.
    AsSeen,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send the operations.
    Send(Guard),
    /// Read the rows of the witnesses.
    Read,
    /// Tell the caller.
    Finish(End),
}

/// What the caller is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The claim holds.
    Done(Proof),
    /// An entity or table is there already, or is gone already, which is as good.
    Existing,
    /// Refused; nothing was applied.
    Refused,
    /// The last attempt was refused; an earlier one may have been applied.
    RefusedAfterLoss,
    /// Another entity has the key; ours may have been there before.
    Exists,
    /// Not applied: attempts or time ended first.
    NotApplied,
    /// Nobody knows.
    Undecided(Observed),
}

impl Machine {
    /// A write of these operations, each with whether it carries a write id. `reports`: a lost
    /// reply is told at once.
    #[must_use]
    pub fn new(operations: Vec<(Claim, bool)>, reports: bool) -> Self {
        Self { operations, guard: Guard::Own, losses: 0, refused: None, reports }
    }

    /// The first thing to do.
    #[must_use]
    pub fn start(&self) -> Action {
        Action::Send(Guard::Own)
    }

    /// The operations whose rows [`Action::Read`] asks for.
    #[must_use]
    pub fn witnesses(&self) -> Vec<usize> {
        witnesses(&self.operations)
    }

    /// True after a reply was lost: what is not known to be applied may be.
    #[must_use]
    pub fn has_losses(&self) -> bool {
        self.losses > 0
    }

    /// What to do after `event`.
    pub fn on(&mut self, event: &Event<'_>) -> Action {
        match event {
            Event::Replied => Action::Finish(End::Done(Proof::Reply)),
            Event::Refused(index, refusal) => self.on_refused(*index, *refusal),
            Event::NotApplied => Action::Send(self.guard),
            Event::Lost => self.on_lost(),
            Event::Seen(rows) => self.on_seen(rows),
            Event::ReadFailed => Action::Finish(End::Undecided(Observed::Nothing)),
            Event::GaveUp => Action::Finish(if self.has_losses() {
                End::Undecided(Observed::Nothing)
            } else {
                End::NotApplied
            }),
        }
    }

    fn first(&self) -> Option<Claim> {
        self.operations.first().map(|(claim, _)| *claim)
    }

    fn on_lost(&mut self) -> Action {
        self.losses += 1;
        if self.reports {
            return Action::Finish(End::Undecided(Observed::Nothing));
        }
        // What was refused before this attempt says nothing about it.
        self.refused = None;
        match self.first() {
            Some(claim) if !claim.reads_row() => Action::Send(Guard::Own),
            _ => Action::Read,
        }
    }

    fn on_refused(&mut self, index: Option<usize>, refusal: Refusal) -> Action {
        let first = self.first();
        match (first, refusal) {
            (Some(Claim::CreateTable(true)), Refusal::Exists)
            | (Some(Claim::DeleteTable(true)), Refusal::Missing) => {
                return Action::Finish(End::Existing);
            }
            (Some(Claim::InsertIfMissing), Refusal::Exists) if !self.has_losses() => {
                return Action::Finish(End::Existing);
            }
            _ => {}
        }
        if !self.has_losses() {
            return Action::Finish(End::Refused);
        }
        let reads_row = first.is_some_and(Claim::reads_row);
        if refusal == Refusal::Other || !reads_row {
            return Action::Finish(End::RefusedAfterLoss);
        }
        self.refused = index.or(Some(0));
        Action::Read
    }

    fn on_seen(&mut self, rows: &[(usize, super::Row)]) -> Action {
        let decision = resolve_all(&self.operations, rows);
        // The rows say that nothing was applied, and the refusal was for another row: it holds.
        if let Some(refused) = self.refused.take()
            && matches!(decision, Decision::Repeat)
            && !rows.iter().any(|(index, _)| *index == refused)
        {
            return Action::Finish(End::RefusedAfterLoss);
        }
        match decision {
            Decision::Done(proof) => Action::Finish(End::Done(proof)),
            Decision::Existing => Action::Finish(End::Existing),
            Decision::Exists => Action::Finish(End::Exists),
            Decision::Undecided(observed) => Action::Finish(End::Undecided(observed)),
            Decision::Repeat => self.send(Guard::Own),
            Decision::RepeatAsSeen => self.send(Guard::AsSeen),
        }
    }

    fn send(&mut self, guard: Guard) -> Action {
        self.guard = guard;
        Action::Send(guard)
    }
}
