//! The least that a server of this kind can cost: hyper and tokio set up as ours are, the request
//! read, the same bytes answered, and nothing in between.
//!
//! It is this program itself, started again with a hidden word.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::{Deserialize, Serialize};
use tavola_load::{Context, Failure, Result};
use tokio::net::{TcpListener, TcpStream};

/// The word that turns this program into it; the file of recorded answers follows.
pub(crate) const WORD: &str = "null-server";

/// As our server's default.
const HEADER_TIME: Duration = Duration::from_secs(30);
const HEADER_BYTES: usize = 64 * 1024;

/// An answer that our server gave, and to what.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Recorded {
    /// Method, path and query.
    pub(crate) request: String,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// Answers by the whole request line, or by its method alone for requests that are not known: one
/// point read is as long as another.
#[derive(Debug, Default)]
struct Answers {
    exact: HashMap<String, Response<Bytes>>,
    by_method: HashMap<String, Response<Bytes>>,
}

pub(crate) fn main(recorded: &Path) -> Result {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context(|| "tokio".into())?;
    let answers = Arc::new(Answers::read(recorded)?);
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.context(|| "cannot listen".into())?;
        let address = listener.local_addr().context(|| "cannot listen".into())?;
        println!("Null service is listening at http://{address}");
        loop {
            let (stream, _) = listener.accept().await.context(|| "cannot accept".into())?;
            stream.set_nodelay(true).context(|| "cannot accept".into())?;
            tokio::spawn(serve(stream, Arc::clone(&answers)));
        }
    })
}

async fn serve(stream: TcpStream, answers: Arc<Answers>) {
    let service = service_fn(|request: Request<Incoming>| {
        let answers = Arc::clone(&answers);
        async move {
            let answer = answers.to(&request);
            // What is not read ends the connection.
            let _body = request.into_body().collect().await;
            Ok::<_, Infallible>(answer)
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME).max_buf_size(HEADER_BYTES);
    // The generator hangs up when a round is over.
    let _ended = http.serve_connection(TokioIo::new(stream), service).await;
}

impl Answers {
    fn read(file: &Path) -> Result<Self> {
        let text =
            fs::read_to_string(file).context(|| format!("cannot read {}", file.display()))?;
        let mut answers = Self::default();
        for line in text.lines() {
            let recorded: Recorded =
                serde_json::from_str(line).context(|| "a recorded answer".into())?;
            let answer = answer(&recorded)?;
            let method = recorded.request.split(' ').next().unwrap_or_default().to_owned();
            answers.by_method.entry(method).or_insert_with(|| answer.clone());
            answers.exact.insert(recorded.request, answer);
        }
        Ok(answers)
    }

    fn to(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let target = request.uri().path_and_query().map_or("", |target| target.as_str());
        // Point reads have a key in the path; looking each up would be work.
        let exact = if target.contains("PartitionKey='") {
            None
        } else {
            self.exact.get(&format!("{} {target}", request.method()))
        };
        let answer = exact.or_else(|| self.by_method.get(request.method().as_str()));
        match answer {
            Some(answer) => answer.clone().map(Full::new),
            None => {
                let mut answer = Response::new(Full::default());
                *answer.status_mut() = StatusCode::NOT_FOUND;
                answer
            }
        }
    }
}

fn answer(recorded: &Recorded) -> Result<Response<Bytes>> {
    let mut answer = Response::new(Bytes::from(recorded.body.clone().into_bytes()));
    *answer.status_mut() = StatusCode::from_u16(recorded.status).context(|| "a status".into())?;
    for (name, value) in &recorded.headers {
        // hyper writes these two itself, for us as for our server.
        if ["content-length", "date"].contains(&name.to_ascii_lowercase().as_str()) {
            continue;
        }
        let name = HeaderName::try_from(name).context(|| format!("the header {name}"))?;
        let value = HeaderValue::try_from(value).map_err(|_| Failure::new("a header's value"))?;
        answer.headers_mut().append(name, value);
    }
    Ok(answer)
}
