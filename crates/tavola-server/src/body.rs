//! Reading the body of a request, within bounds.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use tavola_core::limits::REQUEST_BODY_BYTES_MAX;
use tavola_protocol::ApiError;

use crate::admission::busy;
use crate::body_memory::{BodyMemory, BodyShare};

/// A body that is refused is still read up to here, so that the client hears the answer and the
/// connection stays usable.
const DRAINED_BYTES_MAX: usize = 4 * REQUEST_BODY_BYTES_MAX;

/// An announced length is believed up to here; what is beyond must arrive before it takes memory.
const RESERVED_BYTES_MAX: usize = 256 * 1024;

/// A request's body, wherever its bytes come from: a connection, or a test that has none.
pub trait RequestBody: Body<Data = Bytes> + Unpin {}

impl<B: Body<Data = Bytes> + Unpin> RequestBody for B {}

/// Why a body could not be had.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// An answer can be given.
    Rejected(ApiError),
    /// The framing is broken or the client is gone: nothing can follow on this connection.
    Broken,
}

/// Reads a whole body. Its share of the memory for bodies must be kept as long as the body is.
pub(crate) async fn read<B: RequestBody>(
    body: &mut B,
    time: Duration,
    memory: &BodyMemory,
) -> Result<(Bytes, BodyShare), BodyError> {
    if body.is_end_stream() {
        return Ok((Bytes::new(), BodyShare::default()));
    }
    match tokio::time::timeout(time, collect(body, memory)).await {
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
    let mut has_room = announced <= REQUEST_BODY_BYTES_MAX as u64;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        bytes += data.len();
        if bytes > DRAINED_BYTES_MAX {
            return Err(BodyError::Rejected(ApiError::RequestBodyTooLarge));
        }
        has_room = has_room && bytes <= REQUEST_BODY_BYTES_MAX && memory.grow(&mut share, bytes);
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
    if bytes > REQUEST_BODY_BYTES_MAX {
        return Err(BodyError::Rejected(ApiError::RequestBodyTooLarge));
    }
    if !has_room {
        return Err(BodyError::Rejected(busy()));
    }
    Ok((if whole.is_empty() { first.unwrap_or_default() } else { whole.freeze() }, share))
}
