//! HTTP/2, bounded like the rest: streams, headers, frames, resets, and time without a request.

mod unread;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, ready};
use http::{Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tavola_fair::{Pool, Share};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use self::unread::{Answer, StreamExecutor};
use super::heads::{self, HeadError};
use super::{Endpoint, ended};
use crate::config::Limits;
use crate::connection::Connection;
use crate::node::Node;
use crate::pipeline::{self, ConnectionBroken};
use crate::response_body::ResponseBody;
use crate::service::Service;

/// Requests of one connection at a time; more wait at the client. Fewer where there are many
/// connections: what a stream leaves behind in its connection, about 1.6 KB, stays there until the
/// connection ends.
const STREAMS_MAX: usize = 100;
const STREAMS_MIN: usize = 8;
const STREAMS_OF_ALL_MAX: usize = 8_000;
/// Bodies and answers of one connection at a time, whatever its account may have: a few of the
/// largest.
const CONNECTION_BODY_BYTES_MAX: u64 = 32 << 20;
const FRAME_BYTES_MAX: u32 = 16 * 1024;
/// Bytes of bodies on their way, of one request and of one connection: the largest body fits in a
/// few round trips.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// Bytes of one reply that wait for the client to read.
const SEND_BUFFER_BYTES_MAX: usize = 256 * 1024;
/// Requests that a client took back before they were begun, and streams that we had to cut off; a
/// client with more is up to no good and loses its connection.
const PENDING_RESETS_MAX: usize = 32;
const OWN_RESETS_MAX: usize = 256;
/// Until a client that does not answer a ping is taken for gone.
const PING_TIME: Duration = Duration::from_secs(20);

/// Serves a connection until it ends, is without requests for too long, or the server stops.
pub(super) async fn serve<T, S: Service>(
    stream: T,
    mut connection: Connection,
    endpoint: Endpoint<S>,
    mut stop: watch::Receiver<bool>,
) where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let node = Arc::clone(&endpoint.node);
    let limits = node.limits;
    let _open = OpenConnection::begin(Arc::clone(&node));
    let streams = streams_max(node.http2_connections.load(Ordering::Relaxed));
    let activity = Arc::new(Activity::default());
    let requests = Arc::clone(&activity);
    let peer = connection.peer;
    let heads = node.heads.member(1);
    connection.bodies = Some(Pool::new(CONNECTION_BODY_BYTES_MAX).member(u32::MAX));
    let service = service_fn(move |request| {
        // A head that is not taken is dropped here, before anything is kept for it.
        match heads::admit(&request, &heads) {
            Ok(head) => {
                let open = OpenRequest::begin(Arc::clone(&requests));
                // Boxed, so that a stream whose answer is being sent does not take the room of a
                // request at work.
                let answer = answer(endpoint.clone(), connection.clone(), request, head, open);
                Either::Left(Box::pin(answer))
            }
            Err(error) => Either::Right(ready(refusal(error))),
        }
    });
    let mut served =
        pin!(builder(&limits, streams).serve_connection(TokioIo::new(stream), service));
    let time_to_finish = tokio::select! {
        result = served.as_mut() => return result.unwrap_or_else(|error| ended(peer, &error)),
        // What may be left is a reply that nobody reads.
        () = activity.ceases(limits.header_time) => limits.body_time,
        _ = stop.wait_for(|stop| *stop) => limits.drain_time,
    };
    served.as_mut().graceful_shutdown();
    if let Ok(Err(error)) = tokio::time::timeout(time_to_finish, served).await {
        ended(peer, &error);
    }
}

/// How many streams the next connection has, with so many others.
fn streams_max(connections: usize) -> u32 {
    let streams = (STREAMS_OF_ALL_MAX / connections.max(1)).clamp(STREAMS_MIN, STREAMS_MAX);
    u32::try_from(streams).unwrap_or(u32::MAX)
}

fn builder(limits: &Limits, streams: u32) -> Builder<StreamExecutor> {
    let mut http = Builder::new(StreamExecutor { time: limits.body_time });
    http.timer(TokioTimer::new())
        .max_concurrent_streams(streams)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .max_frame_size(FRAME_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES_MAX)
        .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
        .max_local_error_reset_streams(OWN_RESETS_MAX)
        .keep_alive_interval(limits.header_time)
        .keep_alive_timeout(PING_TIME);
    http
}

/// A request that got no further than its head. Beyond the memory for heads the stream is refused,
/// which costs nothing and tells the client that it may try again.
fn refusal(error: HeadError) -> Result<Response<Answer>, StreamError> {
    match error {
        HeadError::TooLarge => {
            let mut response = Response::new(Answer::new(ResponseBody::full(Bytes::new()), None));
            *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            Ok(response)
        }
        HeadError::Busy => Err(StreamError::Refused(h2::Reason::REFUSED_STREAM.into())),
    }
}

/// Why a stream ends without an answer.
#[derive(Debug, thiserror::Error)]
enum StreamError {
    #[error(transparent)]
    Broken(#[from] ConnectionBroken),
    #[error("the memory for heads is taken")]
    Refused(#[source] h2::Error),
}

async fn answer<S: Service>(
    Endpoint { node, service }: Endpoint<S>,
    connection: Connection,
    request: Request<Incoming>,
    head: Share,
    _open: OpenRequest,
) -> Result<Response<Answer>, StreamError> {
    let is_head = request.method() == Method::HEAD;
    let mut response = pipeline::handle(node, service, connection, request).await?;
    // What hyper sees to by itself in HTTP/1.1.
    if is_head {
        response.body_mut().clear();
    }
    if response.status() == StatusCode::NO_CONTENT {
        response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    Ok(response.map(|body| Answer::new(body, Some(head))))
}

/// Counts a connection for as long as it is served.
struct OpenConnection(Arc<Node>);

impl OpenConnection {
    fn begin(node: Arc<Node>) -> Self {
        node.http2_connections.fetch_add(1, Ordering::Relaxed);
        Self(node)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.http2_connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The requests of one connection.
#[derive(Debug, Default)]
struct Activity {
    open: AtomicUsize,
    begun: AtomicU64,
}

impl Activity {
    /// Returns once there was no request for `time`; at most twice that long after the last one.
    async fn ceases(&self, time: Duration) {
        let mut begun_before = u64::MAX;
        loop {
            let begun = self.begun.load(Ordering::Relaxed);
            let open = self.open.load(Ordering::Relaxed);
            if open == 0 && begun == begun_before {
                return;
            }
            begun_before = if open == 0 { begun } else { u64::MAX };
            tokio::time::sleep(time).await;
        }
    }
}

/// One request, from its arrival until its answer is ready or its client took it back.
struct OpenRequest(Arc<Activity>);

impl OpenRequest {
    fn begin(activity: Arc<Activity>) -> Self {
        activity.begun.fetch_add(1, Ordering::Relaxed);
        activity.open.fetch_add(1, Ordering::Relaxed);
        Self(activity)
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::{Activity, OpenRequest, streams_max};

    #[test]
    fn many_connections_have_fewer_streams() {
        assert_eq!(
            [0, 1, 80, 160, 400, 1000, 100_000].map(streams_max),
            [100, 100, 100, 50, 20, 8, 8]
        );
    }

    const TIME: Duration = Duration::from_secs(10);

    async fn seconds_until_it_ceases(activity: &Activity) -> u64 {
        let start = tokio::time::Instant::now();
        activity.ceases(TIME).await;
        start.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_requests_ceases() {
        assert_eq!(seconds_until_it_ceases(&Activity::default()).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_request_keeps_its_connection() {
        let activity = Arc::new(Activity::default());
        let open = OpenRequest::begin(Arc::clone(&activity));
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(35)).await;
            drop(open);
        });
        assert_eq!(seconds_until_it_ceases(&activity).await, 50);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_now_and_then_keep_their_connection() {
        let activity = Arc::new(Activity::default());
        let requests = Arc::clone(&activity);
        tokio::spawn(async move {
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_secs(9)).await;
                drop(OpenRequest::begin(Arc::clone(&requests)));
            }
        });
        assert_eq!(seconds_until_it_ceases(&activity).await, 60);
    }
}
