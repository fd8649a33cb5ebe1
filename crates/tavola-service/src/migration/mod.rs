//! Everything from one store into another: catalogue, policies, properties and entities, with their
//! ids and versions.
//!
//! The source is read once to know what it holds (`digest`), then copied table by table, the
//! catalogue last, and then the target is read and held against it. A mark in the target (`mark`)
//! says how far the copy is, so that one that was cut short goes on, and that nobody serves half of
//! a store. Neither store may be served meanwhile.

mod checkpoint;
mod digest;

use std::fmt;

use tavola_core::{Cut, EntityAddress, KeyRange, TableId, Timestamp};
use tavola_store::{Import, ImportError, Row, Scan, ScanPage, Store, StoreError};

use crate::audit::{Audit, SYSTEM_TABLES};
use crate::clock::Clock;
use crate::error::ServiceError;
use checkpoint::CopyCheckpoint;
pub use digest::Digest;

/// What is read at a time.
const PAGE_ROWS: usize = 1000;
const PAGE_BYTES: usize = 4 << 20;

/// Why a store was not moved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// The catalogue of the source does not hold what it should.
    #[error("the catalogue of the source is damaged: {}", .0.join("; "))]
    Catalogue(Vec<String>),
    /// The source is a copy that was not finished.
    #[error("the source is an unfinished copy of {0}: finish that one first")]
    SourceUnfinished(String),
    /// The target has rows, and no mark of a copy.
    #[error(
        "the target is not empty: {0} has rows, and nothing says that they are of a copy. Nothing was written"
    )]
    NotEmpty(String),
    /// The target has a part of something else.
    #[error(
        "the target holds an unfinished copy of {0}, which was another store or has changed since. Nothing was written; \
         begin again with an empty target"
    )]
    OtherCopy(String),
    /// A row of the target is in the way.
    #[error("{table} of the target: {error}")]
    Occupied {
        /// Where.
        table: String,
        /// What stands there.
        error: ImportError,
    },
    /// A store failed. What was written stays for the next run.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl From<StoreError> for MoveError {
    fn from(error: StoreError) -> Self {
        Self::Service(error.into())
    }
}

/// Who wants to know how far it is.
pub trait Watch: Send {
    /// A part begins; `rows` if it is known how many it has.
    fn begin(&mut self, what: &'static str, rows: Option<u64>);
    /// So many rows more.
    fn advance(&mut self, rows: u64);
}

/// A table of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedTable {
    /// Its id, which is the same in both stores.
    pub id: TableId,
    /// Whose it is; `None`: the store's own.
    pub account: Option<String>,
    /// What people call it: a table, a queue.
    pub noun: &'static str,
    /// Its name.
    pub name: String,
    /// What the source holds.
    pub source: Digest,
    /// What the target holds; `None`: it was not looked at yet.
    pub target: Option<Digest>,
}

impl MovedTable {
    /// True if both hold the same.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.target == Some(self.source)
    }
}

impl fmt::Display for MovedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.account {
            Some(account) => write!(f, "{} {} of {account}", self.noun, self.name),
            None => write!(f, "the {}", self.name),
        }
    }
}

/// How a move came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumption {
    /// From nothing.
    Whole,
    /// It went on where an earlier one was cut short.
    Resumed,
    /// Nothing was to be done: the target held everything already.
    WasThere,
}

/// What a move came to.
#[derive(Debug, Clone)]
pub struct Moved {
    /// Every table, in the order in which they were copied.
    pub tables: Vec<MovedTable>,
    /// How it came about.
    pub course: Resumption,
}

impl Moved {
    /// The tables that differ.
    pub fn different(&self) -> impl Iterator<Item = &MovedTable> {
        self.tables.iter().filter(|table| !table.is_equal())
    }
}

/// Moves everything that `from` holds into `to`. `source` names it for people. Versions above
/// `versions_max` become that one, which is the way back for a store whose clock once was far
/// ahead; a copy that is resumed goes on with the one that it began with.
///
/// A result with differences leaves the mark in the target, so that nobody serves it.
///
/// # Errors
/// If the target holds something else, or a store fails; then the same call goes on where this one
/// ended.
pub async fn copy(
    from: &dyn Store,
    to: &dyn Import,
    source: &str,
    versions_max: Option<Timestamp>,
    clock: &dyn Clock,
    watch: &mut dyn Watch,
) -> Result<Moved, MoveError> {
    if let Some(checkpoint) = CopyCheckpoint::read(from).await? {
        return Err(MoveError::SourceUnfinished(checkpoint.source));
    }
    let begun = CopyCheckpoint::read(to).await?.and_then(|checkpoint| checkpoint.versions_max);
    let versions_max = versions_max.map(|max| begun.unwrap_or(max));
    let mut mover = Mover {
        from,
        to,
        clock,
        watch,
        tables: survey(from).await?,
        checkpoint: CopyCheckpoint::new(source, versions_max),
    };
    mover.read_source().await?;
    let course = match mover.begin().await? {
        Resumption::WasThere => {
            return Ok(Moved { tables: mover.tables, course: Resumption::WasThere });
        }
        course => course,
    };
    mover.copy_tables().await?;
    mover.read_target().await?;
    if mover.tables.iter().all(MovedTable::is_equal) {
        CopyCheckpoint::remove(to, clock.now()).await?;
    }
    Ok(Moved { tables: mover.tables, course })
}

/// What of a store is an unfinished copy: the name of its source, if it is one. Such a store must
/// not be served.
///
/// # Errors
/// If the store fails.
pub async fn unfinished_copy(store: &dyn Store) -> Result<Option<String>, StoreError> {
    Ok(CopyCheckpoint::read(store).await?.map(|checkpoint| checkpoint.source))
}

/// The row that only an unfinished copy has, for stores that can look for it before they are
/// opened.
#[must_use]
pub fn unfinished_copy_address() -> EntityAddress {
    checkpoint::address()
}

/// The name of the source, from that row.
///
/// # Errors
/// If the row is damaged.
pub fn unfinished_copy_source(row: &Row) -> Result<String, StoreError> {
    checkpoint::read(row).map(|checkpoint| checkpoint.source)
}

/// The tables of a store in the order in which they are copied: the catalogue last, so that no
/// table is seen before its rows are there.
async fn survey(from: &dyn Store) -> Result<Vec<MovedTable>, MoveError> {
    let mut audit = Audit::default();
    for (table, _) in SYSTEM_TABLES {
        let mut start = Some(Cut::Start);
        while let Some(cut) = start {
            let page = read_page(from, table, cut).await?;
            page.rows.iter().for_each(|row| audit.offer(table, &row.as_row_ref()));
            start = page.next;
        }
    }
    let audited = audit.finish(std::iter::empty());
    if !audited.findings.is_empty() {
        return Err(MoveError::Catalogue(audited.findings));
    }
    let unread = |id, account, noun, name| MovedTable {
        id,
        account,
        noun,
        name,
        source: Digest::default(),
        target: None,
    };
    // Rows of dropped tables are nobody's any more; that they were dropped is in the catalogue.
    let users = audited
        .tables
        .into_iter()
        .filter_map(|(id, table)| Some(unread(id, Some(table.account), table.noun, table.name?)));
    let own = SYSTEM_TABLES
        .into_iter()
        .rev()
        .map(|(id, name)| unread(id, None, "system table", name.to_owned()));
    Ok(users.chain(own).collect())
}

async fn read_page(store: &dyn Store, table: TableId, start: Cut) -> Result<ScanPage, StoreError> {
    let range = KeyRange { start, end: Cut::End };
    let (rows_max, bytes_max, read_max) = (PAGE_ROWS, PAGE_BYTES, PAGE_ROWS);
    store.scan(&Scan { rows_max, bytes_max, read_max, ..Scan::all(table, range) }).await
}

struct Mover<'a> {
    from: &'a dyn Store,
    to: &'a dyn Import,
    clock: &'a dyn Clock,
    watch: &'a mut dyn Watch,
    tables: Vec<MovedTable>,
    checkpoint: CopyCheckpoint,
}

impl Mover<'_> {
    async fn read_source(&mut self) -> Result<(), MoveError> {
        self.watch.begin("reading the source", None);
        for table in &mut self.tables {
            table.source =
                digest(self.from, table.id, self.checkpoint.versions_max, self.watch).await?;
        }
        self.checkpoint.content = self.tables.iter().map(|table| table.source).sum();
        Ok(())
    }

    async fn read_target(&mut self) -> Result<(), MoveError> {
        self.watch.begin("verifying", Some(self.checkpoint.content.rows));
        for table in &mut self.tables {
            table.target = Some(digest(self.to, table.id, None, self.watch).await?);
        }
        Ok(())
    }

    /// Looks what the target holds, and marks it as ours if it is empty.
    async fn begin(&mut self) -> Result<Resumption, MoveError> {
        if let Some(standing) = CopyCheckpoint::read(self.to).await? {
            if standing.content != self.checkpoint.content {
                return Err(MoveError::OtherCopy(standing.source));
            }
            self.checkpoint.position = standing.position;
            return Ok(Resumption::Resumed);
        }
        if let Some(occupied) = self.first_occupied().await? {
            return if self.is_all_there().await? {
                Ok(Resumption::WasThere)
            } else {
                Err(MoveError::NotEmpty(occupied))
            };
        }
        self.checkpoint.write(self.to, self.clock.now()).await?;
        Ok(Resumption::Whole)
    }

    async fn first_occupied(&self) -> Result<Option<String>, MoveError> {
        for table in &self.tables {
            let scan = Scan { rows_max: 1, read_max: 1, ..Scan::all(table.id, KeyRange::ALL) };
            if !self.to.scan(&scan).await?.rows.is_empty() {
                return Ok(Some(table.to_string()));
            }
        }
        Ok(None)
    }

    /// A copy that was finished and not told. The catalogue is small, and tells most other stores
    /// at once.
    async fn is_all_there(&mut self) -> Result<bool, MoveError> {
        for table in self.tables.iter().filter(|table| table.account.is_none()) {
            if digest(self.to, table.id, None, &mut Unwatched).await? != table.source {
                return Ok(false);
            }
        }
        self.read_target().await?;
        Ok(self.tables.iter().all(MovedTable::is_equal))
    }

    async fn copy_tables(&mut self) -> Result<(), MoveError> {
        self.watch.begin("copying", Some(self.checkpoint.content.rows));
        let begun = self.checkpoint.position.as_ref().map(|(table, _)| *table);
        let at = begun
            .and_then(|begun| self.tables.iter().position(|table| table.id == begun))
            .unwrap_or_default();
        self.watch.advance(self.tables[..at].iter().map(|table| table.source.rows).sum());
        for index in at..self.tables.len() {
            let id = self.tables[index].id;
            let start = match self.checkpoint.position.take() {
                Some((table, Some(last))) if table == id => Cut::After(last),
                _ => Cut::Start,
            };
            self.copy_table(index, start).await?;
        }
        Ok(())
    }

    /// Reads a page while the one before it is written.
    async fn copy_table(&mut self, index: usize, start: Cut) -> Result<(), MoveError> {
        let table = self.tables[index].id;
        let (from, versions_max) = (self.from, self.checkpoint.versions_max);
        let mut page = read_capped(from, table, start, versions_max).await?;
        loop {
            let next = page.next.take();
            let following = async {
                match next {
                    Some(cut) => read_capped(from, table, cut, versions_max).await.map(Some),
                    None => Ok(None),
                }
            };
            let (imported, following) = tokio::join!(self.to.import(table, &page.rows), following);
            imported.map_err(|error| self.cannot_import(index, error))?;
            self.watch.advance(page.rows.len() as u64);
            let last = page.rows.last().map(Row::key).transpose()?;
            let Some(following) = following? else { break };
            if last.is_some() {
                self.checkpoint.position = Some((table, last));
                self.checkpoint.write(self.to, self.clock.now()).await?;
            }
            page = following;
        }
        if let Some(after) = self.tables.get(index + 1) {
            self.checkpoint.position = Some((after.id, None));
            self.checkpoint.write(self.to, self.clock.now()).await?;
        }
        Ok(())
    }

    fn cannot_import(&self, index: usize, error: ImportError) -> MoveError {
        match error {
            ImportError::Store(error) => error.into(),
            error => MoveError::Occupied { table: self.tables[index].to_string(), error },
        }
    }
}

/// The same with versions as they are copied.
async fn read_capped(
    store: &dyn Store,
    table: TableId,
    start: Cut,
    versions_max: Option<Timestamp>,
) -> Result<ScanPage, StoreError> {
    let page = read_page(store, table, start).await?;
    let Some(max) = versions_max else { return Ok(page) };
    Ok(ScanPage {
        rows: page.rows.into_iter().map(|row| row.with_version_up_to(max)).collect(),
        ..page
    })
}

async fn digest(
    store: &dyn Store,
    table: TableId,
    versions_max: Option<Timestamp>,
    watch: &mut dyn Watch,
) -> Result<Digest, StoreError> {
    let mut digest = Digest::default();
    let mut start = Some(Cut::Start);
    while let Some(cut) = start {
        let page = read_capped(store, table, cut, versions_max).await?;
        page.rows.iter().for_each(|row| digest.add(row));
        watch.advance(page.rows.len() as u64);
        start = page.next;
    }
    Ok(digest)
}

struct Unwatched;

impl Watch for Unwatched {
    fn begin(&mut self, _: &'static str, _: Option<u64>) {}

    fn advance(&mut self, _: u64) {}
}
