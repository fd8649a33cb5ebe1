//! One property of a wide entity.

use super::Wide;
use super::parts::{PartRow, Parts, part_key};
use crate::call::Call;
use crate::client::ATTEMPTS_MAX;
use crate::engine::CallSettings;
use crate::entity::{DynEntity, WideEntity};
use crate::error::{Error, Rule};
use crate::filter::Column;
use crate::key::{EntityKey, PointKey};
use crate::patterns::drift::applied;
use crate::patterns::housekeeping::core;
use crate::unknown::Claim;
use crate::value::{PropertyType, Value};
use crate::written::{IfMatch, Mode};

impl<E: WideEntity> Wide<E> {
    /// Sets one property of an entity that is there, whatever else is in its part. Those who set
    /// different properties never wait for each other; of one property the last wins.
    ///
    /// The first property of a part that the entity does not have yet is written with all parts.
    pub fn set<T, K>(
        &self,
        key: impl Into<PointKey<E>>,
        column: Column<E, T, K>,
        value: T,
    ) -> Call<'_, ()>
    where
        T: PropertyType,
    {
        let (key, name) = (key.into().into_key(), column.name());
        let value = value.to_property().map(|value| value.to_value());
        Call::new(self.table.engine().settings(), move |settings| async move {
            let key = key?;
            let Some(value) = value else {
                let text = format!("`{name}` cannot be removed by a merge; read and replace");
                return Err(Error::invalid(Rule::Request, text));
            };
            let part = self.parts.get(&name).copied().unwrap_or_default();
            self.set_one(&key, part, (&name, value), &settings).await
        })
    }

    async fn set_one(
        &self,
        key: &EntityKey,
        part: usize,
        (name, value): (&str, Value),
        settings: &CallSettings,
    ) -> Result<(), Error> {
        let row_key = part_key(key, part)?;
        let mut row = DynEntity::new(row_key.partition(), row_key.row());
        row.set(name, value.clone());
        for attempt in 0..ATTEMPTS_MAX {
            let merge = self.table.update(&row, Mode::Merge, IfMatch::Any);
            match merge.with_settings(settings.clone()).await {
                Err(error) if error.code() == Some("ResourceNotFound") => {}
                written => return written.map(drop),
            }
            let Some(parts) = self.read_parts(key, settings).await? else {
                return Err(self.table.missing(key));
            };
            if parts.rows.len() <= part && self.widen(key, &parts, &row, settings).await? {
                return Ok(());
            }
            self.table.pause_after_conflict(attempt).await;
        }
        Err(self.table.contended(key))
    }

    /// Gives the entity the part of `row`, and those before it; false if somebody was faster.
    async fn widen(
        &self,
        key: &EntityKey,
        parts: &Parts,
        row: &DynEntity,
        settings: &CallSettings,
    ) -> Result<bool, Error> {
        let last = self.last_part(row);
        let generation = self.generation(parts.generation()?.counter + 1, last + 1);
        let mut all = self.table.transaction(key.partition());
        for (part, stored) in parts.rows.iter().enumerate() {
            let if_match = IfMatch::Version(stored.etag().clone());
            let row = PartRow::new(key, part)?;
            let operation = row.prepared(&generation)?.update(Mode::Merge, &if_match)?;
            all.add("merge", core(&row.key), operation)?;
        }
        for part in parts.rows.len()..=last {
            let mut new = PartRow::new(key, part)?;
            for (name, value) in row.iter().filter(|_| part == last) {
                new.set(name, value.clone());
            }
            let operation = new.prepared(&generation)?.insert(Claim::Insert);
            all.add("insert", core(&new.key), operation)?;
        }
        applied(all.send(settings.clone()).await)
    }

    fn last_part(&self, row: &DynEntity) -> usize {
        let part = |(name, _): (&str, &Value)| self.parts.get(name).copied();
        row.iter().filter_map(part).max().unwrap_or_default()
    }
}
