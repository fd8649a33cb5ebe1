//! How an answer is to be written, and the headers that every answer has.

use std::time::Duration;

use http::HeaderValue;
use http::request::Parts;
use tavola_core::DateTime;
use tavola_core::request::Select;

use crate::address::Address;
use crate::table::entity_json::MetadataLevel;
use crate::version::Version;

/// What `Prefer` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefer {
    /// `return-content`
    ReturnContent,
    /// `return-no-content`
    ReturnNoContent,
}

/// How one operation, alone or in a batch, wants its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// How much metadata.
    pub level: MetadataLevel,
    /// Echo the entity or not.
    pub prefer: Option<Prefer>,
    /// Which properties.
    pub select: Select,
}

/// What surrounds the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Envelope {
    /// Nothing: one operation, one answer.
    Plain,
    /// A changeset in a batch, with the wish of each of its operations.
    Changeset(Vec<Wish>),
    /// A batch that holds one query.
    BatchedQuery(Wish),
}

/// How to answer a request, apart from what to answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Presentation {
    pub(crate) version: Version,
    pub(crate) client_request_id: Option<HeaderValue>,
    pub(crate) base: String,
    pub(crate) account: String,
    /// Errors as XML, and none of the headers of OData.
    pub(crate) is_xml: bool,
    pub(crate) wish: Wish,
    pub(crate) envelope: Envelope,
    pub(crate) timeout: Option<Duration>,
}

impl Presentation {
    /// What can be known of a request before it is understood. Never fails: the answer to a bad request needs it too.
    #[must_use]
    pub fn of(_parts: &Parts, _address: Option<&Address>) -> Self {
        Self {
            version: Version::NEWEST,
            client_request_id: None,
            base: String::new(),
            account: String::new(),
            is_xml: false,
            wish: Wish { level: MetadataLevel::Minimal, prefer: None, select: Select::All },
            envelope: Envelope::Plain,
            timeout: None,
        }
    }

    /// How long the client is willing to wait, once the request is parsed; at most 30 s.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// The client's own id of the request, for logs; only if it is one that is echoed.
    #[must_use]
    pub fn client_request_id(&self) -> Option<&str> {
        self.client_request_id.as_ref().and_then(|id| id.to_str().ok())
    }

    /// The version that the request speaks.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }
}

/// One request on its way to an answer.
#[derive(Debug, Clone, Copy)]
pub struct Exchange<'a> {
    /// A GUID's text.
    pub request_id: &'a str,
    /// When the request came.
    pub now: DateTime,
    /// How to answer.
    pub presentation: &'a Presentation,
}
