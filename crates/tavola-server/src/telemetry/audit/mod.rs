//! The audit log: who did what, from where, and with which result. One JSON object per line, in a
//! file of its own.
//!
//! It is kept apart from the access log because it answers another question and is kept for another
//! time. It names the keys of entities and never their properties, and a credential by what
//! identifies it, never by itself.
//!
//! A request never waits for it: lines go through a bounded queue to a thread that writes. Lines
//! that do not fit are counted, and the log itself says so where they are missing.

mod file;
mod line;
mod target;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use tavola_fair::{Bucket, Rate};
use tavola_protocol::auth::Signer;

use crate::config::{AuditConfig, AuditedRequests};
use crate::tokens::TokenSubject;
use file::{AuditFile, Message};
pub use line::AdminEvent;
pub use target::Target;

use super::{EventReader, RequestEvent};

/// Lines that wait to be written.
const LINES_MAX: usize = 16 * 1024;
/// Their bytes. The keys of one transaction can fill hundreds of kilobytes.
const BYTES_MAX: usize = 16 << 20;
/// Lines per second about requests that nobody authenticated: anybody can send those, and must not
/// be able to fill a disk with them. Requests of somebody who was let in are never bounded by it.
const UNAUTHENTICATED_LINES_PER_SECOND: u64 = 200;
/// How long the end of the server waits for the last lines.
const FLUSH_TIME: Duration = Duration::from_secs(5);
/// How long it waits for a place in a full queue before it tries again.
const FLUSH_RETRY: Duration = Duration::from_millis(10);

/// Who was let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// Whoever has a key of the account, or a signature that it made.
    Signer(Signer),
    /// The bearer of a token.
    Token(Arc<TokenSubject>),
}

impl Principal {
    fn is_sas(&self) -> bool {
        matches!(self, Self::Signer(signer) if signer.kind.is_sas())
    }
}

/// The audit log.
#[derive(Debug)]
pub struct AuditLog {
    requests: AuditedRequests,
    queue: SyncSender<Message>,
    shared: Arc<Shared>,
    began: Instant,
    unauthenticated: Bucket,
}

/// What the thread that writes and those that send it lines both count.
#[derive(Debug, Default)]
struct Shared {
    waiting_bytes: AtomicUsize,
    lost: AtomicU64,
    reopen: AtomicBool,
}

impl EventReader for AuditLog {
    fn record(&self, event: &RequestEvent) {
        let subject = &event.subject;
        let needed = match (subject.deny_reason.is_some(), subject.is_write) {
            (true, _) => AuditedRequests::Denied,
            (false, true) => AuditedRequests::Writes,
            (false, false) => AuditedRequests::All,
        };
        if needed > self.requests {
            return;
        }
        if subject.principal.is_some() || self.has_room_for_strangers() {
            self.send(line::request(event));
        }
    }
}

impl AuditLog {
    /// Opens the file and starts the thread that writes to it.
    ///
    /// # Errors
    /// If the file cannot be opened, or the system has no thread left.
    pub fn start(config: &AuditConfig) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let file = AuditFile::open(&config.file, Arc::clone(&shared))?;
        let (queue, messages) = sync_channel(LINES_MAX);
        std::thread::Builder::new()
            .name("audit-log".to_owned())
            .spawn(move || file.write(&messages))?;
        let unauthenticated = Bucket::new(Rate::per_second(UNAUTHENTICATED_LINES_PER_SECOND));
        Ok(Self {
            requests: config.requests,
            queue,
            shared,
            began: Instant::now(),
            unauthenticated,
        })
    }

    pub(super) fn record_handshake(&self, peer: IpAddr, reason: &rustls::Error) {
        if self.has_room_for_strangers() {
            self.send(line::handshake(SystemTime::now(), peer, reason));
        }
    }

    /// If not, the line is lost.
    fn has_room_for_strangers(&self) -> bool {
        let has_room = self.unauthenticated.take(1, self.began.elapsed());
        if !has_room {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }

    pub(super) fn record_admin(&self, event: &AdminEvent<'_>) {
        self.send(line::admin(event));
    }

    /// Lines that are missing in the log.
    pub(super) fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    /// Opens the file at its path anew, after somebody moved it away.
    pub(super) fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Release);
        // A queue that is full needs nobody to wake its reader.
        let _full = self.queue.try_send(Message::Wake);
    }

    /// Waits until everything is written that was recorded before, but not for ever.
    pub(super) fn flush(&self) {
        let deadline = Instant::now() + FLUSH_TIME;
        let (done, is_done) = sync_channel(1);
        let mut message = Message::Flush(done);
        while let Err(TrySendError::Full(again)) = self.queue.try_send(message) {
            if Instant::now() > deadline {
                return;
            }
            message = again;
            std::thread::sleep(FLUSH_RETRY);
        }
        let _written_or_too_slow =
            is_done.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }

    fn send(&self, line: String) {
        let bytes = line.len();
        let waiting = self.shared.waiting_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if waiting > BYTES_MAX || self.queue.try_send(Message::Line(line)).is_err() {
            self.shared.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}
