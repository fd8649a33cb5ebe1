//! A store against a map: random operations, and after each of them the same answer from both.
//!
//! The model says what the six operations mean in its own words, so that it does not repeat a
//! mistake of `tavola_core::decide`. Only versions it takes from the store, and checks that they
//! rise.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use tavola_core::{
    Cut, DomainError, EdmValue, EntityKey, EntityOperation, EntityView, FailedOperation, KeyRange,
    Outcome, PartitionKey, Precondition, TableId, Timestamp,
};
use tavola_store::{Row, Scan, Store};

use super::fixture::{
    Subject, at, delete, group, insert, key, key_of, merge, properties, replace, scan_all, version,
};

const TABLES: u64 = 3;
/// Few and awkward, so that operations collide.
const KEYS: [&str; 6] = ["", "a", "aa", "b", "\u{10000}", "\u{e000}"];
const NAMES: [&str; 3] = ["A", "B", "C"];

/// Something that happens to a store.
#[derive(Debug, Clone)]
pub enum Step {
    /// A transaction on one partition with the clock at this tick.
    Commit(u64, usize, Vec<Write>, u64),
    /// A read of one entity.
    Get(u64, usize, usize),
    /// A page of a range.
    Scan(u64, Place, Place, usize),
    /// A table goes.
    Purge(u64),
    /// The store is closed and opened again, if it can be.
    Reopen,
}

/// One operation on one row.
#[derive(Debug, Clone)]
pub struct Write {
    row: usize,
    verb: Verb,
    condition: Condition,
    name: usize,
    value: i32,
}

#[derive(Debug, Clone, Copy)]
enum Verb {
    Insert,
    Replace,
    Merge,
    Delete,
}

/// What `If-Match` says, in terms of what is stored when the time comes.
#[derive(Debug, Clone, Copy)]
enum Condition {
    None,
    Exists,
    Current,
    Stale,
}

/// A cut, by indexes of keys.
pub type Place = (u8, usize, usize);

/// Any history of a store.
pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let table = 1..=TABLES;
    let verb =
        prop_oneof![Just(Verb::Insert), Just(Verb::Replace), Just(Verb::Merge), Just(Verb::Delete)];
    let condition = prop_oneof![
        3 => Just(Condition::None),
        1 => Just(Condition::Exists),
        2 => Just(Condition::Current),
        1 => Just(Condition::Stale),
    ];
    let write = (0..KEYS.len(), verb, condition, 0..NAMES.len(), any::<i32>()).prop_map(
        |(row, verb, condition, name, value)| Write { row, verb, condition, name, value },
    );
    let place = (0..5_u8, 0..KEYS.len(), 0..KEYS.len());
    let step = prop_oneof![
        12 => (table.clone(), 0..KEYS.len(), vec(write, 1..4), 0..50_u64)
            .prop_map(|(table, partition, writes, clock)| Step::Commit(table, partition, writes, clock)),
        4 => (table.clone(), 0..KEYS.len(), 0..KEYS.len()).prop_map(|(table, partition, row)| Step::Get(table, partition, row)),
        4 => (table.clone(), place.clone(), place, 1..10_usize)
            .prop_map(|(table, start, end, rows_max)| Step::Scan(table, start, end, rows_max)),
        1 => table.prop_map(Step::Purge),
        1 => Just(Step::Reopen),
    ];
    vec(step, 1..60)
}

type Values = Vec<(&'static str, i32)>;

#[derive(Debug, Default)]
struct Model {
    rows: BTreeMap<(u64, EntityKey), (Timestamp, Values)>,
    versions: BTreeMap<(u64, PartitionKey), Timestamp>,
}

/// Does the same to `store` and to a map, and compares. `reopen` closes a store and opens it again.
///
/// # Panics
/// If the two differ.
pub async fn check<S: Store>(store: S, steps: Vec<Step>, mut reopen: impl FnMut(S) -> S) {
    let mut model = Model::default();
    let mut store = Arc::new(store);
    for step in steps {
        let subject = Subject(store.clone());
        match step {
            Step::Commit(table, partition, writes, clock) => {
                commit(&subject, &mut model, table, KEYS[partition], &writes, at(clock)).await;
            }
            Step::Get(table, partition, row) => {
                let found = subject.row_in(TableId::new(table), KEYS[partition], KEYS[row]).await;
                assert_eq!(
                    found.as_ref().map(plain),
                    model.get(table, &key(KEYS[partition], KEYS[row]))
                );
            }
            Step::Scan(table, start, end, rows_max) => {
                scan(&subject, &model, table, start, end, rows_max).await
            }
            Step::Purge(table) => {
                store.purge(TableId::new(table)).await.expect("the store purges");
                model.rows.retain(|(id, _), _| *id != table);
            }
            Step::Reopen => {
                drop(subject);
                store =
                    Arc::new(reopen(Arc::into_inner(store).expect("nobody else has the store")));
            }
        }
    }
    for table in 1..=TABLES {
        scan(&Subject(store.clone()), &model, table, (0, 0, 0), (4, 0, 0), usize::MAX).await;
    }
}

async fn commit(
    store: &Subject,
    model: &mut Model,
    table: u64,
    partition_key: &str,
    writes: &[Write],
    now: Timestamp,
) {
    let mut writes = writes.to_vec();
    writes.sort_by_key(|write| write.row);
    writes.dedup_by_key(|write| write.row);
    let operations =
        writes.iter().map(|write| model.operation(table, partition_key, write)).collect();
    let result = store.0.commit(TableId::new(table), &group(partition_key, operations), now).await;
    let result = result.expect("the store commits");
    let expected = writes.iter().enumerate().find_map(|(index, write)| {
        let domain_error = model.domain_error(table, partition_key, write)?;
        Some(FailedOperation { index, domain_error })
    });
    match (result, expected) {
        (Err(failed), Some(expected)) => assert_eq!(failed, expected),
        (Ok(outcomes), None) => model.apply(table, partition_key, &writes, &outcomes, now),
        (result, expected) => panic!("the store says {result:?}, the model {expected:?}"),
    }
}

async fn scan(
    store: &Subject,
    model: &Model,
    table: u64,
    start: Place,
    end: Place,
    rows_max: usize,
) {
    let range = KeyRange { start: cut(start), end: cut(end) };
    let scan = Scan { table: TableId::new(table), range: range.clone(), rows_max, ..scan_all() };
    let page = store.page(&scan).await;
    let in_range = model.rows.iter().filter(|((id, key), _)| *id == table && range.contains(key));
    let expected: Vec<_> = in_range.map(|((_, key), row)| (key.clone(), row.clone())).collect();
    let found: Vec<_> = page.rows.iter().map(|row| (key_of(row), plain(row))).collect();
    assert_eq!(found[..], expected[..rows_max.min(expected.len())]);
    let behind = |next: &Cut| expected.iter().filter(|(key, _)| next.is_before(key)).count();
    assert_eq!(page.next.as_ref().map_or(0, behind), expected.len() - found.len());
}

fn cut((kind, partition_key, row_key): Place) -> Cut {
    let key = key(KEYS[partition_key], KEYS[row_key]);
    match kind {
        0 => Cut::Start,
        1 => Cut::Before(key),
        2 => Cut::After(key),
        3 => Cut::AfterPartition(key.partition_key),
        _ => Cut::End,
    }
}

fn plain(row: &Row) -> (Timestamp, Values) {
    let mut values = Vec::new();
    row.visit(&mut |name, value| {
        let name =
            NAMES.into_iter().find(|known| name == **known).expect("the model knows the name");
        let EdmValue::Int32(value) = value.to_owned() else { panic!("the model writes numbers") };
        values.push((name, value));
    });
    (row.timestamp(), values)
}

impl Model {
    fn get(&self, table: u64, key: &EntityKey) -> Option<(Timestamp, Values)> {
        self.rows.get(&(table, key.clone())).cloned()
    }

    fn precondition(&self, table: u64, partition_key: &str, write: &Write) -> Precondition {
        let current = self
            .get(table, &key(partition_key, KEYS[write.row]))
            .map_or(at(1), |(version, _)| version);
        match write.condition {
            Condition::None => Precondition::None,
            Condition::Exists => Precondition::Exists,
            Condition::Current => version(current),
            Condition::Stale => version(at(current.ticks() + 1)),
        }
    }

    fn operation(&self, table: u64, partition_key: &str, write: &Write) -> EntityOperation {
        let (row_key, wanted) = (KEYS[write.row], self.precondition(table, partition_key, write));
        let new = properties([(NAMES[write.name], EdmValue::Int32(write.value))]);
        match write.verb {
            Verb::Insert => insert(row_key, new),
            Verb::Replace => replace(row_key, new, wanted),
            Verb::Merge => merge(row_key, new, wanted),
            Verb::Delete => delete(row_key, wanted),
        }
    }

    /// What the service answers, as its reference tells.
    fn domain_error(&self, table: u64, partition_key: &str, write: &Write) -> Option<DomainError> {
        let exists = self.get(table, &key(partition_key, KEYS[write.row])).is_some();
        match (write.verb, write.condition, exists) {
            (Verb::Insert, _, true) => Some(DomainError::EntityAlreadyExists),
            (Verb::Insert, _, false) => None,
            (Verb::Replace | Verb::Merge, Condition::None, _) => None,
            (_, _, false) => Some(DomainError::EntityNotFound),
            (_, Condition::Stale, true) => Some(DomainError::ConditionNotMet),
            (_, _, true) => None,
        }
    }

    fn apply(
        &mut self,
        table: u64,
        partition_key: &str,
        writes: &[Write],
        outcomes: &[Outcome],
        now: Timestamp,
    ) {
        assert_eq!(outcomes.len(), writes.len());
        let partition = (table, super::fixture::partition(partition_key));
        for (write, outcome) in writes.iter().zip(outcomes) {
            let address = (table, key(partition_key, KEYS[write.row]));
            match (write.verb, outcome) {
                (Verb::Delete, Outcome::Deleted) => {
                    self.rows.remove(&address);
                }
                (Verb::Insert | Verb::Replace | Verb::Merge, Outcome::Written(version)) => {
                    let last = self.versions.get(&partition).copied();
                    assert!(
                        last.is_none_or(|last| last < *version) && *version >= now,
                        "{version:?} after {last:?}"
                    );
                    let current =
                        self.rows.get(&address).filter(|_| matches!(write.verb, Verb::Merge));
                    let values = merged(
                        current.map(|(_, values)| values.clone()).unwrap_or_default(),
                        write,
                    );
                    self.rows.insert(address, (*version, values));
                }
                (verb, outcome) => panic!("{outcome:?} is no outcome of {verb:?}"),
            }
        }
        let written = outcomes.iter().filter_map(|outcome| match outcome {
            Outcome::Written(version) => Some(*version),
            Outcome::Deleted => None,
        });
        if let Some(version) = written.max() {
            self.versions.insert(partition, version);
        }
    }
}

fn merged(mut values: Values, write: &Write) -> Values {
    let name = NAMES[write.name];
    match values.iter_mut().find(|(known, _)| *known == name) {
        Some((_, value)) => *value = write.value,
        None => values.push((name, write.value)),
    }
    values
}
