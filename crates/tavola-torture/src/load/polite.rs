//! The polite client: one connection, one request after another, and every answer is checked.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};

use super::latency::Latencies;
use super::wire::Wire;
use crate::Violation;
use tavola_testkit::client::Client;

pub(super) const TABLE: &str = "polite";
const KNOWN_VALUE: u64 = 4711;
/// Between two rounds of a GET and an insert; it is no load of its own.
const PAUSE: Duration = Duration::from_millis(2);
/// Every so many inserts one is read back at once.
const READ_BACK_EVERY: u64 = 8;
/// A polite request is in time if it is answered within this, being refused not counting as an
/// answer.
pub(super) const IN_TIME: Duration = Duration::from_secs(2);

const PHASES: usize = 4;

/// What a run of the polite client is divided into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Quiet,
    Attack,
    /// The time that the server has to recover.
    Recovery,
    After,
}

/// Tells the polite client when to stop and in which phase it is.
#[derive(Debug, Default)]
pub(super) struct Conductor {
    stop: AtomicBool,
    phase: AtomicUsize,
}

impl Conductor {
    pub(super) fn enter(&self, phase: Phase) {
        self.phase.store(phase as usize, Ordering::SeqCst);
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    fn phase(&self) -> usize {
        self.phase.load(Ordering::SeqCst)
    }
}

/// What the polite client saw.
#[derive(Debug, Clone, Default)]
pub(super) struct Experience {
    gets: [Latencies; PHASES],
    inserts: [Latencies; PHASES],
    /// Requests by whether they were answered in time: (all, in time).
    in_time: [(u64, u64); PHASES],
    pub(super) busy: u64,
    pub(super) acknowledged: u64,
}

impl Experience {
    pub(super) fn gets(&self, phase: Phase) -> &Latencies {
        &self.gets[phase as usize]
    }

    pub(super) fn inserts(&self, phase: Phase) -> &Latencies {
        &self.inserts[phase as usize]
    }

    /// Of a hundred requests, so many were answered within [`IN_TIME`], refusals and repetitions
    /// included.
    pub(super) fn percent_in_time(&self, phase: Phase) -> u64 {
        let (all, in_time) = self.in_time[phase as usize];
        (100 * in_time).checked_div(all).unwrap_or(0)
    }

    /// Requests of a phase.
    pub(super) fn requests(&self, phase: Phase) -> u64 {
        self.in_time[phase as usize].0
    }
}

/// One that is ready to go.
pub(super) struct PoliteClient {
    client: Client,
    wire: Wire,
    experience: Experience,
}

impl PoliteClient {
    /// Connects and stores what it will ask for.
    pub(super) fn new(wire: &Wire) -> Result<Self, Violation> {
        let client = Client::connect(&wire.authority)
            .map_err(|_| Violation::new("the polite client cannot connect"))?;
        let mut polite = Self { client, wire: wire.clone(), experience: Experience::default() };
        polite.client.create_table(TABLE);
        let known = polite.wire.signed_insert(TABLE, "known", "known", KNOWN_VALUE);
        let inserted = polite
            .client
            .exchange(&known)
            .map_err(|_| Violation::new("no answer to the first insert"))?;
        // The table may be there from the neighbour before.
        match inserted.status().as_u16() {
            204 | 409 => Ok(polite),
            status => Err(Violation::new(format!("the first insert was answered with {status}"))),
        }
    }

    /// Asks until it is told to stop; then everything that was acknowledged must be there.
    pub(super) fn run(
        mut self,
        conductor: &Conductor,
        partition: &str,
    ) -> Result<Experience, Violation> {
        let get = self.wire.signed_get(TABLE, "known", "known");
        while !conductor.stop.load(Ordering::SeqCst) {
            let phase = conductor.phase();
            let taken = self.get(&get, KNOWN_VALUE, phase)?;
            self.experience.gets[phase].add(taken);
            let number = self.experience.acknowledged;
            let insert = self.wire.signed_insert(TABLE, partition, &format!("{number:08}"), number);
            let (answer, taken) = self.ask(&insert, phase)?;
            expect(&answer, 204, "an insert")?;
            self.experience.inserts[phase].add(taken);
            self.experience.acknowledged += 1;
            if number.is_multiple_of(READ_BACK_EVERY) {
                let get = self.wire.signed_get(TABLE, partition, &format!("{number:08}"));
                self.get(&get, number, phase)?;
            }
            thread::sleep(PAUSE);
        }
        self.compare(partition)?;
        Ok(self.experience)
    }

    fn get(
        &mut self,
        request: &Request<Bytes>,
        value: u64,
        phase: usize,
    ) -> Result<Duration, Violation> {
        let (answer, taken) = self.ask(request, phase)?;
        expect(&answer, 200, "a point GET")?;
        let body = String::from_utf8_lossy(answer.body());
        if body.contains(&format!("\"Value\":{value}")) {
            return Ok(taken);
        }
        Err(Violation::new(format!("a point GET should have given Value {value}, and gave {body}")))
    }

    /// Refused requests are repeated after the pause that the answer asks for. The time is that of
    /// the last attempt.
    fn ask(
        &mut self,
        request: &Request<Bytes>,
        phase: usize,
    ) -> Result<(Response<Bytes>, Duration), Violation> {
        let begun = Instant::now();
        loop {
            let sent = Instant::now();
            let answer = self.client.exchange(request);
            let answer = answer
                .map_err(|_| Violation::new(format!("no answer after {:?}", sent.elapsed())))?;
            if answer.status().as_u16() != 503 {
                let (all, in_time) = &mut self.experience.in_time[phase];
                *all += 1;
                *in_time += u64::from(begun.elapsed() <= IN_TIME);
                return Ok((answer, sent.elapsed()));
            }
            self.experience.busy += 1;
            let pause = retry_after(&answer)?;
            if begun.elapsed() > Duration::from_secs(60) {
                return Err(Violation::new("a polite request was refused for a minute"));
            }
            thread::sleep(pause);
        }
    }

    fn compare(&mut self, partition: &str) -> Result<(), Violation> {
        let prefix = format!("{partition}/");
        let all = self.client.read_all(TABLE);
        let mine = all.iter().filter(|(key, _)| key.starts_with(&prefix));
        let expected = (0..self.experience.acknowledged)
            .map(|number| (format!("{prefix}{number:08}"), number as i32));
        let missing: Vec<_> =
            expected.filter(|pair| all.binary_search(pair).is_err()).take(3).collect();
        let (count, acknowledged) = (mine.count() as u64, self.experience.acknowledged);
        if missing.is_empty() && count == acknowledged {
            return Ok(());
        }
        Err(Violation::new(format!(
            "{acknowledged} inserts were acknowledged, {count} are there; missing {missing:?}"
        )))
    }
}

fn expect(answer: &Response<Bytes>, status: u16, what: &str) -> Result<(), Violation> {
    if answer.status().as_u16() == status {
        return Ok(());
    }
    let (got, body) = (answer.status(), String::from_utf8_lossy(answer.body()));
    Err(Violation::new(format!("{what} was answered with {got} instead of {status}: {body}")))
}

/// A refusal must be the service's, and say when to come again.
fn retry_after(answer: &Response<Bytes>) -> Result<Duration, Violation> {
    let body = String::from_utf8_lossy(answer.body());
    let seconds =
        answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
    match seconds {
        Some(seconds) if body.contains("ServerBusy") => Ok(Duration::from_secs(seconds)),
        _ => {
            Err(Violation::new(format!("a 503 that is no ServerBusy with Retry-After: {answer:?}")))
        }
    }
}
