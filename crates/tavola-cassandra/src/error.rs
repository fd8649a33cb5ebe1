//! Why a cluster cannot be used, and what a failed statement says.

use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind as SetupError, DbError,
    ExecutionError, MetadataError, NewSessionError, RequestAttemptError,
};
use tavola_store::StoreError;

use crate::inspect::Finding;
use crate::options::Options;

/// Why the store cannot be opened, for a person to read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No Cassandra node could be reached, or none accepted us.
    #[error(
        "cannot connect to the cluster at {contact_points} (setting store.contact_points): {reason}"
    )]
    Connect {
        /// The setting `store.contact_points`.
        contact_points: String,
        /// What came of it.
        reason: String,
    },
    /// A Cassandra node has no certificate that we trust, or does not speak TLS.
    #[error(
        "cannot secure the connections to the cluster at {contact_points} (settings store.tls, store.ca_file): {reason}"
    )]
    Tls {
        /// The setting `store.contact_points`.
        contact_points: String,
        /// What is wrong.
        reason: String,
    },
    /// The user or the password is wrong.
    #[error(
        "the cluster at {contact_points} refuses user {user:?} (settings store.user, store.password): {reason}"
    )]
    Credentials {
        /// The setting `store.contact_points`.
        contact_points: String,
        /// The setting `store.user`.
        user: String,
        /// What it said.
        reason: String,
    },
    /// The cluster demands a user and a password.
    #[error(
        "the cluster at {contact_points} demands a password (settings store.user, store.password_file), and none is set"
    )]
    NoCredentials {
        /// The setting `store.contact_points`.
        contact_points: String,
    },
    /// There is no such keyspace, and we may not create it.
    #[error(
        "the cluster has no keyspace {keyspace:?} (setting store.keyspace): create it with `tavola store init`, or let \
         the server do so with store.create = true"
    )]
    NoKeyspace {
        /// Its name.
        keyspace: String,
    },
    /// The keyspace is not ours, or of another version.
    #[error("keyspace {keyspace:?} (setting store.keyspace) cannot be used: {reason}")]
    Keyspace {
        /// Its name.
        keyspace: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The cluster would lose data or linearizability.
    #[error("the cluster is not safe to use:\n{}", list(.findings))]
    Dangerous {
        /// What is wrong with it.
        findings: Vec<Finding>,
    },
    /// A statement failed.
    #[error("cannot {doing}: {reason}")]
    Statement {
        /// What we were about to do.
        doing: &'static str,
        /// What came of it.
        reason: String,
    },
}

fn list(findings: &[Finding]) -> String {
    let lines: Vec<String> = findings
        .iter()
        .map(|finding| {
            let Finding { risk, text, advice, .. } = finding;
            format!(
                "  {}: {text}; {advice} (or accept it with store.accept_risks = \"{0}\")",
                risk.name()
            )
        })
        .collect();
    lines.join("\n")
}

impl OpenError {
    pub(crate) fn connect(options: &Options, error: &NewSessionError) -> Self {
        let contact_points = options.contact_points.join(", ");
        let Some(error) = last_connection(error) else {
            return Self::Connect { contact_points, reason: error.to_string() };
        };
        let reason = error.to_string();
        if is_about_credentials(error) {
            return match &options.credentials {
                Some((user, _)) => Self::Credentials { contact_points, user: user.clone(), reason },
                None => Self::NoCredentials { contact_points },
            };
        }
        if is_about_tls(error) {
            return Self::Tls { contact_points, reason };
        }
        if options.tls.is_none() && is_hung_up(error) {
            let reason = format!(
                "{reason}. A node that takes only encrypted connections does so: set store.tls"
            );
            return Self::Connect { contact_points, reason };
        }
        Self::Connect { contact_points, reason }
    }

    pub(crate) fn statement(doing: &'static str, error: &impl ToString) -> Self {
        Self::Statement { doing, reason: error.to_string() }
    }
}

/// Why the last Cassandra node did not accept us.
fn last_connection(error: &NewSessionError) -> Option<&ConnectionError> {
    match error {
        NewSessionError::MetadataError(MetadataError::ConnectionPoolError(
            ConnectionPoolError::Broken { last_connection_error },
        )) => Some(last_connection_error),
        _ => None,
    }
}

fn is_about_credentials(error: &ConnectionError) -> bool {
    let ConnectionError::ConnectionSetupRequestError(setup) = error else { return false };
    matches!(
        setup.error,
        SetupError::MissingAuthentication | SetupError::DbError(DbError::AuthenticationError, _)
    )
}

fn is_about_tls(error: &ConnectionError) -> bool {
    let ConnectionError::IoError(error) = error else { return false };
    error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>())
}

/// The Cassandra node accepted the connection, and closed it at our first message.
fn is_hung_up(error: &ConnectionError) -> bool {
    let ConnectionError::ConnectionSetupRequestError(setup) = error else { return false };
    matches!(setup.error, SetupError::BrokenConnection(_))
}

/// What a failed statement says about what it was to do.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was certainly not carried out.
    NotDone(String),
    /// It may have been carried out, or be carried out later.
    Unknown(String),
}

impl Failure {
    /// What the driver's error says about a write.
    pub(crate) fn of_write(error: &ExecutionError) -> Self {
        let text = error.to_string();
        match error {
            // Nothing was sent.
            ExecutionError::BadQuery(_)
            | ExecutionError::EmptyPlan
            | ExecutionError::PrepareError(_)
            | ExecutionError::ConnectionPoolError(_) => Self::NotDone(text),
            ExecutionError::LastAttemptError(attempt) if never_began(attempt) => {
                Self::NotDone(text)
            }
            // Also "unavailable": the coordinator counts living replicas before every round of its
            // consensus, and may have proposed in an earlier one.
            _ => Self::Unknown(text),
        }
    }

    pub(crate) fn text(self) -> String {
        match self {
            Self::NotDone(text) | Self::Unknown(text) => text,
        }
    }
}

/// The server or the driver refused before anything could begin.
fn never_began(attempt: &RequestAttemptError) -> bool {
    match attempt {
        RequestAttemptError::SerializationError(_)
        | RequestAttemptError::CqlRequestSerialization(_)
        | RequestAttemptError::UnableToAllocStreamId
        | RequestAttemptError::RepreparedIdChanged { .. }
        | RequestAttemptError::RepreparedIdMissingInBatch => true,
        RequestAttemptError::DbError(error, _) => matches!(
            error,
            DbError::SyntaxError
                | DbError::Invalid
                | DbError::Unauthorized
                | DbError::ConfigError
                | DbError::Unprepared { .. }
                | DbError::IsBootstrapping
        ),
        _ => false,
    }
}

/// A failure of the cluster that a caller can only wait out.
pub(crate) fn unavailable(reason: impl Into<String>) -> StoreError {
    StoreError::Unavailable { reason: reason.into(), source: None }
}
