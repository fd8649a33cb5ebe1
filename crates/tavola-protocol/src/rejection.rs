//! Everything that can be wrong with a request, and what the service says to it.

use std::borrow::Cow;

use http::StatusCode;
use tavola_core::{FailedOperation, Refusal};

use crate::table::batch::BatchError;
use crate::table::entity_json::BodyError;
use crate::xml::XmlError;

/// Why a request gets an error. Domain refusals pass through; the rest is seen on the wire or in the server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejection {
    /// A refusal of the domain.
    Refused(Refusal),
    /// What is wrong with one operation of a batch: the batch is answered, with this as its one part.
    InOperation {
        /// Counted from zero.
        index: usize,
        /// What is wrong with it.
        rejection: Box<Rejection>,
    },

    /// Neither a `Host` header nor an absolute URL.
    HostMissing,
    /// Path style, and the first segment is no account of ours.
    AccountNotFound,
    /// A path that names nothing.
    InvalidUri,
    /// A path with broken escapes or that is not UTF-8.
    UrlUnparsable,
    /// A key predicate that does not parse, or a key in it with a slash.
    KeyPredicate,
    /// A verb that the resource does not have.
    MethodNotAllowed {
        /// The verbs that it has, as the `Allow` header lists them.
        allowed: &'static str,
    },
    /// An OData option that the service does not have.
    NotImplemented,

    /// A header that does not parse.
    InvalidHeaderValue {
        /// Which.
        name: &'static str,
        /// What it said.
        value: String,
    },
    /// A header that the operation needs.
    MissingRequiredHeader(&'static str),
    /// `If-Match` that is neither `*` nor one entity tag.
    InvalidETag(String),
    /// `If-None-Match` on a write; the verb's name.
    IfNoneMatch(&'static str),
    /// `If-Match` and `If-None-Match` together.
    BothConditions,
    /// `X-HTTP-Method` on another verb than POST.
    XMethodNotUsingPost,
    /// `X-HTTP-Method` with a verb that cannot be tunnelled.
    XMethodIncorrectValue,
    /// `X-HTTP-Method` more than once.
    XMethodIncorrectCount,
    /// Only Atom is wanted or sent.
    AtomFormatNotSupported,
    /// Only verbose JSON is wanted.
    JsonVerboseFormatNotSupported,
    /// Only something else is wanted.
    MediaTypeNotSupported,

    /// A query parameter that does not parse, or stands twice.
    InvalidQueryParameter {
        /// Which.
        name: &'static str,
        /// What it said.
        value: String,
    },
    /// A query parameter that the operation needs.
    MissingQueryParameter(&'static str),
    /// `$top`, `$select` or a continuation that the service does not take.
    InvalidInput,

    /// A body that is not the JSON it should be.
    MalformedBody,
    /// A body that is not a batch.
    MalformedBatch,
    /// A body that is not the XML it should be.
    InvalidXmlDocument,
    /// Beyond 4 MiB.
    RequestBodyTooLarge,

    /// An `Authorization` header that does not parse.
    InvalidAuthenticationInfo,
    /// Credentials that do not hold; the detail says why, with nothing secret in it.
    AuthenticationFailed {
        /// Why.
        detail: String,
    },

    /// A preflight without `Origin` or `Access-Control-Request-Method`.
    CorsHeaderMissing,
    /// A preflight that no rule answers.
    CorsNoRule,

    /// Over a limit of the server's own.
    ServerBusy {
        /// When to try again.
        retry_after_seconds: u32,
    },
    /// The store cannot serve now; nothing was written.
    StoreUnavailable,
    /// Not done in time.
    OperationTimedOut,
    /// The store does not know whether the write happened.
    UnknownOutcome,
    /// A defect of ours.
    InternalError,
}

impl From<Refusal> for Rejection {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<FailedOperation> for Rejection {
    fn from(failed: FailedOperation) -> Self {
        Self::from(failed.refusal).in_operation(failed.index)
    }
}

impl From<BodyError> for Rejection {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Malformed => Self::MalformedBody,
            BodyError::Refused(refusal) => Self::Refused(refusal),
        }
    }
}

impl From<BatchError> for Rejection {
    fn from(BatchError: BatchError) -> Self {
        Self::MalformedBatch
    }
}

impl From<XmlError> for Rejection {
    fn from(XmlError: XmlError) -> Self {
        Self::InvalidXmlDocument
    }
}

impl Rejection {
    /// The same, as the failure of one operation of a batch.
    #[must_use]
    pub fn in_operation(self, index: usize) -> Self {
        Self::InOperation { index, rejection: Box::new(self) }
    }

    /// The rejection itself, whether or not it stands in a batch.
    #[must_use]
    pub fn innermost(&self) -> &Self {
        match self {
            Self::InOperation { rejection, .. } => rejection.innermost(),
            other => other,
        }
    }
}

/// What the service says to a rejection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorParts<'a> {
    /// The HTTP status.
    pub status: StatusCode,
    /// The code that clients decide by.
    pub code: &'static str,
    /// The text that people read.
    pub text: Cow<'a, str>,
}
