//! The rows of one list.

use std::collections::{BTreeMap, BTreeSet};

use tavola_core::limits::STRING_UTF16_UNITS_MAX;

use crate::client::Transaction;
use crate::engine::Operation;
use crate::entity::{DynEntity, Stored, encode_properties};
use crate::error::{Error, Rule};
use crate::etag::ETag;
use crate::key::EntityKey;
use crate::patterns::housekeeping::{core, next_id};
use crate::prepare::{self, Prepared, WRITE_ID};
use crate::unknown::Claim;
use crate::value::Value;
use crate::written::{IfMatch, Mode};

/// Properties of a row. Sixteen of 64 KiB would be 1 MiB without the keys.
const PROPERTIES_MAX: usize = 15;
/// Rows of a list: their numbers have two digits.
const ROWS_MAX: usize = 100;

/// The members that share a value, as rows `{base}00`, `{base}01` and so on. A member is in one of
/// the rows. Every change of the list writes the row `00`, so that its version is the list's.
pub(super) struct List {
    partition: String,
    /// The RowKeys without their numbers.
    base: String,
    rows: BTreeMap<usize, Row>,
}

#[derive(Default)]
struct Row {
    /// The escaped ids of its members.
    codes: BTreeSet<String>,
    /// The row as it was read: its version, and what the next write's id begins from.
    stored: Option<Stored<DynEntity>>,
    is_changed: bool,
}

impl List {
    pub(super) fn new(partition: &str, base: String) -> Self {
        Self { partition: partition.to_owned(), base, rows: BTreeMap::new() }
    }

    /// Takes over a row that was read; one of another form is nobody's here.
    pub(super) fn take(&mut self, row: Stored<DynEntity>) {
        let number = row.key().row().strip_prefix(self.base.as_str()).and_then(row_number);
        if let Some(number) = number {
            let codes = codes_of(&row).map(str::to_owned).collect();
            self.rows.insert(number, Row { codes, stored: Some(row), is_changed: false });
        }
    }

    /// The version of the list; `None` if there is no list.
    pub(super) fn version(&self) -> Option<&ETag> {
        self.rows.get(&0)?.stored.as_ref().map(Stored::etag)
    }

    pub(super) fn has(&self, code: &str) -> bool {
        self.rows.values().any(|row| row.codes.contains(code))
    }

    /// The escaped ids of all members.
    pub(super) fn codes(&self) -> BTreeSet<&str> {
        self.rows.values().flat_map(|row| &row.codes).map(String::as_str).collect()
    }

    pub(super) fn add(&mut self, code: &str) -> Result<(), Error> {
        self.rows.entry(0).or_default();
        if self.has(code) {
            return Ok(());
        }
        let number = self.rows.iter().find(|(_, row)| row.has_room_for(code)).map(|(at, _)| *at);
        let number = number.or_else(|| (0..ROWS_MAX).find(|at| !self.rows.contains_key(at)));
        let Some(number) = number else {
            let text = format!(
                "the list '{}' is full: {ROWS_MAX} rows; keep one row a member (Place::Rows)",
                self.base
            );
            return Err(Error::beyond(Rule::EntitySize, ROWS_MAX, ROWS_MAX + 1, text));
        };
        let row = self.rows.entry(number).or_default();
        row.is_changed = true;
        row.codes.insert(code.to_owned());
        Ok(())
    }

    pub(super) fn remove(&mut self, code: &str) {
        for row in self.rows.values_mut() {
            row.is_changed |= row.codes.remove(code);
        }
    }

    /// Adds what must be written to a transaction, each row under the version that was read.
    pub(super) fn stage(&self, all: &mut Transaction<'_>, random: u64) -> Result<(), Error> {
        let is_empty = self.rows.values().all(|row| row.codes.is_empty());
        for (number, row) in &self.rows {
            let is_needed = if *number == 0 { !is_empty } else { !row.codes.is_empty() };
            let is_written = row.is_changed || *number == 0;
            let key = EntityKey::new(self.partition.as_str(), format!("{}{number:02}", self.base))?;
            let (name, operation) = match (&row.stored, is_needed) {
                (Some(stored), false) => {
                    let if_match = IfMatch::Version(stored.etag().clone());
                    ("delete", prepare::delete(&core(&key), &if_match)?)
                }
                (Some(stored), true) if is_written => {
                    let id = next_id(stored, random);
                    ("replace", row.replace(&key, stored.etag(), id)?)
                }
                (None, true) => {
                    let new = DynEntity::new(key.partition(), key.row());
                    let id = next_id(&new, random);
                    ("insert", row.prepared(&key, id)?.insert(Claim::Insert))
                }
                (Some(_), true) | (None, false) => continue,
            };
            all.add(name, core(&key), operation)?;
        }
        Ok(())
    }
}

impl Row {
    fn has_room_for(&self, code: &str) -> bool {
        let mut codes: Vec<&str> = self.codes.iter().map(String::as_str).collect();
        let at = codes.partition_point(|known| *known < code);
        codes.insert(at, code);
        packed(&codes).is_some()
    }

    /// The write of a row that is there. If its members stay, only the id of the write is sent.
    fn replace(&self, key: &EntityKey, etag: &ETag, id: String) -> Result<Operation, Error> {
        let if_match = IfMatch::Version(etag.clone());
        if self.is_changed {
            return self.prepared(key, id)?.update(Mode::Replace, &if_match);
        }
        let properties = encode_properties(&DynEntity::new(key.partition(), key.row()), &[])?;
        let id = (WRITE_ID.to_owned(), id);
        let prepared = Prepared::with_write_id(core(key), properties, Some(id))?;
        prepared.update(Mode::Merge, &if_match)
    }

    fn prepared(&self, key: &EntityKey, id: String) -> Result<Prepared, Error> {
        let codes: Vec<&str> = self.codes.iter().map(String::as_str).collect();
        let full = || Error::invalid(Rule::EntitySize, "a row of the list is full");
        let mut row = DynEntity::new(key.partition(), key.row());
        for (number, text) in packed(&codes).ok_or_else(full)?.into_iter().enumerate() {
            row.set(name(number), text);
        }
        let properties = encode_properties(&row, &[])?;
        Prepared::with_write_id(core(key), properties, Some((WRITE_ID.to_owned(), id)))
    }
}

fn name(number: usize) -> String {
    format!("m{number:02}")
}

/// The number that ends a RowKey: two digits.
pub(super) fn row_number(text: &str) -> Option<usize> {
    let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// The escaped ids in a row.
pub(super) fn codes_of(row: &DynEntity) -> impl Iterator<Item = &str> {
    let texts = (0..PROPERTIES_MAX).filter_map(|number| match row.value(&name(number)) {
        Some(Value::String(text)) => Some(text.as_str()),
        _ => None,
    });
    texts.flat_map(|text| text.split(',')).filter(|code| !code.is_empty())
}

/// Codes joined by commas into as few texts as a property each can hold; `None` if a row has not
/// so many properties. Codes are ASCII, so that a byte is a UTF-16 unit.
fn packed(codes: &[&str]) -> Option<Vec<String>> {
    let mut texts: Vec<String> = Vec::new();
    for code in codes {
        match texts.last_mut() {
            Some(text) if text.len() + 1 + code.len() <= STRING_UTF16_UNITS_MAX => {
                text.push(',');
                text.push_str(code);
            }
            _ => texts.push((*code).to_owned()),
        }
    }
    (texts.len() <= PROPERTIES_MAX).then_some(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(count: usize) -> Vec<String> {
        (0..count).map(|id| format!("{id:06}")).collect()
    }

    fn pack(ids: &[String]) -> Option<Vec<String>> {
        packed(&ids.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// G115: 4,681 ids of six digits in a property, 15 properties in a row; one more goes on.
    #[test]
    fn split_at_each_edge() {
        assert_eq!(pack(&[]), Some(Vec::new()));
        let property = 4_681;
        assert_eq!(pack(&ids(property)).map(|texts| texts.len()), Some(1));
        assert_eq!(pack(&ids(property + 1)).map(|texts| texts.len()), Some(2));
        let row = PROPERTIES_MAX * property;
        assert_eq!(pack(&ids(row)).map(|texts| texts.len()), Some(PROPERTIES_MAX));
        assert_eq!(pack(&ids(row + 1)), None);
        // A property is filled to its last unit, and no further.
        let long = |units: usize| vec!["a".to_owned(), "b".repeat(units)];
        assert_eq!(pack(&long(STRING_UTF16_UNITS_MAX - 2)).map(|texts| texts.len()), Some(1));
        assert_eq!(pack(&long(STRING_UTF16_UNITS_MAX - 1)).map(|texts| texts.len()), Some(2));
    }

    /// G115: a row that is full to its last unit is still a legal entity, with the longest keys.
    #[test]
    fn a_full_row_is_less_than_a_mebibyte() {
        let partition = "p".repeat(512);
        let mut list = List::new(&partition, format!("{}!", "r".repeat(509)));
        let code = |at: usize| format!("{at:04}{}", "x".repeat(STRING_UTF16_UNITS_MAX - 4));
        for at in 0..PROPERTIES_MAX {
            list.add(&code(at)).unwrap();
        }
        let key = EntityKey::new(partition.as_str(), format!("{}00", list.base)).unwrap();
        let row = &list.rows[&0];
        assert!(row.prepared(&key, prepare::write_id(1, 1)).is_ok());
        list.add("zz").unwrap();
        assert_eq!(list.rows.keys().copied().collect::<Vec<_>>(), [0, 1]);
        // What is removed leaves room for the next.
        list.remove(&code(3));
        list.add("zzz").unwrap();
        assert!(list.rows[&0].codes.contains("zzz"));
    }
}
