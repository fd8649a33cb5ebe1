//! Another partition, table or account as a target.

use super::target::{Copied, Target, VERSION, Version};
use crate::client::{ATTEMPTS_MAX, TableClient};
use crate::entity::{DynEntity, Stored};
use crate::error::{Error, ErrorKind, Outcome};
use crate::key::EntityKey;
use crate::patterns::outbox::StepError;
use crate::runtime::BoxFuture;
use crate::written::{IfMatch, Mode};

/// A table as the target of moves; its client may be of another account.
///
/// The copy has its version in `tv_moved`. It is inserted, or it replaces a lower version under its
/// ETag. A row without `tv_moved` is somebody else's: the move fails, and nothing is overwritten.
#[derive(Debug, Clone)]
pub struct TableTarget {
    table: TableClient,
}

impl TableTarget {
    /// This table.
    #[must_use]
    pub fn new(table: &TableClient) -> Self {
        Self { table: table.clone() }
    }

    async fn put_one(&self, copy: &Copied) -> Result<Version, Error> {
        let key = EntityKey::new(copy.entity.partition(), copy.entity.row())?;
        let mut row = copy.entity.clone();
        row.set(VERSION, copy.version.to_string());
        for attempt in 0..ATTEMPTS_MAX {
            match self.table.insert(&row).await {
                Ok(_) => return Ok(copy.version.clone()),
                Err(error) if error.is_conflict() || error.outcome() == Outcome::Unknown => {}
                Err(error) => return Err(error),
            }
            let Some(held) = self.table.get::<DynEntity>(&key).await? else { continue };
            let version = version_of(&held)?;
            if !copy.version.is_newer_than(&version) {
                return Ok(version);
            }
            let if_match = IfMatch::Version(held.etag().clone());
            match self.table.update(&row, Mode::Replace, if_match).await {
                Ok(_) => return Ok(copy.version.clone()),
                Err(error) if matches!(error.status(), Some(404 | 412)) => {}
                Err(error) if error.outcome() == Outcome::Unknown => {}
                Err(error) => return Err(error),
            }
            self.table.pause_after_conflict(attempt).await;
        }
        Err(self.table.contended(&key))
    }
}

fn version_of(row: &Stored<DynEntity>) -> Result<Version, Error> {
    match row.get::<Option<String>>(VERSION)? {
        Some(version) => version.parse(),
        None => {
            let text = format!("the target has a row at {} that no move wrote", row.key());
            Err(Error::new(ErrorKind::Pattern, Outcome::NotApplied, text))
        }
    }
}

impl Target for TableTarget {
    fn put<'a>(&'a self, copy: &'a Copied) -> BoxFuture<'a, Result<Version, StepError>> {
        Box::pin(async move { Ok(self.put_one(copy).await?) })
    }

    fn get<'a>(&'a self, key: &'a EntityKey) -> BoxFuture<'a, Result<Option<Copied>, StepError>> {
        Box::pin(async move {
            let Some(held) = self.table.get::<DynEntity>(key).await? else { return Ok(None) };
            let version = version_of(&held)?;
            Ok(Some(Copied::new(key, &held, version)))
        })
    }
}
