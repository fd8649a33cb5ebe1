//! What can be wrong with a connection string.

use super::EndpointError;

/// Why a text is not a connection string, or not one of the service that was asked for. No message
/// shows any of it: it may be a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionStringError {
    /// Nothing in it.
    #[error("the connection string is empty")]
    Empty,
    /// Beyond 64 KiB.
    #[error("the connection string is too long to be one")]
    TooLong,
    /// A part without `=`; counted from one.
    #[error(
        "part {0} of the connection string is not Name=value; parts are separated by semicolons"
    )]
    NotAPair(usize),
    /// A name that stands more than once.
    #[error("{0} stands more than once in the connection string")]
    Twice(&'static str),
    /// A key without the account that it belongs to.
    #[error("AccountName is missing: the key does not say whose it is")]
    AccountMissing,
    /// Neither this field of a service nor an account from which it follows.
    #[error("{0} is missing, and there is no AccountName from which it would follow")]
    EndpointMissing(&'static str),
    /// Neither a key nor a signature.
    #[error("neither AccountKey nor SharedAccessSignature is in the connection string")]
    SecretMissing,
    /// Which of the two opens the account cannot be told.
    #[error(
        "AccountKey and SharedAccessSignature are both in the connection string; only one of them can count"
    )]
    KeyAndSignature,
    /// The name cannot be one.
    #[error(
        "AccountName is not the name of an account: letters, digits and inner hyphens, at most 63"
    )]
    NotAnAccount,
    /// The key cannot be one.
    #[error("AccountKey is not base64; was it cut off?")]
    NotAKey,
    /// The signature cannot be one.
    #[error("SharedAccessSignature has no sig=; was it cut off?")]
    NotASignature,
    /// A URL that is not one.
    #[error("{name} is not an endpoint: {reason}")]
    NotAnEndpoint {
        /// Which field.
        name: &'static str,
        /// What is wrong with it.
        reason: EndpointError,
    },
    /// Neither `http` nor `https`.
    #[error("DefaultEndpointsProtocol is neither http nor https")]
    NotAProtocol,
    /// `UseDevelopmentStorage` with another value than `true`.
    #[error("UseDevelopmentStorage can only be true; leave it out otherwise")]
    NotDevelopment,
    /// `UseDevelopmentStorage` beside what it stands for.
    #[error(
        "UseDevelopmentStorage=true stands for account, key and endpoint, so none of them can stand beside it"
    )]
    DevelopmentAndMore,
}
