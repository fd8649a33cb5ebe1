//! The body of an answer over HTTP/1.1.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::half_closed::Answering;
use crate::response_body::ResponseBody;

/// The body of an answer. What is there already is sent in one piece.
///
/// Unlike `Full` it is never at its end before it was asked once. hyper drops `Content-Length` from
/// a 204 whose body is known to be at its end, as RFC 9110 asks; the service sends `Content-Length:
/// 0`, and clients compare.
#[derive(Debug)]
pub(super) struct ReplyBody {
    body: ResponseBody,
    was_asked: bool,
    _until_hyper_has_it: Answering,
}

impl ReplyBody {
    pub(super) fn new(body: ResponseBody, answering: Answering) -> Self {
        Self { body, was_asked: false, _until_hyper_has_it: answering }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.was_asked = true;
        self.body.poll_chunk(cx, usize::MAX).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.was_asked && self.body.is_at_end()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.remaining().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
