//! Requests as a case words them, signed and rendered to bytes; and the client that keeps one
//! connection for them.

use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use super::endpoint::Endpoint;
use super::http::{Connection, Response};
use super::sas::{Sas, SasQuery};
use super::signer::{Scheme, SignedParts, canonicalized_resource, signature};
use super::{Failure, Outcome};

pub(super) const VERSION: &str = "2019-02-02";
pub(super) const NO_METADATA: &str = "application/json;odata=nometadata";
pub(super) const MINIMAL_METADATA: &str = "application/json;odata=minimalmetadata";
pub(super) const FULL_METADATA: &str = "application/json;odata=fullmetadata";

/// Asks one endpoint over one connection, opened anew only after the endpoint closed it.
#[derive(Debug)]
pub(super) struct Client<'e> {
    endpoint: &'e Endpoint,
    connection: RefCell<Option<Connection>>,
}

impl<'e> Client<'e> {
    pub(super) fn new(endpoint: &'e Endpoint) -> Self {
        Client { endpoint, connection: RefCell::new(None) }
    }

    pub(super) fn endpoint(&self) -> &'e Endpoint {
        self.endpoint
    }

    pub(super) fn get(&self, path: &str) -> Request<'_> {
        self.request("GET", path)
    }

    pub(super) fn post(&self, path: &str) -> Request<'_> {
        self.request("POST", path)
    }

    pub(super) fn put(&self, path: &str) -> Request<'_> {
        self.request("PUT", path)
    }

    pub(super) fn patch(&self, path: &str) -> Request<'_> {
        self.request("PATCH", path)
    }

    pub(super) fn delete(&self, path: &str) -> Request<'_> {
        self.request("DELETE", path)
    }

    /// `path` follows the endpoint's base path and is sent exactly as given, with its query.
    pub(super) fn request(&self, method: &str, path: &str) -> Request<'_> {
        Request {
            client: self,
            method: method.to_owned(),
            target: format!("{}{path}", self.endpoint.base_path()),
            headers: vec![
                ("Host".into(), self.endpoint.authority().to_owned()),
                ("x-ms-version".into(), VERSION.to_owned()),
                ("x-ms-date".into(), now()),
                ("Accept".into(), MINIMAL_METADATA.to_owned()),
                ("DataServiceVersion".into(), "3.0".to_owned()),
            ],
            body: Body::None,
            authorization: Authorization::Scheme(Scheme::SharedKey),
        }
    }

    /// Sends bytes as they are, on the connection of the requests before.
    pub(super) fn send_bytes(&self, bytes: &[u8]) -> Result<Response, Failure> {
        let mut slot = self.connection.borrow_mut();
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => Connection::open(self.endpoint.authority())?,
        };
        let response = self.endpoint.exchange(&mut connection, bytes)?;
        if !response.closes() {
            *slot = Some(connection);
        }
        Ok(response)
    }

    /// Fails unless the connection of the last answer is still open and serves one more request.
    pub(super) fn expect_usable_connection(&self) -> Outcome {
        if self.connection.borrow().is_none() {
            return Err(Failure::mismatch(
                "the endpoint closed the connection after the last answer",
            ));
        }
        self.get("/Tables?$top=1").send()?.expect_status(200)?;
        Ok(())
    }
}

#[derive(Debug, Clone)]
enum Body {
    None,
    Whole(Vec<u8>),
    Chunked(Vec<Vec<u8>>),
}

#[derive(Debug, Clone)]
enum Authorization {
    Scheme(Scheme),
    Header(String),
    Absent,
}

/// A request in the making. Headers keep the order and the case in which they were given.
#[derive(Debug, Clone)]
pub(super) struct Request<'c> {
    client: &'c Client<'c>,
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Body,
    authorization: Authorization,
}

impl Request<'_> {
    /// Sets a header, in place of one of the same name in any case.
    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        let known = self.headers.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name));
        match known {
            Some(header) => *header = (name.to_owned(), value.to_owned()),
            None => self.headers.push((name.to_owned(), value.to_owned())),
        }
        self
    }

    /// Adds a header even if one of that name is there.
    pub(super) fn header_again(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    pub(super) fn accept(self, value: &str) -> Self {
        self.header("Accept", value)
    }

    pub(super) fn json(self, text: &str) -> Self {
        self.header("Content-Type", "application/json").body(text.as_bytes())
    }

    pub(super) fn xml(self, text: &str) -> Self {
        self.header("Content-Type", "application/xml").body(text.as_bytes())
    }

    pub(super) fn body(mut self, bytes: &[u8]) -> Self {
        self.body = Body::Whole(bytes.to_vec());
        self
    }

    pub(super) fn chunked(mut self, chunks: &[&[u8]]) -> Self {
        self.body = Body::Chunked(chunks.iter().map(|chunk| chunk.to_vec()).collect());
        self
    }

    /// Replaces the whole request target, base path included.
    pub(super) fn target(mut self, target: &str) -> Self {
        self.target = target.to_owned();
        self
    }

    pub(super) fn scheme(mut self, scheme: Scheme) -> Self {
        self.authorization = Authorization::Scheme(scheme);
        self
    }

    pub(super) fn authorization(mut self, value: &str) -> Self {
        self.authorization = Authorization::Header(value.to_owned());
        self
    }

    pub(super) fn anonymous(mut self) -> Self {
        self.authorization = Authorization::Absent;
        self
    }

    /// Puts a shared access signature into the query, signed with the account's key, in place of
    /// the header.
    pub(super) fn sas(self, sas: &Sas) -> Self {
        let query = sas.sign(self.client.endpoint.key());
        self.sas_query(&query)
    }

    /// Puts a shared access signature of the case's own making into the query, in place of the
    /// header.
    pub(super) fn sas_query(self, query: &SasQuery) -> Self {
        self.with_query(&query.to_string()).anonymous()
    }

    /// Adds to the query, exactly as given.
    pub(super) fn with_query(mut self, query: &str) -> Self {
        self.target.push(if self.target.contains('?') { '&' } else { '?' });
        self.target.push_str(query);
        self
    }

    /// Signs a text of the case's own making, with a key of its choice.
    pub(super) fn signing(self, scheme: Scheme, key: &[u8], string_to_sign: &str) -> Self {
        let value = format!(
            "{} {}:{}",
            scheme.name(),
            self.client.endpoint.account(),
            signature(key, string_to_sign)
        );
        self.authorization(&value)
    }

    /// What a correct signature of this request, as it stands, is made of.
    pub(super) fn signed_parts(&self) -> SignedParts {
        let value = |name: &str| self.header_value(name).unwrap_or_default().to_owned();
        SignedParts {
            method: self.method.clone(),
            content_md5: value("Content-MD5"),
            content_type: value("Content-Type"),
            date: self
                .header_value("x-ms-date")
                .or_else(|| self.header_value("Date"))
                .unwrap_or_default()
                .to_owned(),
            resource: canonicalized_resource(self.client.endpoint.account(), &self.target),
        }
    }

    pub(super) fn send(self) -> Result<Response, Failure> {
        self.client.send_bytes(&self.render())
    }

    /// The request as it goes over the wire.
    pub(super) fn render(&self) -> Vec<u8> {
        let mut bytes = self.render_head();
        match &self.body {
            Body::None => {}
            Body::Whole(body) => bytes.extend(body),
            Body::Chunked(chunks) => {
                for chunk in chunks {
                    bytes.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
                    bytes.extend(chunk);
                    bytes.extend(b"\r\n");
                }
                bytes.extend(b"0\r\n\r\n");
            }
        }
        bytes
    }

    /// The request line and the headers, up to the empty line.
    pub(super) fn render_head(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&self.framing_header());
        if let Some(value) = self.authorization_value() {
            text.push_str(&format!("Authorization: {value}\r\n"));
        }
        text.push_str("\r\n");
        text.into_bytes()
    }

    fn framing_header(&self) -> String {
        let chosen_by_case = ["Content-Length", "Transfer-Encoding"]
            .iter()
            .any(|name| self.header_value(name).is_some());
        match &self.body {
            _ if chosen_by_case => String::new(),
            Body::Whole(body) => format!("Content-Length: {}\r\n", body.len()),
            Body::Chunked(_) => "Transfer-Encoding: chunked\r\n".to_owned(),
            Body::None if matches!(self.method.as_str(), "POST" | "PUT" | "PATCH" | "MERGE") => {
                "Content-Length: 0\r\n".to_owned()
            }
            Body::None => String::new(),
        }
    }

    fn authorization_value(&self) -> Option<String> {
        match &self.authorization {
            Authorization::Absent => None,
            Authorization::Header(value) => Some(value.clone()),
            Authorization::Scheme(scheme) => {
                let endpoint = self.client.endpoint;
                let text = self.signed_parts().string_to_sign(*scheme);
                let signature = signature(endpoint.key(), &text);
                Some(format!("{} {}:{signature}", scheme.name(), endpoint.account()))
            }
        }
    }

    fn header_value(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

/// The current time as HTTP dates are written.
pub(super) fn now() -> String {
    httpdate::fmt_http_date(SystemTime::now())
}

/// A time so many minutes ahead of now, or behind when negative.
pub(super) fn minutes_from_now(minutes: i64) -> String {
    let distance = Duration::from_secs(minutes.unsigned_abs() * 60);
    let now = SystemTime::now();
    httpdate::fmt_http_date(if minutes < 0 { now - distance } else { now + distance })
}

/// Percent-encodes all but the unreserved characters.
pub(super) fn percent_encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
