//! Histories: clients race on few rows, everything that they ask and hear is recorded, and
//! afterwards it is asked whether a server that does one thing after another could have said all
//! that.
//!
//! With every second seed the server is killed in the middle and at the end. A call that got no
//! answer may have been done or not, but only before its process was dead.
//!
//! The same clients and checks serve attacks on a cluster: `race`.
//!
//! Reading order: `record` (what is written down), `clients` (what each client does), `model` (one
//! partition, one call after another), `check` (is there an order?), `scans` (what must be true of
//! pages), `mutants` (does all this find anything?).

mod board;
mod check;
mod clients;
mod model;
mod mutants;
mod race;
mod record;
mod report;
mod scans;
#[cfg(test)]
mod tests;
mod wire;

use std::process::Command;
use std::thread;
use std::time::Duration;

use board::{Board, Data};
use check::{SearchResult, check};
use clients::{Caller, Diary, Habit, Shape};
use model::Versions;
use record::{Answer, Record};

use super::{Arena, Campaign, Tally, Violation};
use tavola_testkit::client::{Client, NoAnswer};
use tavola_testkit::server_process::ServerProcess;

pub(super) use mutants::MUTANTS;
pub(super) use race::{Finished, Race, RaceShape};

/// Clients race, and an order of their calls must explain every answer.
pub(super) const HISTORY: Campaign = Campaign {
    name: "history",
    about: "races of clients, with kills: is there an order of the calls that explains every answer?",
    short_seeds: SHORT_SEEDS,
    needs_cluster: false,
    must_happen: &[],
    attack,
};

const SHORT_SEEDS: u64 = 20;

/// The one table of a history.
const TABLE: &str = "history";

/// A server that needs longer does not answer any more.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The client that reads everything at the end has the next number.
const CLIENTS_MAX: u8 = 12;

fn attack(arena: &Arena) -> Result<Tally, Violation> {
    let tally = evaluate(&play(arena, |command| command)?)?;
    if tally.get(UNDECIDED) > 0 {
        println!("history: seed {}: undecided", arena.seed);
    }
    Ok(tally)
}

const UNDECIDED: &str = "partitions undecided";

/// Lets the clients of one seed loose on a server that is started with `with`.
///
/// # Errors
/// If the server gives an answer that no healthy server gives, or none though it was not killed.
fn play(arena: &Arena, with: fn(&mut Command) -> &mut Command) -> Result<Record, Violation> {
    let mut rng = arena.rng(0);
    let clients = rng.u8(6..=CLIENTS_MAX);
    let shape = Shape {
        partitions: rng.u8(2..=3),
        at_a_time: usize::MAX,
        // Few rows race most; with more of them batches are longer and scans have more pages.
        rows: if rng.u8(..4) == 0 { rng.u8(10..=14) } else { rng.u8(3..=5) },
        calls_per_client: rng.usize(40..=70),
        timeout: ANSWER_TIMEOUT,
        short_timeout: None,
        habit: Habit::Change,
    };
    let calls = u64::from(clients) * shape.calls_per_client as u64;
    let kills: Vec<u64> = if arena.seed % 2 == 1 {
        (0..rng.u8(1..=3)).map(|_| rng.u64(calls / 10..calls)).collect()
    } else {
        Vec::new()
    };

    let server = arena.start(with)?;
    create_table(&server)?;
    let board = Board::new(TABLE, Data::InTheServer, &[&server.table]);
    let mut game = Game { arena, with, server: Some(server) };
    let mut callers = game.race(&board, clients, shape, &kills)?;
    if !kills.is_empty() {
        game.kill_and_restart(&board)?;
    }
    let mut reader = Caller::new(clients, &board, shape, arena.rng(u64::from(clients) + 1));
    reader.read_everything()?;
    callers.push(reader);

    let kills = if kills.is_empty() { 0 } else { kills.len() as u64 + 1 };
    Ok(Record { kills, ..record(shape, callers.into_iter().map(Caller::into_diary)) })
}

/// What all clients did together.
fn record(shape: Shape, diaries: impl Iterator<Item = Diary>) -> Record {
    let mut record = Record { partitions: shape.partitions, rows: shape.rows, ..Record::default() };
    for diary in diaries {
        record.calls.extend(diary.calls);
        record.scans.extend(diary.scans);
    }
    record
}

fn create_table(server: &ServerProcess) -> Result<(), Violation> {
    let client = Client::connect(&server.table);
    let mut client = client.map_err(|NoAnswer| Violation::new("the server takes no connection"))?;
    client.create_table(TABLE);
    Ok(())
}

/// A server while clients race.
struct Game<'a> {
    arena: &'a Arena,
    with: fn(&mut Command) -> &mut Command,
    server: Option<ServerProcess>,
}

impl Game<'_> {
    /// Lets all clients make their calls, and kills the server when it has seen so many of them.
    fn race<'b>(
        &mut self,
        board: &'b Board,
        clients: u8,
        shape: Shape,
        kills: &[u64],
    ) -> Result<Vec<Caller<'b>>, Violation> {
        let mut kills = kills.to_vec();
        kills.sort_unstable();
        thread::scope(|scope| {
            let start = |number| {
                let mut caller =
                    Caller::new(number, board, shape, self.arena.rng(u64::from(number) + 1));
                scope.spawn(move || caller.run().map(|()| caller))
            };
            let threads: Vec<_> = (0..clients).map(start).collect();
            for calls in kills {
                while board.calls() < calls && !threads.iter().all(|thread| thread.is_finished()) {
                    thread::sleep(Duration::from_micros(200));
                }
                self.kill_and_restart(board)?;
            }
            let ended = threads.into_iter().map(|thread| thread.join());
            ended
                .map(|ended| ended.unwrap_or_else(|_| Err(Violation::new("a client panicked"))))
                .collect()
        })
    }

    fn kill_and_restart(&mut self, board: &Board) -> Result<(), Violation> {
        self.server.take().into_iter().for_each(ServerProcess::kill);
        board.server_died(0);
        let server = self.server.insert(self.arena.start(self.with)?);
        board.server_lives(0, &server.table);
        Ok(())
    }
}

/// Asks everything of a record that can be asked.
///
/// # Errors
/// If it breaks a promise.
fn evaluate(record: &Record) -> Result<Tally, Violation> {
    let mut tally = Tally::default();
    tally.add(UNDECIDED, 0);
    for partition in 0..record.partitions {
        let calls = record.of_partition(partition);
        tally.add("calls checked", calls.len() as u64);
        let versions = Versions::collect(&calls)
            .map_err(|what| Violation::new(format!("partition p{partition}: {what}")))?;
        match check(&calls, &versions, record.rows) {
            SearchResult::Linearizable => tally.add("partitions explained", 1),
            SearchResult::Undecided => tally.add(UNDECIDED, 1),
            SearchResult::Impossible(stuck) => {
                return Err(Violation::new(report::report(partition, &calls, *stuck, record.rows)));
            }
        }
    }
    scans::check(record).map_err(Violation::new)?;
    tally.add("kills", record.kills);
    tally.add("scans", record.scans.len() as u64);
    tally.add("pages", record.scans.iter().map(|scan| scan.pages.len() as u64).sum());
    let count = |is: fn(&Answer) -> bool| {
        record.calls.iter().filter(|call| is(&call.answer)).count() as u64
    };
    tally.add("writes done", count(|answer| matches!(answer, Answer::Written(_))));
    tally.add("writes refused", count(|answer| matches!(answer, Answer::Refused(..))));
    tally.add("writes without answer", count(|answer| matches!(answer, Answer::Unknown)));
    tally.add(
        "batches",
        record.calls.iter().filter(|call| call.possible_writes().len() > 1).count() as u64,
    );
    Ok(tally)
}
