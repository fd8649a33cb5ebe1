//! The catalogue held against the rows: what `tavola check` asks about the meaning of system
//! tables.
//!
//! It gets every row of the system tables and the ids of all tables that have rows, and says what
//! does not fit. It reads rows with the same functions as the service does. For `tavola repair` it
//! also says what must be added to a folder in which rows were saved and their tables were not.

use std::collections::{BTreeMap, BTreeSet};

use tavola_core::{AccountName, EntityView, ServiceKind, TableId, TableName, Timestamp};
use tavola_store::{Row, RowRef, Store};

use crate::catalog::{self, DROPPED_PREFIX, Entry, ResourceKind, Tables};
use crate::error::ServiceError;
use crate::properties;

/// The system tables whose rows belong to what a store holds, and what people call them.
pub(crate) const SYSTEM_TABLES: [(TableId, &str); 3] = [
    (TableId::CATALOG, "catalogue"),
    (TableId::SERVICE_PROPERTIES, "service properties"),
    (TableId::SEQUENCES, "counter of table ids"),
];

/// The kinds of resources that this version serves; rows of others are findings.
const KINDS: [KnownKind; 1] = [KnownKind::of::<Tables>()];

/// How to read the catalogue's rows of one kind.
#[derive(Debug, Clone, Copy)]
struct KnownKind {
    prefix: &'static str,
    noun: &'static str,
    read: fn(&Row) -> Result<(TableId, String), String>,
}

impl KnownKind {
    const fn of<K: ResourceKind>() -> Self {
        Self { prefix: K::PREFIX, noun: K::NOUN, read: read_living::<K> }
    }
}

/// The table and the name of a living resource, or what is wrong with its row.
fn read_living<K: ResourceKind>(row: &Row) -> Result<(TableId, String), String> {
    let entry = Entry::<K>::read(row).map_err(|error| error.to_string())?;
    let name = K::text(entry.name());
    if row.row_key().as_str() != catalog::name_row_key::<K>(entry.name()).as_str() {
        return Err(format!("it stands under another name than its own, {name:?}"));
    }
    let unread = entry.unread(row);
    if !unread.is_empty() {
        return Err(format!("properties that cannot be read: {}", unread.join(", ")));
    }
    Ok((entry.id(), name.to_owned()))
}

/// A table of the store that the catalogue knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedTable {
    /// Whose it is.
    pub account: String,
    /// What people call it: a table, or the resource whose content it holds. Nothing says what a
    /// dropped one was.
    pub noun: &'static str,
    /// Its name; `None` once it is dropped.
    pub name: Option<String>,
}

/// What an audit came to.
#[derive(Debug)]
pub struct Audited {
    /// The tables that the catalogue knows.
    pub tables: BTreeMap<TableId, AuditedTable>,
    /// What does not fit, in words.
    pub findings: Vec<String>,
    /// Tables that have rows and are not in the catalogue.
    unknown: Vec<TableId>,
    /// What the counter of ids must be at least, if it is lower: an id must never be given out
    /// twice.
    next_id_needed: Option<u64>,
}

impl Audited {
    /// What [`Audited::amend`] does, in words.
    #[must_use]
    pub fn amendments(&self) -> Vec<String> {
        let account = self.account_for_unknown();
        let table = |table: &TableId| {
            let name = recovered_name(*table);
            format!(
                "the rows of table {} become the table {} of {account}: its own name is lost, and it may be one that was \
                 dropped",
                table.number(),
                name.as_str()
            )
        };
        let counter =
            self.next_id_needed.map(|next| format!("the counter of table ids goes on at {next}"));
        self.unknown.iter().map(table).chain(counter).collect()
    }

    /// Gives tables whose rows were saved and whose names were not a name, and lets no id be given
    /// out again.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn amend(&self, store: &dyn Store, now: Timestamp) -> Result<(), ServiceError> {
        if let Some(next) = self.next_id_needed {
            catalog::set_counter(store, next, now).await?;
        }
        let account = self.account_for_unknown();
        for table in &self.unknown {
            let name = recovered_name(*table);
            catalog::add::<Tables>(store, &account, name, *table, (), now).await?;
        }
        Ok(())
    }

    /// Whose a table of unknown name is: if there are several accounts, nothing says which.
    fn account_for_unknown(&self) -> AccountName {
        let mut accounts: Vec<&str> =
            self.tables.values().map(|table| table.account.as_str()).collect();
        accounts.sort_unstable();
        accounts.dedup();
        let only = if let [only] = accounts[..] { only } else { FALLBACK_ACCOUNT };
        AccountName::parse(only).expect("accounts were parsed before")
    }
}

fn recovered_name(table: TableId) -> TableName {
    TableName::parse(&format!("Recovered{}", table.number())).expect("letters and digits")
}

/// The development account, which every server without configured accounts has.
const FALLBACK_ACCOUNT: &str = "devstoreaccount1";

/// Collects the system tables' rows.
#[derive(Debug)]
pub struct Audit {
    kinds: Vec<KnownKind>,
    tables: BTreeMap<TableId, AuditedTable>,
    /// The first id that was never given out.
    next_id: Option<u64>,
    findings: Vec<String>,
}

impl Default for Audit {
    fn default() -> Self {
        let (tables, findings) = (BTreeMap::new(), Vec::new());
        Self { kinds: KINDS.to_vec(), tables, next_id: None, findings }
    }
}

impl Audit {
    /// The same that understands one more kind of resources.
    #[must_use]
    pub fn with_kind<K: ResourceKind>(mut self) -> Self {
        self.kinds.push(KnownKind::of::<K>());
        self
    }

    /// Takes one row of any table; those of clients mean nothing here.
    pub fn offer(&mut self, table: TableId, row: &RowRef<'_>) {
        let read = match table {
            TableId::CATALOG => self.catalog_row(&row.to_row()),
            TableId::SERVICE_PROPERTIES => self.properties_row(&row.to_row()),
            TableId::SEQUENCES => self.counter_row(&row.to_row()),
            TableId::UNFINISHED_COPY => {
                Err("this is an unfinished copy of another store: let `tavola store copy` finish it, or remove it"
                    .to_owned())
            }
            other if other.number() < TableId::FIRST_USER => {
                Err(format!("the system table {} is not one that this version knows", other.number()))
            }
            _ => Ok(()),
        };
        self.findings.extend(read.err());
    }

    /// What was found; `with_rows` are the tables that have rows.
    #[must_use]
    pub fn finish(mut self, with_rows: impl Iterator<Item = TableId>) -> Audited {
        let with_rows: BTreeSet<TableId> =
            with_rows.filter(|table| table.number() >= TableId::FIRST_USER).collect();
        let unknown: Vec<TableId> =
            with_rows.into_iter().filter(|table| !self.tables.contains_key(table)).collect();
        for table in &unknown {
            let number = table.number();
            self.findings.push(format!(
                "table {number} has rows, and is neither a living nor a dropped table"
            ));
        }
        let next_id = self.next_id.unwrap_or(TableId::FIRST_USER);
        for (table, known) in &self.tables {
            if table.number() >= next_id {
                let (number, account) = (table.number(), &known.account);
                self.findings.push(format!(
                    "table {number} of {account} is not below {next_id}, the next id to give out"
                ));
            }
        }
        let ids = self.tables.keys().chain(&unknown).map(|table| table.number() + 1);
        let next_id_needed = ids.max().filter(|needed| *needed > next_id);
        Audited { tables: self.tables, findings: self.findings, unknown, next_id_needed }
    }

    fn catalog_row(&mut self, row: &Row) -> Result<(), String> {
        let (account, key) = (account_of(row)?, row.row_key().as_str());
        let wrong = |what: String| format!("the catalogue's row {key:?} of {account}: {what}");
        let kind = self.kinds.iter().find(|kind| key.starts_with(kind.prefix));
        let (id, noun, name) = if let Some(kind) = kind {
            let (id, name) = (kind.read)(row).map_err(wrong)?;
            (id, kind.noun, Some(name))
        } else if key.starts_with(DROPPED_PREFIX) {
            let id = catalog::read_dropped(row).map_err(|error| wrong(error.to_string()))?;
            if key != catalog::dropped_row_key(id).as_str() {
                return Err(wrong(format!(
                    "it stands under another id than its own, {}",
                    id.number()
                )));
            }
            (id, Tables::NOUN, None)
        } else {
            return Err(wrong("neither a living nor a dropped table".to_owned()));
        };
        if id.number() < TableId::FIRST_USER {
            return Err(wrong(format!("its id {} is one of a system table", id.number())));
        }
        let table = AuditedTable { account: account.clone(), noun, name };
        match self.tables.insert(id, table) {
            None => Ok(()),
            Some(other) => {
                Err(wrong(format!("its id {} is also that of {}", id.number(), words(&other))))
            }
        }
    }

    fn properties_row(&mut self, row: &Row) -> Result<(), String> {
        let account = account_of(row)?;
        let wrong = |what: String| format!("the service properties of {account}: {what}");
        let key = row.row_key().as_str();
        if !ServiceKind::ALL.iter().any(|service| service.name() == key) {
            return Err(wrong(format!("{key:?} is no service")));
        }
        let read = properties::read_properties(row).map_err(|error| wrong(error.to_string()))?;
        let unread = properties::unread(row, &read);
        if unread.is_empty() {
            Ok(())
        } else {
            Err(wrong(format!("cannot be read: {}", unread.join(", "))))
        }
    }

    fn counter_row(&mut self, row: &Row) -> Result<(), String> {
        let next = catalog::read_counter(row).map_err(|error| error.to_string())?;
        self.next_id = Some(next);
        Ok(())
    }
}

fn account_of(row: &Row) -> Result<String, String> {
    let text = row.partition_key().as_str();
    match AccountName::parse(text) {
        Some(account) => Ok(account.as_str().to_owned()),
        None => Err(format!("a system row of {text:?}, which cannot be an account")),
    }
}

fn words(table: &AuditedTable) -> String {
    let AuditedTable { account, noun, name } = table;
    match name {
        Some(name) => format!("the {noun} {name:?} of {account}"),
        None => format!("a dropped {noun} of {account}"),
    }
}
