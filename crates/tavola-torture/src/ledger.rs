//! What one client asked for and was told. Its partitions and its own tables belong to it alone, so
//! that it knows what must be there.

use std::collections::{BTreeMap, HashMap, HashSet};

use tavola_core::time::DateTime;
use tavola_core::{ETag, EdmValue, Timestamp};

use super::Violation;

/// PartitionKey and RowKey.
pub(super) type Key = (String, String);
/// An entity's own properties.
pub(super) type Values = BTreeMap<String, EdmValue>;

/// An entity as it was last acknowledged.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Version {
    pub(super) values: Values,
    pub(super) timestamp: Timestamp,
}

/// The rows of one table that belong to one client.
pub(super) type Rows = BTreeMap<Key, Version>;

/// A request on its way. Without an answer it was carried out or not; there is nothing between.
#[derive(Debug, Clone)]
pub(super) enum Intent {
    /// What the rows are afterwards; `None` is a row that is gone.
    Write {
        table: String,
        after: Vec<(Key, Option<Values>)>,
    },
    Create(String),
    Drop(String),
}

/// What one client knows.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    tables: BTreeMap<String, Rows>,
    /// The request that got no answer. A client has one at most: it asks for nothing more.
    doubt: Option<Intent>,
    /// The highest version of a partition that was ever seen.
    newest: HashMap<(String, String), Timestamp>,
    /// Every version that was ever seen, by table and key.
    versions: HashMap<(String, Key), HashSet<Timestamp>>,
}

impl Ledger {
    pub(super) fn has_table(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    /// The rows of a table as they were acknowledged.
    pub(super) fn rows(&self, table: &str) -> Option<&Rows> {
        self.tables.get(table)
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// A request is about to be sent.
    pub(super) fn intend(&mut self, intent: Intent) {
        debug_assert!(self.doubt.is_none(), "a client that is in doubt asks for nothing more");
        self.doubt = Some(intent);
    }

    /// It was refused, or could not be sent: nothing has changed.
    pub(super) fn refused(&mut self) {
        self.doubt = None;
    }

    /// It was carried out; `tags` are the new versions, as many as rows that are not gone.
    pub(super) fn acknowledged(&mut self, tags: &[ETag]) -> Result<(), Violation> {
        match self.doubt.take() {
            Some(Intent::Write { table, after }) => {
                let timestamps = tags.iter().map(timestamp_of).collect::<Result<Vec<_>, _>>()?;
                let mut timestamps = timestamps.into_iter();
                let rows = after.into_iter().map(|(key, values)| match values {
                    None => Ok((key, None)),
                    Some(values) => match timestamps.next() {
                        Some(timestamp) => Ok((key, Some(Version { values, timestamp }))),
                        None => Err(Violation::new(format!(
                            "a write to {table} {key:?} was answered without an ETag"
                        ))),
                    },
                });
                let rows = rows.collect::<Result<Vec<_>, _>>()?;
                self.take_over(&table, rows)
            }
            Some(Intent::Create(table)) => {
                self.tables.insert(table, Rows::new());
                Ok(())
            }
            Some(Intent::Drop(table)) => {
                self.tables.remove(&table);
                Ok(())
            }
            None => Err(Violation::new("an answer to nothing")),
        }
    }

    /// Rows that changed together: their versions are newer than all of the partition, and were
    /// never seen before.
    fn take_over(
        &mut self,
        table: &str,
        rows: Vec<(Key, Option<Version>)>,
    ) -> Result<(), Violation> {
        let partition = rows.first().map(|(key, _)| (table.to_owned(), key.0.clone()));
        let before = partition.as_ref().and_then(|partition| self.newest.get(partition)).copied();
        for (key, version) in rows {
            let current = self.tables.entry(table.to_owned()).or_default();
            let Some(version) = version else {
                current.remove(&key);
                continue;
            };
            let timestamp = version.timestamp;
            current.insert(key.clone(), version);
            if let Some(before) = before.filter(|before| timestamp <= *before) {
                let what =
                    format!("the version of {table} {key:?} goes back: {before}, then {timestamp}");
                return Err(Violation::new(what));
            }
            self.newest.insert((table.to_owned(), key.0.clone()), timestamp);
            if !self.versions.entry((table.to_owned(), key.clone())).or_default().insert(timestamp)
            {
                return Err(Violation::new(format!(
                    "the ETag {timestamp} of {table} {key:?} was given out twice"
                )));
            }
        }
        Ok(())
    }

    /// Compares a table with what a restarted server shows of it: `None` if it has no such table. A
    /// request that had no answer is decided by this, once and for all.
    pub(super) fn compare(&mut self, table: &str, shown: Option<&Rows>) -> Result<(), Violation> {
        match self.doubt.take() {
            Some(Intent::Create(name)) if name == table => {
                if shown.is_some() {
                    self.tables.insert(name, Rows::new());
                }
            }
            Some(Intent::Drop(name)) if name == table => {
                if shown.is_none() {
                    self.tables.remove(&name);
                }
            }
            Some(Intent::Write { table: name, after }) if name == table => {
                self.decide(table, after, shown.unwrap_or(&Rows::new()))?;
            }
            other => self.doubt = other,
        }
        match (self.tables.get(table), shown) {
            (None, None) => Ok(()),
            (Some(_), None) => {
                Err(Violation::new(format!("the table {table} was acknowledged and is missing")))
            }
            (None, Some(_)) => Err(Violation::new(format!(
                "the table {table} was dropped, or never created, and is there"
            ))),
            (Some(expected), Some(shown)) => compare_rows(table, expected, shown),
        }
    }

    fn decide(
        &mut self,
        table: &str,
        after: Vec<(Key, Option<Values>)>,
        shown: &Rows,
    ) -> Result<(), Violation> {
        let is_done = |(key, values): &(Key, Option<Values>)| {
            shown.get(key).map(|row| &row.values) == values.as_ref()
        };
        let done = after.iter().filter(|row| is_done(row)).count();
        if done == after.len() {
            let rows =
                after.into_iter().map(|(key, _)| (key.clone(), shown.get(&key).cloned())).collect();
            return self.take_over(table, rows);
        }
        let current = self.tables.get(table);
        let is_untouched = |(key, _): &(Key, Option<Values>)| {
            current.and_then(|rows| rows.get(key)) == shown.get(key)
        };
        if after.iter().all(is_untouched) {
            return Ok(());
        }
        let keys: Vec<&Key> = after.iter().map(|(key, _)| key).collect();
        let count = after.len();
        Err(Violation::new(format!(
            "a batch on {table} was carried out by half: {done} of {count} rows of {keys:?}"
        )))
    }
}

fn compare_rows(table: &str, expected: &Rows, shown: &Rows) -> Result<(), Violation> {
    for (key, version) in expected {
        match shown.get(key) {
            None => {
                return Err(Violation::new(format!(
                    "{table} {key:?} was acknowledged and is missing: {}",
                    brief(version)
                )));
            }
            Some(other) if other != version => {
                let (version, other) = (brief(version), brief(other));
                return Err(Violation::new(format!(
                    "{table} {key:?} was acknowledged as {version} and is {other}"
                )));
            }
            Some(_) => {}
        }
    }
    match shown.iter().find(|(key, _)| !expected.contains_key(*key)) {
        Some((key, version)) => {
            let version = brief(version);
            Err(Violation::new(format!(
                "{table} {key:?} was deleted, refused or never asked for, and is there: {version}"
            )))
        }
        None => Ok(()),
    }
}

/// Enough to tell versions apart; large ones would fill the screen.
fn brief(version: &Version) -> String {
    let values = version.values.iter().map(|(name, value)| {
        let text = format!("{value:?}");
        format!("{name}={}", text.chars().take(40).collect::<String>())
    });
    format!("{} {{{}}}", version.timestamp, values.collect::<Vec<_>>().join(", "))
}

/// `W/"datetime'2026-01-01T00%3A00%3A00.1Z'"` names the timestamp.
pub(super) fn timestamp_of(tag: &ETag) -> Result<Timestamp, Violation> {
    let text = tag.as_str().split('\'').nth(1).unwrap_or_default().replace("%3A", ":");
    let at = DateTime::parse(&text)
        .map_err(|_| Violation::new(format!("{tag} is not an ETag of this service")))?;
    Ok(Timestamp::new(at))
}

#[cfg(test)]
mod tests;
