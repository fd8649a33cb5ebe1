//! What is signed, and the query string that carries it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tavola_core::{AccountName, ServiceKind};

use super::fields::{FieldsError, SasFields};
use crate::auth::shared_key::AccountKey;

/// From this version on the resource of a service's signature begins with the service.
const SERVICE_IN_RESOURCE: &str = "2015-02-21";
/// From this version on addresses and protocols can be signed, and accounts.
pub(super) const ADDRESS_AND_PROTOCOL: &str = "2015-04-05";
/// From this version on an account's signature covers the encryption scope.
pub(super) const ENCRYPTION_SCOPE: &str = "2020-12-06";

/// What stays as it is in the value of a query parameter.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A signature for the entities of one table, as texts. Empty means absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableSas {
    /// `sv`
    pub version: String,
    /// `tn`
    pub table: String,
    /// `sp`, letters of `raud`
    pub permissions: String,
    /// `st`
    pub start: String,
    /// `se`
    pub expiry: String,
    /// `si`
    pub policy: String,
    /// `sip`
    pub ip: String,
    /// `spr`
    pub protocol: String,
    /// `spk`
    pub start_partition_key: String,
    /// `srk`
    pub start_row_key: String,
    /// `epk`
    pub end_partition_key: String,
    /// `erk`
    pub end_row_key: String,
}

impl TableSas {
    /// The fields of a query string, whether or not they hold.
    ///
    /// # Errors
    /// If they cannot be read at all.
    pub fn read(query: &str) -> Result<Self, FieldsError> {
        SasFields::parse(query).map(|fields| Self::of(&fields))
    }

    pub(super) fn of(fields: &SasFields<'_>) -> Self {
        let text = |name| fields.text(name).to_owned();
        Self {
            version: text("sv"),
            table: text("tn"),
            permissions: text("sp"),
            start: text("st"),
            expiry: text("se"),
            policy: text("si"),
            ip: text("sip"),
            protocol: text("spr"),
            start_partition_key: text("spk"),
            start_row_key: text("srk"),
            end_partition_key: text("epk"),
            end_row_key: text("erk"),
        }
    }

    /// The text that is signed. Versions compare as texts.
    #[must_use]
    pub fn string_to_sign(&self, account: &AccountName) -> String {
        let table = self.table.to_ascii_lowercase();
        let resource = signed_resource(ServiceKind::Table, &self.version, account, &table);
        let mut lines =
            vec![&*self.permissions, &self.start, &self.expiry, &resource, &self.policy];
        if self.version.as_str() >= ADDRESS_AND_PROTOCOL {
            lines.extend([&*self.ip, &self.protocol]);
        }
        lines.extend([&*self.version, &self.start_partition_key, &self.start_row_key]);
        lines.extend([&*self.end_partition_key, &self.end_row_key]);
        lines.join("\n")
    }

    /// The query string, signed.
    #[must_use]
    pub fn signed(&self, account: &AccountName, key: &AccountKey) -> String {
        let signature = key.sign(&self.string_to_sign(account));
        query_string(&[
            ("sv", &self.version),
            ("tn", &self.table),
            ("sp", &self.permissions),
            ("st", &self.start),
            ("se", &self.expiry),
            ("si", &self.policy),
            ("sip", &self.ip),
            ("spr", &self.protocol),
            ("spk", &self.start_partition_key),
            ("srk", &self.start_row_key),
            ("epk", &self.end_partition_key),
            ("erk", &self.end_row_key),
            ("sig", &signature),
        ])
    }
}

/// A signature for the messages of one queue, as texts. Empty means absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueSas {
    /// `sv`
    pub version: String,
    /// The queue; no field carries it, the path does.
    pub queue: String,
    /// `sp`, letters of `raup`
    pub permissions: String,
    /// `st`
    pub start: String,
    /// `se`
    pub expiry: String,
    /// `si`
    pub policy: String,
    /// `sip`
    pub ip: String,
    /// `spr`
    pub protocol: String,
}

impl QueueSas {
    pub(super) fn of(fields: &SasFields<'_>) -> Self {
        let text = |name| fields.text(name).to_owned();
        Self {
            version: text("sv"),
            queue: String::new(),
            permissions: text("sp"),
            start: text("st"),
            expiry: text("se"),
            policy: text("si"),
            ip: text("sip"),
            protocol: text("spr"),
        }
    }

    /// The text that is signed. Versions compare as texts.
    #[must_use]
    pub fn string_to_sign(&self, account: &AccountName) -> String {
        let resource = signed_resource(ServiceKind::Queue, &self.version, account, &self.queue);
        let mut lines =
            vec![&*self.permissions, &self.start, &self.expiry, &resource, &self.policy];
        if self.version.as_str() >= ADDRESS_AND_PROTOCOL {
            lines.extend([&*self.ip, &self.protocol]);
        }
        lines.push(&self.version);
        lines.join("\n")
    }
}

/// A signature for an account, as texts. Empty means absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountSas {
    /// `sv`
    pub version: String,
    /// `ss`, letters of `bqtf`
    pub services: String,
    /// `srt`, letters of `sco`
    pub resource_types: String,
    /// `sp`
    pub permissions: String,
    /// `st`
    pub start: String,
    /// `se`
    pub expiry: String,
    /// `sip`
    pub ip: String,
    /// `spr`
    pub protocol: String,
    /// `ses`
    pub encryption_scope: String,
}

impl AccountSas {
    /// The fields of a query string, whether or not they hold.
    ///
    /// # Errors
    /// If they cannot be read at all.
    pub fn read(query: &str) -> Result<Self, FieldsError> {
        SasFields::parse(query).map(|fields| Self::of(&fields))
    }

    pub(super) fn of(fields: &SasFields<'_>) -> Self {
        let text = |name| fields.text(name).to_owned();
        Self {
            version: text("sv"),
            services: text("ss"),
            resource_types: text("srt"),
            permissions: text("sp"),
            start: text("st"),
            expiry: text("se"),
            ip: text("sip"),
            protocol: text("spr"),
            encryption_scope: text("ses"),
        }
    }

    /// The text that is signed: every line ends, the last one too.
    #[must_use]
    pub fn string_to_sign(&self, account: &AccountName) -> String {
        let mut lines =
            vec![account.as_str(), &self.permissions, &self.services, &self.resource_types];
        lines.extend([&*self.start, &self.expiry, &self.ip, &self.protocol, &self.version]);
        if self.version.as_str() >= ENCRYPTION_SCOPE {
            lines.push(&self.encryption_scope);
        }
        lines.iter().flat_map(|line| [line, "\n"]).collect()
    }

    /// The query string, signed.
    #[must_use]
    pub fn signed(&self, account: &AccountName, key: &AccountKey) -> String {
        let signature = key.sign(&self.string_to_sign(account));
        query_string(&[
            ("sv", &self.version),
            ("ss", &self.services),
            ("srt", &self.resource_types),
            ("sp", &self.permissions),
            ("st", &self.start),
            ("se", &self.expiry),
            ("sip", &self.ip),
            ("spr", &self.protocol),
            ("ses", &self.encryption_scope),
            ("sig", &signature),
        ])
    }
}

/// The container as a service's signature names it. Versions compare as texts.
fn signed_resource(
    service: ServiceKind,
    version: &str,
    account: &AccountName,
    container: &str,
) -> String {
    if version >= SERVICE_IN_RESOURCE {
        format!("/{}/{account}/{container}", service.name())
    } else {
        format!("/{account}/{container}")
    }
}

fn query_string(fields: &[(&str, &str)]) -> String {
    let given = fields.iter().filter(|(_, value)| !value.is_empty());
    given
        .map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, PLAIN)))
        .collect::<Vec<_>>()
        .join("&")
}
