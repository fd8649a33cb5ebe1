//! The load generator: one thread, one request open per connection.
//!
//! It shares the machine with the server, so it does as little as it can: per request one write,
//! one read and a share of one poll. Its own CPU time is reported beside every figure.

use std::io::ErrorKind;
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use rustix::fd::OwnedFd;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

use crate::connection::Connection;
use crate::failure::{Context, Failure, Result};
use crate::site::Site;
use crate::source::Source;

/// A round in which nothing arrives for so long has failed.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(200);
const READ_BYTES: usize = 256 * 1024;

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Closed loop: a connection asks again as soon as it is answered.
    Closed,
    /// Open loop: so many requests a second, whether or not earlier ones are answered. Latency is
    /// counted from when a request was meant to be sent: a server that stalls must not slow those
    /// down who would tell of it.
    PerSecond(f64),
}

/// How hard to press, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    pub connections: usize,
    pub duration: Duration,
    pub pace: Pace,
}

/// What came of it. The time runs until the last reply: a server drains its queue at the rate at
/// which it serves.
#[derive(Debug)]
pub struct Outcome {
    pub requests: u64,
    pub entities: u64,
    pub elapsed: Duration,
    /// CPU time that the generator itself has used: near `elapsed`, it was the limit.
    pub generator_cpu: Duration,
    /// Nanoseconds from the first byte written, or from when it should have been, to the last byte
    /// read.
    pub latency: Histogram<u64>,
}

/// Runs one round. `tick` is called now and then with what has arrived so far.
///
/// # Errors
/// If a connection fails, a reply is wrong or none comes.
pub fn run(
    site: &Site,
    load: Load,
    source: &mut dyn Source,
    tick: &mut dyn FnMut(&Outcome),
) -> Result<Outcome> {
    let mut poll = Poll::new().context(|| "cannot poll".into())?;
    let connections = (0..load.connections).map(|number| Connection::open(site, &poll, number));
    let mut connections = connections.collect::<Result<Vec<_>>>()?;
    let alarm = Alarm::new(&poll, load)?;
    let cpu_before = cpu_time();
    let mut round = Round::new(load, source)?;
    round.ask_what_is_due(&mut connections)?;
    let mut events = Events::with_capacity(load.connections + 1);
    let mut last_tick = Instant::now();
    while !round.is_done() {
        alarm.set(round.next_due())?;
        wait(&mut poll, &mut events)?;
        for event in events.iter().filter(|event| event.token().0 < load.connections) {
            round.advance(&mut connections, event.token().0)?;
        }
        round.ask_what_is_due(&mut connections)?;
        if last_tick.elapsed() >= TICK {
            last_tick = Instant::now();
            round.note_silence()?;
            tick(&round.outcome);
        }
    }
    round.outcome.generator_cpu = cpu_time().saturating_sub(cpu_before);
    Ok(round.outcome)
}

/// Of this thread, which is the whole generator.
fn cpu_time() -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(tv_sec.unsigned_abs(), u32::try_from(tv_nsec).unwrap_or_default())
}

fn wait(poll: &mut Poll, events: &mut Events) -> Result {
    match poll.poll(events, Some(TICK)) {
        Err(error) if error.kind() != ErrorKind::Interrupted => {
            Err(Failure::new(format!("cannot poll: {error}")))
        }
        _ => Ok(()),
    }
}

/// Wakes an open loop when its next request is due. A poll's own time-out knows milliseconds only.
struct Alarm(Option<OwnedFd>);

impl Alarm {
    fn new(poll: &Poll, load: Load) -> Result<Self> {
        if load.pace == Pace::Closed {
            return Ok(Self(None));
        }
        let doing = || "cannot make a timer".into();
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK).context(doing)?;
        let token = Token(load.connections);
        poll.registry()
            .register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)
            .context(doing)?;
        Ok(Self(Some(timer)))
    }

    /// Setting it also forgets that it has rung.
    fn set(&self, due: Option<Instant>) -> Result {
        let (Some(timer), Some(due)) = (&self.0, due) else { return Ok(()) };
        // None at all would switch it off.
        let left = due.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let left =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let time = Itimerspec { it_interval: zero, it_value: left };
        timerfd_settime(timer, TimerfdTimerFlags::empty(), &time)
            .context(|| "cannot set a timer".into())?;
        Ok(())
    }
}

struct Round<'a> {
    source: &'a mut dyn Source,
    pace: Pace,
    started: Instant,
    deadline: Instant,
    /// Requests of an open loop so far.
    sent: u64,
    /// Connections that wait for a reply.
    open: usize,
    /// Connections that wait for something to ask.
    idle: Vec<usize>,
    /// The source has nothing more.
    is_exhausted: bool,
    outcome: Outcome,
    requests_at_last_tick: u64,
    last_sign_of_life: Instant,
    buffer: Vec<u8>,
}

impl<'a> Round<'a> {
    fn new(load: Load, source: &'a mut dyn Source) -> Result<Self> {
        let latency = Histogram::new(3).context(|| "cannot make a histogram".into())?;
        let started = Instant::now();
        Ok(Self {
            source,
            pace: load.pace,
            started,
            deadline: started + load.duration,
            sent: 0,
            open: 0,
            idle: (0..load.connections).rev().collect(),
            is_exhausted: false,
            outcome: Outcome {
                requests: 0,
                entities: 0,
                elapsed: Duration::ZERO,
                generator_cpu: Duration::ZERO,
                latency,
            },
            requests_at_last_tick: 0,
            last_sign_of_life: started,
            buffer: vec![0; READ_BYTES],
        })
    }

    fn is_done(&self) -> bool {
        self.open == 0
            && (self.pace == Pace::Closed || self.is_exhausted || self.due() >= self.deadline)
    }

    /// When the next request of an open loop is meant to be sent.
    fn due(&self) -> Instant {
        match self.pace {
            Pace::Closed => self.started,
            Pace::PerSecond(rate) => {
                self.started + Duration::from_secs_f64(self.sent as f64 / rate)
            }
        }
    }

    /// The same, if somebody is free to send it.
    fn next_due(&self) -> Option<Instant> {
        (!self.idle.is_empty() && self.due() < self.deadline).then(|| self.due())
    }

    fn ask_what_is_due(&mut self, connections: &mut [Connection]) -> Result {
        while let Some(number) = self.idle.pop() {
            let (due, now) = (self.due(), Instant::now());
            if self.pace != Pace::Closed && (due > now || due >= self.deadline || self.is_exhausted)
            {
                self.idle.push(number);
                break;
            }
            let asked = if self.pace == Pace::Closed { now } else { due };
            self.ask(&mut connections[number], asked)?;
        }
        Ok(())
    }

    /// Sends the next request, if there is one. `asked` is when it was due.
    fn ask(&mut self, connection: &mut Connection, asked: Instant) -> Result {
        connection.request.clear();
        connection.written = 0;
        let previous = connection.reader.reply();
        connection.is_open =
            self.source.next(previous, asked >= self.deadline, &mut connection.request);
        connection.reader.reset();
        if connection.is_open {
            self.open += 1;
            self.sent += 1;
            connection.asked = asked;
            connection.write()?;
        } else {
            self.is_exhausted = true;
        }
        Ok(())
    }

    fn advance(&mut self, connections: &mut [Connection], number: usize) -> Result {
        let connection = &mut connections[number];
        connection.write()?;
        if !connection.read(&mut self.buffer)? || !connection.is_open {
            return Ok(());
        }
        let Some(reply) = connection.reader.reply() else { return Ok(()) };
        let outcome = &mut self.outcome;
        outcome.entities += self.source.check(reply)?;
        outcome.requests += 1;
        outcome.elapsed = self.started.elapsed();
        let nanoseconds = connection.asked.elapsed().as_nanos() as u64;
        outcome.latency.record(nanoseconds.max(1)).context(|| "cannot record a latency".into())?;
        self.open -= 1;
        connection.is_open = false;
        match self.pace {
            Pace::Closed => self.ask(connection, Instant::now()),
            Pace::PerSecond(_) => {
                self.idle.push(number);
                Ok(())
            }
        }
    }

    fn note_silence(&mut self) -> Result {
        if self.outcome.requests > self.requests_at_last_tick {
            self.requests_at_last_tick = self.outcome.requests;
            self.last_sign_of_life = Instant::now();
        }
        if self.last_sign_of_life.elapsed() > SILENCE_MAX {
            return Err(Failure::new(format!("no reply for {} s", SILENCE_MAX.as_secs())));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
