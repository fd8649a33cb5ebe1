//! The thread that writes the audit log, and its file.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::SystemTime;

use super::{Shared, line};
use crate::telemetry::LogFile;

/// Lines are written together up to this many bytes.
const BATCH_BYTES: usize = 256 * 1024;

/// What the thread is sent.
#[derive(Debug)]
pub(super) enum Message {
    /// A line to write, with its line break.
    Line(String),
    /// Look whether the file is to be opened anew.
    Wake,
    /// Say when everything before this is written.
    Flush(SyncSender<()>),
}

/// The file at the end of the queue.
#[derive(Debug)]
pub(super) struct AuditFile {
    file: LogFile,
    shared: Arc<Shared>,
    /// Lost lines that the log says are missing.
    lost_told: u64,
    /// The last write failed, perhaps in the middle of a line.
    failing: bool,
}

/// Lines that are written together.
#[derive(Debug, Default)]
struct Batch {
    text: String,
    lines: u64,
    flushed: Vec<SyncSender<()>>,
}

impl AuditFile {
    pub(super) fn open(path: &Path, shared: Arc<Shared>) -> io::Result<Self> {
        Ok(Self { file: LogFile::open(path)?, shared, lost_told: 0, failing: false })
    }

    /// Writes until the log is dropped.
    pub(super) fn write(mut self, messages: &Receiver<Message>) {
        while let Ok(first) = messages.recv() {
            let mut batch = Batch::default();
            batch.add(first);
            while batch.text.len() < BATCH_BYTES
                && let Ok(next) = messages.try_recv()
            {
                batch.add(next);
            }
            self.shared.waiting_bytes.fetch_sub(batch.text.len(), Ordering::Relaxed);
            if self.shared.reopen.swap(false, Ordering::AcqRel) {
                self.reopen();
            }
            self.write_batch(&batch);
            for flushed in batch.flushed {
                let _nobody_waits_any_more = flushed.send(());
            }
        }
    }

    fn write_batch(&mut self, batch: &Batch) {
        let lost = self.shared.lost.load(Ordering::Relaxed);
        let mut text = String::new();
        if self.failing && !batch.text.is_empty() {
            // Half a line may be in the file; the next one must not become part of it.
            text.push('\n');
        }
        if lost > self.lost_told {
            text.push_str(&line::lost(SystemTime::now(), lost - self.lost_told));
        }
        text.push_str(&batch.text);
        if text.is_empty() {
            return;
        }
        match (&self.file).write_all(text.as_bytes()) {
            Ok(()) => {
                self.failing = false;
                self.lost_told = lost;
            }
            Err(error) => self.failed(&error, batch.lines),
        }
    }

    /// Said once: a disk that is full is full for every line.
    fn failed(&mut self, error: &io::Error, lines: u64) {
        self.shared.lost.fetch_add(lines, Ordering::Relaxed);
        if !self.failing {
            let path = self.file.path();
            tracing::error!(%error, path = %path.display(), "the audit log cannot be written; lines are missing until it can");
        }
        self.failing = true;
    }

    fn reopen(&mut self) {
        match LogFile::open(&self.file.path()) {
            Ok(file) => (self.file, self.failing) = (file, false),
            // The message names the file.
            Err(error) => {
                tracing::error!(%error, "the audit log cannot be opened anew; the old file goes on")
            }
        }
    }
}

impl Batch {
    fn add(&mut self, message: Message) {
        match message {
            Message::Line(line) => {
                self.text.push_str(&line);
                self.lines += 1;
            }
            Message::Wake => {}
            Message::Flush(flushed) => self.flushed.push(flushed),
        }
    }
}
