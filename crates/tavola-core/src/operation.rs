//! The six operations on one entity, as four: an upsert is a replace or merge without a
//! precondition.

use crate::domain_error::DomainError;
use crate::entity::{Properties, check_entity_bytes};
use crate::etag::{ETag, Timestamp};
use crate::key::{EntityKey, PartitionKey, RowKey};

/// What `If-Match` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Precondition {
    /// No `If-Match`: write whether or not the entity exists.
    None,
    /// `If-Match: *`: the entity must exist.
    Exists,
    /// `If-Match: W/"…"`: the entity must be at exactly this version.
    Version(ETag),
}

impl Precondition {
    /// Checks the current version; `None` if the entity does not exist.
    ///
    /// # Errors
    /// [`DomainError::EntityNotFound`] or [`DomainError::ConditionNotMet`].
    pub fn check(&self, current: Option<Timestamp>) -> Result<(), DomainError> {
        match (self, current) {
            (Self::None, _) | (Self::Exists, Some(_)) => Ok(()),
            (Self::Exists | Self::Version(_), None) => Err(DomainError::EntityNotFound),
            (Self::Version(wanted), Some(version)) if wanted.names(version) => Ok(()),
            (Self::Version(_), Some(_)) => Err(DomainError::ConditionNotMet),
        }
    }
}

/// The row of a partition that an operation writes, with its checked properties.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEntity {
    row_key: RowKey,
    properties: Properties,
}

impl NewEntity {
    /// Checks the entity's size with the partition it is for.
    ///
    /// # Errors
    /// [`DomainError::EntityTooLarge`].
    pub fn new(
        key: EntityKey,
        properties: Properties,
    ) -> Result<(PartitionKey, Self), DomainError> {
        check_entity_bytes(&key, &properties)?;
        Ok((key.partition_key, Self { row_key: key.row_key, properties }))
    }

    /// The row.
    #[must_use]
    pub fn row_key(&self) -> &RowKey {
        &self.row_key
    }

    /// What to write.
    #[must_use]
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Takes the value apart.
    #[must_use]
    pub fn into_parts(self) -> (RowKey, Properties) {
        (self.row_key, self.properties)
    }
}

/// One operation on one entity of a partition.
#[derive(Debug, Clone, PartialEq)]
pub enum EntityOperation {
    /// The entity must not exist.
    Insert(NewEntity),
    /// The whole property set. Without a precondition: insert or replace.
    Replace(NewEntity, Precondition),
    /// The given properties. Without a precondition: insert or merge.
    Merge(NewEntity, Precondition),
    /// The entity goes.
    Delete(RowKey, Precondition),
}

impl EntityOperation {
    /// The row that the operation is about.
    #[must_use]
    pub fn row_key(&self) -> &RowKey {
        match self {
            Self::Insert(new) | Self::Replace(new, _) | Self::Merge(new, _) => &new.row_key,
            Self::Delete(row_key, _) => row_key,
        }
    }

    /// True if what the operation does depends on the row as it stands. What replaces a row
    /// whatever it is need not be shown any.
    #[must_use]
    pub fn depends_on_row(&self) -> bool {
        !matches!(self, Self::Replace(_, Precondition::None))
    }

    /// The operation's name in logs and metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Insert(_) => "InsertEntity",
            Self::Replace(_, Precondition::None) => "InsertOrReplaceEntity",
            Self::Replace(..) => "UpdateEntity",
            Self::Merge(_, Precondition::None) => "InsertOrMergeEntity",
            Self::Merge(..) => "MergeEntity",
            Self::Delete(..) => "DeleteEntity",
        }
    }
}
