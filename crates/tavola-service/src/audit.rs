//! The catalogue held against the rows: what `tavola check` asks about the meaning of system tables.
//!
//! It gets every row of the system tables and the ids of all tables that have rows, and says what does not fit. It reads
//! rows with the same functions as the service does.

use std::collections::{BTreeMap, BTreeSet};

use tavola_core::{AccountName, EntityView, TableId};
use tavola_store::{Row, RowRef};

use crate::catalog::{self, DROPPED_PREFIX, TABLE_PREFIX};
use crate::properties;

/// A table that the catalogue knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedTable {
    /// Whose it is.
    pub account: String,
    /// Its name; `None` once it is dropped.
    pub name: Option<String>,
}

/// Collects the system tables' rows.
#[derive(Debug, Default)]
pub struct Audit {
    tables: BTreeMap<TableId, AuditedTable>,
    /// The first id that was never given out.
    next_id: Option<u64>,
    findings: Vec<String>,
}

impl Audit {
    /// Takes one row of any table; those of clients mean nothing here.
    pub fn offer(&mut self, table: TableId, row: &RowRef<'_>) {
        let read = match table {
            TableId::CATALOG => self.catalog_row(&row.to_row()),
            TableId::SERVICE_PROPERTIES => self.properties_row(&row.to_row()),
            TableId::SEQUENCES => self.counter_row(&row.to_row()),
            other if other.number() < TableId::FIRST_USER => {
                Err(format!("the system table {} is not one that this version knows", other.number()))
            }
            _ => Ok(()),
        };
        self.findings.extend(read.err());
    }

    /// The tables that are known, and what does not fit; `with_rows` are the tables that have rows.
    #[must_use]
    pub fn finish(
        mut self,
        with_rows: impl Iterator<Item = TableId>,
    ) -> (BTreeMap<TableId, AuditedTable>, Vec<String>) {
        let known: BTreeSet<TableId> = self.tables.keys().copied().collect();
        for table in with_rows.filter(|table| table.number() >= TableId::FIRST_USER) {
            if !known.contains(&table) {
                let number = table.number();
                self.findings.push(format!("table {number} has rows, and is neither a living nor a dropped table"));
            }
        }
        let next_id = self.next_id.unwrap_or(TableId::FIRST_USER);
        for (table, known) in &self.tables {
            if table.number() >= next_id {
                let (number, account) = (table.number(), &known.account);
                self.findings
                    .push(format!("table {number} of {account} is not below {next_id}, the next id to give out"));
            }
        }
        (self.tables, self.findings)
    }

    fn catalog_row(&mut self, row: &Row) -> Result<(), String> {
        let (account, key) = (account_of(row)?, row.row_key());
        let wrong = |what: String| format!("the catalogue's row {key:?} of {account}: {what}");
        let (id, name) = if key.starts_with(TABLE_PREFIX) {
            let entry = catalog::read_table(row).map_err(|error| wrong(error.to_string()))?;
            if key.strip_prefix(TABLE_PREFIX) != Some(&*entry.name.folded()) {
                return Err(wrong(format!("it stands under another name than its own, {:?}", entry.name.as_str())));
            }
            let unread = catalog::unread_policies(row, &entry);
            if !unread.is_empty() {
                return Err(wrong(format!("properties of access policies that cannot be read: {}", unread.join(", "))));
            }
            (entry.id, Some(entry.name.as_str().to_owned()))
        } else if key.starts_with(DROPPED_PREFIX) {
            let (id, _) = catalog::read_dropped(row).map_err(|error| wrong(error.to_string()))?;
            if key != catalog::dropped_row_key(id).as_str() {
                return Err(wrong(format!("it stands under another id than its own, {}", id.number())));
            }
            (id, None)
        } else {
            return Err(wrong("neither a living nor a dropped table".to_owned()));
        };
        if id.number() < TableId::FIRST_USER {
            return Err(wrong(format!("its id {} is one of a system table", id.number())));
        }
        let table = AuditedTable { account: account.clone(), name };
        match self.tables.insert(id, table) {
            None => Ok(()),
            Some(other) => Err(wrong(format!("its id {} is also that of {}", id.number(), words(&other)))),
        }
    }

    fn properties_row(&mut self, row: &Row) -> Result<(), String> {
        let account = account_of(row)?;
        let wrong = |what: String| format!("the service properties of {account}: {what}");
        let read = properties::read_properties(row).map_err(|error| wrong(error.to_string()))?;
        let unread = properties::unread(row, &read);
        if unread.is_empty() { Ok(()) } else { Err(wrong(format!("cannot be read: {}", unread.join(", ")))) }
    }

    fn counter_row(&mut self, row: &Row) -> Result<(), String> {
        let next = catalog::read_counter(row).map_err(|error| error.to_string())?;
        self.next_id = Some(next);
        Ok(())
    }
}

fn account_of(row: &Row) -> Result<String, String> {
    let text = row.partition_key();
    match AccountName::parse(text) {
        Some(account) => Ok(account.as_str().to_owned()),
        None => Err(format!("a system row of {text:?}, which cannot be an account")),
    }
}

fn words(table: &AuditedTable) -> String {
    match &table.name {
        Some(name) => format!("the table {name:?} of {}", table.account),
        None => format!("a dropped table of {}", table.account),
    }
}
