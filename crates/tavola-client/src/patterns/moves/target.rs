//! Where entities are moved to.

use std::fmt;
use std::str::FromStr;

use super::INCARNATION;
use crate::entity::{DynEntity, Entity, Stored, encode_properties};
use crate::error::{Error, ErrorKind, Outcome};
use crate::key::EntityKey;
use crate::patterns::housekeeping::{counter, ticks};
use crate::patterns::outbox::StepError;
use crate::prepare::WRITE_ID;
use crate::runtime::BoxFuture;

/// Where a target in a table keeps the version.
pub(super) const VERSION: &str = "tv_moved";

/// A place that entities are moved to: a table, a file, a search index, a database.
pub trait Target: fmt::Debug + Send + Sync + 'static {
    /// Keeps a copy, unless the place has the same or a newer version of it, and returns the version
    /// that it has now. It may be called twice with one copy, and by two workers at a time; when it
    /// returns, the copy is safe, because the original is deleted next.
    fn put<'a>(&'a self, copy: &'a Copied) -> BoxFuture<'a, Result<Version, StepError>>;

    /// The copy with this key.
    fn get<'a>(&'a self, key: &'a EntityKey) -> BoxFuture<'a, Result<Option<Copied>, StepError>>;
}

/// An entity as a target has it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Copied {
    /// The entity, with its key in the target.
    pub entity: DynEntity,
    /// Its version in the source.
    pub version: Version,
}

impl Copied {
    /// A copy that a target kept.
    #[must_use]
    pub fn kept(entity: DynEntity, version: Version) -> Self {
        Self { entity, version }
    }

    pub(super) fn new(to: &EntityKey, found: &DynEntity, version: Version) -> Self {
        let mut entity = DynEntity::new(to.partition(), to.row());
        for (name, value) in found.iter() {
            // What is about this move, or one before, is not the entity's.
            if name != INCARNATION && name != VERSION {
                entity.set(name, value.clone());
            }
        }
        Self { entity, version }
    }
}

/// The version of an entity in the source of a move. A target keeps it as a text beside its copy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version {
    /// When the source wrote it: ticks of its Timestamp.
    ticks: u64,
    /// How many writes there were, if they were counted (`tv_ver`).
    counter: u64,
    incarnation: String,
}

impl Version {
    pub(super) fn of<E: Entity>(
        stored: &Stored<DynEntity>,
        incarnation: &str,
    ) -> Result<Self, Error> {
        let properties = encode_properties(&**stored, &[])?;
        let counter = properties.get(E::WRITE_ID.unwrap_or(WRITE_ID)).map_or(0, counter);
        let ticks = ticks(stored.timestamp())?;
        Ok(Self { ticks, counter, incarnation: incarnation.to_owned() })
    }

    /// Which life of the entity it is of: one that was created again has another.
    #[must_use]
    pub fn incarnation(&self) -> &str {
        &self.incarnation
    }

    /// True if it is newer: by the Timestamp, which the service never sets back, and between equal
    /// ones by the count of writes.
    #[must_use]
    pub fn is_newer_than(&self, other: &Self) -> bool {
        (self.ticks, self.counter) > (other.ticks, other.counter)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:019}-{:016x}-{}", self.ticks, self.counter, self.incarnation)
    }
}

impl FromStr for Version {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut parts = text.splitn(3, '-');
        let mut read = || {
            let ticks = parts.next()?.parse().ok()?;
            let counter = u64::from_str_radix(parts.next()?, 16).ok()?;
            Some(Self { ticks, counter, incarnation: parts.next()?.to_owned() })
        };
        read().ok_or_else(|| {
            let text = "the version of a moved entity is not as this library writes it";
            Error::new(ErrorKind::Pattern, Outcome::NotApplied, text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    fn version(text: &str) -> Version {
        let version: Version = text.parse().unwrap();
        assert_eq!(version.to_string(), text);
        version
    }

    #[test]
    fn newer_is_by_time_then_by_count() {
        let early = version("0000000000000000005-0000000000000009-a");
        let late = version("0000000000000000006-0000000000000001-a");
        assert!(late.is_newer_than(&early) && !early.is_newer_than(&late));
        let counted = version("0000000000000000006-0000000000000002-b");
        assert!(counted.is_newer_than(&late) && !late.is_newer_than(&counted));
        assert!(!early.is_newer_than(&early));
        assert!("7-1".parse::<Version>().is_err());
    }
}
