//! Where an account is, and what opens it.

use std::env;

use tavola_core::ServiceKind;
use tavola_protocol::ConnectionString;
use tavola_protocol::connection_string::{ConnectionStringError, Endpoint, Secret};
use zeroize::Zeroizing;

use crate::client::TableServiceClient;
use crate::credential::Credential;
use crate::error::{Error, Rule};
use crate::options::ClientOptions;

/// The variables that [`Account::from_env`] looks at, in their order.
const VARIABLES: [&str; 4] = [
    "TAVOLA_CONNECTION_STRING",
    "AZURE_TABLES_CONNECTION_STRING",
    "AZURE_STORAGE_CONNECTION_STRING",
    "AzureWebJobsStorage",
];

/// A storage account: its services are opened from here.
///
/// ```
/// # fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::Account;
///
/// let account = Account::from_connection_string(
///     "AccountName=shop;AccountKey=a2V5;TableEndpoint=http://127.0.0.1:10002/shop",
/// )?;
/// let employees = account.tables()?.table_client("employees");
/// # let _ = employees;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Account {
    endpoint: Endpoint,
    secondary: Option<Endpoint>,
    credential: Option<Credential>,
    options: ClientOptions,
}

impl Account {
    /// Reads a connection string in any of its forms: account and key, endpoints, a shared access
    /// signature, `UseDevelopmentStorage=true`.
    ///
    /// # Errors
    /// What is wrong with it, without showing any of it.
    pub fn from_connection_string(text: &str) -> Result<Self, Error> {
        let invalid =
            |error: ConnectionStringError| Error::invalid(Rule::Address, error.to_string());
        let parsed = ConnectionString::parse(text).map_err(invalid)?;
        let account = || parsed.account().map(ToString::to_string).unwrap_or_default();
        let credential = match parsed.secret() {
            Secret::Key(key) => Credential::Key { account: account(), key: key.clone() },
            Secret::Signature(signature) => Credential::Sas(signature.clone()),
        };
        Ok(Self {
            endpoint: parsed.endpoint(ServiceKind::Table).map_err(invalid)?.clone(),
            secondary: parsed.secondary_endpoint(ServiceKind::Table).cloned(),
            credential: Some(credential),
            options: ClientOptions::default(),
        })
    }

    /// Reads the connection string of the first of these variables that is set:
    /// `TAVOLA_CONNECTION_STRING`, `AZURE_TABLES_CONNECTION_STRING`,
    /// `AZURE_STORAGE_CONNECTION_STRING`, `AzureWebJobsStorage`.
    ///
    /// # Errors
    /// If none is set, or what is set is not a connection string.
    pub fn from_env() -> Result<Self, Error> {
        let set = VARIABLES.iter().find_map(|name| {
            let value = Zeroizing::new(env::var(name).ok()?);
            (!value.trim().is_empty()).then_some(value)
        });
        let Some(text) = set else {
            let names = VARIABLES.join(", ");
            return Err(Error::invalid(Rule::Address, format!("none of {names} is set")));
        };
        Self::from_connection_string(&text)
    }

    /// The account that every emulator on this machine has.
    ///
    /// # Panics
    /// Never: the connection string is a constant.
    #[must_use]
    pub fn development() -> Self {
        Self::from_connection_string("UseDevelopmentStorage=true")
            .expect("the development account's connection string is one")
    }

    /// A service by its address, which may carry a shared access signature.
    ///
    /// # Errors
    /// If it is not an address.
    pub fn new(endpoint: &str, credential: Option<Credential>) -> Result<Self, Error> {
        let (address, query) = match endpoint.split_once('?') {
            Some((address, query)) => (address, Some(query)),
            None => (endpoint, None),
        };
        let endpoint = Endpoint::parse(address)
            .map_err(|error| Error::invalid(Rule::Address, format!("not an endpoint: {error}")))?;
        let credential = match (credential, query) {
            (Some(credential), None) => Some(credential),
            (None, query) => query.map(Credential::sas),
            (Some(_), Some(_)) => {
                let text = "the address has a query and there is a credential; only one can count";
                return Err(Error::invalid(Rule::Address, text));
            }
        };
        Ok(Self { endpoint, secondary: None, credential, options: ClientOptions::default() })
    }

    /// The same with these options.
    #[must_use]
    pub fn with_options(self, options: ClientOptions) -> Self {
        Self { options, ..self }
    }

    /// Where its tables are.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        self.endpoint.as_str()
    }

    pub(crate) fn key(&self) -> Option<(&str, &str)> {
        match &self.credential {
            Some(Credential::Key { account, key }) => Some((account, key)),
            _ => None,
        }
    }

    /// The Table service of the account. Nothing is sent.
    ///
    /// # Errors
    /// If the credential is not one, or http would go over a network.
    #[cfg(feature = "http")]
    pub fn tables(&self) -> Result<TableServiceClient, Error> {
        use std::sync::Arc;

        let store = crate::store::http::HttpStore::new(
            self.endpoint.clone(),
            self.secondary.clone(),
            self.credential.clone(),
            &self.options,
        )?;
        let client = TableServiceClient::on(Arc::new(store), Some(self.options.clone()));
        Ok(client.with_account(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::Account;

    #[test]
    fn forms_of_an_account() {
        let key = "AccountName=a;AccountKey=a2V5";
        for (text, endpoint) in [
            (key.to_owned(), "https://a.table.core.windows.net"),
            (
                format!("{key};EndpointSuffix=core.usgovcloudapi.net"),
                "https://a.table.core.usgovcloudapi.net",
            ),
            (format!("{key};TableEndpoint=http://127.0.0.1:1/a"), "http://127.0.0.1:1/a"),
            ("UseDevelopmentStorage=true".to_owned(), "http://127.0.0.1:10002/devstoreaccount1"),
            (
                "TableEndpoint=https://b.example/;SharedAccessSignature=sv=1&sig=x".to_owned(),
                "https://b.example",
            ),
        ] {
            let account = Account::from_connection_string(&text).unwrap();
            assert_eq!(account.endpoint(), endpoint, "{text}");
        }
        assert_eq!(Account::development().key().unwrap().0, "devstoreaccount1");
    }

    #[test]
    fn secrets_are_not_shown() {
        let account = Account::from_connection_string("AccountName=a;AccountKey=c2VjcmV0").unwrap();
        assert!(!format!("{account:?}").contains("c2VjcmV0"));
        let account = Account::new("https://a.b/?sv=1&sig=c2VjcmV0", None).unwrap();
        assert!(!format!("{account:?}").contains("c2VjcmV0"));
        let error = Account::from_connection_string("AccountKey=c2VjcmV0").unwrap_err();
        assert!(!format!("{error:?} {error}").contains("c2VjcmV0"));
    }
}
