//! What rows of several patterns have in common beside their entity: names of properties, and the
//! counter of writes.

use tavola_core::{EdmRef, EntityKey as CoreKey};

use crate::entity::{DynEntity, Entity, PropertySink as _};
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
        // What was read encrypted says so in `tv_enc`, beside what the type says.
        whole.property(name, value.as_ref())?;
    }
    Ok(whole)
}
