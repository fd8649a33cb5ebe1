//! The body of an answer: bytes that are there already, or a stream of them.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::{Body, Frame, SizeHint};

use crate::completion::Completion;

/// Bytes on their way to a client.
///
/// A stream that fails, or whose length turns out to be another, ends with an error: the connection
/// is cut, so that no client takes a part for the whole.
pub struct ResponseBody {
    content: Content,
    /// Told of every byte, and of the end.
    completion: Option<Box<Completion>>,
}

enum Content {
    /// The usual answer, sent in one piece.
    Full(Bytes),
    Stream {
        chunks: Chunks,
        left: Option<u64>,
    },
}

type Chunks = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

impl ResponseBody {
    /// Bytes that are there already.
    #[must_use]
    pub fn full(bytes: Bytes) -> Self {
        Self { content: Content::Full(bytes), completion: None }
    }

    /// Bytes that are still to come; `length` is how many, if that is known.
    pub fn stream(
        length: Option<u64>,
        chunks: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    ) -> Self {
        Self {
            content: Content::Stream { chunks: Box::pin(chunks), left: length },
            completion: None,
        }
    }

    pub(crate) fn with_completion(mut self, completion: Box<Completion>) -> Self {
        self.completion = Some(completion);
        self
    }

    /// The same with other bytes, if they are there already and `change` does not fail.
    pub(crate) fn map_full<E>(
        mut self,
        change: impl FnOnce(Bytes) -> Result<Bytes, E>,
    ) -> Result<Self, E> {
        if let Content::Full(bytes) = &mut self.content {
            *bytes = change(std::mem::take(bytes))?;
        }
        Ok(self)
    }

    /// The same with other bytes, if they are there already.
    pub(crate) fn replace_full(mut self, change: impl FnOnce(Bytes) -> Bytes) -> Self {
        if let Content::Full(bytes) = &mut self.content {
            *bytes = change(std::mem::take(bytes));
        }
        self
    }

    /// The answer to HEAD: its head says how long the body would be.
    pub(crate) fn clear(&mut self) {
        self.content = Content::Full(Bytes::new());
    }

    /// How many bytes are left, if that is known.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        match &self.content {
            Content::Full(bytes) => Some(bytes.len() as u64),
            Content::Stream { left, .. } => *left,
        }
    }

    /// True if there is nothing more to send.
    pub(crate) fn is_at_end(&self) -> bool {
        matches!(&self.content, Content::Full(bytes) if bytes.is_empty())
    }

    /// The next bytes, at most `bytes_max` of those that are there already.
    pub(crate) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
        bytes_max: usize,
    ) -> Poll<Option<io::Result<Bytes>>> {
        let chunk = match &mut self.content {
            Content::Full(bytes) if bytes.is_empty() => None,
            Content::Full(bytes) => Some(Ok(bytes.split_to(bytes.len().min(bytes_max)))),
            Content::Stream { chunks, left } => {
                let next = std::task::ready!(chunks.as_mut().poll_next(cx));
                checked(next, left)
            }
        };
        if let Some(completion) = &mut self.completion {
            match &chunk {
                Some(Ok(bytes)) => completion.sent(bytes.len() as u64),
                Some(Err(_)) => completion.broken(),
                None => {}
            }
        }
        Poll::Ready(chunk)
    }
}

/// Holds a stream to the length that the answer's head announced.
fn checked(next: Option<io::Result<Bytes>>, left: &mut Option<u64>) -> Option<io::Result<Bytes>> {
    let wrong = |what| Some(Err(io::Error::new(io::ErrorKind::InvalidData, what)));
    match (&next, left.as_mut()) {
        (Some(Ok(bytes)), Some(left)) => match left.checked_sub(bytes.len() as u64) {
            Some(rest) => *left = rest,
            None => return wrong("the stream is longer than its announced length"),
        },
        (None, Some(left)) if *left > 0 => {
            return wrong("the stream ended before its announced length");
        }
        _ => {}
    }
    next
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.content {
            Content::Full(_) => "full",
            Content::Stream { .. } => "stream",
        };
        f.debug_struct("ResponseBody")
            .field("kind", &kind)
            .field("left", &self.remaining())
            .finish()
    }
}

/// For callers without a connection: tests, counters of instructions.
impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.poll_chunk(cx, usize::MAX).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.is_at_end()
    }

    fn size_hint(&self) -> SizeHint {
        self.remaining().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http_body_util::BodyExt;

    use super::*;

    async fn sent(length: Option<u64>, chunks: &[&'static str]) -> io::Result<Bytes> {
        let chunks: Vec<_> =
            chunks.iter().map(|text| Ok(Bytes::from_static(text.as_bytes()))).collect();
        Ok(ResponseBody::stream(length, stream::iter(chunks)).collect().await?.to_bytes())
    }

    #[tokio::test]
    async fn a_stream_is_held_to_its_length() {
        assert_eq!(sent(None, &["ab", "c"]).await.unwrap(), "abc");
        assert_eq!(sent(Some(3), &["ab", "c"]).await.unwrap(), "abc");
        assert!(sent(Some(4), &["ab", "c"]).await.is_err(), "too short");
        assert!(sent(Some(2), &["ab", "c"]).await.is_err(), "too long");
    }

    #[tokio::test]
    async fn bytes_are_sent_in_pieces() {
        let mut body = ResponseBody::full(Bytes::from_static(b"abcde"));
        let mut pieces = Vec::new();
        std::future::poll_fn(|cx| {
            while let Poll::Ready(Some(Ok(piece))) = body.poll_chunk(cx, 2) {
                pieces.push(piece);
            }
            Poll::Ready(())
        })
        .await;
        assert_eq!(pieces, ["ab", "cd", "e"]);
        assert!(body.is_at_end());
    }
}
