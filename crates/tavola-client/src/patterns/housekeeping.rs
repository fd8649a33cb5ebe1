//! What rows of several patterns have in common beside their entity: names of properties, and the
//! counter of writes.

use std::time::SystemTime;

use tavola_core::{EdmRef, EntityKey as CoreKey};
use time::OffsetDateTime;

use crate::engine::Engine;
use crate::entity::{DynEntity, Entity};
use crate::error::Error;
use crate::key::EntityKey;
use crate::value::Value;

/// The RowKey of the entity that an index row is for.
pub(super) const BASE: &str = "tv_base";

pub(super) fn core(key: &EntityKey) -> CoreKey {
    key.as_core().clone()
}

/// How many writes there were, by the id of the last.
pub(super) fn counter(id: EdmRef<'_>) -> u64 {
    let EdmRef::String(id) = id else { return 0 };
    let counter = id.as_str().split_once('-').map(|(counter, _)| u64::from_str_radix(counter, 16));
    counter.and_then(Result::ok).unwrap_or(0)
}

/// The entity with the properties that its type does not know.
pub(super) fn whole<E: Entity>(entity: &E, rest: &[(String, Value)]) -> Result<DynEntity, Error> {
    let mut whole = DynEntity::from_entity(entity)?;
    for (name, value) in rest.iter().filter(|(name, _)| !entity.owns(name)) {
        whole.set(name.as_str(), value.clone());
    }
    Ok(whole)
}

/// The time of day by the client's clock, in UTC.
pub(super) fn now(engine: &Engine) -> OffsetDateTime {
    let since = engine.runtime.time_of_day().duration_since(SystemTime::UNIX_EPOCH);
    OffsetDateTime::UNIX_EPOCH + since.unwrap_or_default()
}
