//! Answers that a client must take, stream by stream.
//!
//! hyper hands an answer to its stream and forgets it; a client that opens no window for the stream
//! would hold the answer in our memory for as long as its connection lives. So an answer is handed
//! over in pieces, the next one when the one before has left, and the stream's task stays until the
//! last has. A stream whose client takes no piece within the time is reset.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use hyper::body::{Body, Frame, SizeHint};
use hyper::rt::Executor;
use tavola_fair::Share;
use tokio::time::{Instant, Sleep};

use crate::response_body::ResponseBody;

/// What a client must take within the time.
const PIECE_BYTES: usize = 256 * 1024;

tokio::task_local! {
    /// The stream that the current task serves.
    static STREAM: Arc<Stream>;
}

/// What a stream's task and the answer on it know together.
#[derive(Debug, Default)]
struct Stream {
    /// Since when a piece has been on its way.
    since: Mutex<Option<Instant>>,
    piece_left: AtomicWaker,
    /// The client had its time.
    expired: AtomicBool,
}

impl Stream {
    fn since(&self) -> Option<Instant> {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_since(&self, since: Option<Instant>) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }
}

/// Runs the streams of a connection, each with the time that its client has to take a piece of the
/// answer.
#[derive(Debug, Clone)]
pub(super) struct StreamExecutor {
    pub(super) time: Duration,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, serving: F) {
        let stream = Arc::new(Stream::default());
        let watched = Watched {
            serving: Box::pin(serving),
            stream: Arc::clone(&stream),
            time: self.time,
            timer: None,
        };
        tokio::spawn(STREAM.scope(stream, watched));
    }
}

/// A stream's task that ends when the client does not take what it asked for.
struct Watched<F> {
    serving: Pin<Box<F>>,
    stream: Arc<Stream>,
    time: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<F: Future<Output = ()>> Future for Watched<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.serving.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let Some(since) = self.stream.since() else { return Poll::Pending };
        let deadline = since + self.time;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        if timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        // A piece that lies in the stream's queue is thrown away when the answer ends with an
        // error; one that waits for a window is not even asked, and its stream is reset by dropping
        // it.
        self.stream.expired.store(true, Ordering::Relaxed);
        let _reset = self.serving.as_mut().poll(cx);
        Poll::Ready(())
    }
}

/// An answer on its way to a client that takes it piece by piece.
#[derive(Debug)]
pub(super) struct Answer {
    body: ResponseBody,
    /// What the request took of the memory for heads; the stream still takes some of it.
    share: Option<Arc<Share>>,
    stream: Arc<Stream>,
}

impl Answer {
    /// An answer of the current task's stream.
    pub(super) fn new(body: ResponseBody, share: Option<Share>) -> Self {
        let stream = STREAM.try_with(Arc::clone).unwrap_or_default();
        Self { body, share: share.map(Arc::new), stream }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.stream.piece_left.register(cx.waker());
        if self.stream.expired.load(Ordering::Relaxed) {
            let error =
                io::Error::new(io::ErrorKind::TimedOut, "the client does not take its answer");
            return Poll::Ready(Some(Err(error)));
        }
        if self.stream.since().is_some() {
            return Poll::Pending;
        }
        let bytes = match std::task::ready!(self.body.poll_chunk(cx, PIECE_BYTES)) {
            Some(Ok(bytes)) => bytes,
            end => return Poll::Ready(end.map(|failed| failed.map(Frame::data))),
        };
        self.stream.set_since(Some(Instant::now()));
        let piece = Piece { bytes, _share: self.share.clone(), stream: Arc::clone(&self.stream) };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_at_end() && self.stream.since().is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.remaining().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Bytes that were handed over; dropped when they have left.
struct Piece {
    bytes: Bytes,
    _share: Option<Arc<Share>>,
    stream: Arc<Stream>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.stream.set_since(None);
        self.stream.piece_left.wake();
    }
}
