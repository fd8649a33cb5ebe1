//! What of a service's signature is the service's own: which container it opens, and the text that
//! was signed. The frame around it (time, address, protocol, policy) is the same for all services.

use std::mem::take;

use tavola_core::grant::Permissions;
use tavola_core::{
    AccountName, Cut, EntityKey, KeyRange, PartitionKey, RowKey, ServiceKind, TableName,
};

use super::check::{malformed, mandatory};
use super::fields::SasFields;
use super::text::{QueueSas, TableSas};
use crate::address::Address;
use crate::api_error::ApiError;

/// The fields that signatures of all services have, as texts. Empty means absent.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) permissions: String,
    pub(super) start: String,
    pub(super) expiry: String,
    pub(super) policy: String,
    pub(super) ip: String,
    pub(super) protocol: String,
}

/// What a signature for one container of one service says beside the common fields.
#[derive(Debug)]
pub(super) struct SignedPart {
    pub(super) service: ServiceKind,
    /// The container that it opens.
    pub(super) container: String,
    pub(super) string_to_sign: String,
    /// The keys that bound it, as texts: they are looked at once the signature is known to be right.
    keys: Option<Box<TableSas>>,
}

impl SignedPart {
    /// Reads the part of a service that has signatures of its own.
    pub(super) fn read(
        service: ServiceKind,
        fields: &SasFields<'_>,
        address: &Address,
    ) -> Result<(Self, Frame), ApiError> {
        match service {
            ServiceKind::Table => table(fields, &address.account),
            ServiceKind::Queue => Ok(queue(fields, address)),
            ServiceKind::Blob => {
                Err(malformed("Signatures of containers and blobs are not served"))
            }
        }
    }

    /// The objects that it opens.
    pub(super) fn range(&self) -> Result<KeyRange, ApiError> {
        self.keys.as_deref().map_or(Ok(KeyRange::ALL), key_range)
    }

    /// The letters of `sp`, if the service has them.
    pub(super) fn permissions(&self, letters: &str) -> Result<Permissions, ApiError> {
        Permissions::of_service(self.service, letters).ok_or_else(|| {
            let what = self.service.name();
            malformed(format!("sp has a letter that a {what}'s signature cannot have"))
        })
    }
}

fn table(fields: &SasFields<'_>, account: &AccountName) -> Result<(SignedPart, Frame), ApiError> {
    let mut sas = TableSas::of(fields);
    let name = fields.given("tn").ok_or_else(|| mandatory("tn"))?;
    let table = TableName::parse(name)
        .map_err(|_| malformed(format!("tn is not the name of a table: '{name}'")))?;
    let string_to_sign = sas.string_to_sign(account);
    let frame = Frame {
        permissions: take(&mut sas.permissions),
        start: take(&mut sas.start),
        expiry: take(&mut sas.expiry),
        policy: take(&mut sas.policy),
        ip: take(&mut sas.ip),
        protocol: take(&mut sas.protocol),
    };
    let (service, container) = (ServiceKind::Table, table.as_str().to_owned());
    Ok((SignedPart { service, container, string_to_sign, keys: Some(Box::new(sas)) }, frame))
}

/// A queue's signature names no queue: it was signed for the one in the path.
fn queue(fields: &SasFields<'_>, address: &Address) -> (SignedPart, Frame) {
    let sas = QueueSas { queue: address.container().to_owned(), ..QueueSas::of(fields) };
    let string_to_sign = sas.string_to_sign(&address.account);
    let QueueSas { queue: container, permissions, start, expiry, policy, ip, protocol, .. } = sas;
    let frame = Frame { permissions, start, expiry, policy, ip, protocol };
    (SignedPart { service: ServiceKind::Queue, container, string_to_sign, keys: None }, frame)
}

/// The entities between the signed keys, both included.
fn key_range(sas: &TableSas) -> Result<KeyRange, ApiError> {
    let start = bound("spk", &sas.start_partition_key, "srk", &sas.start_row_key)?;
    let end = bound("epk", &sas.end_partition_key, "erk", &sas.end_row_key)?;
    let start = match start {
        None => Cut::Start,
        Some((partition_key, None)) => Cut::before_partition(partition_key),
        Some((partition_key, Some(row_key))) => Cut::Before(EntityKey::new(partition_key, row_key)),
    };
    let end = match end {
        None => Cut::End,
        Some((partition_key, None)) => Cut::AfterPartition(partition_key),
        Some((partition_key, Some(row_key))) => Cut::After(EntityKey::new(partition_key, row_key)),
    };
    Ok(KeyRange { start, end })
}

/// A row's key needs its partition's.
fn bound(
    partition_name: &str,
    partition_key: &str,
    row_name: &str,
    row_key: &str,
) -> Result<Option<(PartitionKey, Option<RowKey>)>, ApiError> {
    let not_a_key = |name: &str| malformed(format!("{name} is not a key"));
    match (partition_key, row_key) {
        ("", "") => Ok(None),
        ("", _) => Err(malformed(format!("{row_name} needs {partition_name}"))),
        (partition_key, row_key) => {
            let partition_key =
                PartitionKey::new(partition_key).map_err(|_| not_a_key(partition_name))?;
            let row_key =
                Some(row_key).filter(|text| !text.is_empty()).map(RowKey::new).transpose();
            Ok(Some((partition_key, row_key.map_err(|_| not_a_key(row_name))?)))
        }
    }
}
