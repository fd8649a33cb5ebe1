//! The key of one entity.

use std::fmt;
use std::marker::PhantomData;

use tavola_core::key::KeyError;
use tavola_core::limits::KEY_UTF16_UNITS_MAX;

use super::escape::{self, AFTER_TERMINATOR};
use super::part::Fault;
use super::range::{KeyRange, Span, Spans};
use crate::entity::{Entity, Stored};
use crate::error::{Error, Rule};

/// PartitionKey and RowKey of one entity. One that exists is legal.
///
/// ```
/// use tavola_client::EntityKey;
///
/// let key = EntityKey::new("Sales", "empid_000212")?;
/// assert_eq!(key.to_string(), "('Sales', 'empid_000212')");
/// assert!(EntityKey::new("R/D", "1").is_err());
/// # Ok::<(), tavola_client::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntityKey(tavola_core::EntityKey);

impl EntityKey {
    /// Checks the rules of both keys.
    ///
    /// # Errors
    /// If one is longer than 512 UTF-16 units or has a character that no key may have.
    pub fn new(partition: impl Into<String>, row: impl Into<String>) -> Result<Self, Error> {
        Self::checked(partition.into(), row.into()).map_err(Into::into)
    }

    pub(super) fn checked(partition: String, row: String) -> Result<Self, Fault> {
        check("PartitionKey", &partition)?;
        check("RowKey", &row)?;
        let fault = |error: KeyError| Fault {
            rule: Rule::KeyCharacter,
            sizes: None,
            text: error.to_string(),
        };
        let partition = tavola_core::PartitionKey::new(partition).map_err(fault)?;
        let row = tavola_core::RowKey::new(row).map_err(fault)?;
        Ok(Self(tavola_core::EntityKey::new(partition, row)))
    }

    /// The PartitionKey.
    #[must_use]
    pub fn partition(&self) -> &str {
        self.0.partition_key.as_str()
    }

    /// The RowKey.
    #[must_use]
    pub fn row(&self) -> &str {
        self.0.row_key.as_str()
    }

    #[allow(dead_code, reason = "the half of the library that sends uses it")]
    pub(crate) fn from_core(key: tavola_core::EntityKey) -> Self {
        Self(key)
    }

    #[allow(dead_code, reason = "the half of the library that sends uses it")]
    pub(crate) fn as_core(&self) -> &tavola_core::EntityKey {
        &self.0
    }
}

/// Checks one key, and says which one is wrong and why.
pub(super) fn check(which: &str, text: &str) -> Result<(), Fault> {
    match tavola_core::RowKey::new(text) {
        Ok(_) => Ok(()),
        Err(KeyError::Forbidden(character)) => Err(Fault {
            rule: Rule::KeyCharacter,
            sizes: None,
            text: format!("the {which} {text:?} contains {character:?}, which no key may contain"),
        }),
        Err(_) => {
            let found = text.encode_utf16().count();
            Err(Fault {
                rule: Rule::KeyLength,
                sizes: Some((KEY_UTF16_UNITS_MAX, found)),
                text: format!(
                    "the {which} has {found} UTF-16 units; a key has at most {KEY_UTF16_UNITS_MAX}"
                ),
            })
        }
    }
}

impl fmt::Display for EntityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |key: &str| key.replace('\'', "''");
        write!(f, "('{}', '{}')", quoted(self.partition()), quoted(self.row()))
    }
}

impl fmt::Debug for EntityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The key of one entity of type `E`: from a cursor, an [`EntityKey`], or two texts. A part that
/// does not fit is reported where the key is used.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::{DynEntity, PointKey, TableServiceClient};
///
/// # let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// # let table = service.table_client("people");
/// # table.create().await?;
/// // A cursor with all its parts is one, and so is a pair of texts.
/// let key: PointKey<DynEntity> = ("Smith", "1").into();
/// assert!(table.get(key).await?.is_none());
/// # Ok(())
/// # }
/// ```
pub struct PointKey<E> {
    key: Result<EntityKey, Fault>,
    of: PhantomData<fn() -> E>,
}

impl<E> PointKey<E> {
    pub(super) fn from_parts(key: Result<EntityKey, Fault>) -> Self {
        Self { key, of: PhantomData }
    }

    pub(super) fn into_parts(self) -> Result<EntityKey, Fault> {
        self.key
    }

    /// The key.
    ///
    /// # Errors
    /// If a part does not fit its template, or a key breaks a rule.
    pub fn into_key(self) -> Result<EntityKey, Error> {
        self.key.map_err(Into::into)
    }
}

impl<E: Entity> PointKey<E> {
    /// The entity and all that is `within` it, of whatever kind: `F` is an enum of them, or
    /// [`crate::DynEntity`].
    #[must_use]
    pub fn family<F>(self) -> KeyRange<F> {
        KeyRange::new(self.key.map(|key| {
            let row = key.row();
            let end = match E::ROW_IS_FIXED {
                true => escape::successor(row),
                // Behind a text goes `!`, or it is the beginning of another one.
                false => Some(format!("{row}{AFTER_TERMINATOR}")),
            };
            Spans {
                partition: Span::One(key.partition().to_owned()),
                row: Span::Between(Some(row.to_owned()), end),
            }
        }))
    }
}

impl<E> Clone for PointKey<E> {
    fn clone(&self) -> Self {
        Self::from_parts(self.key.clone())
    }
}

impl<E> fmt::Debug for PointKey<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Ok(key) => fmt::Debug::fmt(key, f),
            Err(fault) => fmt::Debug::fmt(fault, f),
        }
    }
}

impl<E, P: Into<String>, R: Into<String>> From<(P, R)> for PointKey<E> {
    fn from((partition, row): (P, R)) -> Self {
        Self::from_parts(EntityKey::checked(partition.into(), row.into()))
    }
}

impl<E> From<EntityKey> for PointKey<E> {
    fn from(key: EntityKey) -> Self {
        Self::from_parts(Ok(key))
    }
}

impl<E> From<&EntityKey> for PointKey<E> {
    fn from(key: &EntityKey) -> Self {
        Self::from_parts(Ok(key.clone()))
    }
}

impl<E> From<&Stored<E>> for PointKey<E> {
    fn from(stored: &Stored<E>) -> Self {
        Self::from_parts(Ok(stored.key().clone()))
    }
}
