//! What kinds of errors there are, and where they happen.

use std::time::Duration;

use time::OffsetDateTime;

use crate::explain::Access;
use crate::key::EntityKey;
use crate::value::EdmType;

/// What is known about the effect of a call that failed.
///
/// ```
/// use tavola_client::{Error, Outcome};
///
/// /// Whether the program may simply do it again.
/// fn may_repeat(error: &Error) -> bool {
///     error.outcome() != Outcome::Unknown
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// Nothing was sent.
    NotSent,
    /// The service refused it: nothing was changed.
    NotApplied,
    /// It may or may not have been applied.
    Unknown,
}

/// What kind of error it is.
///
/// ```
/// use tavola_client::{Error, ErrorKind};
///
/// fn explain(error: &Error) -> String {
///     match error.kind() {
///         ErrorKind::Invalid { rule, limit, .. } => format!("{rule:?}, at most {limit:?}"),
///         ErrorKind::Transaction { index, .. } => format!("operation {index:?} was refused"),
///         ErrorKind::Unknown { settles_at, .. } => format!("read again after {settles_at:?}"),
///         _ => error.to_string(),
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A key, name, value or request breaks a rule; it was not sent.
    #[non_exhaustive]
    Invalid {
        /// The rule.
        rule: Rule,
        /// The most that the rule allows, if it is a limit.
        limit: Option<usize>,
        /// What was found instead.
        found: Option<usize>,
    },
    /// The service refused; see [`crate::Error::status`] and [`crate::Error::code`].
    Service,
    /// The service refused an operation of a transaction, and so all of them.
    #[non_exhaustive]
    Transaction {
        /// Which operation, if the service named it.
        index: Option<usize>,
    },
    /// No reply came, and what is stored does not say whether the write was applied.
    #[non_exhaustive]
    Unknown {
        /// What was found afterwards.
        observed: Option<Observed>,
        /// When a lost request can no longer be applied.
        settles_at: Option<OffsetDateTime>,
    },
    /// The query would read more than it may.
    #[non_exhaustive]
    ScanDenied {
        /// How it would reach its rows.
        access: Access,
    },
    /// A property has not the type that the program expects, or is absent.
    #[non_exhaustive]
    Property {
        /// Its name.
        name: String,
        /// The type that is expected.
        expected: EdmType,
        /// The type that was found; `None` if it is absent.
        found: Option<EdmType>,
    },
    /// An entity of another kind, or of a newer version, was found.
    #[non_exhaustive]
    Kind {
        /// The kind that is expected.
        expected: String,
        /// The kind that was found; `None` if the entity has none.
        found: Option<String>,
    },
    /// The answer did not come from a table service.
    #[non_exhaustive]
    NotOurs {
        /// How it begins.
        beginning: String,
    },
    /// No connection could be made.
    Connect,
    /// The connection failed.
    Transport,
    /// The call's deadline passed.
    Deadline,
    /// The credential is missing, malformed or cannot be renewed.
    Credential,
    /// A value cannot be encrypted or decrypted. Nothing was overwritten.
    #[non_exhaustive]
    Encryption {
        /// Why.
        fault: EncryptionFault,
    },
    /// A design pattern found its rule broken.
    Pattern,
    /// Another entity has the value of a unique index.
    #[non_exhaustive]
    Duplicate {
        /// The index.
        index: &'static str,
        /// The entity that has the value.
        holder: EntityKey,
    },
    /// Others changed the entity again and again.
    #[non_exhaustive]
    Modify {
        /// How often it was tried.
        attempts: u32,
    },
}

/// Why a value cannot be encrypted or decrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EncryptionFault {
    /// The client has no keys.
    NoKeys,
    /// The key is lost, is another one, or its vault did not answer.
    Key,
    /// A value or the envelope was altered, or moved from another place.
    Altered,
    /// A plain value is stored where an encrypted one is expected.
    NotEncrypted,
    /// A merge would overwrite the content key of the properties that stay.
    MergeOfEncrypted,
    /// A filter compares an encrypted property.
    EncryptedFilter,
    /// The rule chooses the property that holds the id of the write.
    WriteId,
    /// A pattern does not encrypt what it writes.
    NotSupported,
    /// The entity was encrypted by the old .NET library.
    OldNetFormat,
    /// The envelope is of a version that this library does not know.
    UnknownFormat,
}

/// A rule that is checked before anything is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// A key has at most 512 UTF-16 units.
    KeyLength,
    /// A key has none of `/ \ # ?` and no control characters.
    KeyCharacter,
    /// A key part fits its place in the template.
    KeyPart,
    /// A key that was read is one that the template writes.
    KeyTemplate,
    /// The name of a property.
    PropertyName,
    /// At most 252 properties.
    PropertyCount,
    /// At most 64 KiB in a property.
    PropertySize,
    /// At most 1 MiB in an entity.
    EntitySize,
    /// Points in time from 1601 to 9999.
    DateRange,
    /// A property's text is not what its type reads: `as = "string"`, `json`.
    PropertyText,
    /// Limits of a transaction: one partition, 100 operations, 4 MiB, no entity twice.
    Transaction,
    /// The request itself.
    Request,
    /// An address or a connection string.
    Address,
    /// A continuation is of the query that it is given to.
    Continuation,
}

/// What a read found after a write without a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Observed {
    /// The content that was sent, which another client may have sent too.
    Equal,
    /// Other content.
    Different,
    /// Nothing.
    Absent,
}

/// Where an error happened.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Context {
    /// The operation, for example `insert`.
    pub operation: Option<&'static str>,
    /// The service's address, without credentials.
    pub endpoint: Option<String>,
    /// The table.
    pub table: Option<String>,
    /// The entity.
    pub key: Option<EntityKey>,
    /// The request's id as the client gave it.
    pub client_request_id: Option<String>,
    /// The request's id as the service gave it.
    pub request_id: Option<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// How long it took.
    pub elapsed: Duration,
}
