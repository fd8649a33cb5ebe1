//! Entity group transactions, and the one place that decides what an operation does.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use crate::domain_error::DomainError;
use crate::entity::{EntityView, Properties, check_entity_bytes};
use crate::etag::Timestamp;
use crate::key::{EntityKey, PartitionKey};
use crate::limits::TRANSACTION_OPERATIONS_MAX;
use crate::operation::EntityOperation;

/// Up to 100 operations on different entities of one partition, all or nothing. Every write of the
/// service is one; a single insert is a group of one.
#[derive(Debug, Clone, PartialEq)]
pub struct EntityGroupTransaction {
    partition_key: PartitionKey,
    /// Shared: a store may keep a transaction while whoever asked waits, and neither should copy
    /// its entities.
    operations: Arc<Vec<EntityOperation>>,
}

/// A refusal and the operation of the transaction that earned it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedOperation {
    /// Counted from zero.
    pub index: usize,
    /// Why.
    pub domain_error: DomainError,
}

impl EntityGroupTransaction {
    /// A transaction of one operation.
    #[must_use]
    pub fn single(partition_key: PartitionKey, operation: EntityOperation) -> Self {
        Self { partition_key, operations: Arc::new(vec![operation]) }
    }

    /// Checks the rules of a group: 1 to 100 operations, one partition, each entity once.
    ///
    /// # Errors
    /// The first broken rule, with the index of the operation that breaks it.
    pub fn new(operations: Vec<(PartitionKey, EntityOperation)>) -> Result<Self, FailedOperation> {
        if operations.len() > TRANSACTION_OPERATIONS_MAX {
            let index = TRANSACTION_OPERATIONS_MAX - 1;
            return Err(FailedOperation { index, domain_error: DomainError::TooManyOperations });
        }
        let mut rest = operations.into_iter();
        let Some((partition_key, first)) = rest.next() else {
            return Err(FailedOperation { index: 0, domain_error: DomainError::EmptyTransaction });
        };
        let mut group = Vec::with_capacity(rest.len() + 1);
        group.push(first);
        for (index, (next_partition_key, operation)) in rest.enumerate() {
            let index = index + 1;
            if next_partition_key != partition_key {
                return Err(FailedOperation {
                    index,
                    domain_error: DomainError::DifferentPartitions,
                });
            }
            group.push(operation);
        }
        let group = Self { partition_key, operations: Arc::new(group) };
        group.check_rows_differ()?;
        Ok(group)
    }

    fn check_rows_differ(&self) -> Result<(), FailedOperation> {
        let mut seen = HashSet::with_capacity(self.operations.len());
        match self
            .operations
            .iter()
            .position(|operation| !seen.insert(operation.row_key().as_str()))
        {
            Some(index) => Err(FailedOperation { index, domain_error: DomainError::DuplicateRow }),
            None => Ok(()),
        }
    }

    /// The partition that all operations are about.
    #[must_use]
    pub fn partition_key(&self) -> &PartitionKey {
        &self.partition_key
    }

    /// The operations in their order.
    #[must_use]
    pub fn operations(&self) -> &[EntityOperation] {
        &self.operations
    }

    /// Takes the transaction apart; without a copy once nobody else has it.
    #[must_use]
    pub fn into_parts(self) -> (PartitionKey, Vec<EntityOperation>) {
        (self.partition_key, Arc::unwrap_or_clone(self.operations))
    }
}

/// What a store does to one row.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<'a> {
    /// Write these properties at this version.
    Put {
        /// All of the row's properties.
        properties: Cow<'a, Properties>,
        /// The new version.
        timestamp: Timestamp,
    },
    /// Remove the row.
    Delete,
}

/// What became of one operation that was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The row stands at this version.
    Written(Timestamp),
    /// The row is gone.
    Deleted,
}

impl Change<'_> {
    /// What to answer once the change is durable.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Put { timestamp, .. } => Outcome::Written(*timestamp),
            Self::Delete => Outcome::Deleted,
        }
    }
}

/// Decides what `operation` does to a row that stands at `current`. Pure: a store that loses a race
/// reads again and calls it again. `version` must be above every version that the partition has
/// seen.
///
/// # Errors
/// The domain's refusal; then nothing of the transaction may be written.
pub fn decide<'a>(
    partition_key: &PartitionKey,
    operation: &'a EntityOperation,
    current: Option<&dyn EntityView>,
    version: Timestamp,
) -> Result<Change<'a>, DomainError> {
    let standing = current.map(EntityView::timestamp);
    assert!(
        standing.is_none_or(|standing| standing < version),
        "a new version follows every version of its partition"
    );
    let put = |properties| Ok(Change::Put { properties, timestamp: version });
    match operation {
        EntityOperation::Insert(_) if current.is_some() => Err(DomainError::EntityAlreadyExists),
        EntityOperation::Insert(new) => put(Cow::Borrowed(new.properties())),
        EntityOperation::Replace(new, wanted) => {
            wanted.check(standing)?;
            put(Cow::Borrowed(new.properties()))
        }
        EntityOperation::Merge(new, wanted) => {
            wanted.check(standing)?;
            let Some(current) = current else {
                return put(Cow::Borrowed(new.properties()));
            };
            let merged = Properties::merged(current, new.properties())?;
            check_entity_bytes(
                &EntityKey::new(partition_key.clone(), new.row_key().clone()),
                &merged,
            )?;
            put(Cow::Owned(merged))
        }
        EntityOperation::Delete(_, wanted) => {
            // A delete always needs the entity, whatever the wire asked.
            if standing.is_none() {
                return Err(DomainError::EntityNotFound);
            }
            wanted.check(standing)?;
            Ok(Change::Delete)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, EntityGroupTransaction, decide};
    use crate::domain_error::DomainError;
    use crate::edm::EdmValue;
    use crate::entity::{Entity, EntityView, Properties, PropertyName};
    use crate::etag::{ETag, Timestamp};
    use crate::key::{EntityKey, PartitionKey, RowKey};
    use crate::operation::{EntityOperation, NewEntity, Precondition};

    fn partition(key: &str) -> PartitionKey {
        PartitionKey::new(key).unwrap()
    }

    fn new_entity(row: &str, property: &str) -> NewEntity {
        let properties =
            Properties::new(vec![(PropertyName::new(property).unwrap(), EdmValue::Int32(1))])
                .unwrap();
        NewEntity::new(EntityKey::new(partition("p"), RowKey::new(row).unwrap()), properties)
            .unwrap()
            .1
    }

    fn version(number: u64) -> Timestamp {
        Timestamp::from_ticks(number).unwrap()
    }

    /// One line of the table below: what is stored, the operation, its `If-Match`, and the result.
    fn check(line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [stored, operation, if_match, expected] = words[..] else {
            panic!("four words: {line}")
        };
        let wanted = match if_match {
            "-" => Precondition::None,
            "*" => Precondition::Exists,
            v => Precondition::Version(ETag::of(version(v[1..].parse().unwrap()))),
        };
        let current = (stored != "-").then(|| Entity {
            key: EntityKey::new(partition("p"), RowKey::new("r").unwrap()),
            timestamp: version(stored[1..].parse().unwrap()),
            properties: new_entity("r", "old").properties().clone(),
        });
        let operation = match operation {
            "insert" => EntityOperation::Insert(new_entity("r", "new")),
            "replace" => EntityOperation::Replace(new_entity("r", "new"), wanted),
            "merge" => EntityOperation::Merge(new_entity("r", "new"), wanted),
            _ => EntityOperation::Delete(RowKey::new("r").unwrap(), wanted),
        };
        let current = current.as_ref().map(|entity| entity as &dyn EntityView);
        let result = match decide(&partition("p"), &operation, current, version(9)) {
            Ok(Change::Put { properties, timestamp }) => {
                assert_eq!(timestamp, version(9));
                let names: Vec<&str> = properties.iter().map(|(name, _)| name).collect();
                format!("put:{}", names.join("+"))
            }
            Ok(Change::Delete) => "delete".to_owned(),
            Err(domain_error) => format!("{domain_error:?}"),
        };
        assert_eq!(result, expected, "{line}");
    }

    #[test]
    fn what_each_operation_does() {
        let table = "
            -   insert   -   put:new
            v1  insert   -   EntityAlreadyExists
            -   replace  -   put:new
            v1  replace  -   put:new
            -   replace  *   EntityNotFound
            v1  replace  *   put:new
            v1  replace  v1  put:new
            v1  replace  v2  ConditionNotMet
            -   replace  v1  EntityNotFound
            -   merge    -   put:new
            v1  merge    -   put:old+new
            -   merge    *   EntityNotFound
            v1  merge    *   put:old+new
            v1  merge    v1  put:old+new
            v1  merge    v0  ConditionNotMet
            -   delete   *   EntityNotFound
            -   delete   -   EntityNotFound
            v1  delete   *   delete
            v1  delete   v1  delete
            v1  delete   v2  ConditionNotMet
        ";
        table.lines().map(str::trim).filter(|line| !line.is_empty()).for_each(check);
    }

    #[test]
    fn rules_of_a_group() {
        let insert =
            |pk: &str, row: &str| (partition(pk), EntityOperation::Insert(new_entity(row, "a")));
        let failed = |operations| {
            EntityGroupTransaction::new(operations)
                .map_err(|f| (f.index, f.domain_error))
                .map(|_| ())
        };
        let rows =
            |count: usize| (0..count).map(|n| insert("p", &n.to_string())).collect::<Vec<_>>();
        assert_eq!(failed(rows(100)), Ok(()));
        assert_eq!(failed(rows(101)), Err((99, DomainError::TooManyOperations)));
        assert_eq!(failed(vec![]), Err((0, DomainError::EmptyTransaction)));
        let mixed = vec![insert("p", "1"), insert("p", "2"), insert("q", "3")];
        assert_eq!(failed(mixed), Err((2, DomainError::DifferentPartitions)));
        let twice = vec![insert("p", "1"), insert("p", "2"), insert("p", "1")];
        assert_eq!(failed(twice), Err((2, DomainError::DuplicateRow)));
    }

    #[test]
    fn limits_hold_for_the_merged_entity() {
        let wide = |prefix: &str, count: usize| {
            let one = |n| (PropertyName::new(format!("{prefix}{n}")).unwrap(), EdmValue::Int32(n));
            Properties::new((0..count as i32).map(one).collect()).unwrap()
        };
        let key = EntityKey::new(partition("p"), RowKey::new("r").unwrap());
        let stored = Entity { key: key.clone(), timestamp: version(1), properties: wide("a", 200) };
        let (_, new) = NewEntity::new(key, wide("b", 53)).unwrap();
        let merge = EntityOperation::Merge(new, Precondition::None);
        assert_eq!(
            decide(&partition("p"), &merge, Some(&stored), version(2)),
            Err(DomainError::TooManyProperties)
        );
    }
}
