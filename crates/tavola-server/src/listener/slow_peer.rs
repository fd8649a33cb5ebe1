//! A socket whose other end must take what it asked for, and is given the time to.
//!
//! hyper waits for ever for a client to read. One that never does would hold its answer in our
//! memory as long as it likes. And hyper closes right after the answer to a request whose body was
//! too large to read. The system then throws the answer away together with what is unread, so the
//! client would see a reset and never learn why.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// What a client must take within the time; fewer bytes are no progress.
const PROGRESS_BYTES: usize = 64 * 1024;

/// How long a client that was told to stop may go on sending, and how much.
const LINGER: Duration = Duration::from_secs(5);
const LINGER_BYTES_MAX: usize = 32 << 20;

/// A stream that fails when writing to it waits for too long.
#[derive(Debug)]
pub(super) struct SlowPeerTimeout<S> {
    stream: S,
    patience: Duration,
    /// Since when the other end keeps us waiting, and what it took meanwhile.
    waiting: Option<(Pin<Box<Sleep>>, usize)>,
    /// Until when we listen to what is sent after the end, and how much that was.
    lingering: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<S> SlowPeerTimeout<S> {
    pub(super) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, waiting: None, lingering: None }
    }

    fn wrote(&mut self, result: Poll<Result<usize>>, cx: &mut Context<'_>) -> Poll<Result<usize>> {
        match (&result, &mut self.waiting) {
            (Poll::Pending, _) => return self.wait(cx).map(Err),
            (Poll::Ready(Ok(bytes)), Some((_, taken))) => *taken += bytes,
            _ => {}
        }
        if self.waiting.as_ref().is_some_and(|(_, taken)| *taken >= PROGRESS_BYTES) {
            self.waiting = None;
        }
        result
    }

    /// Ready with the error when the time is up.
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        let deadline = Instant::now() + self.patience;
        let (timer, _) =
            self.waiting.get_or_insert_with(|| (Box::pin(tokio::time::sleep_until(deadline)), 0));
        timer
            .as_mut()
            .poll(cx)
            .map(|()| Error::new(ErrorKind::TimedOut, "the client does not take its answer"))
    }
}

impl<S: AsyncRead + Unpin> SlowPeerTimeout<S> {
    /// Reads and forgets what still comes. Ready at once if nothing does: then closing takes
    /// nothing away.
    fn linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut space = [0; 16 * 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut space);
            match (Pin::new(&mut self.stream).poll_read(cx, &mut buffer), &mut self.lingering) {
                (Poll::Ready(Ok(())), lingering) if !buffer.filled().is_empty() => {
                    let (timer, bytes) =
                        lingering.get_or_insert_with(|| (Box::pin(tokio::time::sleep(LINGER)), 0));
                    *bytes += buffer.filled().len();
                    if *bytes > LINGER_BYTES_MAX || timer.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(());
                    }
                }
                (Poll::Pending, Some((timer, _))) => return timer.as_mut().poll(cx),
                _ => return Poll::Ready(()),
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SlowPeerTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buffer);
        // The next request: the answer before it has been taken.
        if buffer.filled().len() > before {
            self.waiting = None;
        }
        result
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for SlowPeerTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(result, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.wrote(result, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if self.lingering.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        }
        self.linger(cx).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn pair() -> (SlowPeerTimeout<DuplexStream>, DuplexStream) {
        let (ours, theirs) = duplex(1024);
        (SlowPeerTimeout::new(ours, PATIENCE), theirs)
    }

    #[tokio::test(start_paused = true)]
    async fn who_never_reads_is_given_up() {
        let (mut ours, _theirs) = pair();
        let start = Instant::now();
        let error = ours.write_all(&[0; 2048]).await.unwrap_err();
        assert_eq!((error.kind(), start.elapsed()), (ErrorKind::TimedOut, PATIENCE));
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_a_little_now_and_then_is_given_up_too() {
        let (mut ours, mut theirs) = pair();
        let reader = tokio::spawn(async move {
            while theirs.read(&mut [0; 100]).await.is_ok_and(|read| read > 0) {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        assert_eq!(ours.write_all(&[0; 100_000]).await.unwrap_err().kind(), ErrorKind::TimedOut);
        drop(ours);
        reader.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_slowly_but_steadily_gets_everything() {
        let (mut ours, mut theirs) = pair();
        let reader = tokio::spawn(async move {
            let (mut all, mut some) = (0, [0; 1024]);
            while all < 1_000_000 {
                all += theirs.read(&mut some).await.unwrap();
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        });
        ours.write_all(&[0; 1_000_000]).await.unwrap();
        reader.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_goes_on_sending_is_listened_to_for_a_while() {
        let (mut ours, mut theirs) = pair();
        theirs.write_all(&[0; 1000]).await.unwrap();
        let sender = tokio::spawn(async move {
            while theirs.write_all(&[0; 1000]).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        let start = Instant::now();
        ours.shutdown().await.unwrap();
        assert_eq!(start.elapsed(), LINGER);
        drop(ours);
        sender.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_without_end_is_not_listened_to_for_ever() {
        let (mut ours, mut theirs) = pair();
        theirs.write_all(&[0; 1000]).await.unwrap();
        let sender = tokio::spawn(async move {
            let mut sent = 0;
            while theirs.write_all(&[0; 1000]).await.is_ok() {
                sent += 1000;
            }
            sent
        });
        ours.shutdown().await.unwrap();
        drop(ours);
        assert!(sender.await.unwrap() < LINGER_BYTES_MAX + 10_000);
    }

    #[tokio::test(start_paused = true)]
    async fn who_stops_or_is_silent_is_not_waited_for() {
        let start = Instant::now();
        let (mut ours, _silent) = pair();
        ours.shutdown().await.unwrap();
        let (mut ours, mut theirs) = pair();
        theirs.write_all(&[0; 1000]).await.unwrap();
        drop(theirs);
        ours.shutdown().await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_request_begins_a_new_wait() {
        let (mut ours, mut theirs) = pair();
        for _ in 0..3 {
            let asking = async {
                theirs.write_all(b"?").await.unwrap();
                tokio::time::sleep(Duration::from_secs(40)).await;
                theirs.read_exact(&mut [0; 2000]).await.unwrap();
            };
            let answering = async {
                ours.read_exact(&mut [0; 1]).await.unwrap();
                ours.write_all(&[0; 2000]).await.unwrap();
            };
            tokio::join!(asking, answering);
        }
    }
}
