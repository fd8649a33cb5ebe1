//! Clients that have said all they had to say.
//!
//! A client may end its side of the connection after a whole request and still wait for the answer;
//! hyper takes that for the end of the connection. So the end is kept from hyper while a request
//! that arrived whole is answered.
//!
//! A client that is gone altogether looks the same, until something is sent to it. Its request must
//! not be worked on for long, so while the answer takes its time the client gets an interim
//! response now and then, which HTTP/1.1 allows at any time: who still listens skips it, and for
//! who is gone sending fails, which ends the connection and the work with it.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Version};
use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Between two looks whether a client that ended its side is still there.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);
const PROBE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// How long a request may take to arrive whole after its client has ended its side: hyper has read
/// the rest of the body already, or it will never come.
const ARRIVAL_TIME: Duration = Duration::from_secs(5);

/// How far the request of a connection is. Shared by the connection's stream and its request.
#[derive(Debug, Default)]
pub(super) struct ExchangeState(AtomicU8);

/// No request.
const OPEN: u8 = 0;
const ARRIVING: u8 = 1;
/// The request has arrived whole.
const WORKING: u8 = 2;
/// The same for a client that must not get interim responses.
const WORKING_SILENTLY: u8 = 3;
/// The answer is being handed to hyper.
const ANSWERING: u8 = 4;
/// hyper has all of the answer; it is sent when hyper flushes.
const ANSWERED: u8 = 5;

impl ExchangeState {
    fn state(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    fn enter(&self, state: u8) {
        self.0.store(state, Ordering::Relaxed);
    }
}

/// The body of a request that tells when it is whole.
#[derive(Debug)]
pub(super) struct ArrivingBody<B> {
    body: B,
    exchange: Arc<ExchangeState>,
    when_whole: u8,
}

/// The same request, which tells `exchange` when it has arrived whole.
pub(super) fn arriving<B: Body>(
    request: Request<B>,
    exchange: &Arc<ExchangeState>,
) -> Request<ArrivingBody<B>> {
    let when_whole = if request.version() == Version::HTTP_11 { WORKING } else { WORKING_SILENTLY };
    exchange.enter(if request.body().is_end_stream() { when_whole } else { ARRIVING });
    request.map(|body| ArrivingBody { body, exchange: Arc::clone(exchange), when_whole })
}

impl<B: Body<Data = Bytes> + Unpin> Body for ArrivingBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() || self.body.is_end_stream() {
            self.exchange.enter(self.when_whole);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The answer of an exchange; dropped when hyper has all of it.
#[derive(Debug)]
pub(super) struct Answering(Arc<ExchangeState>);

impl Answering {
    pub(super) fn begin(exchange: Arc<ExchangeState>) -> Self {
        exchange.enter(ANSWERING);
        Self(exchange)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.enter(ANSWERED);
    }
}

/// A stream whose end is told when nothing is under way.
#[derive(Debug)]
pub(super) struct HalfClosed<S> {
    stream: S,
    exchange: Arc<ExchangeState>,
    ended: Option<Ended>,
}

/// The client has ended its side.
#[derive(Debug)]
struct Ended {
    since: Instant,
    next_probe: Pin<Box<Sleep>>,
    /// Whoever reads and waits for the end to be told.
    reader: Waker,
}

impl<S> HalfClosed<S> {
    pub(super) fn new(stream: S, exchange: Arc<ExchangeState>) -> Self {
        Self { stream, exchange, ended: None }
    }
}

impl<S: AsyncWrite + Unpin> HalfClosed<S> {
    /// Ready when the end may be told, or the client is known to be gone.
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let Self { stream, exchange, ended } = self;
        let ended = ended.get_or_insert_with(|| Ended {
            since: Instant::now(),
            next_probe: Box::pin(tokio::time::sleep(PROBE_INTERVAL)),
            reader: cx.waker().clone(),
        });
        ended.reader.clone_from(cx.waker());
        loop {
            let is_lost = exchange.state() == ARRIVING && ended.since.elapsed() >= ARRIVAL_TIME;
            if exchange.state() == OPEN || is_lost {
                return Poll::Ready(Ok(()));
            }
            ready!(ended.next_probe.as_mut().poll(cx));
            if exchange.state() == WORKING {
                // Nothing is on its way before an answer, so that it fits the system's buffer
                // whole.
                if ready!(Pin::new(&mut *stream).poll_write(cx, PROBE))? < PROBE.len() {
                    return Poll::Ready(Err(Error::new(
                        ErrorKind::WriteZero,
                        "the client takes nothing",
                    )));
                }
                ready!(Pin::new(&mut *stream).poll_flush(cx))?;
            }
            ended.next_probe.as_mut().reset(Instant::now() + PROBE_INTERVAL);
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for HalfClosed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        if self.ended.is_none() {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
            if buffer.filled().len() > before || buffer.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        self.wait(cx)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HalfClosed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes when it has written all it had.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        if self.exchange.state() == ANSWERED {
            self.exchange.enter(OPEN);
            if let Some(ended) = &self.ended {
                ended.reader.wake_by_ref();
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    fn pair() -> (HalfClosed<DuplexStream>, DuplexStream, Arc<ExchangeState>) {
        let (ours, theirs) = duplex(1024);
        let exchange = Arc::new(ExchangeState::default());
        (HalfClosed::new(ours, Arc::clone(&exchange)), theirs, exchange)
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_request_the_end_is_told_at_once() {
        let (mut ours, theirs, _) = pair();
        drop(theirs);
        assert_eq!(ours.read(&mut [0; 10]).await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_is_told_after_the_answer() {
        let (mut ours, mut theirs, exchange) = pair();
        theirs.shutdown().await.unwrap();
        exchange.enter(WORKING_SILENTLY);
        let asked = Arc::clone(&exchange);
        let reading = tokio::time::timeout(Duration::from_secs(60), ours.read(&mut [0; 10])).await;
        assert!(reading.is_err(), "nothing is told while the request is worked on");
        drop(Answering::begin(asked));
        ours.write_all(b"answer").await.unwrap();
        ours.flush().await.unwrap();
        assert_eq!(ours.read(&mut [0; 10]).await.unwrap(), 0);
        drop(ours);
        let mut got = String::new();
        theirs.read_to_string(&mut got).await.unwrap();
        assert_eq!(got, "answer");
    }

    #[tokio::test(start_paused = true)]
    async fn who_still_listens_is_asked_now_and_then() {
        let (mut ours, mut theirs, exchange) = pair();
        theirs.shutdown().await.unwrap();
        exchange.enter(WORKING);
        let reading = tokio::time::timeout(PROBE_INTERVAL * 5 / 2, ours.read(&mut [0; 10])).await;
        assert!(reading.is_err());
        let mut got = vec![0; 2 * PROBE.len()];
        theirs.read_exact(&mut got).await.unwrap();
        assert_eq!(got, PROBE.repeat(2));
    }

    #[tokio::test(start_paused = true)]
    async fn for_who_is_gone_nothing_is_worked_on() {
        let (mut ours, theirs, exchange) = pair();
        exchange.enter(WORKING);
        drop(theirs);
        assert_eq!(ours.read(&mut [0; 10]).await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_never_arrives_whole_is_given_up() {
        let (mut ours, mut theirs, exchange) = pair();
        theirs.shutdown().await.unwrap();
        exchange.enter(ARRIVING);
        let begun = Instant::now();
        assert_eq!(ours.read(&mut [0; 10]).await.unwrap(), 0);
        assert_eq!(begun.elapsed(), ARRIVAL_TIME);
    }

    #[tokio::test]
    async fn a_body_tells_when_it_is_whole() {
        let exchange = Arc::new(ExchangeState::default());
        let request = arriving(Request::new(Full::new(Bytes::from("body"))), &exchange);
        assert_eq!(exchange.state(), ARRIVING);
        request.into_body().collect().await.unwrap();
        assert_eq!(exchange.state(), WORKING);
        let _empty = arriving(Request::new(Full::new(Bytes::new())), &exchange);
        assert_eq!(exchange.state(), WORKING);
    }
}
