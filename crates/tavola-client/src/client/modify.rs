//! Read, change, write back under the version that was read.

use std::time::Duration;

use tavola_core::entity::PropertyName;
use tavola_core::{EdmRef, EdmValue, Properties};

use super::table::TableClient;
use crate::call::Call;
use crate::crypt::ENVELOPE;
use crate::engine::{CallSettings, Count};
use crate::entity::{Entity, Stored, encode_properties};
use crate::error::{Error, ErrorKind, Outcome, Rule};
use crate::key::{EntityKey, PointKey};
use crate::prepare::{Prepared, decode};
use crate::written::{IfMatch, Mode, Written};

/// How often a change is computed anew because somebody else was faster.
pub(crate) const ATTEMPTS_MAX: u32 = 10;
/// The longest pause after the first conflict; it doubles.
const CONFLICT_DELAY: Duration = Duration::from_millis(20);

/// An entity that was read and changed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::{DynEntity, TableServiceClient};
///
/// # let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// # let table = service.table_client("people");
/// # table.create().await?;
/// # table.insert(&DynEntity::new("Smith", "1")).await?;
/// let modified = table.modify::<DynEntity>(("Smith", "1"), |ann| drop(ann.set("Age", 43))).await?;
/// assert_eq!(modified.entity.get::<i32>("Age")?, 43);
/// assert!(modified.written.is_some(), "it was another value before");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Modified<E> {
    /// The entity as it is stored now.
    pub entity: Stored<E>,
    /// The write; `None` if the closure changed nothing.
    pub written: Option<Written>,
}

impl TableClient {
    /// Reads an entity, lets `change` change it, and writes what changed, if nobody else wrote it
    /// meanwhile; else it begins anew, ten times at most.
    ///
    /// Only changed properties are sent; the whole entity is if one disappears or some are encrypted.
    pub fn modify<'a, E: Entity>(
        &'a self,
        key: impl Into<PointKey<E>>,
        mut change: impl FnMut(&mut E) + Send + 'a,
    ) -> Call<'a, Modified<E>> {
        self.try_modify(key, move |entity| {
            change(entity);
            Ok(())
        })
    }

    /// The same with a closure that may fail; then nothing is written.
    pub fn try_modify<'a, E: Entity>(
        &'a self,
        key: impl Into<PointKey<E>>,
        change: impl FnMut(&mut E) -> Result<(), Error> + Send + 'a,
    ) -> Call<'a, Modified<E>> {
        let key = key.into().into_key();
        Call::new(self.engine().settings(), move |settings| async move {
            self.modify_until_settled(key?, change, &settings).await
        })
    }

    async fn modify_until_settled<E: Entity>(
        &self,
        key: EntityKey,
        mut change: impl FnMut(&mut E) -> Result<(), Error> + Send,
        settings: &CallSettings,
    ) -> Result<Modified<E>, Error> {
        for attempt in 0..ATTEMPTS_MAX {
            let error = match self.modify_once(&key, &mut change, settings).await {
                Ok(modified) => return Ok(modified),
                Err(error) => error,
            };
            let is_lost = matches!(error.kind(), ErrorKind::Unknown { .. });
            let is_conflict = error.is_changed() && error.outcome() == Outcome::NotApplied;
            let begins_anew = is_conflict || (is_lost && settings.is_idempotent);
            if !begins_anew {
                return Err(error);
            }
            self.pause_after_conflict(attempt).await;
        }
        Err(self.contended(&key))
    }

    /// Waits, so that two who meet do not meet again.
    pub(crate) async fn pause_after_conflict(&self, attempt: u32) {
        let table = self.table().ok();
        self.engine().metrics.count(Count::ModifyConflict, table.as_ref());
        let runtime = &*self.engine().runtime;
        let most = CONFLICT_DELAY * 2_u32.pow(attempt.min(6));
        let share = (runtime.random() >> 11) as f64 / (1_u64 << 53) as f64;
        runtime.sleep(most.mul_f64(share)).await;
    }

    pub(crate) fn contended(&self, key: &EntityKey) -> Error {
        let text = format!("others changed it {ATTEMPTS_MAX} times in a row");
        let kind = ErrorKind::Modify { attempts: ATTEMPTS_MAX };
        Error::new(kind, Outcome::NotApplied, text).at(|context| {
            context.operation = Some("modify");
            context.table = Some(self.name.clone());
            context.key = Some(key.clone());
        })
    }

    async fn modify_once<E: Entity>(
        &self,
        key: &EntityKey,
        change: &mut (impl FnMut(&mut E) -> Result<(), Error> + Send),
        settings: &CallSettings,
    ) -> Result<Modified<E>, Error> {
        let table = self.table()?;
        let found = self.engine().get(&table, key.as_core(), settings).await?;
        let Some(found) = found else { return Err(self.missing(key)) };
        let before = found.properties.clone();
        let mut entity: Stored<E> = decode(found, &settings.encryption)?;
        change(&mut entity)?;
        if entity.entity_key()? != *key {
            let text = "the change gave the entity another key; insert it and delete the old one";
            return Err(Error::invalid(Rule::Request, text));
        }
        let after = encode_properties(&*entity, entity.rest())?;
        let (pk, rk) = (key.partition(), key.row());
        let encrypts = !settings.encryption.chosen(pk, rk, &before).is_empty()
            || !settings.encryption.chosen(pk, rk, &after).is_empty()
            || !entity.encrypted().is_empty();
        let Some((mode, properties)) = difference(&before, after, encrypts)? else {
            return Ok(Modified { entity, written: None });
        };
        let if_match = IfMatch::Version(entity.etag().clone());
        let prepared =
            Prepared::of_properties::<E>(self.engine(), key.as_core().clone(), properties)?;
        let operation = prepared.update(mode, &if_match)?;
        let sent = self.send_one("modify", key.as_core().clone(), operation, settings).await?;
        let written = Written::one(sent);
        entity.set_written(&written);
        Ok(Modified { entity, written: Some(written) })
    }

    pub(crate) fn missing(&self, key: &EntityKey) -> Error {
        let error = Error::new(ErrorKind::Service, Outcome::NotApplied, "there is none");
        error.with_answer(404, Some("ResourceNotFound".to_owned())).at(|context| {
            context.operation = Some("modify");
            context.table = Some(self.name.clone());
            context.key = Some(key.clone());
        })
    }
}

/// What to write: the changed properties, or all of them if one is gone or some are encrypted, which
/// cannot be merged; nothing if none changed.
fn difference(
    before: &Properties,
    after: Properties,
    encrypts: bool,
) -> Result<Option<(Mode, Properties)>, Error> {
    // In the program `tv_enc` is a text that only says what is encrypted.
    let is_marker =
        |name: &str, value: EdmRef<'_>| name == ENVELOPE && matches!(value, EdmRef::String(_));
    let is_gone = |name: &str| after.get(name).is_none();
    if before.iter().any(|(name, value)| is_gone(name) && !is_marker(name, value)) {
        return Ok(Some((Mode::Replace, after)));
    }
    let is_changed = |name: &str, value: &EdmValue| {
        before.get(name).is_none_or(|known| known.to_owned() != *value)
    };
    let mut changed = Vec::new();
    for (name, value) in after.iter() {
        if is_marker(name, value) {
            continue;
        }
        let value = value.to_owned();
        if is_changed(name, &value) {
            let invalid = |_| Error::invalid(Rule::PropertyName, "a property has an illegal name");
            changed.push((PropertyName::new(name).map_err(invalid)?, value));
        }
    }
    if changed.is_empty() {
        return Ok(None);
    }
    if encrypts {
        return Ok(Some((Mode::Replace, after)));
    }
    let invalid = |_| Error::invalid(Rule::PropertyCount, "the entity has too many properties");
    Ok(Some((Mode::Merge, Properties::new(changed).map_err(invalid)?)))
}
