//! Entity group transactions: writing the request in a plain shape, and two readers of the answer.
//! The strict reader takes only the bytes that the reference gives; the plain one serves cases that
//! are about something else.

use serde_json::Value;

use super::Failure;
use super::http::Response;
use super::request::{Client, MINIMAL_METADATA, Request};

const BATCH: &str = "batch_4f1a6b3c-0d5e-4f7a-8b9c-1a2b3c4d5e6f";
const CHANGESET: &str = "changeset_7c2e9d10-3b4a-4c5d-9e8f-0a1b2c3d4e5f";

/// One request inside a batch. The address follows the endpoint's base URL.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Operation {
    pub(super) fn new(method: &str, path: &str) -> Self {
        Operation {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: String::new(),
        }
    }

    pub(super) fn insert(set: &str, entity: &Value) -> Self {
        Operation::new("POST", set).json(entity)
    }

    pub(super) fn delete(entity: &str) -> Self {
        Operation::new("DELETE", entity).header("If-Match", "*")
    }

    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn json(mut self, body: &Value) -> Self {
        self.headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
        self.body = body.to_string();
        self
    }

    /// The inner request with CRLF line ends, its body last.
    pub(super) fn render(&self, base_url: &str) -> String {
        let mut text = format!("{} {base_url}{} HTTP/1.1\r\n", self.method, self.path);
        text.push_str(&format!("Accept: {MINIMAL_METADATA}\r\n"));
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("\r\n{}\r\n", self.body));
        text
    }
}

impl Client<'_> {
    /// The request of an entity group transaction.
    pub(super) fn batch(&self, operations: &[Operation]) -> Request<'_> {
        let base_url = self.endpoint().base_url();
        let mut body = format!("--{BATCH}\r\n{}", changeset_header(CHANGESET));
        for operation in operations {
            body.push_str(&format!("--{CHANGESET}\r\n{PART_HEADER}\r\n"));
            body.push_str(&operation.render(&base_url));
        }
        body.push_str(&format!("--{CHANGESET}--\r\n--{BATCH}--\r\n"));
        self.batch_bytes(BATCH, body.as_bytes())
    }

    /// The request of a batch whose operations stand outside any changeset.
    pub(super) fn bare_batch(&self, operations: &[Operation]) -> Request<'_> {
        let base_url = self.endpoint().base_url();
        let mut body = String::new();
        for operation in operations {
            body.push_str(&format!("--{BATCH}\r\n{PART_HEADER}\r\n"));
            body.push_str(&operation.render(&base_url));
        }
        body.push_str(&format!("--{BATCH}--\r\n"));
        self.batch_bytes(BATCH, body.as_bytes())
    }

    /// The request of a batch with a body of the case's own making.
    pub(super) fn batch_bytes(&self, boundary: &str, body: &[u8]) -> Request<'_> {
        self.post("/$batch")
            .header("Content-Type", &format!("multipart/mixed; boundary={boundary}"))
            .body(body)
    }
}

const PART_HEADER: &str = "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n";

fn changeset_header(boundary: &str) -> String {
    format!("Content-Type: multipart/mixed; boundary={boundary}\r\n\r\n")
}

/// One inner answer of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Part {
    /// The header of exactly this name: clients compare with case here.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Status line, headers, empty line, body.
    fn parse(text: &str) -> Option<Part> {
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.split("\r\n");
        let status_line = lines.next()?.strip_prefix("HTTP/1.1 ")?;
        let (status, reason) = status_line.split_once(' ')?;
        if reason.is_empty() {
            return None;
        }
        let headers = lines
            .map(|line| line.split_once(": "))
            .map(|pair| pair.map(|(name, value)| (name.to_owned(), value.to_owned())))
            .collect::<Option<Vec<_>>>()?;
        Some(Part { status: status.parse().ok()?, headers, body: body.to_owned() })
    }
}

impl Response {
    /// The inner answers, by the plain reader: split at the boundary that the answer names.
    pub(super) fn parts(&self) -> Result<Vec<Part>, Failure> {
        self.expect_status(202)?;
        let text = self.text()?;
        let boundary = ["--changesetresponse_", "--batchresponse_"]
            .iter()
            .find_map(|prefix| {
                let start = text.find(prefix)?;
                text[start..].split("\r\n").next()
            })
            .ok_or_else(|| self.mismatch("the batch answer has no boundary"))?;
        text.split(boundary)
            .filter_map(|piece| piece.find("HTTP/1.1 ").map(|start| &piece[start..]))
            .map(|piece| piece.strip_suffix("\r\n").unwrap_or(piece))
            .map(|piece| {
                Part::parse(piece)
                    .ok_or_else(|| self.mismatch(format!("not an inner answer: {piece:?}")))
            })
            .collect()
    }

    /// The inner answers, and a mismatch unless their statuses are these.
    pub(super) fn expect_parts(&self, statuses: &[u16]) -> Result<Vec<Part>, Failure> {
        let parts = self.parts()?;
        let found: Vec<_> = parts.iter().map(|part| part.status).collect();
        self.ensure(found == statuses, &format!("expected parts {statuses:?}, got {found:?}"))?;
        Ok(parts)
    }

    /// The one part of a change set that failed: status, code, and a text that begins with the
    /// failing index.
    pub(super) fn expect_failed_part(
        &self,
        status: u16,
        code: &str,
        message_start: &str,
    ) -> Result<Part, Failure> {
        let part = self.expect_parts(&[status])?.remove(0);
        let error: Value = serde_json::from_str(&part.body)
            .map_err(|error| self.mismatch(format!("the part's body is not JSON: {error}")))?;
        let found = &error["odata.error"]["code"];
        self.ensure(found == code, &format!("expected code {code}, got {found}"))?;
        let message = error["odata.error"]["message"]["value"].as_str().unwrap_or_default();
        self.ensure(
            message.starts_with(message_start),
            &format!("expected a text that begins {message_start:?}, got {message:?}"),
        )?;
        Ok(part)
    }

    /// The inner answers, by the strict reader: the byte rules of section 10.3 of the reference and
    /// nothing else.
    pub(super) fn strict_parts(&self) -> Result<Vec<Part>, Failure> {
        self.expect_status(202)?;
        let text = self.text()?;
        let (boundary, rest) = self.delimiter(text, "--batchresponse_")?;
        self.expect_header("Content-Type", &format!("multipart/mixed; boundary={boundary}"))?;
        let rest = self.take(rest, "Content-Type: multipart/mixed; boundary=")?;
        let (changeset, rest) = rest
            .split_once("\r\n\r\n")
            .ok_or_else(|| self.mismatch("no empty line after the changeset's header"))?;
        self.ensure(
            changeset.starts_with("changesetresponse_"),
            "the nested boundary does not begin with changesetresponse_",
        )?;
        let end = format!("--{changeset}--\r\n--{boundary}--\r\n");
        let inner = rest
            .strip_suffix(end.as_str())
            .ok_or_else(|| self.mismatch(format!("expected the body to end with {end:?}")))?;
        self.strict_pieces(inner, changeset)
    }

    fn strict_pieces(&self, inner: &str, changeset: &str) -> Result<Vec<Part>, Failure> {
        let delimiter = format!("--{changeset}\r\n");
        let inner = self.take(inner, &delimiter)?;
        inner
            .split(delimiter.as_str())
            .map(|piece| {
                let piece = self.take(piece, PART_HEADER)?;
                let piece = self.take(piece, "\r\n")?;
                // The CRLF before a delimiter belongs to the delimiter.
                let piece = piece
                    .strip_suffix("\r\n")
                    .ok_or_else(|| self.mismatch("no CRLF before a delimiter"))?;
                Part::parse(piece)
                    .ok_or_else(|| self.mismatch(format!("not an inner answer: {piece:?}")))
            })
            .collect()
    }

    fn delimiter<'t>(&self, text: &'t str, prefix: &str) -> Result<(&'t str, &'t str), Failure> {
        let (line, rest) =
            text.split_once("\r\n").ok_or_else(|| self.mismatch("the body has no line"))?;
        self.ensure(line.starts_with(prefix), &format!("the body does not begin with {prefix}"))?;
        Ok((&line[2..], rest))
    }

    fn take<'t>(&self, text: &'t str, expected: &str) -> Result<&'t str, Failure> {
        text.strip_prefix(expected)
            .ok_or_else(|| self.mismatch(format!("expected {expected:?} before {text:?}")))
    }
}
