//! What a neighbour is given: a fresh server process, a polite client beside it, and its memory
//! watched.

use std::fs::File;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use super::memory::{self, CACHE_MB, MEMTABLE_MB, QUERIES};
use super::polite::{Conductor, Experience, Phase, PoliteClient};
use super::wire::Wire;
use crate::{Arena, Tally, Violation};
use tavola_testkit::client::Client;
use tavola_testkit::server_process::ServerProcess;

/// The table of the neighbours.
pub(super) const TABLE: &str = "crowd";

/// One kind of noisy neighbour.
pub(super) struct Neighbour {
    pub(super) name: &'static str,
    /// What its server's memory is called in the tally.
    pub(super) resident: &'static str,
    /// The memory that its server may have.
    pub(super) resident_mb_max: u64,
    /// What its server may have open, if that is fewer than usual.
    pub(super) descriptors: Option<u64>,
    /// Changes how its server is started.
    pub(super) configure: fn(&mut Command) -> &mut Command,
    /// What it does.
    pub(super) attack: fn(&Scene<'_>) -> Result<(), Violation>,
    /// Looks at what the polite client saw.
    pub(super) evaluate: fn(&Scene<'_>, &Experience) -> Result<(), Violation>,
}

/// Where it does it.
pub(super) struct Scene<'a> {
    pub(super) arena: &'a Arena,
    pub(super) server: &'a ServerProcess,
    pub(super) wire: Wire,
    /// For neighbours with many connections.
    pub(super) runtime: Runtime,
    pub(super) conductor: Conductor,
    tally: Mutex<Tally>,
}

impl Scene<'_> {
    pub(super) fn add(&self, what: &'static str, amount: u64) {
        self.tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner).add(what, amount);
    }

    pub(super) fn peak(&self, what: &'static str, value: u64) {
        self.tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner).peak(what, value);
    }

    /// What was counted so far.
    pub(super) fn figure(&self, what: &str) -> u64 {
        self.tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get(what)
    }

    /// The shorter time in the short form.
    pub(super) fn lasting(&self, short: Duration, long: Duration) -> Duration {
        if self.arena.is_short { short } else { long }
    }

    /// A client of the neighbour's own, on a table that exists.
    pub(super) fn client(&self) -> Result<Client, Violation> {
        let mut client =
            Client::connect(&self.wire.authority).map_err(|_| Violation::new("cannot connect"))?;
        client.create_table(TABLE);
        Ok(client)
    }
}

/// What most neighbours have nothing to add to.
pub(super) fn as_it_is(command: &mut Command) -> &mut Command {
    command
}

/// Right answers are all that most ask of the polite client's experience.
pub(super) fn nothing_more(_: &Scene<'_>, _: &Experience) -> Result<(), Violation> {
    Ok(())
}

pub(super) fn run(neighbour: &Neighbour, arena: &Arena) -> Result<Tally, Violation> {
    let begun = Instant::now();
    let log = File::options().append(true).create(true).open(arena.log());
    let log = log.map_err(|error| Violation::new(format!("no log: {error}")))?;
    let server = arena.start(|command| {
        command.args(["--cache-mb", &CACHE_MB.to_string()]);
        command.env("TAVOLA_STORE__MEMTABLE_KB", (MEMTABLE_MB * 1024).to_string());
        command.env("TAVOLA_LIMITS__QUERIES", QUERIES.to_string());
        (neighbour.configure)(command);
        if let Some(descriptors) = neighbour.descriptors {
            *command = with_descriptors(command, descriptors);
        }
        command.stderr(log)
    })?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let scene = Scene {
        arena,
        server: &server,
        wire: Wire::new(server.table.clone()),
        runtime: runtime.map_err(|error| Violation::new(format!("no runtime: {error}")))?,
        conductor: Conductor::default(),
        tally: Mutex::default(),
    };
    let result = act(neighbour, &scene);
    let (tally, runtime) = (scene.tally.into_inner().unwrap_or_default(), scene.runtime);
    runtime.shutdown_background();
    println!("load: {}: {tally} ({} s)", neighbour.name, begun.elapsed().as_secs());
    result?;
    let ended = server.terminate();
    if !ended.success() {
        return Err(Violation::new(format!(
            "the server ended with {ended}: {}",
            arena.last_words()
        )));
    }
    Ok(tally)
}

/// Through a shell, because nothing else sets a limit between fork and exec without `unsafe`.
fn with_descriptors(command: &Command, descriptors: u64) -> Command {
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"")]);
    limited.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited
}

fn act(neighbour: &Neighbour, scene: &Scene<'_>) -> Result<(), Violation> {
    let polite = PoliteClient::new(&scene.wire)?;
    let stop_watching = AtomicBool::new(false);
    let (attacked, experience, resident) = thread::scope(|scope| {
        let watch = scope.spawn(|| memory::watch(scene.server, &stop_watching));
        let polite = scope.spawn(|| polite.run(&scene.conductor, neighbour.name));
        let attacked = attack(neighbour, scene);
        scene.conductor.stop();
        let experience = joined(polite).and_then(|experience| experience);
        stop_watching.store(true, Ordering::SeqCst);
        (attacked, experience, joined(watch))
    });
    let (experience, resident) = match (attacked, experience, resident) {
        (Ok(()), Ok(experience), Ok(resident)) => (experience, resident),
        (attacked, experience, resident) => {
            let held = resident.as_ref().copied().unwrap_or_default();
            let said = [attacked.err(), experience.err(), resident.err()];
            let said: Vec<String> =
                said.into_iter().flatten().map(|violation| violation.to_string()).collect();
            let (said, words) = (said.join("; "), scene.arena.last_words());
            return Err(Violation::new(format!(
                "{said}; the server held {held} MB and said: {words}"
            )));
        }
    };
    scene.peak(neighbour.resident, resident);
    scene.add("polite inserts", experience.acknowledged);
    scene.add("polite refusals", experience.busy);
    (neighbour.evaluate)(scene, &experience)?;
    if resident > neighbour.resident_mb_max {
        let most = neighbour.resident_mb_max;
        return Err(Violation::new(format!(
            "the server held {resident} MB; its bound is {most} MB"
        )));
    }
    Ok(())
}

/// With some quiet before, for ratios.
fn attack(neighbour: &Neighbour, scene: &Scene<'_>) -> Result<(), Violation> {
    scene.conductor.enter(Phase::Quiet);
    thread::sleep(scene.lasting(Duration::from_millis(300), Duration::from_secs(2)));
    scene.conductor.enter(Phase::Attack);
    let attacked = (neighbour.attack)(scene);
    scene.conductor.enter(Phase::After);
    attacked
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> Result<T, Violation> {
    thread.join().map_err(|_| {
        Violation::new("a thread that watched the server panicked: the server may have died")
    })
}
