//! The clients and checks of histories for campaigns that start servers of their own: several of them,
//! before one cluster.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use super::board::{Board, Data};
use super::clients::{Caller, Diary, Habit, Shape};
use super::record::Ask;
use super::{evaluate, record};
use crate::{Arena, Tally, Violation};
use tavola_testkit::client::Client;

/// How many clients race, on how much.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RaceShape {
    pub(crate) clients: u8,
    pub(crate) partitions: u8,
    /// So many of them are raced on at a time.
    pub(crate) at_a_time: usize,
    pub(crate) rows: u8,
    /// A client waits so long for an answer.
    pub(crate) timeout: Duration,
    /// And every fourth time so long at most.
    pub(crate) short_timeout: Option<Duration>,
    /// Whether partitions shall be empty at times.
    pub(crate) comes_and_goes: bool,
}

/// Clients that race on one table until the campaign ends it.
#[derive(Debug)]
pub(crate) struct Race {
    board: Board,
    shape: Shape,
    clients: u8,
    /// Keeps two races of one seed from drawing the same numbers.
    purpose: u64,
}

/// The read at the end waits as long as it takes.
const LAST_TIMEOUT: Duration = Duration::from_secs(30);

impl Race {
    pub(crate) fn new(table: &str, authorities: &[&str], shape: RaceShape, purpose: u64) -> Self {
        let habit = if shape.comes_and_goes { Habit::ComeAndGo } else { Habit::Change };
        let RaceShape { clients, partitions, at_a_time, rows, timeout, short_timeout, .. } = shape;
        let shape = Shape {
            partitions,
            at_a_time,
            rows,
            calls_per_client: usize::MAX,
            timeout,
            short_timeout,
            habit,
        };
        Self {
            board: Board::new(table, Data::BehindTheServers, authorities),
            shape,
            clients,
            purpose,
        }
    }

    /// No client begins another call.
    pub(crate) fn end(&self) {
        self.board.end();
    }

    pub(crate) fn server_died(&self, index: usize) {
        self.board.server_died(index);
    }

    pub(crate) fn server_lives(&self, index: usize, authority: &str) {
        self.board.server_lives(index, authority);
    }

    /// A connection to a server that lives; none if it cannot be made now.
    ///
    /// # Errors
    /// If no server comes back.
    pub(crate) fn connect(&self, choice: usize) -> Result<Option<Client>, Violation> {
        let (authority, _) = self.board.server(None, choice)?;
        Ok(Client::connect(&authority).ok())
    }

    /// Draws the timeout of a client's next answer as for the others.
    pub(crate) fn draw_timeout(&self, client: &mut Client, rng: &mut fastrand::Rng) {
        client.set_timeout(self.shape.draw_timeout(rng));
    }

    /// All clients make calls until the race is ended: what they did, and what they found wrong
    /// meanwhile.
    pub(crate) fn run(&self, arena: &Arena) -> Finished {
        let ended: Vec<_> = thread::scope(|scope| {
            let start = |number| {
                let mut caller = self.caller(number, self.shape, arena);
                scope.spawn(move || (caller.run(), caller.into_diary()))
            };
            let threads: Vec<_> = (0..self.clients).map(start).collect();
            threads.into_iter().map(|thread| thread.join()).collect()
        });
        let mut finished = Finished { diaries: Vec::new(), found: Ok(()) };
        for client in ended {
            match client {
                Ok((found, diary)) => finished.add(found, diary),
                Err(_) => finished.found = Err(Violation::new("a client panicked")),
            }
        }
        finished
    }

    /// Reads the whole table, by scans and row by row, through one server.
    ///
    /// # Errors
    /// If it cannot be read, or a server gives an answer that no healthy server gives. What was
    /// read before stays.
    pub(crate) fn read_everything(
        &self,
        authority: &str,
        index: u8,
        arena: &Arena,
        finished: &mut Finished,
    ) -> Result<(), Violation> {
        let shape = Shape { timeout: LAST_TIMEOUT, short_timeout: None, ..self.shape };
        let mut caller = self.caller(self.clients + index, shape, arena).only_through(authority);
        let read = caller.read_everything().and_then(|()| caller.get_everything());
        let read = read.and_then(|()| caller.read_everything());
        finished.diaries.push(caller.into_diary());
        read
    }

    /// Asks everything of what was done that can be asked.
    ///
    /// # Errors
    /// If a promise was broken.
    pub(crate) fn evaluate(&self, finished: &Finished) -> Result<Tally, Violation> {
        let mut tally = evaluate(&record(self.shape, finished.diaries.iter().cloned()))?;
        tally.add("answers 503", finished.diaries.iter().map(|diary| diary.busy).sum());
        tally.add("answers not waited for", finished.given_up());
        Ok(tally)
    }

    /// Every call and page in words, for a person who looks for the cause of a finding.
    pub(crate) fn describe(&self, finished: &Finished) -> String {
        let record = record(self.shape, finished.diaries.iter().cloned());
        let partitions =
            (0..record.partitions).flat_map(|partition| record.of_partition(partition));
        partitions.map(|call| format!("p{:02} {call}\n", call.partition)).collect()
    }

    fn caller(&self, number: u8, shape: Shape, arena: &Arena) -> Caller<'_> {
        Caller::new(number, &self.board, shape, arena.rng(self.purpose + u64::from(number)))
    }
}

/// What the clients of a race did.
#[derive(Debug)]
pub(crate) struct Finished {
    diaries: Vec<Diary>,
    /// The first answer that no healthy server gives.
    pub(crate) found: Result<(), Violation>,
}

impl Finished {
    /// How often clients were too hasty to hear an answer.
    pub(crate) fn given_up(&self) -> u64 {
        self.diaries.iter().map(|diary| diary.given_up).sum()
    }

    /// How many partitions a client tried to write to.
    pub(crate) fn partitions_written(&self) -> u64 {
        let calls = self.diaries.iter().flat_map(|diary| &diary.calls);
        let written =
            calls.filter(|call| matches!(call.ask, Ask::Write(_))).map(|call| call.partition);
        written.collect::<BTreeSet<u8>>().len() as u64
    }

    fn add(&mut self, found: Result<(), Violation>, diary: Diary) {
        self.diaries.push(diary);
        if self.found.is_ok() {
            self.found = found;
        }
    }
}
