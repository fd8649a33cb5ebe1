//! One seed: nodes start, clients race, something goes wrong and is healed, everything is read
//! and evaluated.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::bank::Bank;
use super::cassandra_nodes::{CassandraNodes, wait_until};
use super::fault::Fault;
use super::folder;
use super::nodes::{Defect, Nodes, Timeouts};
use crate::history::{Finished, Race, RaceShape};
use crate::{Arena, Tally, Violation};
use tavola_testkit::client::Client;

/// Until a cluster whose nodes are all well has done something.
pub(super) const HEALTHY_TIME_MAX: Duration = Duration::from_secs(60);
const BEFORE_THE_FAULT: Duration = Duration::from_secs(4);
const AFTER_THE_FAULT: Duration = Duration::from_secs(4);
const BANKERS: u64 = 2;
/// Clients wait longer than servers, unless they are hasty.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(9);

/// Of the bank, and of what servers keep for themselves.
const OTHER_PARTITIONS: u64 = 4;

/// What the tally calls partitions that left the directory.
pub(super) const RETIRED: &str = "partitions retired";
/// And how often one came back. Two servers that enter the same one at a time count twice.
pub(super) const REGISTERED_AGAIN: &str = "registrations beyond the first";

/// Writes that one server carried out for the other.
pub(super) const FOR_PEERS: &str = "writes for a peer";

/// What faults are done to.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    arena: &'a Arena,
    server: &'a Path,
    pub(super) cassandra: CassandraNodes,
    pub(super) nodes: Nodes,
    races: &'a [Race; 2],
}

/// The result of a seed, as far as it could be played.
pub(super) type SeedResult = Result<Tally, Violation>;

/// Plays one seed and evaluates it.
///
/// # Errors
/// If it could not be played, because a node of either kind did not come back. The inner result
/// evaluates what clients heard.
pub(super) fn play(
    arena: &Arena,
    server: &Path,
    fault: Fault,
    defect: Defect,
) -> Result<SeedResult, Violation> {
    let cassandra = CassandraNodes::find(folder(arena)?)?;
    cassandra.heal()?;
    let mut rng = arena.rng(0);
    let nodes = Nodes::start_all(arena, server, &cassandra, timeouts(fault, &mut rng), defect)?;
    let tables = ["r", "s", "b"].map(|kind| format!("{kind}{}x{}", arena.seed, now_seconds()));
    for table in &tables {
        create_table(&nodes, table)?;
    }
    let bank = Bank::open(&tables[2], nodes.authorities()[0])?;
    let races = races(&tables, &nodes, fault, &mut rng);
    let mut scene = Scene { arena, server, cassandra, nodes, races: &races };
    let outcome = scene.act(fault, &bank, &mut rng);
    if !matches!(outcome, Ok(Ok(_))) {
        scene.cassandra.keep_logs(&arena.folder);
    }
    outcome
}

fn timeouts(fault: Fault, rng: &mut fastrand::Rng) -> Timeouts {
    match fault {
        // Hardly time to find out what became of a statement, and none to send it again: what was
        // not done is told.
        Fault::HastyServers => {
            let statement_ms = rng.u64(150..450);
            Timeouts { statement_ms, answer_ms: statement_ms * 5 / 4 }
        }
        _ => Timeouts { statement_ms: rng.u64(500..=1_000), answer_ms: rng.u64(4_000..=6_000) },
    }
}

fn races(tables: &[String; 3], nodes: &Nodes, fault: Fault, rng: &mut fastrand::Rng) -> [Race; 2] {
    let authorities = nodes.authorities();
    let short_timeout =
        (fault == Fault::HastyClients).then(|| Duration::from_millis(rng.u64(30..300)));
    let changes = RaceShape {
        clients: rng.u8(4..=8),
        partitions: 24,
        at_a_time: rng.usize(2..=5),
        rows: rng.u8(3..=5),
        timeout: ANSWER_TIMEOUT,
        short_timeout,
        comes_and_goes: false,
    };
    let goes = RaceShape {
        clients: rng.u8(2..=4),
        partitions: rng.u8(10..=30),
        at_a_time: usize::MAX,
        rows: rng.u8(1..=2),
        comes_and_goes: true,
        ..changes
    };
    [
        Race::new(&tables[0], &authorities, changes, 1_000),
        Race::new(&tables[1], &authorities, goes, 2_000),
    ]
}

fn now_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn create_table(nodes: &Nodes, table: &str) -> Result<(), Violation> {
    let authority = nodes.authorities()[0];
    let made = wait_until(HEALTHY_TIME_MAX, || {
        Client::connect(authority)
            .and_then(|mut client| client.try_create_table(table))
            .is_ok_and(|made| made)
    });
    made.then_some(())
        .ok_or_else(|| Violation::new(format!("table {table} cannot be made, though all is well")))
}

/// What came of clients and a fault at the same time.
struct Raced {
    /// What was seen of the fault.
    struck: Result<Tally, Violation>,
    histories: Vec<Finished>,
    /// What clients found wrong while they raced.
    found: Result<(), Violation>,
}

impl Scene<'_> {
    fn act(
        &mut self,
        fault: Fault,
        bank: &Bank,
        rng: &mut fastrand::Rng,
    ) -> Result<SeedResult, Violation> {
        let Raced { struck, mut histories, found } = self.race(fault, bank, rng);
        let outcome = match struck {
            Ok(seen) => self.heal_and_evaluate(bank, found, &seen, &mut histories),
            Err(why) => self.evaluate_unplayed(&why, found, &histories),
        };
        if let Ok(Err(violation)) | Err(violation) = &outcome {
            self.keep_histories(violation, &histories);
        }
        outcome
    }

    /// Clients and fault at the same time.
    fn race(&mut self, fault: Fault, bank: &Bank, rng: &mut fastrand::Rng) -> Raced {
        let (arena, races) = (self.arena, self.races);
        thread::scope(|scope| {
            let runs: Vec<_> =
                races.iter().map(|race| scope.spawn(move || race.run(arena))).collect();
            let banker = |number: u64| {
                let rng = arena.rng(3_000 + number);
                scope.spawn(move || bank.serve(&races[0], rng))
            };
            let bankers: Vec<_> = (0..BANKERS).map(banker).collect();
            thread::sleep(BEFORE_THE_FAULT);
            let struck = fault.strike(self, rng).and_then(|seen| {
                if fault.concerns_nodes() {
                    self.cassandra.wait_until_well()?;
                }
                Ok(seen)
            });
            thread::sleep(AFTER_THE_FAULT);
            races.iter().for_each(Race::end);
            bank.close();
            let panicked = || Err(Violation::new("a client panicked"));
            let mut found: Result<(), _> =
                bankers.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| panicked()));
            let mut histories = Vec::new();
            for run in runs {
                match run.join() {
                    Ok(mut finished) => {
                        found = found.and(std::mem::replace(&mut finished.found, Ok(())));
                        histories.push(finished);
                    }
                    Err(_) => found = found.and(panicked()),
                }
            }
            let struck = struck.and_then(|seen| {
                let is_played = fault != Fault::HastyClients
                    || histories.iter().any(|history| history.given_up() > 0);
                is_played
                    .then_some(seen)
                    .ok_or_else(|| Violation::new("no client was too hasty to hear an answer"))
            });
            Raced { struck, histories, found }
        })
    }

    /// The result of a seed whose fault was played.
    fn heal_and_evaluate(
        &self,
        bank: &Bank,
        found: Result<(), Violation>,
        seen: &Tally,
        histories: &mut [Finished],
    ) -> Result<SeedResult, Violation> {
        if let Err(violation) = found {
            return Ok(Err(violation));
        }
        self.cassandra.heal()?;
        self.nodes.wait_until_ready()?;
        let figures = self.nodes.figures()?;
        let partitions =
            histories.iter().map(Finished::partitions_written).sum::<u64>() + OTHER_PARTITIONS;
        Ok(self.read_and_evaluate(bank, histories).map(|mut tally| {
            tally.merge(seen);
            tally.add(FOR_PEERS, figures.for_peers);
            tally.add(RETIRED, figures.retirements);
            tally.add(REGISTERED_AGAIN, figures.registrations.saturating_sub(partitions));
            tally
        }))
    }

    /// The result of a seed whose fault could not be played: what clients heard until then counts
    /// all the same.
    fn evaluate_unplayed(
        &self,
        why: &Violation,
        found: Result<(), Violation>,
        histories: &[Finished],
    ) -> Result<SeedResult, Violation> {
        if let Err(found) = found {
            // That may be because of what did not come back.
            return Err(Violation::new(format!("{why}; and a client found: {found}")));
        }
        match self.evaluate(histories) {
            Err(violation) => Ok(Err(violation)),
            Ok(_) => Err(Violation::new(why.to_string())),
        }
    }

    /// For a person who looks for the cause of a finding.
    fn keep_histories(&self, violation: &Violation, histories: &[Finished]) {
        // Without one of them there is less to read; the finding remains.
        let keep = |name: &str, text: String| drop(fs::write(self.arena.folder.join(name), text));
        keep("violation.txt", format!("{violation}\n"));
        for ((race, finished), name) in
            self.races.iter().zip(histories).zip(["changes.txt", "comes-and-goes.txt"])
        {
            keep(name, race.describe(finished));
        }
    }

    /// Everything that was acknowledged must be there, whichever server is asked.
    fn read_and_evaluate(
        &self,
        bank: &Bank,
        histories: &mut [Finished],
    ) -> Result<Tally, Violation> {
        for (index, authority) in (0u8..).zip(self.nodes.authorities()) {
            bank.audit(authority)?;
            for (race, finished) in self.races.iter().zip(histories.iter_mut()) {
                race.read_everything(authority, index, self.arena, finished)?;
            }
        }
        let mut tally = self.evaluate(histories)?;
        tally.merge(&bank.tally());
        Ok(tally)
    }

    fn evaluate(&self, histories: &[Finished]) -> Result<Tally, Violation> {
        let mut tally = Tally::default();
        for (race, finished) in self.races.iter().zip(histories) {
            tally.merge(&race.evaluate(finished)?);
        }
        Ok(tally)
    }

    pub(super) fn kill_node(&mut self, index: usize) -> Result<(), Violation> {
        self.nodes.kill(index)?;
        self.races.iter().for_each(|race| race.server_died(index));
        Ok(())
    }

    pub(super) fn start_node(&mut self, index: usize) -> Result<(), Violation> {
        let authority = self.nodes.start(self.arena, self.server, index)?;
        self.races.iter().for_each(|race| race.server_lives(index, &authority));
        Ok(())
    }
}
