//! The load generator: closed loop, one thread, one request open per connection.
//!
//! It shares the machine with the server, so it does as little as it can: per request one write, one read and a share of
//! one poll. Its own CPU time is reported beside every figure.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::failure::{Context, Failure, Result};
use crate::reply::ReplyReader;
use crate::source::Source;

/// A round in which nothing arrives for so long has failed.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(200);
const READ_BYTES: usize = 256 * 1024;

/// How hard to press, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    pub(crate) connections: usize,
    pub(crate) duration: Duration,
}

/// What came of it. The time runs until the last reply: a server drains its queue at the rate at which it serves.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) requests: u64,
    pub(crate) entities: u64,
    pub(crate) elapsed: Duration,
    /// Nanoseconds from the first byte written to the last byte read.
    pub(crate) latency: Histogram<u64>,
}

/// Runs one round. `tick` is called now and then with what has arrived so far.
pub(crate) fn run(load: Load, source: &mut dyn Source, tick: &mut dyn FnMut(&Outcome)) -> Result<Outcome> {
    let mut poll = Poll::new().context(|| "cannot poll".into())?;
    let mut connections = connect(load, &poll)?;
    let mut round = Round::new(load, source)?;
    for connection in &mut connections {
        round.ask(connection)?;
    }
    let mut events = Events::with_capacity(load.connections);
    let mut last_tick = Instant::now();
    while round.open > 0 {
        wait(&mut poll, &mut events)?;
        for event in &events {
            round.advance(&mut connections[event.token().0])?;
        }
        if last_tick.elapsed() >= TICK {
            last_tick = Instant::now();
            round.note_silence()?;
            tick(&round.outcome);
        }
    }
    Ok(round.outcome)
}

fn wait(poll: &mut Poll, events: &mut Events) -> Result {
    match poll.poll(events, Some(TICK)) {
        Err(error) if error.kind() != ErrorKind::Interrupted => Err(Failure::new(format!("cannot poll: {error}"))),
        _ => Ok(()),
    }
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    written: usize,
    asked: Instant,
    is_open: bool,
    reader: ReplyReader,
}

fn connect(load: Load, poll: &Poll) -> Result<Vec<Connection>> {
    let connect_one = |number| {
        let doing = || format!("cannot connect to {}", load.address);
        let stream = std::net::TcpStream::connect(load.address).context(doing)?;
        stream.set_nodelay(true).context(doing)?;
        stream.set_nonblocking(true).context(doing)?;
        let mut stream = TcpStream::from_std(stream);
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut stream, Token(number), interest).context(doing)?;
        let (request, reader) = (Vec::new(), ReplyReader::default());
        Ok(Connection { stream, request, written: 0, asked: Instant::now(), is_open: false, reader })
    };
    (0..load.connections).map(connect_one).collect()
}

struct Round<'a> {
    source: &'a mut dyn Source,
    started: Instant,
    deadline: Instant,
    /// Connections that wait for a reply.
    open: usize,
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
            started,
            deadline: started + load.duration,
            open: 0,
            outcome: Outcome { requests: 0, entities: 0, elapsed: Duration::ZERO, latency },
            requests_at_last_tick: 0,
            last_sign_of_life: started,
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Sends the next request, if there is one.
    fn ask(&mut self, connection: &mut Connection) -> Result {
        let now = Instant::now();
        connection.request.clear();
        connection.written = 0;
        let previous = connection.reader.reply();
        connection.is_open = self.source.next(previous, now >= self.deadline, &mut connection.request);
        connection.reader.reset();
        if connection.is_open {
            self.open += 1;
            connection.asked = now;
            connection.write()?;
        }
        Ok(())
    }

    fn advance(&mut self, connection: &mut Connection) -> Result {
        connection.write()?;
        if !connection.read(&mut self.buffer)? {
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
        self.ask(connection)
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

impl Connection {
    fn write(&mut self) -> Result {
        while self.written < self.request.len() {
            match self.stream.write(&self.request[self.written..]) {
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::new(format!("cannot send: {error}"))),
            }
        }
        Ok(())
    }

    /// Reads what is there; true when a whole reply is.
    fn read(&mut self, buffer: &mut [u8]) -> Result<bool> {
        loop {
            let bytes = match self.stream.read(buffer) {
                Ok(0) => return self.closed(),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(Failure::new(format!("cannot receive: {error}"))),
            };
            let is_whole = self.reader.feed(&buffer[..bytes])?;
            // A short read has emptied the socket (epoll(7)), so asking once more would be a system call for nothing.
            if is_whole || bytes < buffer.len() {
                return Ok(is_whole);
            }
        }
    }

    fn closed(&self) -> Result<bool> {
        // A connection that has nothing left to ask may be closed by the server.
        if self.is_open {
            Err(Failure::new("the server closed a connection that waits for a reply"))
        } else {
            Ok(false)
        }
    }
}
