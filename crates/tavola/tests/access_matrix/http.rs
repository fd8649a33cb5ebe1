//! One connection that is kept, and requests as bytes. Nothing is repaired, retried or followed.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);

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
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
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

/// One socket.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    authority: String,
}

impl Connection {
    pub(crate) fn open(authority: &str) -> Self {
        let stream = TcpStream::connect(authority).expect("the server listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a time-out can be set");
        stream.set_nodelay(true).expect("the option can be set");
        Self { stream: BufReader::new(stream), authority: authority.to_owned() }
    }

    /// Sends a request whose query and headers are complete.
    pub(crate) fn ask(&mut self, account: &str, request: &Request) -> Answer {
        let Request { method, headers, body, .. } = request;
        let mut text = format!(
            "{method} {} HTTP/1.1\r\nHost: {}\r\n",
            request.target(account),
            self.authority
        );
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        self.stream.get_mut().write_all(text.as_bytes()).expect("the server reads");
        self.read_answer()
    }

    fn read_answer(&mut self) -> Answer {
        let line = self.read_line();
        let status = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.unwrap_or_else(|| panic!("not a status line: {line:?}"));
        let mut headers = Vec::new();
        loop {
            let line = self.read_line();
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.push((name.to_owned(), value.to_owned()));
        }
        let mut answer = Answer { status, headers, body: String::new() };
        let length = answer
            .header("Content-Length")
            .map_or(0, |text| text.parse().expect("a length is a number"));
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).expect("the body comes whole");
        answer.body = String::from_utf8(body).expect("answers are text");
        answer
    }

    fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("the server answers");
        assert!(line.ends_with("\r\n"), "the server ended the connection: {line:?}");
        line.trim_end().to_owned()
    }
}
