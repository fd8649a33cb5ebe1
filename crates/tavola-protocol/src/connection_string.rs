//! Connection strings: `Name=value` pairs by semicolons that say where the services of an account
//! are and what opens it. Read and written here, for every client.

mod endpoint;
mod error;
mod fields;

use std::fmt;

use tavola_core::{AccountName, ServiceKind};
use zeroize::Zeroizing;

pub use endpoint::{Endpoint, EndpointError};
pub use error::ConnectionStringError;
use fields::{
    ACCOUNT_KEY, ACCOUNT_NAME, DEVELOPMENT, Field, Known, PROTOCOL, SIGNATURE, ServiceFields,
    read_fields,
};

/// The account that every emulator has. Its key is public.
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";
/// The development account's key, published by the service's documentation.
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// A service and where it is.
pub type ServiceEndpoint = (ServiceKind, Endpoint);

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

/// A connection string that was read or made. What it says beside that is kept.
#[derive(Clone, PartialEq, Eq)]
pub struct ConnectionString {
    /// As written, in the same order.
    fields: Vec<Field>,
    account: Option<AccountName>,
    /// Of the services that it names, or that follow from the account.
    endpoints: Vec<ServiceEndpoint>,
    secondary_endpoints: Vec<ServiceEndpoint>,
    secret: Secret,
}

/// Where, never with what.
impl fmt::Debug for ConnectionString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionString")
            .field("account", &self.account)
            .field("endpoints", &self.endpoints)
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

    /// The string of an account's owner, with the services that are served.
    ///
    /// # Errors
    /// If `key` is not base64.
    pub fn with_key(
        account: &AccountName,
        key: &str,
        endpoints: &[ServiceEndpoint],
    ) -> Result<Self, ConnectionStringError> {
        let is_plain = endpoints.iter().any(|(_, endpoint)| !endpoint.is_https());
        let mut fields = vec![
            Field::new(PROTOCOL, if is_plain { "http" } else { "https" }),
            Field::new(ACCOUNT_NAME, account.as_str()),
            Field::new(ACCOUNT_KEY, key),
        ];
        fields.extend(endpoint_fields(endpoints));
        Self::of(fields)
    }

    /// The string of somebody who has a signature only, with the services that it is for.
    ///
    /// # Errors
    /// If `signature` is not one.
    pub fn with_signature(
        signature: &str,
        endpoints: &[ServiceEndpoint],
    ) -> Result<Self, ConnectionStringError> {
        let mut fields: Vec<Field> = endpoint_fields(endpoints).collect();
        fields.push(Field::new(SIGNATURE, signature));
        Self::of(fields)
    }

    fn of(fields: Vec<Field>) -> Result<Self, ConnectionStringError> {
        let known = Known::of(&fields)?;
        if let Some(value) = known.get(DEVELOPMENT) {
            let (account, endpoints, secret) = known.development(value)?;
            let (account, secondary_endpoints) = (Some(account), Vec::new());
            return Ok(Self { account, endpoints, secondary_endpoints, secret, fields });
        }
        let account = known.account()?;
        let endpoints = known.endpoints(account.as_ref())?;
        let secret = known.secret(account.is_none() && !endpoints.is_empty())?;
        let secondary_endpoints = known.secondary_endpoints()?;
        let account =
            account.or_else(|| endpoints.iter().find_map(|(_, endpoint)| endpoint.account()));
        Ok(Self { account, endpoints, secondary_endpoints, secret, fields })
    }

    /// Whose: as it is named, or else as an endpoint lets guess.
    #[must_use]
    pub fn account(&self) -> Option<&AccountName> {
        self.account.as_ref()
    }

    /// Where a service is.
    ///
    /// # Errors
    /// The field that is missing.
    pub fn endpoint(&self, service: ServiceKind) -> Result<&Endpoint, ConnectionStringError> {
        let missing = ConnectionStringError::EndpointMissing(ServiceFields::of(service).endpoint);
        find(&self.endpoints, service).ok_or(missing)
    }

    /// Where every service is of which the string says so.
    #[must_use]
    pub fn endpoints(&self) -> &[ServiceEndpoint] {
        &self.endpoints
    }

    /// Where the read-only copy of a service is, if the string says.
    #[must_use]
    pub fn secondary_endpoint(&self, service: ServiceKind) -> Option<&Endpoint> {
        find(&self.secondary_endpoints, service)
    }

    /// What opens the account.
    #[must_use]
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The value of a field as written, also of one that means nothing here. Names have no case.
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

fn find(endpoints: &[ServiceEndpoint], service: ServiceKind) -> Option<&Endpoint> {
    endpoints.iter().find(|(of, _)| *of == service).map(|(_, endpoint)| endpoint)
}

fn endpoint_fields(endpoints: &[ServiceEndpoint]) -> impl Iterator<Item = Field> {
    endpoints.iter().map(|(service, endpoint)| {
        Field::new(ServiceFields::of(*service).endpoint, endpoint.as_str())
    })
}

#[cfg(test)]
mod tests;
