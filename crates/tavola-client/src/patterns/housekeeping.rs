//! What rows of several patterns have in common beside their entity: names of properties, and the
//! counter of writes.

use std::time::SystemTime;

use tavola_core::{EdmRef, EntityKey as CoreKey};
use time::OffsetDateTime;

use crate::engine::Engine;
use crate::entity::{DynEntity, Entity, PropertySink as _};
use crate::error::Error;
use crate::key::{EntityKey, TicksDesc};
use crate::prepare::{WRITE_ID, write_id};
use crate::value::Value;

/// The RowKey of the entity that an index row is for.
pub(super) const BASE: &str = "tv_base";
/// Its PartitionKey, if the index row is in another one.
pub(super) const BASE_PARTITION: &str = "tv_base_pk";

/// Ticks of 100 ns from the year 1 to 10000, less one.
#[cfg(feature = "json")]
const TICKS_MAX: u64 = 3_155_378_975_999_999_999;

/// Ticks of 100 ns since the year 1.
#[cfg(feature = "json")]
pub(super) fn ticks(at: OffsetDateTime) -> Result<u64, Error> {
    let left: u64 = TicksDesc::encode(at, "at")?.parse().unwrap_or_default();
    Ok(TICKS_MAX.saturating_sub(left))
}

/// The time of so many ticks.
#[cfg(feature = "json")]
pub(super) fn from_ticks(ticks: u64) -> Result<OffsetDateTime, Error> {
    let left = format!("{:019}", TICKS_MAX.saturating_sub(ticks));
    TicksDesc::decode(&left, "at").map(|(at, _)| at)
}

pub(super) fn core(key: &EntityKey) -> CoreKey {
    key.as_core().clone()
}

/// How many writes there were, by the id of the last.
pub(super) fn counter(id: EdmRef<'_>) -> u64 {
    let EdmRef::String(id) = id else { return 0 };
    count_of(id.as_str())
}

/// How many writes there were, by the text of an id.
pub(super) fn count_of(id: &str) -> u64 {
    let counter = id.split_once('-').map(|(counter, _)| u64::from_str_radix(counter, 16));
    counter.and_then(Result::ok).unwrap_or(0)
}

/// The id of the write that follows the last one of this row.
pub(super) fn next_id(row: &DynEntity, random: u64) -> String {
    let last = match row.value(WRITE_ID) {
        Some(Value::String(id)) => count_of(id),
        _ => 0,
    };
    write_id(last + 1, random)
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

/// The time of day by the client's clock, in UTC.
pub(super) fn now(engine: &Engine) -> OffsetDateTime {
    let since = engine.runtime.time_of_day().duration_since(SystemTime::UNIX_EPOCH);
    OffsetDateTime::UNIX_EPOCH + since.unwrap_or_default()
}
