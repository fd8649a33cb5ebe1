//! Members of a list, and the entities that they are.

use std::collections::BTreeMap;

use super::IndexList;
use crate::call::Call;
use crate::client::ATTEMPTS_MAX;
use crate::engine::CallSettings;
use crate::entity::{Entity, Stored};
use crate::error::Error;
use crate::key::EntityKey;

/// The entities that a list names.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Listed<E> {
    /// The entities, in the order of their keys. Each has the list's value.
    pub entities: Vec<Stored<E>>,
    /// Members that are not there, or have another value, though the list still names them.
    pub drift: Vec<EntityKey>,
    /// The requests that it took: one for the list, and one for each member.
    pub requests: usize,
}

impl<E: Entity> IndexList<E> {
    /// The keys of the entities with this value, in their order.
    pub fn members(
        &self,
        partition: impl Into<String>,
        value: impl Into<String>,
    ) -> Call<'_, Vec<EntityKey>> {
        let (partition, value) = (partition.into(), value.into());
        Call::new(self.table.engine().settings(), move |settings| async move {
            let (held, _) = self.load(&partition, &value, &settings).await?;
            held.codes().into_iter().map(|code| Self::member(&partition, code)).collect()
        })
    }

    /// The entities with this value, in the order of their keys, some at a time
    /// ([`IndexList::parallel`]). One that was changed or deleted since the list was read is left
    /// out.
    pub fn entities(
        &self,
        partition: impl Into<String>,
        value: impl Into<String>,
    ) -> Call<'_, Listed<E>> {
        let (partition, value) = (partition.into(), value.into());
        Call::new(self.table.engine().settings(), move |settings| async move {
            self.read_entities(&partition, &value, &settings).await
        })
    }

    async fn read_entities(
        &self,
        partition: &str,
        value: &str,
        settings: &CallSettings,
    ) -> Result<Listed<E>, Error> {
        let (mut held, mut requests) = self.load(partition, value, settings).await?;
        let mut open: Vec<String> = held.codes().into_iter().map(str::to_owned).collect();
        let (mut found, mut drift) = (BTreeMap::new(), Vec::new());
        for _ in 0..ATTEMPTS_MAX {
            let keys: Result<Vec<_>, _> =
                open.iter().map(|code| Self::member(partition, code)).collect();
            requests += open.len();
            let reads = self.table.get_many::<E, _>(keys?, self.parallel);
            let entities = reads.with_settings(settings.clone()).await?;
            let mut doubtful = Vec::new();
            for (code, entity) in open.into_iter().zip(entities) {
                match entity {
                    Some(entity) if (self.value_of)(&entity).as_deref() == Some(value) => {
                        found.insert(code, entity);
                    }
                    _ => doubtful.push(code),
                }
            }
            if doubtful.is_empty() {
                break;
            }
            // The entity was read between two looks at the list: if that has not changed, it names
            // what is not there.
            let (again, pages) = self.load(partition, value, settings).await?;
            requests += pages;
            doubtful.retain(|code| again.has(code));
            let is_same = |code: &String| again.version(code) == held.version(code);
            let (wrong, changed) = doubtful.into_iter().partition(is_same);
            let wrong: Vec<String> = wrong;
            for code in wrong {
                drift.push(Self::member(partition, &code)?);
            }
            open = changed;
            held = again;
            if open.is_empty() {
                break;
            }
        }
        Ok(Listed { entities: found.into_values().collect(), drift, requests })
    }
}
