//! The rows of a view: which generation is read, how far each is, and what it has.

use std::collections::BTreeMap;

use futures_util::TryStreamExt as _;

use super::{Project, View};
use crate::engine::{CallSettings, Operation};
use crate::entity::{
    DynEntity, Entity, Properties, PropertiesDecoder as _, Stored, encode_properties,
};
use crate::error::{Error, Rule};
use crate::etag::ETag;
use crate::filter::prop;
use crate::key::EntityKey;
use crate::patterns::housekeeping::core;
use crate::prepare::{Prepared, WRITE_ID, write_id};
use crate::unknown::Claim;
use crate::value::ValueRef;
use crate::written::{IfMatch, Mode};

/// The RowKey of the row that says how far a generation is.
const POSITION_ROW: &str = "!pos";
/// The RowKey of the last change that a generation has.
const POSITION: &str = "tv_pos";
/// Set when a generation is no longer written to.
const RETIRED: &str = "retired";
const LIVE: &str = "live";
const LAST: &str = "last";

/// Which generation is read, and which was begun last. Without a row both are the first.
pub(super) struct Control {
    pub(super) live: i64,
    pub(super) last: i64,
    pub(super) version: Option<ETag>,
}

impl Control {
    pub(super) fn key(name: &str) -> Result<EntityKey, Error> {
        EntityKey::new(format!("!view!{name}"), "!live")
    }

    pub(super) fn of(row: Option<Stored<DynEntity>>) -> Result<Self, Error> {
        Ok(match row {
            None => Self { live: 1, last: 1, version: None },
            Some(row) => Self {
                live: row.get(LIVE)?,
                last: row.get(LAST)?,
                version: Some(row.etag().clone()),
            },
        })
    }

    pub(super) fn row(&self, name: &str) -> Result<DynEntity, Error> {
        let key = Self::key(name)?;
        let mut row = DynEntity::new(key.partition(), key.row());
        row.set(LIVE, self.live);
        row.set(LAST, self.last);
        Ok(row)
    }
}

/// How far a generation is.
pub(super) struct Position {
    /// The RowKey of its last change; empty before the first.
    pub(super) at: String,
    pub(super) version: ETag,
    pub(super) is_retired: bool,
}

impl Position {
    fn of(row: &Stored<DynEntity>) -> Result<Self, Error> {
        Ok(Self {
            at: row.get(POSITION)?,
            version: row.etag().clone(),
            is_retired: row.get::<Option<bool>>(RETIRED)?.unwrap_or_default(),
        })
    }
}

impl<S: Entity, P: Project<S>> View<S, P> {
    pub(super) fn position_key(&self, generation: i64) -> Result<EntityKey, Error> {
        EntityKey::new(self.partition(generation), POSITION_ROW)
    }

    pub(super) async fn position(
        &self,
        generation: i64,
        settings: &CallSettings,
    ) -> Result<Option<Position>, Error> {
        let key = self.position_key(generation)?;
        let row = self.table.get::<DynEntity>(&key).with_settings(settings.clone()).await?;
        row.as_ref().map(Position::of).transpose()
    }

    /// The write that moves a generation on, from the version that it has.
    pub(super) fn moved(
        &self,
        generation: i64,
        at: &str,
        version: Option<&ETag>,
    ) -> Result<(EntityKey, Operation), Error> {
        let key = self.position_key(generation)?;
        let mut row = DynEntity::new(key.partition(), key.row());
        row.set(POSITION, at);
        let id = write_id(0, self.table.engine().runtime.random());
        let id = Some((WRITE_ID.to_owned(), id));
        let prepared = Prepared::with_write_id(core(&key), encode_properties(&row, &[])?, id)?;
        let operation = match version {
            Some(version) => prepared.update(Mode::Replace, &IfMatch::Version(version.clone()))?,
            None => prepared.insert(Claim::Insert),
        };
        Ok((key, operation))
    }

    /// What tells those who still write to a generation that it is no longer read.
    pub(super) fn retired(&self, generation: i64) -> Result<DynEntity, Error> {
        let key = self.position_key(generation)?;
        let mut row = DynEntity::new(key.partition(), key.row());
        row.set(POSITION, "");
        row.set(RETIRED, true);
        Ok(row)
    }

    /// The key of a row of the view.
    pub(super) fn row_key(&self, generation: i64, key: &str) -> Result<EntityKey, Error> {
        if key.starts_with('!') {
            let text = "a key that begins with `!` belongs to the library's own rows";
            return Err(Error::invalid(Rule::KeyTemplate, text));
        }
        EntityKey::new(self.partition(generation), key)
    }
}

/// A generation at one moment.
pub(super) struct Snapshot<R> {
    pub(super) position: Option<Position>,
    pub(super) rows: BTreeMap<String, R>,
    pub(super) pages: usize,
}

impl<R: Properties> Snapshot<R> {
    /// Reads all rows. Of several pages each is a moment of its own.
    pub(super) async fn read<S: Entity, P: Project<S, Row = R>>(
        view: &View<S, P>,
        generation: i64,
        settings: &CallSettings,
    ) -> Result<Self, Error> {
        let of_generation = prop("PartitionKey").eq(view.partition(generation));
        let rows = view.table.filter::<DynEntity>(of_generation).allow_scan();
        let mut pages = rows.with_settings(settings.clone()).pages();
        let mut found = Self { position: None, rows: BTreeMap::new(), pages: 0 };
        while let Some(page) = pages.try_next().await? {
            found.pages += 1;
            for row in page.items {
                match row.row() {
                    POSITION_ROW => found.position = Some(Position::of(&row)?),
                    key => drop(found.rows.insert(key.to_owned(), decode(&row)?)),
                }
            }
        }
        Ok(found)
    }
}

pub(super) fn decode<R: Properties>(row: &DynEntity) -> Result<R, Error> {
    let mut decoder = R::decoder();
    for (name, value) in row.iter() {
        decoder.property(name, value.as_ref());
    }
    decoder.finish()
}

pub(super) fn encode<R: Properties>(key: &EntityKey, row: &R) -> Result<DynEntity, Error> {
    let mut entity = DynEntity::new(key.partition(), key.row());
    row.encode(&mut |name: &str, value: ValueRef<'_>| {
        entity.set(name, value.to_value());
        Ok(())
    })?;
    Ok(entity)
}

/// True for a row that belongs to the library.
pub(super) fn is_position(row: &str) -> bool {
    row == POSITION_ROW
}
