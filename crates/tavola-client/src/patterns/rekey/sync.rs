//! One entity under both keys.

use time::OffsetDateTime;

use super::{Held, Rekey};
use crate::client::ATTEMPTS_MAX;
use crate::engine::CallSettings;
use crate::entity::{DynEntity, Entity, Stored};
use crate::error::{Error, ErrorKind, Outcome};
use crate::key::{EntityKey, TicksDesc};
use crate::patterns::drift::applied;
use crate::patterns::housekeeping::BASE;
use crate::prepare::WRITE_ID;
use crate::written::{IfMatch, Mode};

/// The row that an old entity must have under its new key.
pub(super) struct Image {
    /// When the old row was written: the version that this is made of.
    at: OffsetDateTime,
    pub(super) row: DynEntity,
}

impl Image {
    /// True if the new row is made of this version of the old one, or of a newer one.
    pub(super) fn is_in(&self, stored: &DynEntity) -> Result<bool, Error> {
        let own = version_text(self.at)?;
        Ok(match copied_version(stored) {
            Some(known) if known == own => {
                let is_same = |(name, value)| stored.value(name) == Some(value);
                stored.iter().len() == self.row.iter().len() && self.row.iter().all(is_same)
            }
            known => known > Some(own),
        })
    }
}

/// The version of the old row that a new one is made of; `None` if it was written without.
fn copied_version(row: &DynEntity) -> Option<String> {
    row.value(BASE)?;
    row.get::<Option<String>>(WRITE_ID).ok().flatten()
}

/// The key of the old row, in a property of the new one. No key has a slash.
fn base_text(key: &EntityKey) -> String {
    format!("{}/{}", key.partition(), key.row())
}

/// The key of the old row that a new one is made of; `None` if it was written without.
pub(super) fn base_of(row: &DynEntity) -> Result<Option<EntityKey>, Error> {
    let text = row.get::<Option<String>>(BASE)?;
    let key = text.as_deref().and_then(|text| text.split_once('/'));
    key.map(|(partition, row)| EntityKey::new(partition, row)).transpose()
}

/// Which version of the old row a new one is made of. It orders as time does.
fn version_text(at: OffsetDateTime) -> Result<String, Error> {
    let left: u64 = TicksDesc::encode(at, "at")?.parse().unwrap_or_default();
    Ok(format!("{:019}", 3_155_378_975_999_999_999 - left))
}

impl<A, B> Rekey<A, B>
where
    A: Entity,
    B: Entity + for<'a> From<&'a A>,
{
    pub(super) fn image(
        &self,
        entity: &A,
        key: &EntityKey,
        at: OffsetDateTime,
    ) -> Result<Image, Error> {
        let mut row = DynEntity::from_entity(&B::from(entity))?;
        row.set(BASE, base_text(key));
        row.set(WRITE_ID, version_text(at)?);
        Ok(Image { at, row })
    }

    /// What the old row, as it was read, must be under its new key; `None` if it is of another
    /// type.
    pub(super) fn image_of(&self, row: &Stored<DynEntity>) -> Result<Option<Image>, Error> {
        let is_ours = row.partition().starts_with('!') || row.row().starts_with('!');
        if is_ours || row.value(BASE).is_some() {
            return Ok(None);
        }
        match row.to::<A>() {
            Ok(entity) => self.image(&entity, row.key(), row.timestamp()).map(Some),
            Err(error) => match error.kind() {
                ErrorKind::Kind { .. } | ErrorKind::Invalid { .. } => Ok(None),
                _ => Err(error),
            },
        }
    }

    pub(super) async fn read_image(
        &self,
        key: &EntityKey,
        settings: &CallSettings,
    ) -> Result<Option<Image>, Error> {
        let row = self.old.get::<DynEntity>(key).with_settings(settings.clone()).await?;
        row.map_or(Ok(None), |row| self.image_of(&row))
    }

    /// Makes the new row what the old one is, and sees at the end that it still is that.
    pub(super) async fn settle(
        &self,
        old: &EntityKey,
        new: &EntityKey,
        mut image: Option<Image>,
        held: Held,
        settings: &CallSettings,
    ) -> Result<(), Error> {
        for attempt in 0..ATTEMPTS_MAX {
            let settings = self.within(held, settings)?;
            let is_written = self.write_new(old, new, image.as_ref(), &settings).await?;
            let again = self.read_image(old, &settings).await?;
            let version = |image: &Option<Image>| image.as_ref().map(|image| image.at);
            if is_written && version(&again) == version(&image) {
                return Ok(());
            }
            image = again;
            if attempt > 0 {
                self.old.pause_after_conflict(attempt).await;
            }
        }
        Err(self.new.contended(new))
    }

    /// Brings the new row to a version of the old one, or to none; false if somebody was faster. A
    /// newer one is left alone.
    pub(super) async fn write_new(
        &self,
        old: &EntityKey,
        new: &EntityKey,
        image: Option<&Image>,
        settings: &CallSettings,
    ) -> Result<bool, Error> {
        let stored = self.new.get::<DynEntity>(new).with_settings(settings.clone()).await?;
        // One that belongs under another key has none here.
        let image = image.filter(|image| image.row.entity_key().is_ok_and(|key| key == *new));
        let write = match (image, &stored) {
            (None, None) => return Ok(true),
            (None, Some(stored)) => {
                // One that was written without the old row is nobody's copy.
                if base_of(stored)?.is_none_or(|base| base != *old) {
                    return Ok(true);
                }
                self.new.delete(stored)
            }
            (Some(image), None) => self.new.insert(&image.row),
            (Some(image), Some(stored)) => {
                if image.is_in(stored)? {
                    return Ok(true);
                }
                let if_match = IfMatch::Version(stored.etag().clone());
                self.new.update(&image.row, Mode::Replace, if_match)
            }
        };
        match applied(write.with_settings(settings.clone()).await) {
            // The next look says what became of it.
            Err(error) if error.outcome() == Outcome::Unknown => Ok(false),
            written => written,
        }
    }
}
