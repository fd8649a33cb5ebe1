//! What one client does: calls by dice, one after another, and a record of each.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use super::board::{Board, Life};
use super::record::{
    Answer, Ask, Call, Condition, Content, NEVER, PROPERTIES, Page, Place, Scan, Verb, Version, Write,
};
use super::wire;
use crate::client::{Client, NoAnswer};
use crate::torture::Violation;

/// The shape of one seed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) partitions: u8,
    pub(super) rows: u8,
    pub(super) calls_per_client: usize,
}

/// `$batch` takes a hundred; ten make a partition's rows race enough.
const BATCH_MAX: usize = 10;
/// No scan of so few rows has more pages, even if each page has one entity and the rows change meanwhile.
const PAGES_MAX: usize = 200;
/// Of the versions that a client has seen of a row it remembers so many: the last is likely to hold, others are stale.
const REMEMBERED: usize = 4;

/// What a client did.
#[derive(Debug, Default)]
pub(super) struct Diary {
    pub(super) calls: Vec<Call>,
    pub(super) scans: Vec<Scan>,
}

pub(super) struct Caller<'a> {
    number: u8,
    board: &'a Board,
    shape: Shape,
    dice: fastrand::Rng,
    connection: Option<(Client, Life)>,
    /// The first life of the server that is worth a connection.
    life: Life,
    remembered: HashMap<Place, Vec<Version>>,
    diary: Diary,
    /// Calls without an answer, and the life in which they were made.
    open: Vec<(usize, Life)>,
}

impl<'a> Caller<'a> {
    pub(super) fn new(number: u8, board: &'a Board, shape: Shape, dice: fastrand::Rng) -> Self {
        let (remembered, diary) = (HashMap::new(), Diary::default());
        Self { number, board, shape, dice, connection: None, life: 0, remembered, diary, open: Vec::new() }
    }

    /// Makes its calls.
    ///
    /// # Errors
    /// If the server gives an answer that a healthy server does not give.
    pub(super) fn run(mut self) -> Result<Self, Violation> {
        for _ in 0..self.shape.calls_per_client {
            self.act()?;
            if self.dice.u8(..8) == 0 {
                std::thread::sleep(Duration::from_micros(self.dice.u64(..2_000)));
            }
        }
        Ok(self)
    }

    /// Reads the whole table, as the last thing.
    pub(super) fn read_everything(mut self) -> Result<Self, Violation> {
        let top = 1_000;
        self.scan((0, 0)..(self.shape.partitions, 0), top)?;
        Ok(self)
    }

    /// What it did. Calls without an answer end with the life of the server in which they were made.
    pub(super) fn into_diary(mut self) -> Diary {
        for (call, life) in self.open {
            self.diary.calls[call].returned = self.board.death(life);
        }
        self.diary
    }

    fn act(&mut self) -> Result<(), Violation> {
        let (partition, row) = (self.dice.u8(..self.shape.partitions), self.dice.u8(..self.shape.rows));
        match self.dice.u8(..100) {
            0..20 => self.call(partition, Ask::Get(row)).map(drop),
            20..50 => self.read_then_write(partition, row),
            50..76 => {
                let write = self.write(partition, row);
                self.call(partition, Ask::Write(vec![write])).map(drop)
            }
            76..90 => {
                let batch = self.batch(partition);
                self.call(partition, Ask::Write(batch)).map(drop)
            }
            90..96 => {
                let top = self.dice.usize(1..=4);
                self.scan((partition, 0)..(partition + 1, 0), top)
            }
            _ => {
                let top = self.dice.usize(1..=8);
                self.scan((0, 0)..(self.shape.partitions, 0), top)
            }
        }
    }

    /// As applications do it: what was read decides what is written, if nobody else wrote meanwhile.
    fn read_then_write(&mut self, partition: u8, row: u8) -> Result<(), Violation> {
        let found = self.call(partition, Ask::Get(row))?;
        let Answer::Found(Some(entity)) = found else {
            let write = self.put(row, Verb::Insert, Condition::None);
            return self.call(partition, Ask::Write(vec![write])).map(drop);
        };
        let verb = [Verb::Replace, Verb::Merge, Verb::Merge, Verb::Delete][self.dice.usize(..4)];
        let write = self.put(row, verb, Condition::Version(entity.version));
        self.call(partition, Ask::Write(vec![write])).map(drop)
    }

    fn write(&mut self, partition: u8, row: u8) -> Write {
        let verb = [Verb::Insert, Verb::Replace, Verb::Merge, Verb::Merge, Verb::Delete][self.dice.usize(..5)];
        let condition = match (verb, self.dice.u8(..3)) {
            (Verb::Insert, _) | (Verb::Replace | Verb::Merge, 0) => Condition::None,
            (_, 1) => self.remembered_version(partition, row),
            _ => Condition::Exists,
        };
        self.put(row, verb, condition)
    }

    fn remembered_version(&mut self, partition: u8, row: u8) -> Condition {
        let versions = self.remembered.get(&(partition, row)).map(Vec::as_slice).unwrap_or_default();
        self.dice.choice(versions).map_or(Condition::Exists, |version| Condition::Version(*version))
    }

    /// Mostly operations that cannot be refused, or hardly any batch would be done.
    fn batch(&mut self, partition: u8) -> Vec<Write> {
        let mut rows: Vec<u8> = (0..self.shape.rows).collect();
        self.dice.shuffle(&mut rows);
        rows.truncate(self.dice.usize(2..=BATCH_MAX.min(rows.len())));
        let one = |row| match self.dice.u8(..10) {
            0..4 => self.put(row, Verb::Replace, Condition::None),
            4..8 => self.put(row, Verb::Merge, Condition::None),
            _ => self.write(partition, row),
        };
        rows.into_iter().map(one).collect()
    }

    fn put(&mut self, row: u8, verb: Verb, condition: Condition) -> Write {
        let mut content = Content::default();
        if verb != Verb::Delete {
            let number = self.board.number();
            content.0[0] = number;
            // A merge sets few properties, so that a lost one shows.
            for _ in 0..if verb == Verb::Merge { 1 } else { 3 } {
                content.0[self.dice.usize(1..PROPERTIES.len())] = number;
            }
        }
        Write { row, verb, condition, content }
    }

    /// One get or write, recorded.
    fn call(&mut self, partition: u8, ask: Ask) -> Result<Answer, Violation> {
        let (request, board) = (wire::request(partition, &ask), self.board);
        let (client, life) = self.connection()?;
        let invoked = board.now();
        let reply = client.ask(&request);
        let returned = board.now();
        let (answer, returned) = match reply {
            Ok(reply) => (wire::answer(&ask, &reply)?, returned),
            Err(NoAnswer) => {
                self.disconnect(life);
                (Answer::Unknown, NEVER)
            }
        };
        board.count_call();
        self.remember(partition, &ask, &answer);
        if answer == Answer::Unknown {
            // A read without an answer says nothing.
            if matches!(ask, Ask::Get(_)) {
                return Ok(answer);
            }
            self.open.push((self.diary.calls.len(), life));
        }
        self.diary.calls.push(Call { client: self.number, partition, ask, answer: answer.clone(), invoked, returned });
        Ok(answer)
    }

    fn remember(&mut self, partition: u8, ask: &Ask, answer: &Answer) {
        let seen: Vec<(u8, Version)> = match (ask, answer) {
            (Ask::Get(row), Answer::Found(Some(entity))) => vec![(*row, entity.version)],
            (Ask::Write(writes), Answer::Written(versions)) => {
                let puts = writes.iter().zip(versions);
                puts.filter_map(|(write, version)| Some((write.row, (*version)?))).collect()
            }
            _ => Vec::new(),
        };
        for (row, version) in seen {
            let versions = self.remembered.entry((partition, row)).or_default();
            versions.push(version);
            if versions.len() > REMEMBERED {
                versions.remove(0);
            }
        }
    }

    /// A scan to its end, page by page. A page without an answer is asked for again: its token outlives the server.
    fn scan(&mut self, scope: Range<Place>, top: usize) -> Result<(), Violation> {
        let request = wire::page_request(&scope, top);
        let mut scan = Scan { client: self.number, top, pages: Vec::new() };
        let (mut from, mut token) = (scope.start, None);
        for _ in 0..PAGES_MAX {
            let board = self.board;
            let (client, life) = self.connection()?;
            let invoked = board.now();
            let reply = client.ask_page(&request, token.as_ref());
            let returned = board.now();
            board.count_call();
            let Ok(reply) = reply else {
                self.disconnect(life);
                continue;
            };
            let (entities, next) = wire::page(&reply)?;
            let to = next.as_ref().map_or(scope.end, |(place, _)| *place);
            scan.pages.push(Page { invoked, returned, covers: from..to, entities });
            let Some((place, next)) = next else {
                self.diary.scans.push(scan);
                return Ok(());
            };
            (from, token) = (place, Some(next));
        }
        Err(Violation::new(format!("a scan has no end: {scan:?}")))
    }

    fn connection(&mut self) -> Result<(&mut Client, Life), Violation> {
        while self.connection.is_none() {
            let (authority, life) = self.board.server(self.life)?;
            let Ok(client) = Client::connect(&authority) else {
                self.life = life + 1;
                continue;
            };
            // A new server may have got the port of the old one.
            if self.board.server(life)?.1 == life {
                self.connection = Some((client, life));
            }
        }
        let (client, life) = self.connection.as_mut().expect("it was made above");
        Ok((client, *life))
    }

    fn disconnect(&mut self, life: Life) {
        (self.connection, self.life) = (None, life + 1);
    }
}
