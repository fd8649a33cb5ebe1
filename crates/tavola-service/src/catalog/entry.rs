//! One resource, and its row.

use tavola_core::{
    AccessPolicy, AccountName, EdmValue, EntityKey, EntityOperation, EntityView, RowKey, TableId,
    Timestamp,
};
use tavola_store::{Row, Store, StoreError};

use super::kind::{Attributes, ResourceKind};
use super::policies;
use crate::error::ServiceError;
use crate::record::{
    Record, corrupt, date_time, int64, partition_key, require, row_key, text, unread,
};
use crate::system_rows::{put, unchanged_since};

const MODIFIED_PROPERTY: &str = "Modified";

/// A resource that lives.
#[derive(Debug, Clone)]
pub struct Entry<K: ResourceKind> {
    name: K::Name,
    pub(super) id: TableId,
    /// Its access policies.
    pub policies: Vec<AccessPolicy>,
    /// What its kind keeps beside them.
    pub attributes: K::Attributes,
    /// The version of its row.
    pub(super) version: Timestamp,
    /// When it was last modified, if its row has changed since without a modification.
    modified_before: Option<Timestamp>,
}

/// Whether a change is one that clients see as a modification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastModified {
    /// It is: [`Entry::modified`] becomes the time of the change.
    Advances,
    /// It is not, as a lease on a container.
    Stays,
}

impl<K: ResourceKind> Entry<K> {
    /// One that is not written yet.
    pub(super) fn new(name: K::Name, id: TableId, attributes: K::Attributes) -> Self {
        let (policies, version) = (Vec::new(), Timestamp::MIN);
        Self { name, id, policies, attributes, version, modified_before: None }
    }

    /// In the case in which it was created.
    #[must_use]
    pub fn name(&self) -> &K::Name {
        &self.name
    }

    /// The same, of an entry that is not needed any more.
    #[must_use]
    pub fn into_name(self) -> K::Name {
        self.name
    }

    /// The table of the store in which its content is.
    #[must_use]
    pub fn id(&self) -> TableId {
        self.id
    }

    /// When it was last modified; each modification has another time.
    #[must_use]
    pub fn modified(&self) -> Timestamp {
        self.modified_before.unwrap_or(self.version)
    }

    /// The same at the version at which it was written.
    pub(super) fn at(self, version: Option<Timestamp>) -> Self {
        Self { version: version.unwrap_or(self.version), ..self }
    }

    /// Writes it as a new one.
    pub(super) fn insert(&self, account: &AccountName) -> Result<EntityOperation, ServiceError> {
        let key = key::<K>(account, &self.name);
        Ok(EntityOperation::Insert(self.record().into_entity(key)?))
    }

    /// Writes it over the version that it was read at.
    pub(super) fn replace(
        &mut self,
        account: &AccountName,
        last_modified: LastModified,
    ) -> Result<EntityOperation, ServiceError> {
        self.modified_before = match last_modified {
            LastModified::Advances => None,
            LastModified::Stays => Some(self.modified()),
        };
        let entity = self.record().into_entity(key::<K>(account, &self.name))?;
        Ok(EntityOperation::Replace(entity, unchanged_since(self.version)))
    }

    fn record(&self) -> Record {
        let mut record = Record::default();
        record.set_text("Name", K::text(&self.name));
        record.set("Id", EdmValue::Int64(self.id.number() as i64));
        policies::write(&self.policies, &mut record);
        self.attributes.write(&mut record);
        if let Some(modified) = self.modified_before {
            record.set(MODIFIED_PROPERTY, EdmValue::DateTime(modified.date_time()));
        }
        record
    }

    /// Reads a row of this kind.
    pub(crate) fn read(row: &Row) -> Result<Self, StoreError> {
        let name = require(row, "Name", |value| text(value).and_then(K::parse))?;
        let id = TableId::new(require(row, "Id", int64)? as u64);
        let modified_before = match row.property(MODIFIED_PROPERTY) {
            Some(value) => {
                let at = date_time(value).ok_or_else(|| corrupt(row, MODIFIED_PROPERTY))?;
                Some(Timestamp::new(at))
            }
            None => None,
        };
        let (policies, attributes) = (policies::read(row), K::Attributes::read(row)?);
        Ok(Self { name, id, policies, attributes, version: row.timestamp(), modified_before })
    }

    /// Names of properties that the entry does not explain: reading is lenient, an audit is not.
    pub(crate) fn unread(&self, row: &Row) -> Vec<String> {
        unread(row, &self.record())
    }
}

/// Where a resource is in an account's partition.
pub(super) fn key<K: ResourceKind>(account: &AccountName, name: &K::Name) -> EntityKey {
    EntityKey::new(partition_key(account), name_row_key::<K>(name))
}

pub(crate) fn name_row_key<K: ResourceKind>(name: &K::Name) -> RowKey {
    row_key(format!("{}{}", K::PREFIX, K::fold(K::text(name))))
}

/// Adds a resource whose rows are there already, to a store that nobody serves.
pub(crate) async fn add<K: ResourceKind>(
    store: &dyn Store,
    account: &AccountName,
    name: K::Name,
    id: TableId,
    attributes: K::Attributes,
    now: Timestamp,
) -> Result<(), ServiceError> {
    let key = key::<K>(account, &name);
    let insert = Entry::<K>::new(name, id, attributes).insert(account)?;
    put(store, TableId::CATALOG, insert, key, now).await
}
