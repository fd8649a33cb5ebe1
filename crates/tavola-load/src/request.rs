//! Requests as bytes, signed with Shared Key.
//!
//! For tables neither the body nor the query is signed, so one signature serves all inserts,
//! batches and pages of a round. Only point reads, whose key is in the path, need one each.

use std::fmt::Write as _;
use std::time::SystemTime;

use tavola_protocol::auth::shared_key::{Scheme, SignedParts, string_to_sign};

use crate::site::Site;

/// The body that follows a head.
#[derive(Debug, Clone, Copy)]
pub struct Content {
    pub media_type: &'static str,
    pub bytes: usize,
}

/// Signs requests to one site. Its date is that of its making, good for 15 minutes: every round
/// makes a new one.
#[derive(Debug)]
pub struct Signer<'a> {
    site: &'a Site,
    date: String,
}

impl<'a> Signer<'a> {
    pub fn new(site: &'a Site) -> Self {
        Self { site, date: httpdate::fmt_http_date(SystemTime::now()) }
    }

    pub fn site(&self) -> &'a Site {
        self.site
    }

    /// The head of a read. `resource` is what follows the account, `query` begins with `?` or is
    /// empty.
    pub fn get(&self, resource: &str, query: &str) -> Vec<u8> {
        self.head("GET", resource, query, None).into_bytes()
    }

    /// The head of a write whose body follows.
    pub fn post(&self, resource: &str, content: Content) -> Vec<u8> {
        self.head("POST", resource, "", Some(content)).into_bytes()
    }

    /// A whole request that deletes.
    pub fn delete(&self, resource: &str) -> Vec<u8> {
        self.head("DELETE", resource, "", None).into_bytes()
    }

    fn head(&self, method: &str, resource: &str, query: &str, content: Option<Content>) -> String {
        let Site { host, path, account, key, .. } = self.site;
        let path = format!("{path}/{resource}");
        let content_type = content.map_or("", |content| content.media_type);
        let (date, name) = (&*self.date, account.as_str());
        let parts = SignedParts {
            method,
            content_md5: "",
            content_type,
            date,
            account: name,
            path: &path,
            comp: None,
        };
        let signature = key.sign(&string_to_sign(Scheme::SharedKey, &parts));
        let mut head = format!(
            "{method} {path}{query} HTTP/1.1\r\nHost: {host}\r\nx-ms-date: {date}\r\nx-ms-version: 2019-02-02\r\n\
             DataServiceVersion: 3.0\r\nAccept: application/json;odata=minimalmetadata\r\n\
             Authorization: SharedKey {name}:{signature}\r\n"
        );
        if let Some(Content { media_type, bytes }) = content {
            let fields = format_args!("Content-Type: {media_type}\r\nContent-Length: {bytes}\r\n");
            // Writing to a `String` cannot fail.
            let _ = write!(head, "{fields}Prefer: return-no-content\r\n");
        }
        head + "\r\n"
    }
}
