//! One connection that is kept, and requests whose parts can be changed. Nothing is repaired,
//! retried or followed.

use bytes::Bytes;
use http::HeaderMap;
use tavola_testkit::blocking::BlockingConnection;

/// A request without credentials.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    /// Behind the account, percent-encoded.
    pub(crate) path: String,
    /// Without the question mark.
    pub(crate) query: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn new(method: &'static str, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            query: String::new(),
            headers: Vec::new(),
            body: String::new(),
        }
    }

    pub(crate) fn query(self, query: impl Into<String>) -> Self {
        Self { query: query.into(), ..self }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn body(self, content_type: &str, body: impl Into<String>) -> Self {
        Self { body: body.into(), ..self.header("Content-Type", content_type) }
    }

    pub(crate) fn content_type(&self) -> &str {
        self.headers.iter().find(|(name, _)| *name == "Content-Type").map_or("", |(_, value)| value)
    }

    /// The request target in the account's path style.
    pub(crate) fn target(&self, account: &str) -> String {
        let query = if self.query.is_empty() { String::new() } else { format!("?{}", self.query) };
        format!("/{account}{}{query}", self.path)
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("headers are text"))
    }

    /// The code of an error, in JSON or in XML; empty if there is none.
    pub(crate) fn code(&self) -> &str {
        between(&self.body, "\"code\":\"", "\"")
            .or_else(|| between(&self.body, "<m:code>", "<"))
            .unwrap_or_default()
    }

    /// The statuses of a batch's parts.
    pub(crate) fn parts(&self) -> Vec<u16> {
        let lines = self.body.lines().filter_map(|line| line.strip_prefix("HTTP/1.1 "));
        lines.filter_map(|line| line.get(..3)?.parse().ok()).collect()
    }

    /// The text of a JSON error.
    pub(crate) fn message(&self) -> &str {
        between(&self.body, "\"value\":\"", "\"").unwrap_or_default()
    }
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once(end).map(|(inner, _)| inner)
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection(BlockingConnection);

impl Connection {
    pub(crate) fn open(authority: &str) -> Self {
        Self(BlockingConnection::open(authority).expect("the server listens"))
    }

    /// Sends a request whose query and headers are complete.
    pub(crate) fn ask(&mut self, account: &str, request: &Request) -> Answer {
        let Request { method, headers, body, .. } = request;
        let http = http::Request::builder().method(*method).uri(request.target(account));
        let http = headers.iter().fold(http, |http, (name, value)| http.header(*name, value));
        let http = http.body(Bytes::from(body.clone())).expect("a legal request");
        let (parts, body) = self.0.exchange(&http).expect("the server answers").into_parts();
        let body = String::from_utf8(body.into()).expect("answers are text");
        Answer { status: parts.status.as_u16(), headers: parts.headers, body }
    }
}
