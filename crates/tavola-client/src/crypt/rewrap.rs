//! Content keys of stored entities, wrapped anew under the current key.

use futures_util::TryStreamExt as _;
use futures_util::stream::{self, StreamExt as _};
use tavola_core::entity::PropertyName;
use tavola_core::{EdmValue, EntityKey as CoreKey, EntityOperation, NewEntity, Properties};

use super::content::Place;
use super::envelope;
use super::policy::{Encryption, Policy};
use super::rows::{altered, not_read, not_wrapped, unwrapped};
use super::{ENVELOPE, fault};
use crate::call::Call;
use crate::client::TableClient;
use crate::engine::{CallSettings, Operation};
use crate::entity::{DynEntity, Entity};
use crate::error::{EncryptionFault, Error, Outcome, Rule};
use crate::etag::ETag;
use crate::key::{EntityKey, KeyRange};
use crate::query::Query;
use crate::unknown::Claim;
use crate::value::Value;

/// Entities at a time.
const PARALLEL: usize = 8;
/// How often an entity that others change is read again.
const ATTEMPTS_MAX: u32 = 5;

/// What wrapping anew came to.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RewrapReport {
    /// Entities that were read.
    pub read: usize,
    /// Entities that are under the current key now, and were not.
    pub rewrapped: usize,
    /// Entities that were under it already.
    pub current: usize,
    /// Entities that are not encrypted.
    pub plain: usize,
    /// Entities that stay as they are, because their key is lost, they were altered, or others
    /// changed them again and again.
    pub failed: Vec<RewrapFailure>,
}

/// An entity that stays as it is.
#[derive(Debug)]
#[non_exhaustive]
pub struct RewrapFailure {
    /// Which one.
    pub key: EntityKey,
    /// Why.
    pub error: Error,
}

/// What became of one entity.
enum Done {
    Rewrapped,
    Current,
    Plain,
}

impl TableClient {
    /// Wraps the content keys of a range of entities anew under the current key, so that older keys
    /// can go. Only `tv_enc` is written, under the version that was read; the values stay as they
    /// are. One request for each 1,000 entities, and one for each that is not under the current key.
    pub fn rewrap<E: Entity>(&self, keys: impl Into<KeyRange<E>>) -> Call<'_, RewrapReport> {
        let filter = keys.into().to_filter().and_then(|filter| filter.as_core().cloned());
        Call::new(self.engine().settings(), move |settings| async move {
            let mut raw = settings.clone();
            raw.encryption = Policy::default();
            let no_keys = super::policy::no_keys_to_write;
            let encryption = settings.encryption.encryption().ok_or_else(no_keys)?;
            let current = encryption.keys.current().await.map_err(not_wrapped)?;
            let one = One { table: self, encryption, current: &current, settings: &raw };
            let one = &one;
            let mut report = RewrapReport::default();
            let rows = Query::<DynEntity>::new(self, filter.map(Some)).with_settings(raw.clone());
            let mut pages = rows.select(vec![ENVELOPE.to_owned()]).allow_scan().pages();
            while let Some(page) = pages.try_next().await? {
                report.read += page.items.len();
                let all = page.items.into_iter().map(|row| async move {
                    let key = row.key().clone();
                    let envelope = row.value(ENVELOPE).cloned();
                    let done = one.rewrap(&key, row.etag().clone(), envelope).await;
                    (key, done)
                });
                let mut all = stream::iter(all).buffer_unordered(PARALLEL);
                while let Some((key, done)) = all.next().await {
                    match done {
                        Ok(Done::Rewrapped) => report.rewrapped += 1,
                        Ok(Done::Current) => report.current += 1,
                        Ok(Done::Plain) => report.plain += 1,
                        Err(error) => report.failed.push(RewrapFailure { key, error }),
                    }
                }
            }
            Ok(report)
        })
    }
}

/// How entities are wrapped anew.
struct One<'a> {
    table: &'a TableClient,
    encryption: &'a Encryption,
    current: &'a str,
    /// Without encryption: envelopes are read and written as they are.
    settings: &'a CallSettings,
}

impl One<'_> {
    async fn rewrap(
        &self,
        key: &EntityKey,
        mut etag: ETag,
        mut envelope: Option<Value>,
    ) -> Result<Done, Error> {
        let mut attempt = 0;
        loop {
            let Some(stored) = envelope else { return Ok(Done::Plain) };
            let Some(written) = self.anew(key, &stored).await? else { return Ok(Done::Current) };
            let error = match self.write(key, &etag, written).await {
                Ok(()) => return Ok(Done::Rewrapped),
                // It is gone, and its envelope with it.
                Err(error) if error.is_not_found() => return Ok(Done::Plain),
                Err(error) => error,
            };
            attempt += 1;
            if !error.is_changed() || attempt == ATTEMPTS_MAX {
                return Err(error);
            }
            let again = self.table.get::<DynEntity>(key).with_settings(self.settings.clone());
            let Some(again) = again.await? else { return Ok(Done::Plain) };
            etag = again.etag().clone();
            envelope = again.value(ENVELOPE).cloned();
        }
    }

    /// The envelope under the current key; `None` if it is under that one.
    async fn anew(&self, key: &EntityKey, stored: &Value) -> Result<Option<Vec<u8>>, Error> {
        let Value::Binary(stored) = stored else { return Err(altered(ENVELOPE)) };
        let read = envelope::read(stored).map_err(not_read)?;
        if read.wrapped.key_id == self.current {
            return Ok(None);
        }
        let place = Place { partition: key.partition(), row: key.row() };
        // What was altered must not be made genuine here.
        let (content_key, content) = unwrapped(&*self.encryption.keys, &read, &place).await?;
        let wrapped = self.encryption.keys.wrap(&content_key).await.map_err(not_wrapped)?;
        let written = envelope::write(&wrapped, &read.properties, &content, &place);
        written.map(Some).ok_or_else(|| {
            let text = "a key id has at most 255 bytes, a wrapped key at most 65,535";
            fault(EncryptionFault::Key, Outcome::NotSent, text)
        })
    }

    async fn write(&self, key: &EntityKey, etag: &ETag, bytes: Vec<u8>) -> Result<(), Error> {
        let invalid = |_| Error::invalid(Rule::PropertySize, "the envelope is larger than 64 KiB");
        let name = PropertyName::new(ENVELOPE).map_err(invalid)?;
        let properties = Properties::new(vec![(name, EdmValue::Binary(bytes))]);
        let key: CoreKey = key.as_core().clone();
        let (_, new) =
            NewEntity::new(key.clone(), properties.map_err(invalid)?).map_err(invalid)?;
        let precondition = crate::prepare::version(etag)?;
        let operation = EntityOperation::Merge(new, precondition);
        let operation = Operation { claim: Claim::Version, operation, write_id: None };
        self.table.send_one("rewrap", key, operation, self.settings).await.map(drop)
    }
}
