//! Reading the body of a request, within bounds.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use tavola_protocol::ApiError;

use crate::throttle::{BodyMemory, BodyShare, busy};

/// A body that is refused is still read up to here, so that the client hears the answer and the
/// connection stays usable.
const DRAINED_BYTES_MAX: usize = 16 << 20;

/// An announced length is believed up to here; what is beyond must arrive before it takes memory.
const RESERVED_BYTES_MAX: usize = 256 * 1024;

/// A request's body, wherever its bytes come from: a connection, or a test that has none.
pub trait RequestBody: Body<Data = Bytes> + Send + Unpin + 'static {}

impl<B: Body<Data = Bytes> + Send + Unpin + 'static> RequestBody for B {}

/// Why a body could not be had.
#[derive(Debug)]
pub enum BodyError {
    /// An answer can be given.
    Rejected(ApiError),
    /// The framing is broken or the client is gone: nothing can follow on this connection.
    Broken,
}

/// Reads a whole body. Its share of the memory for bodies must be kept as long as the body is.
pub(crate) async fn read<B: RequestBody>(
    body: &mut B,
    bytes_max: usize,
    time: Duration,
    memory: &BodyMemory,
) -> Result<(Bytes, BodyShare), BodyError> {
    if body.is_end_stream() {
        return Ok((Bytes::new(), BodyShare::default()));
    }
    match tokio::time::timeout(time, collect(body, bytes_max, memory)).await {
        Ok(result) => result,
        Err(_elapsed) => Err(BodyError::Rejected(ApiError::BodyTooSlow)),
    }
}

/// Reads and forgets what is left of a body whose request was refused without it.
pub(crate) async fn drain<B: RequestBody>(body: &mut B, time: Duration) {
    let drained = async {
        let mut bytes = 0;
        while bytes <= DRAINED_BYTES_MAX
            && let Some(Ok(frame)) = body.frame().await
        {
            bytes += frame.data_ref().map_or(0, Bytes::len);
        }
    };
    // A client that is slow here only loses its connection.
    let _finished = tokio::time::timeout(time, drained).await;
}

async fn collect<B: RequestBody>(
    body: &mut B,
    bytes_max: usize,
    memory: &BodyMemory,
) -> Result<(Bytes, BodyShare), BodyError> {
    let announced = body.size_hint().exact().unwrap_or(0);
    if announced > DRAINED_BYTES_MAX as u64 {
        return Err(BodyError::Rejected(ApiError::RequestBodyTooLarge));
    }
    let mut first: Option<Bytes> = None;
    let mut whole = BytesMut::new();
    let mut bytes = 0;
    let mut share = BodyShare::default();
    let mut has_room = announced <= bytes_max as u64;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        bytes += data.len();
        if bytes > DRAINED_BYTES_MAX {
            return Err(BodyError::Rejected(ApiError::RequestBodyTooLarge));
        }
        has_room = has_room && bytes <= bytes_max && memory.grow(&mut share, bytes);
        if !has_room {
            // Read to its end, so that the client hears the answer, but kept no longer.
            (first, whole, share) = (None, BytesMut::new(), BodyShare::default());
            continue;
        }
        // Most bodies are one frame, which is passed on without a copy.
        match (&first, whole.is_empty()) {
            (None, true) => first = Some(data),
            (Some(start), true) => {
                whole.reserve((announced as usize).min(RESERVED_BYTES_MAX));
                whole.extend_from_slice(start);
                whole.extend_from_slice(&data);
            }
            _ => whole.extend_from_slice(&data),
        }
    }
    if bytes > bytes_max {
        return Err(BodyError::Rejected(ApiError::RequestBodyTooLarge));
    }
    if !has_room {
        return Err(BodyError::Rejected(busy()));
    }
    Ok((if whole.is_empty() { first.unwrap_or_default() } else { whole.freeze() }, share))
}

/// A body that is handled while it arrives. It is read only as fast as it is asked for, so that a
/// slow handler holds its client back.
pub struct BodyStream<'a> {
    source: Option<&'a mut (dyn Source + 'static)>,
    /// Told of every byte that came.
    bytes: Option<&'a mut u64>,
    bytes_left: u64,
    /// The longest that the next bytes may take.
    time: Duration,
}

impl<'a> BodyStream<'a> {
    /// A request without a body, or whose body was read before.
    #[must_use]
    pub fn empty() -> Self {
        Self { source: None, bytes: None, bytes_left: 0, time: Duration::ZERO }
    }

    pub(crate) fn new<B: RequestBody>(
        body: &'a mut B,
        bytes_max: u64,
        time: Duration,
        bytes: &'a mut u64,
    ) -> Self {
        Self { source: Some(body), bytes: Some(bytes), bytes_left: bytes_max, time }
    }

    /// The next bytes; `None` behind the last.
    ///
    /// # Errors
    /// If the body is larger than its operation takes, the client is too slow, or the framing is
    /// broken.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        let Some(source) = &mut self.source else { return Ok(None) };
        let next = std::future::poll_fn(|cx| source.poll_data(cx));
        let data = match tokio::time::timeout(self.time, next).await {
            Ok(data) => data?,
            Err(_elapsed) => return Err(BodyError::Rejected(ApiError::BodyTooSlow)),
        };
        let Some(data) = data else {
            self.source = None;
            return Ok(None);
        };
        let length = data.len() as u64;
        if let Some(bytes) = &mut self.bytes {
            **bytes += length;
        }
        let left = self.bytes_left.checked_sub(length);
        self.bytes_left = left.ok_or(BodyError::Rejected(ApiError::RequestBodyTooLarge))?;
        Ok(Some(data))
    }
}

impl fmt::Debug for BodyStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyStream").field("bytes_left", &self.bytes_left).finish_non_exhaustive()
    }
}

/// A body whose type does not matter.
trait Source: Send {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>>;
}

impl<B: RequestBody> Source for B {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        loop {
            match std::task::ready!(Pin::new(&mut *self).poll_frame(cx)) {
                None => return Poll::Ready(Ok(None)),
                Some(Err(_)) => return Poll::Ready(Err(BodyError::Broken)),
                Some(Ok(frame)) => {
                    // Trailers mean nothing here.
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Ok(Some(data)));
                    }
                }
            }
        }
    }
}
