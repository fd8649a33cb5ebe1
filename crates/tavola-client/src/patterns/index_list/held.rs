//! The members of a value, as one list or as one row a member.

use std::collections::BTreeMap;

use futures_util::TryStreamExt as _;

use super::list::List;
use super::{IndexList, Place};
use crate::client::{ATTEMPTS_MAX, TableClient, Transaction};
use crate::engine::CallSettings;
use crate::entity::{DynEntity, Entity, Stored, encode_properties};
use crate::error::{Error, ErrorKind, Outcome, Rule};
use crate::etag::ETag;
use crate::filter::prop;
use crate::key::{EntityKey, escape_text, unescape_text};
use crate::patterns::housekeeping::{core, next_id};
use crate::patterns::stamped::beginning;
use crate::prepare::{self, Prepared, WRITE_ID};
use crate::unknown::Claim;
use crate::written::{IfMatch, Mode};

/// The members of one value as they were read, and the changes to be made.
pub(super) enum Held {
    List(List),
    Rows(MemberRows),
}

/// One row a member: `{base}{code}`.
pub(super) struct MemberRows {
    partition: String,
    base: String,
    rows: BTreeMap<String, Stored<DynEntity>>,
    added: Vec<String>,
    removed: Vec<String>,
}

impl Held {
    pub(super) fn has(&self, code: &str) -> bool {
        match self {
            Self::List(list) => list.has(code),
            Self::Rows(rows) => rows.rows.contains_key(code),
        }
    }

    /// The version of what says whether a member is listed; `None` if nothing does.
    pub(super) fn version(&self, code: &str) -> Option<&ETag> {
        match self {
            Self::List(list) => list.version(),
            Self::Rows(rows) => rows.rows.get(code).map(Stored::etag),
        }
    }

    /// The escaped ids of the members, in their order.
    pub(super) fn codes(&self) -> Vec<&str> {
        match self {
            Self::List(list) => list.codes().into_iter().collect(),
            Self::Rows(rows) => rows.rows.keys().map(String::as_str).collect(),
        }
    }

    pub(super) fn add(&mut self, code: &str) -> Result<(), Error> {
        match self {
            Self::List(list) => return list.add(code),
            Self::Rows(rows) => rows.added.push(code.to_owned()),
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, code: &str) {
        match self {
            Self::List(list) => list.remove(code),
            Self::Rows(rows) => rows.removed.push(code.to_owned()),
        }
    }

    /// Adds what must be written to a transaction, all of it under the versions that were read.
    pub(super) fn stage(&self, all: &mut Transaction<'_>, random: u64) -> Result<(), Error> {
        match self {
            Self::List(list) => list.stage(all, random),
            Self::Rows(rows) => rows.stage(all, random),
        }
    }
}

impl MemberRows {
    fn stage(&self, all: &mut Transaction<'_>, random: u64) -> Result<(), Error> {
        for code in &self.added {
            let key = EntityKey::new(self.partition.as_str(), format!("{}{code}", self.base))?;
            let stored = self.rows.get(code);
            let prepared = prepared(&key, stored.map(|stored| &**stored), random)?;
            let (name, operation) = match stored {
                None => ("insert", prepared.insert(Claim::Insert)),
                Some(stored) => {
                    let if_match = IfMatch::Version(stored.etag().clone());
                    ("replace", prepared.update(Mode::Replace, &if_match)?)
                }
            };
            all.add(name, core(&key), operation)?;
        }
        for stored in self.removed.iter().filter_map(|code| self.rows.get(code)) {
            let if_match = IfMatch::Version(stored.etag().clone());
            let key = core(stored.key());
            all.add("delete", key.clone(), prepare::delete(&key, &if_match)?)?;
        }
        Ok(())
    }
}

/// The row of one member.
pub(super) fn prepared(
    key: &EntityKey,
    before: Option<&DynEntity>,
    random: u64,
) -> Result<Prepared, Error> {
    let row = DynEntity::new(key.partition(), key.row());
    let id = next_id(before.unwrap_or(&row), random);
    let properties = encode_properties(&row, &[])?;
    Prepared::with_write_id(core(key), properties, Some((WRITE_ID.to_owned(), id)))
}

impl<E: Entity> IndexList<E> {
    /// What the RowKeys of a value's rows begin with.
    pub(super) fn base(&self, value: &str) -> String {
        format!("{}{}!", self.prefix, escape_text(value))
    }

    /// Reads the members of a value, and says in how many requests.
    pub(super) async fn load(
        &self,
        partition: &str,
        value: &str,
        settings: &CallSettings,
    ) -> Result<(Held, usize), Error> {
        let base = self.base(value);
        if self.place == Place::List {
            let (list, requests) = load_list(&self.table, partition, &base, settings).await?;
            return Ok((Held::List(list), requests));
        }
        let (rows, requests) = rows_of(&self.table, partition, &base, settings).await?;
        let code = |row: &Stored<DynEntity>| row.key().row()[base.len()..].to_owned();
        let rows = rows.into_iter().map(|row| (code(&row), row)).collect();
        let (partition, added, removed) = (partition.to_owned(), Vec::new(), Vec::new());
        let rows = MemberRows { partition, base, rows, added, removed };
        Ok((Held::Rows(rows), requests))
    }

    /// The escaped id of an entity: its RowKey without what all keys of its type begin with.
    pub(super) fn code(key: &EntityKey) -> Result<String, Error> {
        let beginning = beginning::<E>();
        let Some(id) = key.row().strip_prefix(beginning) else {
            let text = format!("{key} is no key of a member: those begin with '{beginning}'");
            return Err(Error::invalid(Rule::KeyTemplate, text));
        };
        if id.is_empty() {
            return Err(Error::invalid(Rule::KeyTemplate, format!("{key} has no id to be listed")));
        }
        Ok(escape_text(id))
    }

    /// The key of the entity with this escaped id.
    pub(super) fn member(partition: &str, code: &str) -> Result<EntityKey, Error> {
        match unescape_text(code) {
            Some((id, "")) => EntityKey::new(partition, format!("{}{id}", beginning::<E>())),
            _ => {
                let text = format!("'{code}' in a list of '{partition}' is no id of a member");
                Err(Error::new(ErrorKind::Pattern, Outcome::NotApplied, text))
            }
        }
    }
}

/// Reads a list, and says in how many requests. One of several pages is read until its version is
/// the same before and after.
pub(super) async fn load_list(
    table: &TableClient,
    partition: &str,
    base: &str,
    settings: &CallSettings,
) -> Result<(List, usize), Error> {
    let head = EntityKey::new(partition, format!("{base}00"))?;
    let mut requests = 0;
    for attempt in 0..ATTEMPTS_MAX {
        let (rows, pages) = rows_of(table, partition, base, settings).await?;
        requests += pages;
        let mut list = List::new(partition, base.to_owned());
        rows.into_iter().for_each(|row| list.take(row));
        if pages == 1 {
            return Ok((list, requests));
        }
        let again = table.get::<DynEntity>(&head).with_settings(settings.clone()).await?;
        requests += 1;
        if again.as_ref().map(Stored::etag) == list.version() {
            return Ok((list, requests));
        }
        table.pause_after_conflict(attempt).await;
    }
    Err(table.contended(&head))
}

async fn rows_of(
    table: &TableClient,
    partition: &str,
    base: &str,
    settings: &CallSettings,
) -> Result<(Vec<Stored<DynEntity>>, usize), Error> {
    // `!` ends the base, and `"` is the next character.
    let end = format!("{}\"", &base[..base.len() - 1]);
    let range = prop("RowKey").ge(base).and(prop("RowKey").lt(end.as_str()));
    let rows = prop("PartitionKey").eq(partition).and(range);
    let query = table.filter::<DynEntity>(rows).with_settings(settings.clone());
    let (mut pages, mut rows, mut count) = (query.pages(), Vec::new(), 0);
    while let Some(page) = pages.try_next().await? {
        count += 1;
        rows.extend(page.items);
    }
    Ok((rows, count))
}
