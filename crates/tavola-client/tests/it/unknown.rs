//! G92: every execution of a write with up to two losses and two foreign writes at any point.
//!
//! The machine of the library runs against a model of the service. What happens at each point is
//! a choice, and an odometer goes through all of them: whether an attempt is answered, lost before
//! or after it was applied, or lands late; what another client writes, and when. Nothing may be
//! told that is not so.

use tavola_client::__store::unknown::{
    Action, Claim, End, Event, Guard, Machine, Observed, Proof, Refusal, Row,
};

const LOSSES_MAX: usize = 2;
const FOREIGN_MAX: usize = 2;
const SENDS_MAX: usize = 5;

/// What our operations write, unless they delete.
const OURS: u8 = 6;
const INITIAL: u8 = 5;
const FOREIGN: u8 = 9;

/// Goes through all sequences of choices.
#[derive(Default)]
struct Odometer {
    path: Vec<(usize, usize)>,
    at: usize,
}

impl Odometer {
    fn choose(&mut self, options: usize) -> usize {
        if self.at == self.path.len() {
            self.path.push((0, options));
        }
        let (chosen, known) = self.path[self.at];
        assert_eq!(known, options, "an execution is repeatable");
        self.at += 1;
        chosen
    }

    /// The next sequence; false after the last.
    fn advance(&mut self) -> bool {
        self.at = 0;
        while let Some((chosen, options)) = self.path.pop() {
            if chosen + 1 < options {
                self.path.push((chosen + 1, options));
                return true;
            }
        }
        false
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Stored {
    version: u32,
    value: u8,
    is_ours: bool,
}

/// One operation of the call, on the row of its index.
#[derive(Debug, Clone, Copy)]
struct Operation {
    claim: Claim,
    has_write_id: bool,
    before: Option<u8>,
}

/// An operation as it is sent: `version` for If-Match of one version.
#[derive(Debug, Clone, Copy)]
enum Sent {
    Insert,
    Upsert,
    Update(Option<u32>),
    Delete(Option<u32>),
    Nothing,
}

#[derive(Clone)]
struct Service {
    rows: Vec<Option<Stored>>,
    version: u32,
    /// How often the call was applied.
    applied: u32,
    twin: bool,
}

impl Service {
    fn new(operations: &[Operation]) -> Self {
        let row = |operation: &Operation| {
            operation.before.map(|value| Stored { version: 1, value, is_ours: false })
        };
        Self { rows: operations.iter().map(row).collect(), version: 1, applied: 0, twin: false }
    }

    fn put(&mut self, index: usize, value: u8, is_ours: bool) {
        self.version += 1;
        self.rows[index] = Some(Stored { version: self.version, value, is_ours });
    }

    fn apply(&mut self, sent: &[Sent]) -> Result<(), (usize, Refusal)> {
        for (index, one) in sent.iter().enumerate() {
            let refusal = match (one, self.rows[index]) {
                (Sent::Insert, Some(_)) => Refusal::Exists,
                (Sent::Update(_) | Sent::Delete(_), None) => Refusal::Missing,
                (Sent::Update(Some(wanted)) | Sent::Delete(Some(wanted)), Some(row))
                    if row.version != *wanted =>
                {
                    Refusal::Changed
                }
                _ => continue,
            };
            return Err((index, refusal));
        }
        for (index, one) in sent.iter().enumerate() {
            match one {
                Sent::Insert | Sent::Upsert | Sent::Update(_) => self.put(index, OURS, true),
                Sent::Delete(_) => self.rows[index] = None,
                Sent::Nothing => {}
            }
        }
        self.applied += 1;
        Ok(())
    }

    /// Another client does something, or nothing: false.
    fn foreign(&mut self, odometer: &mut Odometer) -> bool {
        let options = 1 + 3 * self.rows.len();
        let chosen = odometer.choose(options);
        if chosen == 0 {
            return false;
        }
        let (index, what) = ((chosen - 1) / 3, (chosen - 1) % 3);
        match what {
            0 => {
                self.twin = true;
                self.put(index, OURS, false);
            }
            1 => self.put(index, FOREIGN, false),
            _ => self.rows[index] = None,
        }
        true
    }

    fn look(&self, index: usize, operation: &Operation) -> Row {
        match self.rows[index] {
            None => Row::Absent,
            Some(row) => Row::Present {
                is_same_version: row.version == 1,
                has_write_id: operation.has_write_id && row.is_ours,
                is_as_sent: row.value == OURS && !deletes(operation.claim),
            },
        }
    }
}

fn deletes(claim: Claim) -> bool {
    matches!(claim, Claim::DeleteVersion | Claim::DeleteAny)
}

/// What a driver sends: its own conditions, or those of the rows it read.
fn sent(operations: &[Operation], guard: Guard, seen: &[Option<Stored>]) -> Vec<Sent> {
    let one = |(index, operation): (usize, &Operation)| {
        let seen = seen[index];
        match (operation.claim, guard) {
            (Claim::Insert | Claim::InsertOnce | Claim::InsertIfMissing, _) => Sent::Insert,
            (Claim::Version, _) => Sent::Update(Some(1)),
            (Claim::DeleteVersion, _) => Sent::Delete(Some(1)),
            (Claim::Upsert, Guard::Own) => Sent::Upsert,
            (Claim::UpdateAny, Guard::Own) => Sent::Update(None),
            (Claim::DeleteAny, Guard::Own) => Sent::Delete(None),
            (Claim::Upsert | Claim::UpdateAny, Guard::AsSeen) => {
                seen.map_or(Sent::Insert, |row| Sent::Update(Some(row.version)))
            }
            (Claim::DeleteAny, Guard::AsSeen) => {
                seen.map_or(Sent::Nothing, |row| Sent::Delete(Some(row.version)))
            }
            (claim, _) => panic!("{claim:?} is not about a row"),
        }
    };
    operations.iter().enumerate().map(one).collect()
}

/// One execution while it runs.
struct Execution<'a> {
    operations: &'a [Operation],
    service: Service,
    odometer: &'a mut Odometer,
    late: Vec<Vec<Sent>>,
    losses: usize,
    foreign: usize,
    sends: usize,
    /// The rows as last read.
    seen: Vec<Option<Stored>>,
}

impl Execution<'_> {
    /// What others do between two steps of ours.
    fn meanwhile(&mut self) {
        while self.foreign < FOREIGN_MAX && self.service.foreign(self.odometer) {
            self.foreign += 1;
        }
        while !self.late.is_empty() && self.odometer.choose(2) == 1 {
            let landed = self.late.remove(0);
            // Nobody hears its answer.
            let _unheard = self.service.apply(&landed);
        }
    }

    fn send(&mut self, machine: &mut Machine, guard: Guard) -> Action {
        if self.sends == SENDS_MAX {
            return machine.on(&Event::GaveUp);
        }
        self.sends += 1;
        let sent = sent(self.operations, guard, &self.seen);
        let fate = if self.losses < LOSSES_MAX { self.odometer.choose(4) } else { 0 };
        if fate > 0 {
            self.losses += 1;
        }
        match fate {
            0 => match self.service.apply(&sent) {
                Ok(()) => machine.on(&Event::Replied),
                Err((index, refusal)) => machine.on(&Event::Refused(Some(index), refusal)),
            },
            1 => machine.on(&Event::Lost),
            2 => {
                let _unheard = self.service.apply(&sent);
                machine.on(&Event::Lost)
            }
            _ => {
                self.late.push(sent);
                machine.on(&Event::Lost)
            }
        }
    }

    fn read(&mut self, machine: &mut Machine) -> Action {
        if self.losses < LOSSES_MAX && self.odometer.choose(2) == 1 {
            self.losses += 1;
            return machine.on(&Event::ReadFailed);
        }
        self.seen = self.service.rows.clone();
        let look = |index: usize| (index, self.service.look(index, &self.operations[index]));
        let rows: Vec<_> = machine.witnesses().into_iter().map(look).collect();
        machine.on(&Event::Seen(&rows))
    }

    fn run(&mut self) -> End {
        let claims = |one: &Operation| (one.claim, one.has_write_id);
        let mut machine = Machine::new(self.operations.iter().map(claims).collect(), false);
        let mut action = machine.start();
        loop {
            self.meanwhile();
            action = match action {
                Action::Send(guard) => self.send(&mut machine, guard),
                Action::Read => self.read(&mut machine),
                Action::Finish(end) => return end,
            };
        }
    }

    fn check(&mut self, end: End) {
        let has = |claims: &[Claim]| self.operations.iter().any(|one| claims.contains(&one.claim));
        let applied = self.service.applied;
        match end {
            End::Done(Proof::Reply | Proof::WriteId) => assert!(applied >= 1),
            End::Done(Proof::Content) => assert!(applied >= 1 || self.service.twin),
            End::Done(Proof::State) => {
                for (row, operation) in self.seen.iter().zip(self.operations) {
                    match row {
                        Some(row) => assert!(row.value == OURS && !deletes(operation.claim)),
                        None => assert!(deletes(operation.claim)),
                    }
                }
            }
            End::Refused | End::NotApplied => {
                assert!(applied == 0 && self.late.is_empty(), "told as not applied");
            }
            End::Exists => assert!(self.seen.iter().any(|row| row.is_some())),
            End::Existing => assert!(has(&[Claim::InsertIfMissing])),
            End::RefusedAfterLoss | End::Undecided(_) => assert!(self.losses > 0),
            other => panic!("{other:?}"),
        }
        // What is still on its way lands, perhaps after somebody else wrote.
        self.meanwhile();
        for landed in std::mem::take(&mut self.late) {
            let _unheard = self.service.apply(&landed);
        }
        if has(&[Claim::Version, Claim::DeleteVersion, Claim::InsertOnce]) {
            assert!(self.service.applied <= 1, "applied twice");
            if matches!(end, End::Done(_)) {
                assert_eq!(self.service.applied, 1, "told as applied");
            }
        }
    }
}

/// Runs all executions; returns how many there were, and the ends that occurred.
fn check(operations: &[Operation]) -> (usize, Vec<End>) {
    let mut odometer = Odometer::default();
    let (mut executions, mut ends) = (0, Vec::new());
    loop {
        let path = odometer.path.clone();
        let mut execution = Execution {
            operations,
            service: Service::new(operations),
            odometer: &mut odometer,
            late: Vec::new(),
            losses: 0,
            foreign: 0,
            sends: 0,
            seen: vec![None; operations.len()],
        };
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let end = execution.run();
            execution.check(end);
            end
        }));
        match failed {
            Ok(end) if ends.contains(&end) => {}
            Ok(end) => ends.push(end),
            Err(panic) => {
                eprintln!("{operations:?}: choices {path:?}");
                std::panic::resume_unwind(panic);
            }
        }
        executions += 1;
        if !odometer.advance() {
            return (executions, ends);
        }
    }
}

fn one(claim: Claim, has_write_id: bool, before: Option<u8>) -> Operation {
    Operation { claim, has_write_id, before }
}

fn check_single(claim: Claim, before: &[Option<u8>], expected: &[End]) {
    let mut all = Vec::new();
    for has_write_id in [false, true] {
        for before in before {
            let (executions, ends) = check(&[one(claim, has_write_id, *before)]);
            assert!(executions > 1000, "{claim:?}: only {executions} executions");
            all.extend(ends);
        }
    }
    for end in expected {
        assert!(all.contains(end), "{claim:?} never ends with {end:?}: {all:?}");
    }
}

#[test]
fn inserts() {
    let before = [None, Some(INITIAL)];
    check_single(
        Claim::Insert,
        &before,
        &[
            End::Done(Proof::Reply),
            End::Done(Proof::WriteId),
            End::Done(Proof::Content),
            End::Exists,
            End::Refused,
        ],
    );
    check_single(
        Claim::InsertOnce,
        &before,
        &[
            End::Done(Proof::WriteId),
            End::Undecided(Observed::Equal),
            End::Undecided(Observed::Absent),
            End::Exists,
        ],
    );
    check_single(Claim::InsertIfMissing, &before, &[End::Done(Proof::WriteId), End::Existing]);
}

#[test]
fn writes_of_a_version() {
    let expected = [
        End::Done(Proof::Reply),
        End::Refused,
        End::Undecided(Observed::Different),
        End::Undecided(Observed::Absent),
        End::Undecided(Observed::Nothing),
    ];
    check_single(Claim::Version, &[Some(INITIAL)], &expected);
    check_single(Claim::Version, &[Some(INITIAL)], &[End::Undecided(Observed::Equal)]);
    check_single(Claim::Version, &[Some(INITIAL)], &[End::Done(Proof::WriteId)]);
    check_single(Claim::DeleteVersion, &[Some(INITIAL)], &expected);
}

#[test]
fn unconditional_writes() {
    let before = [None, Some(INITIAL)];
    let expected = [End::Done(Proof::Reply), End::Done(Proof::State), End::Done(Proof::WriteId)];
    check_single(Claim::Upsert, &before, &expected);
    check_single(Claim::UpdateAny, &before, &expected);
    check_single(Claim::DeleteAny, &before, &expected[..2]);
}

#[test]
fn transactions() {
    for operations in [
        [one(Claim::Upsert, false, None), one(Claim::Insert, false, None)],
        [one(Claim::Upsert, true, None), one(Claim::Insert, true, None)],
        [one(Claim::DeleteAny, false, Some(INITIAL)), one(Claim::Version, false, Some(INITIAL))],
        [one(Claim::Upsert, true, None), one(Claim::Version, false, Some(INITIAL))],
        [one(Claim::Insert, false, None), one(Claim::DeleteVersion, false, Some(INITIAL))],
        [one(Claim::Upsert, false, None), one(Claim::DeleteAny, false, Some(INITIAL))],
    ] {
        let (executions, ends) = check(&operations);
        assert!(executions > 10_000, "{operations:?}: only {executions} executions");
        assert!(ends.contains(&End::Done(Proof::Reply)), "{operations:?}: {ends:?}");
    }
}

/// Tables and settings are repeated, and an `_if_` form takes what it finds after a loss.
#[test]
fn tables() {
    let after_loss = |claim, refusal| {
        let mut machine = Machine::new(vec![(claim, false)], false);
        assert_eq!(machine.on(&Event::Lost), Action::Send(Guard::Own));
        machine.on(&Event::Refused(None, refusal))
    };
    let existing = Action::Finish(End::Existing);
    let refused = Action::Finish(End::RefusedAfterLoss);
    assert_eq!(after_loss(Claim::CreateTable(true), Refusal::Exists), existing);
    assert_eq!(after_loss(Claim::CreateTable(false), Refusal::Exists), refused);
    assert_eq!(after_loss(Claim::DeleteTable(true), Refusal::Missing), existing);
    assert_eq!(after_loss(Claim::DeleteTable(false), Refusal::Missing), refused);
    assert_eq!(after_loss(Claim::Settings, Refusal::Other), refused);
}
