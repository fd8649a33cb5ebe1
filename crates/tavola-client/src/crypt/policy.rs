//! What is encrypted, and with whose keys.

use std::collections::BTreeSet;
use std::fmt;
#[cfg(feature = "encrypt")]
use std::sync::Arc;

use tavola_core::request::Select;
use tavola_core::{EdmRef, EntityOperation, PartitionKey, Properties};
use tavola_protocol::table::entity_json::DecodedEntity;

#[cfg(feature = "encrypt")]
use super::OWN_PREFIX;
#[cfg(feature = "encrypt")]
use super::keys::KeyWrap;
use super::{Said, encrypted_already, fault, names, said};
#[cfg(feature = "encrypt")]
use crate::call::Call;
#[cfg(feature = "encrypt")]
use crate::client::{TableClient, TableServiceClient};
use crate::engine::Operation;
#[cfg(feature = "encrypt")]
use crate::entity::Entity;
use crate::error::{EncryptionFault, Error, Outcome};
#[cfg(feature = "encrypt")]
use crate::options::ClientOptions;
#[cfg(feature = "encrypt")]
use crate::query::Query;

/// An envelope without the names in it, as base64: RSA with 4096 bits and a long key id.
const ENVELOPE_BYTES: usize = 1400;

#[cfg(feature = "encrypt")]
type Chooses = dyn Fn(&str, &str, &str) -> bool + Send + Sync;

/// How a client encrypts: keys, and for entities without a type a rule that chooses what is
/// encrypted. It is said to a client ([`crate::ClientOptions::encryption`]), to a handle
/// ([`crate::TableClient::with_encryption`]) or to one call ([`crate::Call::encryption`]).
///
/// A reader needs the keys only: what is stored says what is encrypted.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::{
///     ClientOptions, DynEntity, Encryption, LocalKeys, TableServiceClient, fresh_key,
/// };
///
/// let key = fresh_key()?;
/// let keys = LocalKeys::new("2026-11", &key);
/// let rule = |_partition: &str, _row: &str, name: &str| name == "Ssn";
/// let encrypting = ClientOptions::default().encryption(Encryption::new(keys.clone()).rule(rule));
///
/// let store = tavola_local::in_memory();
/// let table = TableServiceClient::on(store.clone(), Some(encrypting)).table_client("people");
/// table.create().await?;
/// let mut ann = DynEntity::new("Smith", "1");
/// ann.set("Ssn", "078-05-1120");
/// table.insert(&ann).await?;
///
/// // A client without keys sees bytes.
/// let plain = TableServiceClient::on(store, None).table_client("people");
/// assert!(plain.get::<DynEntity>(("Smith", "1")).await?.unwrap().get::<String>("Ssn").is_err());
/// // A reader needs the keys, and no rule.
/// let reader = plain.with_encryption(Encryption::new(keys));
/// let found = reader.get::<DynEntity>(("Smith", "1")).await?.unwrap();
/// assert_eq!(found.get::<String>("Ssn")?, "078-05-1120");
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "encrypt")]
#[derive(Clone)]
pub struct Encryption {
    pub(super) keys: Arc<dyn KeyWrap>,
    rule: Option<Arc<Chooses>>,
    require: bool,
}

#[cfg(feature = "encrypt")]
impl Encryption {
    /// Encrypts with these keys what types declare with `#[entity(encrypt)]`.
    #[must_use]
    pub fn new(keys: impl KeyWrap) -> Self {
        Self { keys: Arc::new(keys), rule: None, require: true }
    }

    /// Encrypts also what the rule chooses by PartitionKey, RowKey and the property's name. Names
    /// that begin with `tv_` are the library's own and never asked for.
    #[must_use]
    pub fn rule(self, rule: impl Fn(&str, &str, &str) -> bool + Send + Sync + 'static) -> Self {
        Self { rule: Some(Arc::new(rule)), ..self }
    }

    /// Whether a plain value is refused where the type or the rule says that it is encrypted. It is
    /// (`true`) unless something else is said: otherwise anybody with write access to the table
    /// could put another value in its place. `false` is for the time in which a table is changed over.
    #[must_use]
    pub fn require(self, require: bool) -> Self {
        Self { require, ..self }
    }
}

#[cfg(feature = "encrypt")]
impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encryption")
            .field("has_rule", &self.rule.is_some())
            .field("require", &self.require)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "encrypt")]
impl ClientOptions {
    /// Encrypts and decrypts with these keys.
    #[must_use]
    pub fn encryption(self, encryption: Encryption) -> Self {
        Self { encryption: Policy::new(encryption), ..self }
    }
}

#[cfg(feature = "encrypt")]
impl TableServiceClient {
    /// The same service, with the same connections, for calls that encrypt and decrypt so.
    #[must_use]
    pub fn with_encryption(&self, encryption: Encryption) -> Self {
        let engine = Arc::new(self.engine.with_policy(Policy::new(encryption)));
        Self { engine, account: self.account.clone() }
    }
}

#[cfg(feature = "encrypt")]
impl TableClient {
    /// The same table, with the same connections, for calls that encrypt and decrypt so.
    #[must_use]
    pub fn with_encryption(&self, encryption: Encryption) -> Self {
        Self { service: self.service.with_encryption(encryption), name: self.name.clone() }
    }
}

#[cfg(feature = "encrypt")]
impl<R> Call<'_, R> {
    /// Encrypts and decrypts so in this call.
    pub fn encryption(self, encryption: Encryption) -> Self {
        self.with_policy(Policy::new(encryption))
    }
}

#[cfg(feature = "encrypt")]
impl<E: Entity, T: Send + 'static> Query<'_, E, T> {
    /// Decrypts with these keys in this query.
    pub fn encryption(self, encryption: Encryption) -> Self {
        self.with_policy(Policy::new(encryption))
    }
}

/// Whether and how a call encrypts.
#[derive(Clone, Default)]
pub(crate) struct Policy(#[cfg(feature = "encrypt")] Option<Arc<Encryption>>);

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.has_keys() { "Encryption(***)" } else { "None" })
    }
}

#[cfg(feature = "encrypt")]
impl Policy {
    pub(super) fn new(encryption: Encryption) -> Self {
        Self(Some(Arc::new(encryption)))
    }

    pub(super) fn encryption(&self) -> Option<&Encryption> {
        self.0.as_deref()
    }

    pub(crate) fn has_keys(&self) -> bool {
        self.0.is_some()
    }

    /// True if plain values are read where encrypted ones are expected.
    pub(crate) fn is_lenient(&self) -> bool {
        self.0.as_ref().is_some_and(|encryption| !encryption.require)
    }

    /// True if the rule says that this property is encrypted.
    pub(crate) fn chooses(&self, partition: &str, row: &str, name: &str) -> bool {
        let rule = self.0.as_ref().and_then(|encryption| encryption.rule.as_ref());
        let is_key = tavola_core::entity::is_system_property(name);
        let is_open = is_key || name.starts_with(OWN_PREFIX);
        !is_open && rule.is_some_and(|rule| rule(partition, row, name))
    }

    async fn seal_names(
        &self,
        partition: &PartitionKey,
        operation: Operation,
        names: &BTreeSet<String>,
    ) -> Result<Operation, Error> {
        let encryption = self.encryption().ok_or_else(no_keys_to_write)?;
        super::rows::seal(encryption, partition, operation, names).await
    }

    /// The entity with the values of its encrypted properties; as it is stored if there are no keys.
    pub(crate) async fn open(
        &self,
        entity: DecodedEntity,
        select: &Select,
    ) -> Result<DecodedEntity, Error> {
        match self.encryption() {
            Some(_) => super::rows::open(self, entity, select).await,
            None => Ok(entity),
        }
    }
}

#[cfg(not(feature = "encrypt"))]
#[allow(clippy::unused_async, clippy::unused_self, reason = "as the ones that encrypt")]
impl Policy {
    pub(crate) fn has_keys(&self) -> bool {
        false
    }

    pub(crate) fn is_lenient(&self) -> bool {
        false
    }

    pub(crate) fn chooses(&self, _partition: &str, _row: &str, _name: &str) -> bool {
        false
    }

    pub(crate) async fn open(
        &self,
        entity: DecodedEntity,
        _select: &Select,
    ) -> Result<DecodedEntity, Error> {
        Ok(entity)
    }

    async fn seal_names(
        &self,
        _partition: &PartitionKey,
        _operation: Operation,
        _names: &BTreeSet<String>,
    ) -> Result<Operation, Error> {
        Err(no_keys_to_write())
    }
}

impl Policy {
    /// True if something of the operation is to be encrypted, or to be refused for that.
    pub(crate) fn concerns(&self, partition: &str, operation: &Operation) -> bool {
        let row = operation.operation.row_key().as_str();
        properties(operation).is_some_and(|properties| {
            matches!(said(properties), Said::Names(_))
                || properties.iter().any(|(name, _)| self.chooses(partition, row, name))
        })
    }

    /// The operation with its values encrypted where the entity or the rule says so. A merge of
    /// such values is refused.
    pub(crate) async fn seal(
        &self,
        partition: &PartitionKey,
        operation: Operation,
    ) -> Result<Operation, Error> {
        let Some(properties) = properties(&operation) else { return Ok(operation) };
        let row = operation.operation.row_key().as_str();
        if !self.concerns(partition.as_str(), &operation) {
            return Ok(operation);
        }
        let chosen = self.chosen(partition.as_str(), row, properties);
        if let Said::Raw = said(properties) {
            return Err(encrypted_already());
        }
        if matches!(operation.operation, EntityOperation::Merge(..)) {
            return Err(merge_of_encrypted());
        }
        if let Some((id, _)) = operation.write_id.as_ref().filter(|(id, _)| chosen.contains(id)) {
            let text = format!("`{id}` holds the id of the write, which cannot be encrypted");
            return Err(fault(EncryptionFault::WriteId, Outcome::NotSent, text));
        }
        self.seal_names(partition, operation, &chosen).await
    }

    /// What is encrypted of the properties, by what they say or by the rule.
    pub(crate) fn chosen(
        &self,
        partition: &str,
        row: &str,
        properties: &Properties,
    ) -> BTreeSet<String> {
        let said: Vec<&str> = match said(properties) {
            Said::Names(text) => names(text).collect(),
            Said::Nothing | Said::Raw => Vec::new(),
        };
        let all = properties.iter().map(|(name, _)| name);
        all.filter(|name| said.contains(name) || self.chooses(partition, row, name))
            .map(str::to_owned)
            .collect()
    }

    /// What an operation takes in a request for its encryption, generously.
    pub(crate) fn extra_bytes(&self, partition: &str, operation: &Operation) -> usize {
        let Some(properties) = properties(operation) else { return 0 };
        let row = operation.operation.row_key().as_str();
        let chosen = self.chosen(partition, row, properties);
        if chosen.is_empty() {
            return 0;
        }
        let base64 = |bytes: usize| bytes.div_ceil(3) * 4;
        let one = |name: &String| {
            // What it takes as it is, and how many bytes there are to encrypt.
            let (plain, bytes) = match properties.get(name) {
                Some(EdmRef::String(text)) => (text.as_str().len(), text.as_str().len()),
                Some(EdmRef::Binary(bytes)) => (base64(bytes.len()), bytes.len()),
                _ => (0, 16),
            };
            // With nonce, tag and the name of its type; its name stands in the envelope too.
            base64(bytes + 28) + base64(name.len() + 3) + name.len() + 64 - plain
        };
        ENVELOPE_BYTES + chosen.iter().map(one).sum::<usize>()
    }
}

/// What an operation writes.
pub(super) fn properties(operation: &Operation) -> Option<&Properties> {
    match &operation.operation {
        EntityOperation::Insert(new)
        | EntityOperation::Replace(new, _)
        | EntityOperation::Merge(new, _) => Some(new.properties()),
        EntityOperation::Delete(..) => None,
    }
}

fn merge_of_encrypted() -> Error {
    let text = "an encrypted entity cannot be merged: the properties that stay are under the old \
                content key, which the merge would overwrite, and they would be lost; read the \
                entity and replace it, or use `modify`";
    fault(EncryptionFault::MergeOfEncrypted, Outcome::NotSent, text)
}

pub(super) fn no_keys_to_write() -> Error {
    let text = "the entity has properties to encrypt and the client has no keys; give it some \
                with `ClientOptions::encryption`";
    fault(EncryptionFault::NoKeys, Outcome::NotSent, text)
}
