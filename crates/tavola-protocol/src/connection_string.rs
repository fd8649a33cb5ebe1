//! Connection strings: `Name=value` pairs by semicolons that say where an account is and what opens
//! it. Read and written here, for whoever is a client.

mod endpoint;

use std::fmt;

use tavola_core::AccountName;
use zeroize::Zeroizing;

use crate::auth::{AccountKey, SasFields};
pub use endpoint::{Endpoint, EndpointError};

/// The account that every emulator has. Its key is public.
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";
/// The development account's key, published by the service's documentation.
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Where an emulator listens for tables.
const DEVELOPMENT_PORT: u16 = 10002;
/// The public cloud, if nothing else is said.
const DEFAULT_SUFFIX: &str = "core.windows.net";
/// Far above any string of use.
const BYTES_MAX: usize = 64 * 1024;

/// The names that mean something here, as they are usually written. They are compared without case.
const NAMES: [&str; 9] = [
    PROTOCOL,
    ACCOUNT_NAME,
    ACCOUNT_KEY,
    SIGNATURE,
    TABLE_ENDPOINT,
    TABLE_SECONDARY,
    SUFFIX,
    DEVELOPMENT,
    DEVELOPMENT_PROXY,
];
const PROTOCOL: &str = "DefaultEndpointsProtocol";
const ACCOUNT_NAME: &str = "AccountName";
const ACCOUNT_KEY: &str = "AccountKey";
const SIGNATURE: &str = "SharedAccessSignature";
const TABLE_ENDPOINT: &str = "TableEndpoint";
const TABLE_SECONDARY: &str = "TableSecondaryEndpoint";
const SUFFIX: &str = "EndpointSuffix";
const DEVELOPMENT: &str = "UseDevelopmentStorage";
const DEVELOPMENT_PROXY: &str = "DevelopmentStorageProxyUri";

/// Why a text is not a connection string that opens tables. No message shows any of it: it may be a
/// key.
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
    /// Neither `TableEndpoint` nor an account from which it follows.
    #[error("TableEndpoint is missing, and there is no AccountName from which it would follow")]
    EndpointMissing,
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

/// What a connection string opens its account with. Shows nothing of itself, and is cleared from
/// memory when dropped.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// One of the account's keys, base64.
    Key(Zeroizing<String>),
    /// A shared access signature: a query string without `?`.
    Signature(Zeroizing<String>),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key(_) => "Key(***)",
            Self::Signature(_) => "Signature(***)",
        })
    }
}

/// A connection string that was read or made. What it says beside tables is kept.
#[derive(Clone, PartialEq, Eq)]
pub struct ConnectionString {
    /// As written, in the same order.
    fields: Vec<Field>,
    account: Option<AccountName>,
    endpoint: Endpoint,
    secondary: Option<Endpoint>,
    secret: Secret,
}

#[derive(Clone, PartialEq, Eq)]
struct Field {
    name: String,
    value: Zeroizing<String>,
}

/// Where, never with what.
impl fmt::Debug for ConnectionString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionString")
            .field("account", &self.account)
            .field("endpoint", &self.endpoint)
            .field("secret", &self.secret)
            .finish_non_exhaustive()
    }
}

impl ConnectionString {
    /// Reads a connection string.
    ///
    /// # Errors
    /// What is wrong with it, without showing any of it.
    pub fn parse(text: &str) -> Result<Self, ConnectionStringError> {
        Self::of(read_fields(text)?)
    }

    /// The string of an account's owner.
    ///
    /// # Errors
    /// If `key` is not base64.
    pub fn with_key(
        account: &AccountName,
        key: &str,
        table_endpoint: &Endpoint,
    ) -> Result<Self, ConnectionStringError> {
        let scheme = if table_endpoint.is_https() { "https" } else { "http" };
        Self::of(vec![
            Field::new(PROTOCOL, scheme),
            Field::new(ACCOUNT_NAME, account.as_str()),
            Field::new(ACCOUNT_KEY, key),
            Field::new(TABLE_ENDPOINT, table_endpoint.as_str()),
        ])
    }

    /// The string of somebody who has a signature only.
    ///
    /// # Errors
    /// If `signature` is not one.
    pub fn with_signature(
        signature: &str,
        table_endpoint: &Endpoint,
    ) -> Result<Self, ConnectionStringError> {
        Self::of(vec![
            Field::new(TABLE_ENDPOINT, table_endpoint.as_str()),
            Field::new(SIGNATURE, signature),
        ])
    }

    fn of(fields: Vec<Field>) -> Result<Self, ConnectionStringError> {
        let known = Known::of(&fields)?;
        if let Some(value) = known.get(DEVELOPMENT) {
            let (account, endpoint) = known.development(value)?;
            let secret = Secret::Key(Zeroizing::new(DEVELOPMENT_KEY.to_owned()));
            return Ok(Self { account: Some(account), endpoint, secondary: None, secret, fields });
        }
        let account = known.account()?;
        let endpoint = known.endpoint(TABLE_ENDPOINT)?;
        let endpoint = match (endpoint, &account) {
            (Some(endpoint), _) => endpoint,
            (None, Some(account)) => known.derived_endpoint(account)?,
            (None, None) => return Err(ConnectionStringError::EndpointMissing),
        };
        let secret = known.secret(account.is_some())?;
        let secondary = known.endpoint(TABLE_SECONDARY)?;
        let account = account.or_else(|| endpoint.account());
        Ok(Self { account, endpoint, secondary, secret, fields })
    }

    /// Whose: as it is named, or else as the endpoint lets guess.
    #[must_use]
    pub fn account(&self) -> Option<&AccountName> {
        self.account.as_ref()
    }

    /// Where the Table service is.
    #[must_use]
    pub fn table_endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Where its read-only copy is, if the string says.
    #[must_use]
    pub fn table_secondary_endpoint(&self) -> Option<&Endpoint> {
        self.secondary.as_ref()
    }

    /// What opens the account.
    #[must_use]
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The value of a field as written, those of other services too. Names have no case.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|field| field.name.eq_ignore_ascii_case(name))
            .map(|field| field.value.as_str())
    }

    /// The string itself, with everything secret in it.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        let bytes = self.fields.iter().map(|field| field.name.len() + field.value.len() + 2).sum();
        let mut text = Zeroizing::new(String::with_capacity(bytes));
        for Field { name, value } in &self.fields {
            let separator = if text.is_empty() { "" } else { ";" };
            for piece in [separator, name, "=", value.as_str()] {
                text.push_str(piece);
            }
        }
        text
    }
}

impl Field {
    fn new(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), value: Zeroizing::new(value.to_owned()) }
    }
}

fn read_fields(text: &str) -> Result<Vec<Field>, ConnectionStringError> {
    if text.len() > BYTES_MAX {
        return Err(ConnectionStringError::TooLong);
    }
    let mut fields = Vec::new();
    for (at, part) in text.split(';').map(str::trim).enumerate() {
        if part.is_empty() {
            continue;
        }
        // A value has `=` of its own: keys end with it, signatures are full of it.
        let (name, value) = part.split_once('=').ok_or(ConnectionStringError::NotAPair(at + 1))?;
        let name = name.trim_end();
        if name.is_empty() {
            return Err(ConnectionStringError::NotAPair(at + 1));
        }
        fields.push(Field::new(name, value.trim_start()));
    }
    if fields.is_empty() { Err(ConnectionStringError::Empty) } else { Ok(fields) }
}

/// The fields that mean something here. An empty one is as good as none.
struct Known<'a>([Option<&'a str>; NAMES.len()]);

impl<'a> Known<'a> {
    fn of(fields: &'a [Field]) -> Result<Self, ConnectionStringError> {
        let mut known = Self([None; NAMES.len()]);
        for field in fields {
            let Some(at) = NAMES.iter().position(|name| name.eq_ignore_ascii_case(&field.name))
            else {
                continue;
            };
            if known.0[at].replace(field.value.as_str()).is_some() {
                return Err(ConnectionStringError::Twice(NAMES[at]));
            }
        }
        Ok(known)
    }

    fn get(&self, name: &'static str) -> Option<&'a str> {
        let at = NAMES.iter().position(|known| *known == name)?;
        self.0[at].filter(|value| !value.is_empty())
    }

    fn account(&self) -> Result<Option<AccountName>, ConnectionStringError> {
        let Some(name) = self.get(ACCOUNT_NAME) else { return Ok(None) };
        AccountName::parse(name).map(Some).ok_or(ConnectionStringError::NotAnAccount)
    }

    fn endpoint(&self, name: &'static str) -> Result<Option<Endpoint>, ConnectionStringError> {
        let parse = |text| {
            Endpoint::parse(text)
                .map_err(|reason| ConnectionStringError::NotAnEndpoint { name, reason })
        };
        self.get(name).map(parse).transpose()
    }

    /// What the libraries do without a `TableEndpoint`.
    fn derived_endpoint(&self, account: &AccountName) -> Result<Endpoint, ConnectionStringError> {
        let scheme = self.get(PROTOCOL).unwrap_or("https").to_ascii_lowercase();
        if !["http", "https"].contains(&scheme.as_str()) {
            return Err(ConnectionStringError::NotAProtocol);
        }
        let suffix = self.get(SUFFIX).unwrap_or(DEFAULT_SUFFIX);
        let endpoint = Endpoint::parse(&format!("{scheme}://{account}.table.{suffix}"));
        endpoint.map_err(|reason| ConnectionStringError::NotAnEndpoint { name: SUFFIX, reason })
    }

    fn secret(&self, has_account: bool) -> Result<Secret, ConnectionStringError> {
        match (self.get(ACCOUNT_KEY), self.get(SIGNATURE)) {
            (Some(_), Some(_)) => Err(ConnectionStringError::KeyAndSignature),
            (None, None) => Err(ConnectionStringError::SecretMissing),
            (Some(_), None) if !has_account => Err(ConnectionStringError::AccountMissing),
            (Some(key), None) => match AccountKey::parse(key) {
                Ok(_) => Ok(Secret::Key(Zeroizing::new(key.to_owned()))),
                Err(_) => Err(ConnectionStringError::NotAKey),
            },
            (None, Some(signature)) => {
                // Copied from a URL it often has the mark before it.
                let query = signature.trim_start_matches('?');
                let is_one = SasFields::are_in(Some(query));
                let secret = || Secret::Signature(Zeroizing::new(query.to_owned()));
                if is_one { Ok(secret()) } else { Err(ConnectionStringError::NotASignature) }
            }
        }
    }

    fn development(&self, value: &str) -> Result<(AccountName, Endpoint), ConnectionStringError> {
        if !value.eq_ignore_ascii_case("true") {
            return Err(ConnectionStringError::NotDevelopment);
        }
        let stands_for = [ACCOUNT_NAME, ACCOUNT_KEY, SIGNATURE, TABLE_ENDPOINT];
        if stands_for.into_iter().any(|name| self.get(name).is_some()) {
            return Err(ConnectionStringError::DevelopmentAndMore);
        }
        let account = AccountName::parse(DEVELOPMENT_ACCOUNT)
            .expect("the development account's name is legal");
        let proxy = self.endpoint(DEVELOPMENT_PROXY)?;
        // As the libraries do: of the proxy's address only scheme and host count.
        let base = proxy.as_ref().map_or("http://127.0.0.1", Endpoint::scheme_and_host);
        let endpoint =
            Endpoint::parse(&format!("{base}:{DEVELOPMENT_PORT}/{account}")).map_err(|reason| {
                ConnectionStringError::NotAnEndpoint { name: DEVELOPMENT_PROXY, reason }
            })?;
        Ok((account, endpoint))
    }
}

#[cfg(test)]
mod tests;
