//! A wide entity as rows, and back.

use futures_util::TryStreamExt as _;

use super::{Wide, WideStored};
use crate::client::TableClient;
use crate::engine::CallSettings;
use crate::entity::names::{PART_PROPERTIES_MAX, PARTS_MAX};
use crate::entity::{Decoder as _, DynEntity, RowHead, Stored, WideEntity, encode_properties};
use crate::error::{Error, ErrorKind, Outcome, Rule};
use crate::filter::prop;
use crate::key::EntityKey;
use crate::patterns::housekeeping::core;
use crate::prepare::{Prepared, write_id};
use crate::value::{Value, ValueRef};

/// The generation of a part: how many writes of the whole there were, which one was the last, and
/// how many parts it left.
const GENERATION: &str = "tv_gen";

/// One write of the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Generation {
    text: String,
    pub(super) counter: u64,
    pub(super) parts: usize,
}

impl Generation {
    pub(super) fn new(counter: u64, write: u64, parts: usize) -> Self {
        Self { text: format!("{}-{parts:02}", write_id(counter, write)), counter, parts }
    }

    fn of(row: &DynEntity) -> Result<Self, Error> {
        let text = row.get::<String>(GENERATION)?;
        let mut numbers = text.split('-');
        let counter = numbers.next().and_then(|text| u64::from_str_radix(text, 16).ok());
        let parts = numbers.nth(1).and_then(|text| text.parse().ok());
        match (counter, parts, numbers.next()) {
            (Some(counter), Some(parts), None) => Ok(Self { text, counter, parts }),
            _ => {
                let text = format!("`{GENERATION}` is not as this library writes it");
                Err(Error::new(ErrorKind::Pattern, Outcome::NotApplied, text))
            }
        }
    }
}

/// The key of a part.
pub(super) fn part_key(key: &EntityKey, part: usize) -> Result<EntityKey, Error> {
    EntityKey::new(key.partition(), format!("{}!w{part:02}", key.row()))
}

/// A part that is about to be written.
pub(super) struct PartRow {
    pub(super) key: EntityKey,
    part: usize,
    row: DynEntity,
}

impl PartRow {
    pub(super) fn new(key: &EntityKey, part: usize) -> Result<Self, Error> {
        let key = part_key(key, part)?;
        let row = DynEntity::new(key.partition(), key.row());
        Ok(Self { key, part, row })
    }

    pub(super) fn set(&mut self, name: &str, value: Value) {
        self.row.set(name, value);
    }

    /// The row, ready to be sent.
    pub(super) fn prepared(&self, generation: &Generation) -> Result<Prepared, Error> {
        let Self { part, row, .. } = self;
        let found = row.iter().len();
        if found > PART_PROPERTIES_MAX {
            let limit = PART_PROPERTIES_MAX;
            let text = format!("part {part} has {found} properties; a part has at most {limit}");
            return Err(Error::beyond(Rule::PropertyCount, limit, found, text));
        }
        let too_large = |error: Error| match *error.kind() {
            ErrorKind::Invalid { rule: Rule::EntitySize, limit, found } => {
                let (limit, found) = (limit.unwrap_or_default(), found.unwrap_or_default());
                let text = format!(
                    "part {part} has {found} bytes; a row has at most {limit}: begin another part \
                     with `#[entity(part = n)]`"
                );
                Error::beyond(Rule::EntitySize, limit, found, text)
            }
            _ => error,
        };
        let mut whole = row.clone();
        whole.set(GENERATION, generation.text.as_str());
        let properties = encode_properties(&whole, &[]).map_err(too_large)?;
        let id = (GENERATION.to_owned(), generation.text.clone());
        Prepared::with_write_id(core(&self.key), properties, Some(id))
    }
}

/// The rows of an entity as they were read.
pub(super) struct Parts {
    pub(super) rows: Vec<Stored<DynEntity>>,
}

impl Parts {
    pub(super) async fn read(
        table: &TableClient,
        key: &EntityKey,
        page_size: usize,
        settings: &CallSettings,
    ) -> Result<Self, Error> {
        let row = key.row();
        let range = prop("PartitionKey")
            .eq(key.partition())
            .and(prop("RowKey").ge(format!("{row}!w")))
            .and(prop("RowKey").lt(format!("{row}!x")));
        let rows = table.filter::<DynEntity>(range).with_settings(settings.clone());
        let mut rows: Vec<_> = rows.page_size(page_size).stream().try_collect().await?;
        // A service without an order of keys is as good here.
        rows.sort_by(|left, right| left.key().cmp(right.key()));
        Ok(Self { rows })
    }

    pub(super) fn generation(&self) -> Result<Generation, Error> {
        match self.rows.first() {
            Some(row) => Generation::of(row),
            None => Err(Error::new(ErrorKind::Pattern, Outcome::NotApplied, "there is no part")),
        }
    }

    /// What is wrong with the parts, if anything is.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut generations = Vec::with_capacity(self.rows.len());
        for (part, row) in self.rows.iter().enumerate() {
            if !row.key().row().ends_with(&format!("!w{part:02}")) {
                return Err(format!("part {part} is missing"));
            }
            generations.push(Generation::of(row).map_err(|error| error.to_string())?);
        }
        let Some(first) = generations.first() else { return Err("there is no part".to_owned()) };
        if generations.iter().any(|other| other != first) {
            return Err("its parts are of several generations".to_owned());
        }
        match first.parts == generations.len() {
            true => Ok(()),
            false => Err(format!("{} of {} parts are there", generations.len(), first.parts)),
        }
    }

    pub(super) fn has_versions_of(&self, other: &Self) -> bool {
        let versions = |parts: &Self| -> Vec<_> {
            parts.rows.iter().map(|row| (row.key().clone(), row.etag().clone())).collect()
        };
        versions(self) == versions(other)
    }
}

impl<E: WideEntity> Wide<E> {
    /// The rows that an entity must have.
    pub(super) fn rows(
        &self,
        entity: &E,
        key: &EntityKey,
        rest: &[(usize, String, Value)],
    ) -> Result<Vec<PartRow>, Error> {
        let mut rows = vec![PartRow::new(key, 0)?];
        let mut place = |part: usize, name: &str, value: Value| {
            if part >= PARTS_MAX {
                let text = format!("an entity has at most {PARTS_MAX} parts");
                return Err(Error::beyond(Rule::Transaction, PARTS_MAX, part + 1, text));
            }
            for missing in rows.len()..=part {
                rows.push(PartRow::new(key, missing)?);
            }
            rows[part].set(name, value);
            Ok(())
        };
        entity.encode(&mut |name: &str, value: ValueRef<'_>| {
            let part = self.parts.get(name).copied().unwrap_or_default();
            place(part, name, value.to_value())
        })?;
        for (part, name, value) in rest.iter().filter(|(_, name, _)| !entity.owns(name)) {
            place(*part, name, value.clone())?;
        }
        Ok(rows)
    }

    pub(super) fn decode(&self, key: EntityKey, parts: Parts) -> Result<WideStored<E>, Error> {
        let Generation { counter, .. } = parts.generation()?;
        let rows = &parts.rows;
        let Some(first) = rows.first() else {
            return Err(Error::new(ErrorKind::Pattern, Outcome::NotApplied, "there is no part"));
        };
        let (etag, timestamp) = (first.etag(), first.timestamp());
        let head = RowHead { partition: key.partition(), row: key.row(), etag, timestamp };
        let mut decoder = E::decoder();
        for (part, row) in rows.iter().enumerate() {
            for (name, value) in row.iter().filter(|(name, _)| *name != GENERATION) {
                // One that an older type had in another part counts only if it has not moved yet.
                let own = self.parts.get(name).copied().unwrap_or(part);
                let is_old =
                    own != part && rows.get(own).is_some_and(|row| row.value(name).is_some());
                if !is_old {
                    decoder.property(name, value.as_ref());
                }
            }
        }
        let decoded = decoder.finish(&head)?;
        let part_of = |name: &str| rows.iter().position(|row| row.value(name).is_some());
        let rest = decoded.rest.into_iter().map(|(name, value)| {
            let part = part_of(&name).unwrap_or_default();
            (part, name, value)
        });
        let rest = rest.collect();
        let mut entity = decoded.value;
        entity.mirror(etag, timestamp);
        let versions = rows.iter().map(|row| row.etag().clone()).collect();
        Ok(WideStored { entity, key, counter, versions, rest })
    }
}
