//! One client of the mixed load: it asks for all kinds of writes, and knows which of them must
//! succeed.

use tavola_core::{
    ETag, EdmValue, EntityGroupTransaction, EntityKey, EntityOperation, Guid, NewEntity,
    PartitionKey, Precondition, Properties, PropertyName, RowKey, TableRequest,
};
use tavola_protocol::table::decode::{DecodeError, Decoded, ServiceError};

use super::ledger::{Intent, Key, Ledger, Values, Version};
use super::{Tally, Violation};
use tavola_testkit::client::{Client, NoAnswer, name};

/// The table in which every author has partitions of its own.
pub(super) const SHARED: &str = "ledger";
const PARTITIONS: usize = 3;
const ROWS: usize = 120;
const BATCH_MAX: usize = 100;
/// Tables that come and go.
const OWN_TABLES: usize = 2;
/// A property's text has at most 32 Ki characters; fifteen of them are a large entity.
const LARGE_TEXT: usize = 30_000;
const LARGE_TEXTS_MAX: usize = 15;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Answered,
    /// The server did not say whether it was carried out. The author goes on only after a
    /// comparison.
    InDoubt,
}

/// A client with its own random numbers and its own ledger.
#[derive(Debug)]
pub(super) struct Author {
    number: usize,
    rng: fastrand::Rng,
    pub(super) ledger: Ledger,
    pub(super) tally: Tally,
    writes: i64,
}

impl Author {
    pub(super) fn new(number: usize, rng: fastrand::Rng) -> Self {
        Self { number, rng, ledger: Ledger::default(), tally: Tally::default(), writes: 0 }
    }

    /// True if the partition of the shared table is this author's.
    pub(super) fn owns(&self, partition_key: &str) -> bool {
        partition_key.starts_with(&format!("c{:03}-", self.number))
    }

    /// Tables that only this author creates and drops.
    pub(super) fn own_tables(&self) -> impl Iterator<Item = String> + use<> {
        let number = self.number;
        (0..OWN_TABLES).map(move |slot| format!("own{number:03}x{slot}"))
    }

    /// The shared table exists from now on.
    pub(super) fn knows_shared_table(&mut self) -> Result<(), Violation> {
        self.ledger.intend(Intent::Create(SHARED.to_owned()));
        self.ledger.acknowledged(&[])
    }

    /// One request of a random kind.
    pub(super) fn step(&mut self, client: &mut Client) -> Result<Step, Violation> {
        match self.rng.u8(0..100) {
            0..40 => self.write_one(client, false),
            40..44 => self.write_one(client, true),
            44..66 => self.write_batch(client, SHARED, BATCH_MAX),
            66..80 => self.ask_for_what_is_refused(client),
            80..88 => self.change_own_table(client),
            _ => self.read_own_write(client),
        }
    }

    fn write_one(&mut self, client: &mut Client, large: bool) -> Result<Step, Violation> {
        let key = self.key();
        let (operation, after) = self.operation(SHARED, &key, large);
        let request = TableRequest::Write(name(SHARED), partition_key(&key), operation);
        let intent = Intent::Write { table: SHARED.to_owned(), after: vec![(key, after)] };
        self.carry_out(client, &request, intent, "writes")
    }

    fn write_batch(
        &mut self,
        client: &mut Client,
        table: &str,
        rows_max: usize,
    ) -> Result<Step, Violation> {
        let (partition, _) = self.key();
        let count = self.rng.usize(2..=rows_max);
        let mut rows: Vec<usize> = (0..ROWS).collect();
        self.rng.shuffle(&mut rows);
        let mut operations = Vec::new();
        let mut after = Vec::new();
        for row in rows.into_iter().take(count) {
            let key = (partition.clone(), row_text(row));
            let (operation, values) = self.operation(table, &key, false);
            operations.push((partition_key(&key), operation));
            after.push((key, values));
        }
        let transaction = EntityGroupTransaction::new(operations)
            .map_err(|failed| Violation::new(format!("our own batch is not legal: {failed:?}")))?;
        let intent = Intent::Write { table: table.to_owned(), after };
        self.carry_out(
            client,
            &TableRequest::Transaction(name(table), transaction),
            intent,
            "batches",
        )
    }

    fn change_own_table(&mut self, client: &mut Client) -> Result<Step, Violation> {
        let slot = self.rng.usize(..OWN_TABLES);
        let Some(table) = self.own_tables().nth(slot) else { return Ok(Step::Answered) };
        if !self.ledger.has_table(&table) {
            let request = TableRequest::CreateTable(name(&table));
            return self.carry_out(client, &request, Intent::Create(table), "tables created");
        }
        if self.rng.u8(..3) > 0 {
            return self.write_batch(client, &table, 20);
        }
        let request = TableRequest::DeleteTable(name(&table));
        self.carry_out(client, &request, Intent::Drop(table), "tables dropped")
    }

    /// Fills a table and drops it, up to where an answer stays out.
    pub(super) fn fill_and_drop(
        &mut self,
        client: &mut Client,
        table: &str,
        batches: usize,
    ) -> Result<Step, Violation> {
        let create = TableRequest::CreateTable(name(table));
        let mut step =
            self.carry_out(client, &create, Intent::Create(table.to_owned()), "tables created")?;
        for batch in 0..batches {
            // It was not created if the server was too busy.
            if step == Step::InDoubt || !self.ledger.has_table(table) {
                return Ok(step);
            }
            let rows = (0..BATCH_MAX).map(|row| ("big".to_owned(), format!("{batch:05}-{row:03}")));
            let after: Vec<_> = rows.map(|key| (key, Some(self.values(false)))).collect();
            let insert = |(key, values): &(Key, Option<Values>)| {
                (
                    partition_key(key),
                    EntityOperation::Insert(new_entity(
                        key,
                        values.as_ref().unwrap_or(&Values::new()),
                    )),
                )
            };
            let transaction = EntityGroupTransaction::new(after.iter().map(insert).collect())
                .map_err(|failed| {
                    Violation::new(format!("our own batch is not legal: {failed:?}"))
                })?;
            let intent = Intent::Write { table: table.to_owned(), after };
            step = self.carry_out(
                client,
                &TableRequest::Transaction(name(table), transaction),
                intent,
                "batches",
            )?;
        }
        if step == Step::InDoubt {
            return Ok(step);
        }
        let drop = TableRequest::DeleteTable(name(table));
        self.carry_out(client, &drop, Intent::Drop(table.to_owned()), "tables dropped")
    }

    /// Sends a request that must succeed.
    fn carry_out(
        &mut self,
        client: &mut Client,
        request: &TableRequest,
        intent: Intent,
        what: &'static str,
    ) -> Result<Step, Violation> {
        self.ledger.intend(intent);
        let tags: Vec<ETag> = match client.ask(request) {
            Err(NoAnswer) => return self.in_doubt(),
            Ok(Err(DecodeError::Service(error))) if error.status.as_u16() == 503 => {
                self.ledger.refused();
                self.tally.add("turned away as busy", 1);
                return Ok(Step::Answered);
            }
            // The server does not promise that nothing happened.
            Ok(Err(DecodeError::Service(error))) if error.status.is_server_error() => {
                return self.in_doubt();
            }
            Ok(Err(error)) => {
                return Err(Violation::new(format!(
                    "a request that must succeed was refused: {error}; {request:?}"
                )));
            }
            Ok(Ok(Decoded::Done(tag))) => tag.into_iter().collect(),
            Ok(Ok(Decoded::TransactionDone(tags))) => tags.into_iter().flatten().collect(),
            Ok(Ok(other)) => {
                return Err(Violation::new(format!("a strange answer to a write: {other:?}")));
            }
        };
        self.tally.add(what, 1);
        self.ledger.acknowledged(&tags)?;
        Ok(Step::Answered)
    }

    fn in_doubt(&mut self) -> Result<Step, Violation> {
        self.tally.add("in doubt", 1);
        Ok(Step::InDoubt)
    }

    /// A request that must be refused, and then must leave no trace.
    fn ask_for_what_is_refused(&mut self, client: &mut Client) -> Result<Step, Violation> {
        let key = self.key();
        let present = self.current(SHARED, &key).is_some();
        let entity = new_entity(&key, &self.values(false));
        let stale = Precondition::Version(ETag::of(tavola_core::Timestamp::MIN));
        let (operation, code) = match (present, self.rng.u8(..3)) {
            (true, 0) => (EntityOperation::Insert(entity), "EntityAlreadyExists"),
            (true, 1) => (EntityOperation::Replace(entity, stale), "UpdateConditionNotSatisfied"),
            (true, _) => {
                (EntityOperation::Delete(row_key(&key), stale), "UpdateConditionNotSatisfied")
            }
            (false, 0) => {
                (EntityOperation::Merge(entity, Precondition::Exists), "ResourceNotFound")
            }
            (false, 1) => (EntityOperation::Replace(entity, stale), "ResourceNotFound"),
            (false, _) => {
                (EntityOperation::Delete(row_key(&key), Precondition::Exists), "ResourceNotFound")
            }
        };
        let request = if self.rng.bool() {
            TableRequest::Write(name(SHARED), partition_key(&key), operation)
        } else {
            // Its first operation would be fine.
            let other = (key.0.clone(), "only in a refused batch".to_owned());
            let fine = EntityOperation::Insert(new_entity(&other, &self.values(false)));
            let operations = vec![(partition_key(&key), fine), (partition_key(&key), operation)];
            let transaction = EntityGroupTransaction::new(operations).map_err(|failed| {
                Violation::new(format!("our own batch is not legal: {failed:?}"))
            })?;
            TableRequest::Transaction(name(SHARED), transaction)
        };
        match client.ask(&request) {
            Err(NoAnswer) => self.in_doubt(),
            Ok(Err(DecodeError::Service(ServiceError { code: said, .. }))) if said == code => {
                self.tally.add("refused", 1);
                Ok(Step::Answered)
            }
            Ok(Err(DecodeError::Service(error))) if error.status.as_u16() == 503 => {
                Ok(Step::Answered)
            }
            Ok(Err(DecodeError::Service(error))) if error.status.is_server_error() => {
                self.in_doubt()
            }
            Ok(other) => {
                Err(Violation::new(format!("expected {code}, got {other:?} for {request:?}")))
            }
        }
    }

    fn read_own_write(&mut self, client: &mut Client) -> Result<Step, Violation> {
        let key = self.key();
        let entity_key = EntityKey::new(partition_key(&key), row_key(&key));
        let shown = match client.ask(&TableRequest::GetEntity(name(SHARED), entity_key)) {
            Err(NoAnswer) => return self.in_doubt(),
            Ok(Ok(Decoded::Entity(entity))) => Some(super::verify::row(entity)?.1),
            Ok(Err(DecodeError::Service(error))) if error.code == "ResourceNotFound" => None,
            Ok(Err(DecodeError::Service(error))) if error.status.is_server_error() => {
                return Ok(Step::Answered);
            }
            Ok(other) => {
                return Err(Violation::new(format!(
                    "a strange answer to a read of {key:?}: {other:?}"
                )));
            }
        };
        self.tally.add("reads", 1);
        if shown.as_ref() == self.current(SHARED, &key) {
            return Ok(Step::Answered);
        }
        let known = self.current(SHARED, &key);
        Err(Violation::new(format!(
            "a read of {key:?} gave {shown:?}, and {known:?} was acknowledged"
        )))
    }

    /// A write to one row that must succeed, and what the row is afterwards.
    fn operation(
        &mut self,
        table: &str,
        key: &Key,
        large: bool,
    ) -> (EntityOperation, Option<Values>) {
        let current = self.current(table, key).cloned();
        let new = self.values(large);
        let entity = new_entity(key, &new);
        let Some(current) = current else {
            let operation = match self.rng.u8(..3) {
                0 => EntityOperation::Insert(entity),
                1 => EntityOperation::Replace(entity, Precondition::None),
                _ => EntityOperation::Merge(entity, Precondition::None),
            };
            return (operation, Some(new));
        };
        let precondition = match self.rng.u8(..3) {
            0 => Precondition::Exists,
            _ => Precondition::Version(ETag::of(current.timestamp)),
        };
        match self.rng.u8(..8) {
            0..2 => (EntityOperation::Delete(row_key(key), precondition), None),
            2..4 => (EntityOperation::Replace(entity, precondition), Some(new)),
            4 => (EntityOperation::Replace(entity, Precondition::None), Some(new)),
            choice => {
                let precondition = if choice == 5 { Precondition::None } else { precondition };
                let mut merged = current.values;
                merged.extend(new);
                // Merged for ever, an entity would grow beyond what an entity may be.
                if merged.values().map(size).sum::<usize>() > 700_000 {
                    return (EntityOperation::Delete(row_key(key), Precondition::Exists), None);
                }
                (EntityOperation::Merge(entity, precondition), Some(merged))
            }
        }
    }

    fn current(&self, table: &str, key: &Key) -> Option<&Version> {
        self.ledger.rows(table)?.get(key)
    }

    fn key(&mut self) -> Key {
        let (partition, row) = (self.rng.usize(..PARTITIONS), self.rng.usize(..ROWS));
        (format!("c{:03}-{partition}", self.number), row_text(row))
    }

    /// Never twice the same: every write has its number.
    fn values(&mut self, large: bool) -> Values {
        self.writes += 1;
        let mut values = Values::from([("Op".to_owned(), EdmValue::Int64(self.writes))]);
        let rng = &mut self.rng;
        for (property, value) in [
            ("Flag", EdmValue::Boolean(rng.bool())),
            ("Count", EdmValue::Int32(rng.i32(..))),
            ("Share", EdmValue::Double(rng.f64())),
            ("Id", EdmValue::Guid(Guid::from_bytes(rng.u128(..).to_le_bytes()))),
            ("Bytes", EdmValue::Binary(std::iter::repeat_with(|| rng.u8(..)).take(16).collect())),
        ] {
            if rng.bool() {
                values.insert(property.to_owned(), value);
            }
        }
        let texts = if large { rng.usize(1..=LARGE_TEXTS_MAX) } else { 1 };
        for number in 0..texts {
            let length = if large { LARGE_TEXT } else { rng.usize(..200) };
            let text: String = std::iter::repeat_with(|| rng.alphanumeric()).take(length).collect();
            values.insert(format!("Text{number}"), EdmValue::String(text));
        }
        values
    }
}

/// Keys with characters that must be escaped on their way.
fn row_text(row: usize) -> String {
    if row.is_multiple_of(7) { format!("r{row:03} é'%") } else { format!("r{row:03}") }
}

fn size(value: &EdmValue) -> usize {
    match value {
        EdmValue::String(text) => 2 * text.len(),
        _ => 16,
    }
}

fn partition_key(key: &Key) -> PartitionKey {
    PartitionKey::new(key.0.as_str()).expect("our keys are legal")
}

fn row_key(key: &Key) -> RowKey {
    RowKey::new(key.1.as_str()).expect("our keys are legal")
}

fn new_entity(key: &Key, values: &Values) -> NewEntity {
    let property = |(name, value): (&String, &EdmValue)| {
        (PropertyName::new(name.as_str()).expect("our names are identifiers"), value.clone())
    };
    let properties = Properties::new(values.iter().map(property).collect())
        .expect("our entities are small enough");
    NewEntity::new(EntityKey::new(partition_key(key), row_key(key)), properties)
        .expect("our entities are legal")
        .1
}
