//! What one client does: random calls, one after another, and a record of each.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use super::board::{Board, Life};
use super::record::{
    Answer, Ask, Call, Condition, Content, NEVER, PROPERTIES, Page, Place, Scan, Verb, Version,
    Write,
};
use super::wire::{self, FailureReply};
use crate::Violation;
use tavola_testkit::client::{Client, NoAnswer};

/// The shape of one seed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) partitions: u8,
    /// So many of them are raced on at a time; others follow when these have been raced on enough.
    pub(super) at_a_time: usize,
    pub(super) rows: u8,
    /// Unless the board says before that it is the end.
    pub(super) calls_per_client: usize,
    /// A client waits so long for an answer.
    pub(super) timeout: Duration,
    /// And every fourth time so long at most.
    pub(super) short_timeout: Option<Duration>,
    pub(super) habit: Habit,
}

impl Shape {
    /// How long to wait for the next answer. It is drawn anew for each answer: a connection that once
    /// drew the long timeout would never give up again.
    pub(super) fn draw_timeout(&self, rng: &mut fastrand::Rng) -> Duration {
        let Some(short_timeout) = self.short_timeout.filter(|_| rng.u8(..4) == 0) else {
            return self.timeout;
        };
        Duration::from_micros(rng.u64(1_000..=short_timeout.as_micros() as u64))
    }
}

/// What clients like to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Habit {
    /// Rows are read and changed.
    Change,
    /// Rows come and go, so that partitions are empty at times, and scans go through all of them.
    ComeAndGo,
}

/// `$batch` takes a hundred; ten make a partition's rows race enough.
const BATCH_MAX: usize = 10;
/// No scan of so few rows has more pages, even if each page has one entity and the rows change
/// meanwhile.
const PAGES_MAX: usize = 200;
/// A page that so many tries could not get is given up, and its scan with it.
const TRIES_MAX: usize = 20;
/// Before a cluster with faults is asked again.
const BREATH: Duration = Duration::from_millis(30);
/// Of the versions that a client has seen of a row it remembers so many: the last is likely to
/// hold, others are stale.
const REMEMBERED: usize = 4;

/// What a client did.
#[derive(Debug, Clone, Default)]
pub(super) struct Diary {
    pub(super) calls: Vec<Call>,
    pub(super) scans: Vec<Scan>,
    /// How often the server said that it cannot.
    pub(super) busy: u64,
    /// How often the client was too hasty to hear an answer.
    pub(super) given_up: u64,
}

pub(super) struct Caller<'a> {
    number: u8,
    board: &'a Board,
    shape: Shape,
    rng: fastrand::Rng,
    connection: Option<(Client, Life)>,
    /// The only server that it asks.
    only: Option<String>,
    /// Where the last connection failed.
    failed: Option<Life>,
    /// Whether it waits less for the next answer than others do.
    is_hasty: bool,
    remembered: HashMap<Place, Vec<Version>>,
    diary: Diary,
    /// Calls without an answer, and the life in which they were made.
    open: Vec<(usize, Life)>,
}

impl<'a> Caller<'a> {
    pub(super) fn new(number: u8, board: &'a Board, shape: Shape, rng: fastrand::Rng) -> Self {
        let (remembered, diary) = (HashMap::new(), Diary::default());
        Self {
            number,
            board,
            shape,
            rng,
            connection: None,
            only: None,
            failed: None,
            is_hasty: false,
            remembered,
            diary,
            open: Vec::new(),
        }
    }

    /// Asks this server and no other.
    pub(super) fn only_through(self, authority: &str) -> Self {
        Self { only: Some(authority.to_owned()), ..self }
    }

    /// Makes its calls.
    ///
    /// # Errors
    /// If the server gives an answer that a healthy server does not give.
    pub(super) fn run(&mut self) -> Result<(), Violation> {
        for _ in 0..self.shape.calls_per_client {
            if self.board.has_ended() {
                break;
            }
            match self.shape.habit {
                Habit::Change => self.change()?,
                Habit::ComeAndGo => self.come_and_go()?,
            }
            if self.rng.u8(..8) == 0 {
                std::thread::sleep(Duration::from_micros(self.rng.u64(..2_000)));
            }
        }
        Ok(())
    }

    /// Reads the whole table, as the last thing.
    pub(super) fn read_everything(&mut self) -> Result<(), Violation> {
        let top = 1_000;
        if !self.scan((0, 0)..(self.shape.partitions, 0), top)? {
            return Err(Violation::new("the table cannot be read, though all is well"));
        }
        Ok(())
    }

    /// Reads every row of the table by its key.
    pub(super) fn get_everything(&mut self) -> Result<(), Violation> {
        for partition in 0..self.shape.partitions {
            for row in 0..self.shape.rows {
                let mut answer = self.call(partition, Ask::Get(row))?;
                for _ in 0..TRIES_MAX {
                    if answer != Answer::Unknown {
                        break;
                    }
                    answer = self.call(partition, Ask::Get(row))?;
                }
                if answer == Answer::Unknown {
                    return Err(Violation::new(format!(
                        "p{partition:02}/r{row:02} cannot be read, though all is well"
                    )));
                }
            }
        }
        Ok(())
    }

    /// What it did. Calls without an answer end with the life of the server in which they were
    /// made.
    pub(super) fn into_diary(mut self) -> Diary {
        for (call, life) in self.open {
            self.diary.calls[call].returned = self.board.end_of(life);
        }
        self.diary
    }

    /// One that has not been raced on enough.
    fn partition(&mut self) -> u8 {
        let all = 0..self.shape.partitions;
        let fresh = all
            .clone()
            .filter(|partition| !self.board.is_worn_out(*partition))
            .take(self.shape.at_a_time);
        let fresh: Vec<u8> = fresh.collect();
        self.rng.choice(&fresh).copied().unwrap_or_else(|| self.rng.u8(all))
    }

    fn come_and_go(&mut self) -> Result<(), Violation> {
        let (partition, row) = (self.partition(), self.rng.u8(..self.shape.rows));
        let write = match self.rng.u8(..100) {
            0..15 => return self.call(partition, Ask::Get(row)).map(drop),
            15..30 => self.put(row, Verb::Insert, Condition::None),
            30..50 => self.put(row, Verb::Merge, Condition::None),
            50..80 => self.put(row, Verb::Delete, Condition::Exists),
            _ => {
                let top = self.rng.usize(1..=40);
                return self.scan((0, 0)..(self.shape.partitions, 0), top).map(drop);
            }
        };
        self.call(partition, Ask::Write(vec![write])).map(drop)
    }

    fn change(&mut self) -> Result<(), Violation> {
        let (partition, row) = (self.partition(), self.rng.u8(..self.shape.rows));
        match self.rng.u8(..100) {
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
                let top = self.rng.usize(1..=4);
                self.scan((partition, 0)..(partition + 1, 0), top).map(drop)
            }
            _ => {
                let top = self.rng.usize(1..=8);
                self.scan((0, 0)..(self.shape.partitions, 0), top).map(drop)
            }
        }
    }

    /// As applications do it: what was read decides what is written, if nobody else wrote
    /// meanwhile.
    fn read_then_write(&mut self, partition: u8, row: u8) -> Result<(), Violation> {
        let found = self.call(partition, Ask::Get(row))?;
        let Answer::Found(Some(entity)) = found else {
            let write = self.put(row, Verb::Insert, Condition::None);
            return self.call(partition, Ask::Write(vec![write])).map(drop);
        };
        let verb = [Verb::Replace, Verb::Merge, Verb::Merge, Verb::Delete][self.rng.usize(..4)];
        let write = self.put(row, verb, Condition::Version(entity.version));
        self.call(partition, Ask::Write(vec![write])).map(drop)
    }

    fn write(&mut self, partition: u8, row: u8) -> Write {
        let verb = [Verb::Insert, Verb::Replace, Verb::Merge, Verb::Merge, Verb::Delete]
            [self.rng.usize(..5)];
        let condition = match (verb, self.rng.u8(..3)) {
            (Verb::Insert, _) | (Verb::Replace | Verb::Merge, 0) => Condition::None,
            (_, 1) => self.remembered_version(partition, row),
            _ => Condition::Exists,
        };
        self.put(row, verb, condition)
    }

    fn remembered_version(&mut self, partition: u8, row: u8) -> Condition {
        let versions =
            self.remembered.get(&(partition, row)).map(Vec::as_slice).unwrap_or_default();
        self.rng.choice(versions).map_or(Condition::Exists, |version| Condition::Version(*version))
    }

    /// Mostly operations that cannot be refused, or hardly any batch would be done.
    fn batch(&mut self, partition: u8) -> Vec<Write> {
        let mut rows: Vec<u8> = (0..self.shape.rows).collect();
        self.rng.shuffle(&mut rows);
        rows.truncate(self.rng.usize(2..=BATCH_MAX.min(rows.len())));
        let one = |row| match self.rng.u8(..10) {
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
                content.0[self.rng.usize(1..PROPERTIES.len())] = number;
            }
        }
        Write { row, verb, condition, content }
    }

    /// One get or write, recorded.
    fn call(&mut self, partition: u8, ask: Ask) -> Result<Answer, Violation> {
        let board = self.board;
        if matches!(ask, Ask::Write(_)) && board.is_worn_out(partition) {
            std::thread::sleep(BREATH);
            return Ok(Answer::Unknown);
        }
        let request = wire::request(&board.table, partition, &ask);
        let (client, life) = self.connection()?;
        let invoked = board.now();
        let reply = client.ask(&request);
        let returned = board.now();
        let (answer, returned) = match reply {
            Ok(reply) => match wire::failure_reply(&reply).filter(|_| board.may_fail()) {
                None => (wire::answer(&ask, &reply)?, returned),
                Some(FailureReply::NotDone) => {
                    self.diary.busy += 1;
                    std::thread::sleep(BREATH);
                    return Ok(Answer::Unknown);
                }
                Some(FailureReply::Unknown) => (Answer::Unknown, NEVER),
            },
            Err(NoAnswer) => {
                self.disconnect(life);
                (Answer::Unknown, NEVER)
            }
        };
        board.count_call_of(partition, answer == Answer::Unknown && matches!(ask, Ask::Write(_)));
        self.remember(partition, &ask, &answer);
        if answer == Answer::Unknown {
            // A read without an answer says nothing.
            if matches!(ask, Ask::Get(_)) {
                return Ok(answer);
            }
            self.open.push((self.diary.calls.len(), life));
        }
        self.diary.calls.push(Call {
            client: self.number,
            partition,
            ask,
            answer: answer.clone(),
            invoked,
            returned,
        });
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

    /// A scan to its end, page by page. A page without an answer is asked for again: its token
    /// outlives the server. False if a cluster with faults did not give a page.
    fn scan(&mut self, scope: Range<Place>, top: usize) -> Result<bool, Violation> {
        let board = self.board;
        let request = wire::page_request(&board.table, &scope, top);
        let mut scan = Scan { client: self.number, top, pages: Vec::new() };
        let (mut from, mut token) = (scope.start, None);
        let mut failures = 0;
        for _ in 0..PAGES_MAX {
            let (client, life) = self.connection()?;
            let invoked = board.now();
            let reply = client.ask_page(&request, token.as_ref());
            let returned = board.now();
            board.count_call();
            let Ok(reply) = reply else {
                self.disconnect(life);
                failures += 1;
                if board.may_fail() && failures > TRIES_MAX {
                    return Ok(false);
                } else {
                    continue;
                }
            };
            if board.may_fail() && wire::failure_reply(&reply).is_some() {
                failures += 1;
                self.diary.busy += 1;
                std::thread::sleep(BREATH);
                if failures > TRIES_MAX { return Ok(false) } else { continue }
            }
            let (entities, next) = wire::page(&reply)?;
            let to = next.as_ref().map_or(scope.end, |(place, _)| *place);
            scan.pages.push(Page { invoked, returned, covers: from..to, entities });
            let Some((place, next)) = next else {
                self.diary.scans.push(scan);
                return Ok(true);
            };
            (from, token) = (place, Some(next));
        }
        Err(Violation::new(format!("a scan has no end: {scan:?}")))
    }

    fn connection(&mut self) -> Result<(&mut Client, Life), Violation> {
        while self.connection.is_none() {
            let (authority, life) = self.board.server(self.failed, self.rng.usize(..))?;
            let authority = self.only.as_ref().unwrap_or(&authority);
            let Ok(client) = Client::connect(authority) else {
                self.failed = Some(life);
                if self.board.may_fail() {
                    std::thread::sleep(BREATH);
                }
                continue;
            };
            // A new server may have got the port of the old one.
            if self.board.is_alive(life) {
                self.connection = Some((client, life));
            }
        }
        let timeout = self.shape.draw_timeout(&mut self.rng);
        self.is_hasty = timeout < self.shape.timeout;
        let (client, life) = self.connection.as_mut().expect("it was made above");
        client.set_timeout(timeout);
        Ok((client, *life))
    }

    fn disconnect(&mut self, life: Life) {
        self.diary.given_up += u64::from(self.is_hasty);
        (self.connection, self.failed) = (None, Some(life));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The timeout was once drawn for each connection, and only those with the long one lasted: soon
    /// no client was hasty any more.
    #[test]
    fn every_fourth_answer_has_a_short_timeout() {
        let (timeout, short_timeout) = (Duration::from_secs(9), Duration::from_millis(100));
        let hasty = Shape {
            partitions: 1,
            at_a_time: 1,
            rows: 1,
            calls_per_client: 1,
            timeout,
            short_timeout: Some(short_timeout),
            habit: Habit::Change,
        };
        let mut rng = fastrand::Rng::with_seed(7);
        let drawn: Vec<Duration> = (0..1_000).map(|_| hasty.draw_timeout(&mut rng)).collect();
        let shorter: Vec<Duration> = drawn.into_iter().filter(|drawn| *drawn < timeout).collect();
        assert!((200..300).contains(&shorter.len()), "{}", shorter.len());
        assert!(
            shorter
                .iter()
                .all(|drawn| *drawn >= Duration::from_millis(1) && *drawn <= short_timeout)
        );
        let patient = Shape { short_timeout: None, ..hasty };
        assert!((0..100).all(|_| patient.draw_timeout(&mut rng) == timeout));
    }
}
