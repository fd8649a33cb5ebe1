//! Every row: its key, its value, its version.

use tavola_core::{EntityView, TableId, Timestamp};
use tavola_store::RowRef;
use tavola_store::keys::{decode_key, entity_key};

use crate::check::report::{Finding, Loss, Place, Report, Severity, key_text};
use crate::engine::{is_last_version_key, last_version_from};

/// What is remembered from row to row.
#[derive(Debug, Default)]
pub(crate) struct RowCheck {
    /// The highest version ever assigned, as the store has it. Its row comes before all others.
    last_version: Option<Timestamp>,
    /// The highest version of a row.
    highest: Option<Timestamp>,
    /// Everything that was offered, rows of the store itself included.
    pub(crate) seen: u64,
    pub(crate) fingerprint: Fingerprint,
}

/// Tells two sequences of rows apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    rows: u64,
    crc: u32,
}

impl Fingerprint {
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        self.rows += 1;
        for part in [
            &(key.len() as u64).to_le_bytes()[..],
            key,
            &(value.len() as u64).to_le_bytes()[..],
            value,
        ] {
            self.crc = crc32c::crc32c_append(self.crc, part);
        }
    }
}

impl RowCheck {
    pub(crate) fn offer(
        &mut self,
        key: &[u8],
        value: &[u8],
        report: &mut Report,
        sound: &mut dyn FnMut(TableId, &RowRef<'_>),
    ) {
        self.seen += 1;
        self.fingerprint.add(key, value);
        if is_last_version_key(key) {
            self.last_version = last_version_from(value);
            if self.last_version.is_none() {
                report.damage(
                    Place::Row(key_text(key)),
                    "the record of the last version is not one that this software writes",
                );
            }
            return;
        }
        if let Err(what) = self.row(key, value, report, sound) {
            let loss = Some(Loss { rows: Some(1), ..Loss::default() });
            report.add(Finding {
                severity: Severity::Damage,
                place: Place::Row(key_text(key)),
                what,
                loss,
            });
        }
    }

    fn row(
        &mut self,
        key: &[u8],
        value: &[u8],
        report: &mut Report,
        sound: &mut dyn FnMut(TableId, &RowRef<'_>),
    ) -> Result<(), String> {
        let decoded = decode_key(key).map_err(|error| error.to_string())?;
        entity_key(&decoded.partition_key, &decoded.row_key).map_err(|error| error.to_string())?;
        if decoded.table.number() == 0 {
            return Err("a row among the store's own that this software does not write".to_owned());
        }
        let row = RowRef::new(&decoded.partition_key, &decoded.row_key, value)
            .map_err(|error| error.to_string())?;
        report.counts.rows += 1;
        report.row_bytes += (key.len() + value.len()) as u64;
        *report.rows_by_table.entry(decoded.table).or_default() += 1;
        self.highest = self.highest.max(Some(row.timestamp()));
        if self.last_version.is_some_and(|last| row.timestamp() > last) {
            let what = "its version is above the highest that was ever given out";
            report.damage(Place::Row(key_text(key)), what);
        }
        sound(decoded.table, &row);
        Ok(())
    }

    /// What is known only at the end.
    pub(crate) fn finish(&self, report: &mut Report) {
        if self.last_version.is_none() && self.highest.is_some() {
            let what = "the record of the highest version that was ever given out is missing";
            report.damage(Place::Row("the store's own row".to_owned()), what);
        }
    }

    /// A version that no row and no record exceeds.
    pub(crate) fn version(&self) -> Option<Timestamp> {
        self.last_version.max(self.highest)
    }
}
