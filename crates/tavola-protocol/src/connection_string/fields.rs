//! The fields of a connection string: those that mean something here, and what they say.

use tavola_core::{AccountName, ServiceKind};
use zeroize::Zeroizing;

use super::{
    ConnectionStringError, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Endpoint, Secret, ServiceEndpoint,
};
use crate::auth::{AccountKey, SasFields};

/// The public cloud, if nothing else is said.
const DEFAULT_SUFFIX: &str = "core.windows.net";
/// Where emulators are, if nothing else is said.
const DEVELOPMENT_HOST: &str = "http://127.0.0.1";
/// Far above any string of use.
const BYTES_MAX: usize = 64 * 1024;

pub(super) const PROTOCOL: &str = "DefaultEndpointsProtocol";
pub(super) const ACCOUNT_NAME: &str = "AccountName";
pub(super) const ACCOUNT_KEY: &str = "AccountKey";
pub(super) const SIGNATURE: &str = "SharedAccessSignature";
const SUFFIX: &str = "EndpointSuffix";
pub(super) const DEVELOPMENT: &str = "UseDevelopmentStorage";
const DEVELOPMENT_PROXY: &str = "DevelopmentStorageProxyUri";

/// The fields of an account, as they are usually written. Names are compared without case.
const ACCOUNT_FIELDS: [&str; 7] =
    [PROTOCOL, ACCOUNT_NAME, ACCOUNT_KEY, SIGNATURE, SUFFIX, DEVELOPMENT, DEVELOPMENT_PROXY];

/// The fields of one service.
pub(super) struct ServiceFields {
    service: ServiceKind,
    pub(super) endpoint: &'static str,
    pub(super) secondary: &'static str,
}

pub(super) const SERVICES: [ServiceFields; ServiceKind::ALL.len()] = [
    ServiceFields {
        service: ServiceKind::Blob,
        endpoint: "BlobEndpoint",
        secondary: "BlobSecondaryEndpoint",
    },
    ServiceFields {
        service: ServiceKind::Queue,
        endpoint: "QueueEndpoint",
        secondary: "QueueSecondaryEndpoint",
    },
    ServiceFields {
        service: ServiceKind::Table,
        endpoint: "TableEndpoint",
        secondary: "TableSecondaryEndpoint",
    },
];

impl ServiceFields {
    pub(super) const fn of(service: ServiceKind) -> &'static Self {
        let [blob, queue, table] = &SERVICES;
        match service {
            ServiceKind::Blob => blob,
            ServiceKind::Queue => queue,
            ServiceKind::Table => table,
        }
    }
}

/// One `Name=value`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) value: Zeroizing<String>,
}

impl Field {
    pub(super) fn new(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), value: Zeroizing::new(value.to_owned()) }
    }
}

pub(super) fn read_fields(text: &str) -> Result<Vec<Field>, ConnectionStringError> {
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

/// The name of a field that means something here.
fn known_name(name: &str) -> Option<&'static str> {
    let of_services = SERVICES.iter().flat_map(|fields| [fields.endpoint, fields.secondary]);
    ACCOUNT_FIELDS.into_iter().chain(of_services).find(|known| known.eq_ignore_ascii_case(name))
}

/// The fields that mean something here. An empty one is as good as none.
pub(super) struct Known<'a>(Vec<(&'static str, &'a str)>);

impl<'a> Known<'a> {
    pub(super) fn of(fields: &'a [Field]) -> Result<Self, ConnectionStringError> {
        let mut known: Vec<(&'static str, &'a str)> = Vec::new();
        for field in fields {
            let Some(name) = known_name(&field.name) else { continue };
            if known.iter().any(|(other, _)| *other == name) {
                return Err(ConnectionStringError::Twice(name));
            }
            known.push((name, field.value.as_str()));
        }
        Ok(Self(known))
    }

    pub(super) fn get(&self, name: &'static str) -> Option<&'a str> {
        let (_, value) = self.0.iter().find(|(known, _)| *known == name)?;
        Some(*value).filter(|value| !value.is_empty())
    }

    pub(super) fn account(&self) -> Result<Option<AccountName>, ConnectionStringError> {
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

    /// Where each service is that the string names, or that follows from the account.
    pub(super) fn endpoints(
        &self,
        account: Option<&AccountName>,
    ) -> Result<Vec<ServiceEndpoint>, ConnectionStringError> {
        let mut endpoints = Vec::new();
        for ServiceFields { service, endpoint, .. } in &SERVICES {
            match (self.endpoint(endpoint)?, account) {
                (Some(endpoint), _) => endpoints.push((*service, endpoint)),
                (None, Some(account)) => {
                    endpoints.push((*service, self.derived_endpoint(*service, account)?));
                }
                (None, None) => {}
            }
        }
        Ok(endpoints)
    }

    /// Where the read-only copies are that the string names.
    pub(super) fn secondary_endpoints(
        &self,
    ) -> Result<Vec<ServiceEndpoint>, ConnectionStringError> {
        let of = |fields: &ServiceFields| {
            let endpoint = self.endpoint(fields.secondary).transpose()?;
            Some(endpoint.map(|endpoint| (fields.service, endpoint)))
        };
        SERVICES.iter().filter_map(of).collect()
    }

    /// What the libraries do without an endpoint.
    fn derived_endpoint(
        &self,
        service: ServiceKind,
        account: &AccountName,
    ) -> Result<Endpoint, ConnectionStringError> {
        let scheme = self.get(PROTOCOL).unwrap_or("https").to_ascii_lowercase();
        if !["http", "https"].contains(&scheme.as_str()) {
            return Err(ConnectionStringError::NotAProtocol);
        }
        let suffix = self.get(SUFFIX).unwrap_or(DEFAULT_SUFFIX);
        let endpoint =
            Endpoint::parse(&format!("{scheme}://{account}.{}.{suffix}", service.name()));
        endpoint.map_err(|reason| ConnectionStringError::NotAnEndpoint { name: SUFFIX, reason })
    }

    /// A key counts only with its account. Without any endpoint that is not what is missed first.
    pub(super) fn secret(&self, needs_account: bool) -> Result<Secret, ConnectionStringError> {
        match (self.get(ACCOUNT_KEY), self.get(SIGNATURE)) {
            (Some(_), Some(_)) => Err(ConnectionStringError::KeyAndSignature),
            (None, None) => Err(ConnectionStringError::SecretMissing),
            (Some(_), None) if needs_account => Err(ConnectionStringError::AccountMissing),
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

    /// What `UseDevelopmentStorage` stands for: account, endpoint of each service, key.
    pub(super) fn development(
        &self,
        value: &str,
    ) -> Result<(AccountName, Vec<ServiceEndpoint>, Secret), ConnectionStringError> {
        if !value.eq_ignore_ascii_case("true") {
            return Err(ConnectionStringError::NotDevelopment);
        }
        let of_services = SERVICES.iter().map(|fields| fields.endpoint);
        let mut stands_for = [ACCOUNT_NAME, ACCOUNT_KEY, SIGNATURE].into_iter().chain(of_services);
        if stands_for.any(|name| self.get(name).is_some()) {
            return Err(ConnectionStringError::DevelopmentAndMore);
        }
        let account = AccountName::parse(DEVELOPMENT_ACCOUNT)
            .expect("the development account's name is legal");
        let proxy = self.endpoint(DEVELOPMENT_PROXY)?;
        // As the libraries do: of the proxy's address only scheme and host count.
        let base = proxy.as_ref().map_or(DEVELOPMENT_HOST, Endpoint::scheme_and_host);
        let at = |service: ServiceKind| {
            let endpoint = Endpoint::parse(&format!("{base}:{}/{account}", service.default_port()));
            let wrong =
                |reason| ConnectionStringError::NotAnEndpoint { name: DEVELOPMENT_PROXY, reason };
            endpoint.map(|endpoint| (service, endpoint)).map_err(wrong)
        };
        let endpoints = ServiceKind::ALL.into_iter().map(at).collect::<Result<_, _>>()?;
        let secret = Secret::Key(Zeroizing::new(DEVELOPMENT_KEY.to_owned()));
        Ok((account, endpoints, secret))
    }
}
