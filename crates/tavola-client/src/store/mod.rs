//! The one waist: a store carries out one attempt at one request. Retries, read-back, queries and
//! patterns are above it; HTTP, the service in the process and test doubles below.

#[cfg(feature = "http")]
pub(crate) mod http;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tavola_core::TableRequest;
use tavola_core::request::Select;
use tavola_protocol::table::decode::ServiceError;
use tavola_protocol::table::encode::NextPage;
use tavola_protocol::table::receive::{NotReceived, NotReceivedReason, Received, ReplyHead};

use crate::runtime::{BoxFuture, Runtime};

/// Where requests go. One call is one attempt at one request; nothing is repeated here.
///
/// The types of the requests are hidden, so that this crate alone and the service in the process
/// implement it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use std::sync::Arc;
/// use tavola_client::{TableServiceClient, TableStore};
///
/// // The service in the process; over HTTP the client makes the store itself.
/// let store: Arc<dyn TableStore> = tavola_local::in_memory();
/// TableServiceClient::on(store, None).create_table("people").await?;
/// # Ok(())
/// # }
/// ```
pub trait TableStore: fmt::Debug + Send + Sync + 'static {
    /// Carries out one attempt. If the future is dropped, the attempt is abandoned.
    fn execute(&self, request: Request) -> BoxFuture<'_, Result<Reply, Failure>>;

    /// What is known about the service.
    fn traits(&self) -> StoreTraits;

    /// The clock by which calls wait.
    #[doc(hidden)]
    fn runtime(&self) -> Arc<dyn Runtime>;
}

/// What is known about a service without asking it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreTraits {
    /// Which service it is.
    pub flavour: Flavour,
    /// Where it is, without credentials.
    pub endpoint: String,
    /// Whose tables they are, if that is known.
    pub account: Option<String>,
}

impl StoreTraits {
    /// A service of this flavour at this address.
    #[must_use]
    pub fn new(flavour: Flavour, endpoint: impl Into<String>, account: Option<String>) -> Self {
        Self { flavour, endpoint: endpoint.into(), account }
    }
}

/// Which service answers. It sets limits, and what may be relied on.
///
/// ```
/// use tavola_client::Flavour;
///
/// assert_eq!(Flavour::of_host("shop.table.cosmos.azure.com"), Flavour::Cosmos);
/// assert!(!Flavour::Cosmos.has_key_order());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Flavour {
    /// Tavola, or another emulator of the Table service.
    #[default]
    Tavola,
    /// Azure Table storage.
    Azure,
    /// Cosmos DB for Table: row keys of 255 bytes, transactions of 2 MB, no order of keys.
    Cosmos,
}

impl Flavour {
    /// By the name of the host.
    #[must_use]
    pub fn of_host(host: &str) -> Self {
        let host = host.to_ascii_lowercase();
        if host.contains(".table.cosmos.") || host.contains(".table.cosmosdb.") {
            Self::Cosmos
        } else if host.contains(".table.core.") {
            Self::Azure
        } else {
            Self::Tavola
        }
    }

    /// True if queries return entities in the order of their keys.
    #[must_use]
    pub const fn has_key_order(self) -> bool {
        !matches!(self, Self::Cosmos)
    }

    /// The most bytes of a transaction.
    #[must_use]
    pub const fn transaction_bytes_max(self) -> usize {
        match self {
            Self::Cosmos => 2 << 20,
            Self::Tavola | Self::Azure => 4 << 20,
        }
    }
}

/// One request.
#[derive(Clone)]
pub struct Request {
    pub(crate) operation: TableRequest,
    pub(crate) select: Select,
    pub(crate) page: Option<NextPage>,
    pub(crate) client_request_id: String,
    pub(crate) secondary: bool,
}

impl Request {
    pub(crate) fn new(operation: TableRequest, client_request_id: impl Into<String>) -> Self {
        Self {
            operation,
            select: Select::All,
            page: None,
            client_request_id: client_request_id.into(),
            secondary: false,
        }
    }

    /// What is asked, which properties, and of which page.
    #[doc(hidden)]
    #[must_use]
    pub fn into_parts(self) -> (TableRequest, Select, Option<NextPage>) {
        (self.operation, self.select, self.page)
    }

    /// What is asked.
    #[doc(hidden)]
    #[must_use]
    pub fn operation(&self) -> &TableRequest {
        &self.operation
    }

    /// What is asked, for a test that changes it on the way.
    #[doc(hidden)]
    pub fn operation_mut(&mut self) -> &mut TableRequest {
        &mut self.operation
    }
}

/// No values: they may be secret.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("operation", &self.operation.name())
            .field("table", &self.operation.table().map(ToString::to_string))
            .field("client_request_id", &self.client_request_id)
            .finish_non_exhaustive()
    }
}

/// The answer to a request that was carried out.
pub struct Reply(pub(crate) Received);

impl Reply {
    /// An answer.
    #[doc(hidden)]
    #[must_use]
    pub fn new(received: Received) -> Self {
        Self(received)
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("head", &self.0.head).finish_non_exhaustive()
    }
}

/// What is known of an attempt that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AttemptResult {
    /// Not a byte was written: no name, no connection, no TLS. It may be repeated freely.
    NotSent,
    /// The service refused, and will again.
    Refused,
    /// Not applied for lack of capacity; it may be repeated later.
    Throttled,
    /// It may have been applied.
    Unknown,
}

/// Why an attempt failed.
#[derive(Debug, Clone)]
pub struct Failure {
    pub(crate) result: AttemptResult,
    pub(crate) cause: Box<Cause>,
    pub(crate) head: Option<Box<ReplyHead>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    /// In the service's words.
    Service(ServiceError),
    /// Somebody else answered.
    NotOurs { content_type: String, beginning: String },
    /// No connection. If it is lasting, somebody must change a setting.
    Connect { reason: String, is_lasting: bool },
    /// A connection that failed.
    Transport(String),
    /// A request that cannot be written.
    Invalid(String),
    /// No credential could be had.
    Credential(String),
    /// The call's time was over.
    Deadline,
}

impl Failure {
    /// What became of the attempt.
    #[must_use]
    pub fn result(&self) -> AttemptResult {
        self.result
    }

    /// An answer that is no reply.
    #[doc(hidden)]
    #[must_use]
    pub fn answered(answer: NotReceived) -> Self {
        let NotReceived { head, reason } = answer;
        let (result, cause) = match reason {
            NotReceivedReason::Service(error) => {
                let status = error.status.as_u16();
                (classify(status, &error.code), Cause::Service(error))
            }
            NotReceivedReason::NotOurs { content_type, beginning } => {
                (AttemptResult::Unknown, Cause::NotOurs { content_type, beginning })
            }
        };
        Self { result, cause: Box::new(cause), head: Some(Box::new(head)) }
    }

    /// A connection that failed while the request was under way.
    #[doc(hidden)]
    #[must_use]
    pub fn lost(reason: impl Into<String>) -> Self {
        Self::new(AttemptResult::Unknown, Cause::Transport(reason.into()))
    }

    /// A connection that could not be made.
    #[doc(hidden)]
    #[must_use]
    pub fn not_sent(reason: impl Into<String>) -> Self {
        Self::not_connected(reason.into(), false)
    }

    /// The same; a lasting reason is not worth another attempt.
    pub(crate) fn not_connected(reason: String, is_lasting: bool) -> Self {
        Self::new(AttemptResult::NotSent, Cause::Connect { reason, is_lasting })
    }

    pub(crate) fn new(result: AttemptResult, cause: Cause) -> Self {
        Self { result, cause: Box::new(cause), head: None }
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.head.as_ref().and_then(|head| head.retry_after)
    }

    /// True if another attempt could end differently.
    pub(crate) fn may_repeat(&self) -> bool {
        let is_hopeless = matches!(
            *self.cause,
            Cause::Invalid(_) | Cause::Credential(_) | Cause::Connect { is_lasting: true, .. }
        );
        self.result != AttemptResult::Refused && !is_hopeless
    }
}

/// What a status and a code of the service say about an attempt. Without a code it is a proxy that
/// speaks, and nobody knows what it did with the request.
fn classify(status: u16, code: &str) -> AttemptResult {
    match status {
        429 => AttemptResult::Throttled,
        503 if code == "ServerBusy" => AttemptResult::Throttled,
        408 => AttemptResult::Unknown,
        400..=499 | 501 | 505 if !code.is_empty() => AttemptResult::Refused,
        _ => AttemptResult::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::{AttemptResult, Flavour, classify};

    /// G91. Statement 251.
    #[test]
    fn results_of_attempts() {
        use AttemptResult::*;
        for (status, code, expected) in [
            (400, "InvalidInput", Refused),
            (404, "ResourceNotFound", Refused),
            (409, "EntityAlreadyExists", Refused),
            (412, "UpdateConditionNotSatisfied", Refused),
            (501, "NotImplemented", Refused),
            (429, "", Throttled),
            (503, "ServerBusy", Throttled),
            (503, "", Unknown),
            (503, "Other", Unknown),
            (408, "RequestTimeout", Unknown),
            (500, "InternalError", Unknown),
            (500, "OperationTimedOut", Unknown),
            (502, "", Unknown),
            (504, "", Unknown),
            (403, "", Unknown),
            (302, "", Unknown),
        ] {
            assert_eq!(classify(status, code), expected, "{status} {code}");
        }
    }

    #[test]
    fn flavours() {
        for (host, flavour) in [
            ("a.table.core.windows.net", Flavour::Azure),
            ("a.table.core.usgovcloudapi.net", Flavour::Azure),
            ("a.table.cosmos.azure.com", Flavour::Cosmos),
            ("A.Table.CosmosDB.azure.com", Flavour::Cosmos),
            ("127.0.0.1", Flavour::Tavola),
        ] {
            assert_eq!(Flavour::of_host(host), flavour, "{host}");
        }
    }
}
