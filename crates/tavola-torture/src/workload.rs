//! A mixed load of many clients, and the comparison of a server with all that it told them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::author::{Author, SHARED, Step};
use super::ledger::Rows;
use super::{Arena, Tally, Violation, verify};
use tavola_testkit::client::Client;

/// How far a load is, and whether it goes on.
#[derive(Debug, Default)]
pub(super) struct Progress {
    stop: AtomicBool,
    answered: AtomicUsize,
}

impl Progress {
    /// No client begins another request.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// Waits until so many requests were answered; on a machine that is busy with other things, no
    /// longer than `time_max`.
    pub(super) fn wait_for(&self, answers: usize, time_max: Duration) {
        let begun = Instant::now();
        while self.answered.load(Ordering::Relaxed) < answers
            && begun.elapsed() < time_max
            && !self.is_stopped()
        {
            thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Authors, each of which knows what must be stored.
#[derive(Debug)]
pub(super) struct Load {
    authors: Vec<Author>,
    /// Fills large tables and drops them.
    dropper: Author,
    big_tables: usize,
}

impl Load {
    /// A load of so many clients.
    pub(super) fn new(arena: &Arena, clients: usize) -> Self {
        let author = |number: usize| Author::new(number, arena.rng(1000 + number as u64));
        Self {
            authors: (0..clients).map(author).collect(),
            dropper: author(clients),
            big_tables: 0,
        }
    }

    /// Creates the table that all share. Once, before anything else.
    pub(super) fn prepare(&mut self, authority: &str) -> Result<(), Violation> {
        connect(authority)?.create_table(SHARED);
        self.authors.iter_mut().try_for_each(Author::knows_shared_table)
    }

    /// Lets every client write until it gets no answer, or is stopped.
    pub(super) fn write(&mut self, authority: &str, progress: &Progress) -> Result<(), Violation> {
        write_all(&mut self.authors, authority, progress, || Ok(()))
    }

    /// The same, while a large table comes, is filled by so many batches, and is dropped again.
    pub(super) fn write_and_drop(
        &mut self,
        authority: &str,
        progress: &Progress,
        batches: usize,
    ) -> Result<(), Violation> {
        self.big_tables += 1;
        let table = format!("big{}", self.big_tables);
        let Self { authors, dropper, .. } = self;
        write_all(authors, authority, progress, || match Client::connect(authority) {
            Ok(mut client) => dropper.fill_and_drop(&mut client, &table, batches).map(|_| ()),
            Err(_) => Ok(()),
        })
    }

    /// Compares everything that the server shows with everything that was acknowledged. What was in
    /// doubt is decided.
    pub(super) fn verify(&mut self, authority: &str) -> Result<(), Violation> {
        let client = &mut connect(authority)?;
        let shared = verify::rows(client, SHARED)?.unwrap_or_default();
        let is_foreign =
            |partition_key: &str| !self.authors.iter().any(|author| author.owns(partition_key));
        if let Some((key, _)) =
            shared.iter().find(|((partition_key, _), _)| is_foreign(partition_key))
        {
            return Err(Violation::new(format!("{SHARED} {key:?} is nobody's")));
        }
        let mut tables = verify::tables(client)?;
        tables.remove(SHARED);
        for author in &mut self.authors {
            let own: Rows =
                shared.iter().filter(|((key, _), _)| author.owns(key)).map(clone).collect();
            author.ledger.compare(SHARED, Some(&own))?;
            for table in author.own_tables() {
                compare_table(author, client, &table, tables.remove(&table))?;
            }
        }
        for number in 1..=self.big_tables {
            let table = format!("big{number}");
            compare_table(&mut self.dropper, client, &table, tables.remove(&table))?;
        }
        match tables.first() {
            Some(table) => Err(Violation::new(format!("the table {table} is nobody's"))),
            None => Ok(()),
        }
    }

    /// What all of them did.
    pub(super) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        self.authors.iter().chain([&self.dropper]).for_each(|author| tally.merge(&author.tally));
        tally
    }
}

/// The list of tables and the table itself must agree.
fn compare_table(
    author: &mut Author,
    client: &mut Client,
    table: &str,
    is_listed: bool,
) -> Result<(), Violation> {
    let rows = verify::rows(client, table)?;
    if rows.is_some() != is_listed {
        return Err(Violation::new(format!(
            "the table {table} is listed: {is_listed}, and readable: {}",
            rows.is_some()
        )));
    }
    author.ledger.compare(table, rows.as_ref())
}

fn clone<K: Clone, V: Clone>((key, value): (&K, &V)) -> (K, V) {
    (key.clone(), value.clone())
}

fn write_all(
    authors: &mut [Author],
    authority: &str,
    progress: &Progress,
    meanwhile: impl FnOnce() -> Result<(), Violation>,
) -> Result<(), Violation> {
    thread::scope(|scope| {
        let write = |author| scope.spawn(move || write_on(author, authority, progress));
        let threads: Vec<_> = authors.iter_mut().map(write).collect();
        let meanwhile = meanwhile();
        let written = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(Violation::new("a client panicked: see above")))
        });
        written.fold(meanwhile, Result::and)
    })
}

fn write_on(author: &mut Author, authority: &str, progress: &Progress) -> Result<(), Violation> {
    if author.ledger.is_in_doubt() {
        return Err(Violation::new("the load goes on before what was in doubt is decided"));
    }
    // The server may have been killed before.
    let Ok(mut client) = Client::connect(authority) else { return Ok(()) };
    let mut written = || {
        while !progress.is_stopped() {
            if author.step(&mut client)? == Step::InDoubt {
                break;
            }
            progress.answered.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    // A client that found something need not wait for the others.
    written().inspect_err(|_| progress.stop())
}

/// A connection to a server that must be there.
pub(super) fn connect(authority: &str) -> Result<Client, Violation> {
    Client::connect(authority).map_err(|_| Violation::new("the server takes no connection"))
}
