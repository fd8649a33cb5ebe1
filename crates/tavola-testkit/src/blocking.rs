//! One HTTP connection for threads that wait: the transport of `tavola-client` with a runtime of
//! its own.

use std::thread;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, Response, Uri};
use http_body_util::BodyExt as _;
use tavola_client::__http::{Connection, Connector};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::timeout;

use crate::record;

/// Until a connection is established.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// For a part of an answer. A server that takes longer does not answer at all.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// No answer came: whether the request was carried out is unknown.
#[derive(Debug)]
pub struct NoAnswer;

/// One connection over plain HTTP. Nothing is retried: after a failure it is of no use.
#[derive(Debug)]
pub struct BlockingConnection {
    connection: Connection,
    /// It runs only while a thread waits here; taken when this is dropped.
    runtime: Option<Runtime>,
    timeout: Duration,
}

impl BlockingConnection {
    /// Connects to `host:port`.
    ///
    /// # Errors
    /// If nobody listens there.
    ///
    /// # Panics
    /// If that is no authority.
    pub fn open(authority: &str) -> Result<Self, NoAnswer> {
        let uri: Uri = format!("http://{authority}/").parse().expect("a host and a port");
        let runtime = Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(|_| NoAnswer)?;
        let connector = Connector::new(CONNECT_TIMEOUT);
        let opened = block_on(&runtime, Connection::open(&connector, &uri));
        match opened {
            Ok(connection) => {
                Ok(Self { connection, runtime: Some(runtime), timeout: ANSWER_TIMEOUT })
            }
            Err(_) => {
                runtime.shutdown_background();
                Err(NoAnswer)
            }
        }
    }

    /// From now on waits so long for each part of an answer.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Sends one request and reads its whole answer. The request's host and length are the
    /// connection's and the body's unless it names them.
    ///
    /// # Errors
    /// If no whole answer comes in time.
    pub fn exchange(&mut self, request: &Request<Bytes>) -> Result<Response<Bytes>, NoAnswer> {
        let runtime = self.runtime.as_ref().ok_or(NoAnswer)?;
        let answer = exchange(&mut self.connection, request.clone(), self.timeout);
        let response = block_on(runtime, answer)?;
        record::http_exchange(request, &response);
        Ok(response)
    }
}

impl Drop for BlockingConnection {
    fn drop(&mut self) {
        // Waits for nobody, so that tasks of other runtimes may drop it.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn exchange(
    connection: &mut Connection,
    mut request: Request<Bytes>,
    part: Duration,
) -> Result<Response<Bytes>, NoAnswer> {
    // Also where HTTP would do without, as the SDKs do.
    let length = request.body().len().into();
    request.headers_mut().entry(http::header::CONTENT_LENGTH).or_insert(length);
    let sent = timeout(part, connection.send(request)).await;
    let (parts, mut body) = sent.map_err(|_| NoAnswer)?.map_err(|_| NoAnswer)?.into_parts();
    let mut received = BytesMut::new();
    while let Some(frame) = timeout(part, body.frame()).await.map_err(|_| NoAnswer)? {
        if let Some(data) = frame.map_err(|_| NoAnswer)?.data_ref() {
            received.extend_from_slice(data);
        }
    }
    Ok(Response::from_parts(parts, received.freeze()))
}

/// Waits for `work`, also inside a task of another runtime, whose thread may not do that itself.
fn block_on<T: Send>(runtime: &Runtime, work: impl Future<Output = T> + Send) -> T {
    if Handle::try_current().is_err() {
        return runtime.block_on(work);
    }
    let waiting = || runtime.block_on(work);
    thread::scope(|scope| scope.spawn(waiting).join().expect("exchanges do not panic"))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;
    use std::time::{Duration, Instant};

    use bytes::Bytes;
    use http::Request;

    use super::BlockingConnection;

    /// A server that sends these parts, with a pause before each, and ends the connection.
    fn server(parts: &'static [&'static str], pause: Duration) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let authority = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _request = stream.read(&mut [0; 4096]).unwrap();
            for part in parts {
                thread::sleep(pause);
                let _gone = stream.write_all(part.as_bytes());
            }
        });
        authority
    }

    fn get(authority: &str, timeout: Duration) -> Option<Bytes> {
        let mut connection = BlockingConnection::open(authority).unwrap();
        connection.set_timeout(timeout);
        let request = Request::get("/").body(Bytes::new()).unwrap();
        connection.exchange(&request).ok().map(http::Response::into_body)
    }

    #[test]
    fn half_an_answer_is_none() {
        let whole = ["HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n", "ab", "cd"];
        let whole: &'static [_] = Box::leak(Box::new(whole));
        for count in 0..whole.len() {
            let authority = server(&whole[..count], Duration::ZERO);
            assert_eq!(get(&authority, Duration::from_secs(10)), None, "{count}");
        }
        // Also where a thread must not wait.
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answer = runtime
            .block_on(async { get(&server(whole, Duration::ZERO), Duration::from_secs(10)) });
        assert_eq!(answer.as_deref(), Some(&b"abcd"[..]));
    }

    #[test]
    fn the_timeout_is_for_each_part() {
        const PARTS: [&str; 4] = ["HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n", "a", "b", "c"];
        let pause = Duration::from_millis(300);
        let begun = Instant::now();
        assert_eq!(get(&server(&PARTS, pause), Duration::from_secs(1)).unwrap(), "abc");
        assert!(begun.elapsed() > Duration::from_secs(1), "in all it takes longer");
        assert_eq!(get(&server(&PARTS, pause), Duration::from_millis(100)), None);
    }
}
