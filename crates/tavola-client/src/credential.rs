//! What opens an account.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use zeroize::Zeroizing;

use crate::runtime::BoxFuture;

/// What opens an account. Shows nothing of itself, and is cleared from memory when dropped.
///
/// ```
/// # fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::{Credential, TableServiceClient};
///
/// let endpoint = "https://shop.table.core.windows.net";
/// TableServiceClient::new(endpoint, Some(Credential::key("shop", "a2V5")), None)?;
/// TableServiceClient::new(endpoint, Some(Credential::sas("sv=2019-02-02&sig=c2ln")), None)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum Credential {
    /// One of the account's keys, base64.
    #[non_exhaustive]
    Key {
        /// The account's name.
        account: String,
        /// The key.
        key: Zeroizing<String>,
    },
    /// A shared access signature: a query string, with or without `?`.
    Sas(Zeroizing<String>),
    /// Tokens of an identity provider. They are never sent over http.
    Token(Arc<dyn TokenSource>),
    /// Shared access signatures that somebody renews.
    SasSource(Arc<dyn SasSource>),
}

impl Credential {
    /// One of the account's keys.
    #[must_use]
    pub fn key(account: impl Into<String>, key: impl Into<String>) -> Self {
        Self::Key { account: account.into(), key: Zeroizing::new(key.into()) }
    }

    /// A shared access signature.
    #[must_use]
    pub fn sas(signature: impl Into<String>) -> Self {
        Self::Sas(Zeroizing::new(signature.into()))
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { account, .. } => write!(f, "Key({account}, ***)"),
            Self::Sas(_) => f.write_str("Sas(***)"),
            Self::Token(_) => f.write_str("Token(***)"),
            Self::SasSource(_) => f.write_str("SasSource(***)"),
        }
    }
}

/// What a source could not do.
pub type SourceError = Box<dyn StdError + Send + Sync>;

/// A text that opens something for a while.
#[derive(Clone)]
pub struct Secret {
    pub(crate) text: Zeroizing<String>,
    pub(crate) expires: Option<SystemTime>,
}

impl Secret {
    /// A text that is good until `expires`; a new one is asked for a little earlier.
    #[must_use]
    pub fn new(text: impl Into<String>, expires: Option<SystemTime>) -> Self {
        Self { text: Zeroizing::new(text.into()), expires }
    }
}

impl Secret {
    /// The text itself.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// When it ends, if it does.
    #[must_use]
    pub fn expires(&self) -> Option<SystemTime> {
        self.expires
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// Where tokens come from.
///
/// ```
/// use tavola_client::{BoxFuture, Secret, SourceError, TokenSource};
///
/// #[derive(Debug)]
/// struct FromFile(std::path::PathBuf);
///
/// impl TokenSource for FromFile {
///     fn token(&self) -> BoxFuture<'_, Result<Secret, SourceError>> {
///         Box::pin(async { Ok(Secret::new(std::fs::read_to_string(&self.0)?, None)) })
///     }
/// }
/// ```
pub trait TokenSource: Send + Sync {
    /// A token for the scope `https://storage.azure.com/.default`. It is kept until shortly before
    /// it expires.
    fn token(&self) -> BoxFuture<'_, Result<Secret, SourceError>>;
}

/// Where shared access signatures come from.
///
/// ```
/// use tavola_client::{BoxFuture, SasSource, Secret, SourceError};
///
/// /// Asks the service that hands out signatures.
/// #[derive(Debug)]
/// struct Issued;
///
/// impl SasSource for Issued {
///     fn sas(&self) -> BoxFuture<'_, Result<Secret, SourceError>> {
///         let hour = std::time::Duration::from_secs(3600);
///         let end = std::time::SystemTime::now() + hour;
///         Box::pin(async move { Ok(Secret::new("sv=2019-02-02&sig=c2ln", Some(end))) })
///     }
/// }
/// ```
pub trait SasSource: Send + Sync {
    /// A signature. It is kept until shortly before it expires.
    fn sas(&self) -> BoxFuture<'_, Result<Secret, SourceError>>;
}
