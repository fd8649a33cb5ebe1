//! The body of an answer over HTTP/1.1, sent in one piece.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::half_closed::Answering;

/// A reply's body, sent in one piece.
///
/// Unlike `Full` it is never at its end before it was asked once. hyper drops `Content-Length` from
/// a 204 whose body is known to be at its end, as RFC 9110 asks; the service sends `Content-Length:
/// 0`, and clients compare.
#[derive(Debug)]
pub(super) struct ReplyBody {
    bytes: Option<Bytes>,
    _until_hyper_has_it: Answering,
}

impl ReplyBody {
    pub(super) fn new(bytes: Bytes, answering: Answering) -> Self {
        Self { bytes: Some(bytes), _until_hyper_has_it: answering }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = self.bytes.take().filter(|bytes| !bytes.is_empty());
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
