//! Requests as bytes, signed with Shared Key.
//!
//! For tables neither the body nor the query is signed, so one signature serves all inserts, batches and pages of a
//! round. Only point reads, whose key is in the path, need one each.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::SystemTime;

use tavola_protocol::auth::AccountKey;
use tavola_protocol::auth::shared_key::{Scheme, SignedParts, string_to_sign};

use crate::failure::{Context, Result};

/// The development account that both servers serve when none is configured.
pub(crate) const ACCOUNT: &str = "devstoreaccount1";
pub(crate) const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// The body that follows a head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Content {
    pub(crate) media_type: &'static str,
    pub(crate) bytes: usize,
}

/// Signs requests to one server. Its date is that of its making, good for 15 minutes: every round makes a new one.
#[derive(Debug)]
pub(crate) struct Signer {
    key: AccountKey,
    date: String,
    address: SocketAddr,
}

impl Signer {
    pub(crate) fn new(address: SocketAddr) -> Result<Self> {
        let key = AccountKey::parse(KEY).context(|| "the development account's key".into())?;
        Ok(Self { key, date: httpdate::fmt_http_date(SystemTime::now()), address })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The head of a read. `resource` is what follows the account, `query` begins with `?` or is empty.
    pub(crate) fn get(&self, resource: &str, query: &str) -> Vec<u8> {
        self.head("GET", resource, query, None).into_bytes()
    }

    /// The head of a write whose body follows.
    pub(crate) fn post(&self, resource: &str, content: Content) -> Vec<u8> {
        self.head("POST", resource, "", Some(content)).into_bytes()
    }

    fn head(&self, method: &str, resource: &str, query: &str, content: Option<Content>) -> String {
        let path = format!("/{ACCOUNT}/{resource}");
        let content_type = content.map_or("", |content| content.media_type);
        let (date, account) = (&*self.date, ACCOUNT);
        let parts = SignedParts { method, content_md5: "", content_type, date, account, path: &path, comp: None };
        let signature = self.key.sign(&string_to_sign(Scheme::SharedKey, &parts));
        let mut head = format!(
            "{method} {path}{query} HTTP/1.1\r\nHost: {}\r\nx-ms-date: {date}\r\nx-ms-version: 2019-02-02\r\n\
             DataServiceVersion: 3.0\r\nAccept: application/json;odata=minimalmetadata\r\n\
             Authorization: SharedKey {ACCOUNT}:{signature}\r\n",
            self.address
        );
        if let Some(Content { media_type, bytes }) = content {
            let fields = format_args!("Content-Type: {media_type}\r\nContent-Length: {bytes}\r\n");
            // Writing to a `String` cannot fail.
            let _ = write!(head, "{fields}Prefer: return-no-content\r\n");
        }
        head + "\r\n"
    }
}
