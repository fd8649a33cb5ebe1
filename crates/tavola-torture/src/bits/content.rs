//! A data folder with known content, and what a server says about it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tavola_core::request::EntityQuery;
use tavola_core::{
    EdmRef, EdmValue, EntityGroupTransaction, EntityKey, EntityOperation, NewEntity, PartitionKey,
    Precondition, Properties, PropertyName, RowKey, TableRequest,
};
use tavola_protocol::table::decode::{DecodeError, Decoded};
use tavola_protocol::table::entity_json::DecodedEntity;

use super::super::{Arena, Violation};
use super::{folder, run};
use tavola_testkit::client::{Client, name};

const TABLES: [&str; 3] = ["alpha", "beta", "gamma"];
const PARTITIONS: usize = 4;
const ROWS_PER_PARTITION: usize = 100;
/// Rounds of writing, so that rows have older versions in deeper levels.
const ROUNDS: i32 = 6;
const ROUNDS_MAX: i32 = 14;
/// Table files on more than one level: those of level 0 are compacted when there are four.
const LIVE_FILES_MIN: usize = 3;
/// Two bases, one of each compression, serve so many seeds in turn: making them takes longer than
/// attacking them.
const SEEDS_PER_BASES: u64 = 100;
const COMPRESSIONS: [&str; 2] = ["lz4", "zstd"];
/// Rows that are also read one by one.
const GETS: usize = 40;

/// What a row was, in the order in which it was written; `None` where it was deleted. The last is
/// what it is.
pub(super) type History = Vec<Option<(i32, String)>>;
pub(super) type Key = (String, String);

/// What is known of every row of a table.
#[derive(Debug, Default)]
pub(super) struct Content(pub(super) BTreeMap<&'static str, BTreeMap<Key, History>>);

/// A folder that a killed server left.
#[derive(Debug)]
pub(super) struct Base {
    number: u64,
    pub(super) folder: PathBuf,
    pub(super) content: Content,
    /// Table files that are there and not part of the data any more.
    pub(super) obsolete: BTreeSet<String>,
}

/// The figures of reading a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) rows: u64,
    pub(super) errors: u64,
}

/// The base of this seed, made if the seeds before had others.
pub(super) fn base(arena: &Arena) -> Result<Arc<Base>, Violation> {
    static BASES: Mutex<[Option<Arc<Base>>; COMPRESSIONS.len()]> = Mutex::new([None, None]);
    let which = (arena.seed % COMPRESSIONS.len() as u64) as usize;
    let number = arena.seed / SEEDS_PER_BASES;
    let mut bases = BASES.lock().unwrap_or_else(PoisonError::into_inner);
    let base = &mut bases[which];
    match base {
        Some(base) if base.number == number => Ok(Arc::clone(base)),
        _ => Ok(Arc::clone(base.insert(Arc::new(make(arena, number, COMPRESSIONS[which])?)))),
    }
}

fn make(arena: &Arena, number: u64, compression: &str) -> Result<Base, Violation> {
    let failed =
        |error: std::io::Error| Violation::new(format!("cannot make a folder to damage: {error}"));
    let mut rng = fastrand::Rng::with_seed(number ^ 0xb175);
    let mut content = Content::default();
    for round in 0..ROUNDS {
        // The smallest memtables make the engine flush and compact; large ones leave the round in
        // the log.
        let memtable_kb = if round + 1 < ROUNDS { "64" } else { "65536" };
        content.write_and_kill(arena, round, (memtable_kb, compression), &mut rng)?;
    }
    let mut obsolete = obsolete_files(arena)?;
    // Each start makes a table file of what the last one left in the log, until there are enough to
    // be compacted.
    for round in ROUNDS..ROUNDS_MAX {
        let live = table_files(arena)?.difference(&obsolete).count();
        if live >= LIVE_FILES_MIN {
            break;
        }
        content.write_and_kill(arena, round, ("65536", compression), &mut rng)?;
        obsolete = obsolete_files(arena)?;
    }
    let folder = arena.folder.with_file_name(format!("bits-base-{compression}"));
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(failed)?;
    }
    fs::rename(arena.data(), &folder).map_err(failed)?;
    Ok(Base { number, folder, content, obsolete })
}

/// Table files that are there and not part of the data any more. The folder must be sound.
fn obsolete_files(arena: &Arena) -> Result<BTreeSet<String>, Violation> {
    let checked = run(arena, &["check", "data", "-o", "json"])?;
    let report: serde_json::Value = serde_json::from_slice(&checked.stdout).map_err(|error| {
        Violation::new(format!("`tavola check -o json` prints no JSON: {error}"))
    })?;
    if report["ok"] != true {
        return Err(Violation::new(format!(
            "a folder that a killed server left is not sound: {report:#}"
        )));
    }
    let notes = report["findings"].as_array().into_iter().flatten();
    let noted = notes
        .filter_map(|note| Some(note["file"].as_str()?.trim_start_matches("store/").to_owned()));
    Ok(noted.filter(|file| file.ends_with(".sst")).collect())
}

fn table_files(arena: &Arena) -> Result<BTreeSet<String>, Violation> {
    let files = folder::files(&arena.data())?.into_iter();
    let names = files.filter_map(|file| Some(file.file_name()?.to_string_lossy().into_owned()));
    Ok(names.filter(|name| name.ends_with(".sst")).collect())
}

impl Content {
    fn write_and_kill(
        &mut self,
        arena: &Arena,
        round: i32,
        (memtable_kb, compression): (&str, &str),
        rng: &mut fastrand::Rng,
    ) -> Result<(), Violation> {
        let server = arena.start(|command| {
            command
                .env("TAVOLA_STORE__MEMTABLE_KB", memtable_kb)
                .env("TAVOLA_STORE__COMPRESSION", compression)
        })?;
        let mut client =
            Client::connect(&server.table).map_err(|_| Violation::new("no connection"))?;
        self.write(&mut client, round, rng)?;
        server.kill();
        Ok(())
    }

    /// One round: batches that write rows anew, a few rows one by one, a few deletions.
    fn write(
        &mut self,
        client: &mut Client,
        round: i32,
        rng: &mut fastrand::Rng,
    ) -> Result<(), Violation> {
        for table in TABLES {
            client.create_table(table);
            for partition in 0..PARTITIONS {
                let rows: Vec<usize> =
                    (0..ROWS_PER_PARTITION).filter(|_| round == 0 || rng.u8(..3) == 0).collect();
                let partition = format!("p{partition}");
                let changes: Vec<(Key, Option<(i32, String)>)> = rows
                    .into_iter()
                    .map(|row| {
                        let filler: String =
                            (0..rng.usize(0..300)).map(|_| rng.alphanumeric()).collect();
                        let value = (rng.u8(..8) > 0 || round == 0).then_some((round, filler));
                        ((partition.clone(), format!("{row:03}")), value)
                    })
                    .collect();
                self.commit(client, table, &partition, changes)?;
            }
        }
        Ok(())
    }

    fn commit(
        &mut self,
        client: &mut Client,
        table: &'static str,
        partition: &str,
        changes: Vec<(Key, Option<(i32, String)>)>,
    ) -> Result<(), Violation> {
        let known = self.0.entry(table).or_default();
        let partition_key = PartitionKey::new(partition).expect("a legal key");
        let is_there = |key: &Key| {
            known.get(key).and_then(|history| history.last()).is_some_and(Option::is_some)
        };
        let changes: Vec<_> =
            changes.into_iter().filter(|(key, value)| value.is_some() || is_there(key)).collect();
        if changes.is_empty() {
            return Ok(());
        }
        let operations = changes
            .iter()
            .map(|(key, value)| (partition_key.clone(), operation(key, value.as_ref())));
        let transaction = EntityGroupTransaction::new(operations.collect())
            .expect("different rows of one partition");
        match client.ask(&TableRequest::Transaction(name(table), transaction)) {
            Ok(Ok(_)) => {}
            other => return Err(Violation::new(format!("a batch was not taken: {other:?}"))),
        }
        for (key, value) in changes {
            known.entry(key).or_default().push(value);
        }
        Ok(())
    }

    /// A server on a damaged folder: each read is right or an error.
    pub(super) fn verify_damaged(
        &self,
        client: &mut Client,
        rng: &mut fastrand::Rng,
    ) -> Result<Read, Violation> {
        let mut read = Read { rows: 0, errors: 0 };
        for (table, known) in &self.0 {
            let expected: BTreeMap<&Key, &(i32, String)> =
                known.iter().filter_map(current).collect();
            match scan(client, table)? {
                None => read.errors += 1,
                Some(rows) => {
                    read.rows += rows.len() as u64;
                    let rows: BTreeMap<&Key, &(i32, String)> = rows.iter().collect();
                    if rows != expected {
                        return Err(difference(table, &expected, &rows));
                    }
                }
            }
            let keys: Vec<&Key> = known.keys().collect();
            for _ in 0..GETS {
                let key = keys[rng.usize(..keys.len())];
                match get(client, table, key)? {
                    None => read.errors += 1,
                    Some(found) if found.as_ref() == expected.get(key).copied() => read.rows += 1,
                    Some(found) => {
                        let expected = expected.get(key);
                        return Err(Violation::new(format!(
                            "{table} {key:?} reads as {found:?}, and is {expected:?}"
                        )));
                    }
                }
            }
        }
        Ok(read)
    }
}

fn operation((partition, row): &Key, value: Option<&(i32, String)>) -> EntityOperation {
    let row_key = RowKey::new(row).expect("a legal key");
    let Some((round, filler)) = value else {
        return EntityOperation::Delete(row_key, Precondition::None);
    };
    let property = |name: &str| PropertyName::new(name).expect("an identifier");
    let values = vec![
        (property("Round"), EdmValue::Int32(*round)),
        (property("Filler"), EdmValue::String(filler.clone())),
        // A change of any part of the row contradicts another part.
        (property("Length"), EdmValue::Int64(filler.len() as i64)),
    ];
    let key = EntityKey::new(PartitionKey::new(partition).expect("a legal key"), row_key);
    let (_, entity) = NewEntity::new(key, Properties::new(values).expect("few properties"))
        .expect("a small entity");
    EntityOperation::Replace(entity, Precondition::None)
}

pub(super) fn current<'a>(
    (key, history): (&'a Key, &'a History),
) -> Option<(&'a Key, &'a (i32, String))> {
    history.last().and_then(Option::as_ref).map(|value| (key, value))
}

pub(super) type Rows = BTreeMap<Key, (i32, String)>;

/// All rows of a table; `None` if the server said that it cannot read them.
pub(super) fn scan(client: &mut Client, table: &str) -> Result<Option<Rows>, Violation> {
    let request = TableRequest::QueryEntities(name(table), EntityQuery::default());
    let (mut rows, mut page) = (Rows::new(), None);
    loop {
        match client.ask_page(&request, page.as_ref()) {
            Ok(Ok(Decoded::Entities(entities, next))) => {
                rows.extend(entities.into_iter().map(row).collect::<Result<Vec<_>, _>>()?);
                match next {
                    Some(next) => page = Some(next),
                    None => return Ok(Some(rows)),
                }
            }
            Ok(Err(error)) if is_honest(&error) => return Ok(None),
            other => {
                return Err(Violation::new(format!("a scan of {table} is answered {other:?}")));
            }
        }
    }
}

/// One row, or that there is none; the outer `None` if the server said that it cannot tell.
fn get(
    client: &mut Client,
    table: &str,
    key: &Key,
) -> Result<Option<Option<(i32, String)>>, Violation> {
    let partition_key = PartitionKey::new(&key.0).expect("a legal key");
    let entity_key = EntityKey::new(partition_key, RowKey::new(&key.1).expect("a legal key"));
    match client.ask(&TableRequest::GetEntity(name(table), entity_key)) {
        Ok(Ok(Decoded::Entity(entity))) => Ok(Some(Some(row(entity)?.1))),
        Ok(Err(DecodeError::Service(error))) if error.code == "ResourceNotFound" => Ok(Some(None)),
        Ok(Err(error)) if is_honest(&error) => Ok(None),
        other => Err(Violation::new(format!("a read of {table} {key:?} is answered {other:?}"))),
    }
}

fn is_honest(error: &DecodeError) -> bool {
    matches!(error, DecodeError::Service(error) if error.status == 500 && error.code == "InternalError")
}

fn row(entity: DecodedEntity) -> Result<(Key, (i32, String)), Violation> {
    let entity =
        entity.into_entity().ok_or_else(|| Violation::new("an entity came without its keys"))?;
    let key =
        (entity.key.partition_key.as_str().to_owned(), entity.key.row_key.as_str().to_owned());
    let properties = &entity.properties;
    match (properties.get("Round"), properties.get("Filler"), properties.get("Length")) {
        (Some(EdmRef::Int32(round)), Some(EdmRef::String(filler)), Some(EdmRef::Int64(length)))
            if length == filler.as_bytes().len() as i64 && properties.len() == 3 =>
        {
            Ok((key, (round, filler.to_string())))
        }
        _ => Err(Violation::new(format!("a row that was never written: {key:?} {properties:?}"))),
    }
}

fn difference(
    table: &str,
    expected: &BTreeMap<&Key, &(i32, String)>,
    found: &BTreeMap<&Key, &(i32, String)>,
) -> Violation {
    let missing = expected.keys().filter(|key| !found.contains_key(*key)).count();
    let foreign = found.keys().filter(|key| !expected.contains_key(*key)).count();
    let other = expected
        .iter()
        .filter(|(key, value)| found.get(*key).is_some_and(|found| found != *value))
        .count();
    Violation::new(format!(
        "a scan of {table} without an error misses {missing} rows, shows {foreign} that are not there and {other} that are \
         other, of {}",
        expected.len()
    ))
}
