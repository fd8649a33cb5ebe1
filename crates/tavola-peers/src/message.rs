//! The messages between nodes, as bytes. Nodes of two versions run side by side during an
//! upgrade: whatever changes here, or in the encoding of entities, changes [`VERSION`], and they do
//! not forward to each other meanwhile.

use serde::{Deserialize, Serialize};
use tavola_core::{
    DomainError, ETag, Entity, EntityGroupTransaction, EntityKey, EntityOperation, FailedOperation,
    NewEntity, Outcome, PartitionKey, Precondition, RowKey, TableId, Timestamp,
};
use tavola_store::encoding::{FORMAT_VERSION, encode_value};
use tavola_store::{CommitResult, RowRef, StoreError};

use crate::proof::{Nonce, Proof};

/// Of the messages and the handshake; the encoding of entities has its own.
const VERSION: u8 = 3;

/// The path of a message of this version.
pub(crate) fn path(what: &str) -> String {
    format!("/tavola/{VERSION}.{FORMAT_VERSION}/{what}")
}

/// The first message of a connecting node.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello<'a> {
    /// Which node it is, and at which address it is listed.
    pub(crate) caller_id: [u8; 16],
    pub(crate) caller_address: &'a str,
    pub(crate) caller_nonce: Nonce,
    /// Which node it means to reach.
    pub(crate) server_address: &'a str,
}

/// The server's answer to it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Welcome {
    /// Which node it is: another process may have taken over the address.
    pub(crate) id: [u8; 16],
    pub(crate) server_nonce: Nonce,
    pub(crate) proof: Proof,
    /// Milliseconds on its own clock, which only runs forwards.
    pub(crate) clock_ms: u64,
}

/// A transaction for the server to carry out.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Commit<'a> {
    /// On the server's clock. Later than this nothing may begin: the sender has stopped waiting.
    pub(crate) begin_before_ms: u64,
    pub(crate) table: u64,
    pub(crate) now: u64,
    /// The account of the write. The server shares its places out by it, and uses it for nothing
    /// else.
    pub(crate) tenant: &'a str,
    partition_key: &'a str,
    #[serde(borrow)]
    operations: Vec<Operation<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Operation<'a> {
    kind: Kind,
    row_key: &'a str,
    #[serde(borrow)]
    condition: Condition<'a>,
    /// The properties as stores encode them; none of a delete.
    value: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    Insert,
    Replace,
    Merge,
    Delete,
}

#[derive(Debug, Serialize, Deserialize)]
enum Condition<'a> {
    None,
    Exists,
    Version(&'a str),
}

/// What became of a commit.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer<'a> {
    /// The version of each operation's row; none if it was deleted.
    Done(Vec<Option<u64>>),
    Refused(u64, StoreRefusal),
    Contended,
    Full(&'a str),
    Corrupt(&'a str),
    Unknown,
    /// Nothing was done; the sender may do it itself.
    Declined(&'a str),
}

/// The refusals of a store. Others come from checking a request, which was done before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StoreRefusal {
    EntityAlreadyExists,
    EntityNotFound,
    ConditionNotMet,
    EntityTooLarge,
    TooManyProperties,
}

impl StoreRefusal {
    const ALL: [(Self, DomainError); 5] = [
        (Self::EntityAlreadyExists, DomainError::EntityAlreadyExists),
        (Self::EntityNotFound, DomainError::EntityNotFound),
        (Self::ConditionNotMet, DomainError::ConditionNotMet),
        (Self::EntityTooLarge, DomainError::EntityTooLarge),
        (Self::TooManyProperties, DomainError::TooManyProperties),
    ];

    fn of(domain_error: &DomainError) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(_, known)| known == domain_error)
            .map(|(store_refusal, _)| *store_refusal)
    }

    fn domain_error(self) -> DomainError {
        Self::ALL[self as usize].1.clone()
    }
}

/// Bytes that are no message of this version.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message that cannot be read: {0}")]
pub(crate) struct Unreadable(&'static str);

impl From<postcard::Error> for Unreadable {
    fn from(_: postcard::Error) -> Self {
        Self("its bytes end too early or mean nothing")
    }
}

pub(crate) fn encode(message: &impl Serialize) -> Result<Vec<u8>, Unreadable> {
    Ok(postcard::to_allocvec(message)?)
}

/// All of the bytes, or nothing.
pub(crate) fn decode<'a, M: Deserialize<'a>>(bytes: &'a [u8]) -> Result<M, Unreadable> {
    let (message, rest) = postcard::take_from_bytes(bytes)?;
    if rest.is_empty() { Ok(message) } else { Err(Unreadable("bytes are left over")) }
}

/// A transaction as bytes.
pub(crate) fn encode_commit(
    begin_before_ms: u64,
    tenant: &str,
    table: TableId,
    transaction: &EntityGroupTransaction,
    now: Timestamp,
) -> Result<Vec<u8>, Unreadable> {
    let values: Vec<Vec<u8>> = transaction.operations().iter().map(value_of).collect();
    let operations = transaction.operations().iter().zip(&values).map(|(operation, value)| {
        let (kind, condition) = match operation {
            EntityOperation::Insert(_) => (Kind::Insert, &Precondition::None),
            EntityOperation::Replace(_, condition) => (Kind::Replace, condition),
            EntityOperation::Merge(_, condition) => (Kind::Merge, condition),
            EntityOperation::Delete(_, condition) => (Kind::Delete, condition),
        };
        let condition = match condition {
            Precondition::None => Condition::None,
            Precondition::Exists => Condition::Exists,
            Precondition::Version(tag) => Condition::Version(tag.as_str()),
        };
        Operation { kind, row_key: operation.row_key().as_str(), condition, value }
    });
    encode(&Commit {
        begin_before_ms,
        table: table.number(),
        now: now.ticks(),
        tenant,
        partition_key: transaction.partition_key().as_str(),
        operations: operations.collect(),
    })
}

fn value_of(operation: &EntityOperation) -> Vec<u8> {
    match operation {
        EntityOperation::Insert(new)
        | EntityOperation::Replace(new, _)
        | EntityOperation::Merge(new, _) => {
            // The node that carries it out gives it a version.
            encode_value(new.properties(), Timestamp::MIN)
        }
        EntityOperation::Delete(..) => Vec::new(),
    }
}

impl Commit<'_> {
    /// The transaction, with all that the domain demands of one.
    pub(crate) fn transaction(&self) -> Result<(EntityGroupTransaction, Timestamp), Unreadable> {
        let now = Timestamp::from_ticks(self.now).ok_or(Unreadable("a time that there is not"))?;
        let partition_key =
            PartitionKey::stored(self.partition_key).map_err(|_| Unreadable("no PartitionKey"))?;
        let operations: Result<Vec<_>, Unreadable> = self
            .operations
            .iter()
            .map(|one| Ok((partition_key.clone(), one.operation(&partition_key)?)))
            .collect();
        let group =
            EntityGroupTransaction::new(operations?).map_err(|_| Unreadable("no transaction"))?;
        Ok((group, now))
    }
}

impl Operation<'_> {
    fn operation(&self, partition_key: &PartitionKey) -> Result<EntityOperation, Unreadable> {
        let row_key = RowKey::stored(self.row_key).map_err(|_| Unreadable("no RowKey"))?;
        let condition = match self.condition {
            Condition::None => Precondition::None,
            Condition::Exists => Precondition::Exists,
            Condition::Version(tag) => {
                Precondition::Version(ETag::parse(tag).ok_or(Unreadable("no ETag"))?)
            }
        };
        Ok(match self.kind {
            Kind::Insert => EntityOperation::Insert(self.entity(partition_key, row_key)?),
            Kind::Replace => {
                EntityOperation::Replace(self.entity(partition_key, row_key)?, condition)
            }
            Kind::Merge => EntityOperation::Merge(self.entity(partition_key, row_key)?, condition),
            Kind::Delete => EntityOperation::Delete(row_key, condition),
        })
    }

    fn entity(
        &self,
        partition_key: &PartitionKey,
        row_key: RowKey,
    ) -> Result<NewEntity, Unreadable> {
        let row = RowRef::new(partition_key.as_str(), self.row_key, self.value);
        let entity = Entity::from_view(&row.map_err(|_| Unreadable("no properties"))?);
        let properties =
            entity.map_err(|_| Unreadable("properties beyond their limits"))?.properties;
        let new = NewEntity::new(EntityKey::new(partition_key.clone(), row_key), properties);
        new.map(|(_, new)| new).map_err(|_| Unreadable("an entity beyond its limits"))
    }
}

/// What a store said, as bytes.
pub(crate) fn encode_answer(
    result: &Result<CommitResult, StoreError>,
) -> Result<Vec<u8>, Unreadable> {
    match result {
        Ok(Ok(outcomes)) => encode(&Answer::Done(outcomes.iter().map(version_of).collect())),
        Ok(Err(failed)) => match StoreRefusal::of(&failed.domain_error) {
            Some(store_refusal) => encode(&Answer::Refused(failed.index as u64, store_refusal)),
            None => decline("a refusal that has no encoding here"),
        },
        Err(StoreError::Contended) => encode(&Answer::Contended),
        Err(StoreError::Full { reason }) => encode(&Answer::Full(reason)),
        Err(StoreError::Corrupt(reason)) => encode(&Answer::Corrupt(reason)),
        Err(StoreError::Unavailable { reason, .. }) => decline(reason),
        // Of an error that came later than this code nothing is known.
        Err(_) => encode(&Answer::Unknown),
    }
}

pub(crate) fn decline(reason: &str) -> Result<Vec<u8>, Unreadable> {
    encode(&Answer::Declined(reason))
}

fn version_of(outcome: &Outcome) -> Option<u64> {
    match outcome {
        Outcome::Written(version) => Some(version.ticks()),
        Outcome::Deleted => None,
    }
}

/// What a peer did with a commit.
#[derive(Debug)]
pub(crate) enum ForwardOutcome {
    /// It was carried out, or refused, or failed.
    Answered(Result<CommitResult, StoreError>),
    /// It was not begun.
    Declined(String),
}

impl Answer<'_> {
    /// What it means. An answer that cannot be right leaves the outcome unknown.
    pub(crate) fn outcome(self, operations: usize) -> ForwardOutcome {
        let answered = match self {
            Self::Done(versions) if versions.len() == operations => outcomes(versions).map(Ok),
            Self::Refused(index, store_refusal) if index < operations as u64 => {
                Ok(Err(FailedOperation {
                    index: index as usize,
                    domain_error: store_refusal.domain_error(),
                }))
            }
            Self::Contended => Err(StoreError::Contended),
            Self::Full(reason) => Err(StoreError::Full { reason: reason.to_owned() }),
            Self::Corrupt(reason) => Err(StoreError::Corrupt(reason.to_owned())),
            Self::Declined(reason) => return ForwardOutcome::Declined(reason.to_owned()),
            Self::Unknown | Self::Done(_) | Self::Refused(..) => Err(StoreError::UnknownOutcome),
        };
        ForwardOutcome::Answered(answered)
    }
}

fn outcomes(versions: Vec<Option<u64>>) -> Result<Vec<Outcome>, StoreError> {
    let outcome = |version: Option<u64>| match version {
        None => Some(Outcome::Deleted),
        Some(ticks) => Timestamp::from_ticks(ticks).map(Outcome::Written),
    };
    versions.into_iter().map(outcome).collect::<Option<_>>().ok_or(StoreError::UnknownOutcome)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, proptest};
    use tavola_core::{EdmValue, Properties, PropertyName};

    use super::*;

    const TABLE: TableId = TableId::new(300);

    fn time(ticks: u64) -> Timestamp {
        Timestamp::from_ticks(ticks).unwrap()
    }

    fn new(row: &str, value: EdmValue) -> NewEntity {
        let key = EntityKey::new(PartitionKey::new("Köln").unwrap(), RowKey::new(row).unwrap());
        let properties =
            Properties::new(vec![(PropertyName::new("Value").unwrap(), value)]).unwrap();
        NewEntity::new(key, properties).unwrap().1
    }

    fn every_kind() -> EntityGroupTransaction {
        let tag = Precondition::Version(ETag::of(time(17)));
        let operations = vec![
            EntityOperation::Insert(new("", EdmValue::Int64(-1))),
            EntityOperation::Replace(new("2", EdmValue::String("a b".into())), Precondition::None),
            EntityOperation::Replace(
                new("3", EdmValue::Binary(vec![0, 255])),
                Precondition::Exists,
            ),
            EntityOperation::Merge(new("4", EdmValue::Double(f64::INFINITY)), tag.clone()),
            EntityOperation::Merge(new("5", EdmValue::Boolean(true)), Precondition::None),
            EntityOperation::Delete(RowKey::new("6").unwrap(), tag),
            EntityOperation::Delete(RowKey::new("7").unwrap(), Precondition::Exists),
        ];
        let partition_key = PartitionKey::new("Köln").unwrap();
        EntityGroupTransaction::new(
            operations.into_iter().map(|one| (partition_key.clone(), one)).collect(),
        )
        .unwrap()
    }

    #[test]
    fn a_transaction_arrives_as_it_was_sent() {
        let bytes = encode_commit(5, "shop", TABLE, &every_kind(), time(99)).unwrap();
        let commit: Commit<'_> = decode(&bytes).unwrap();
        assert_eq!((commit.begin_before_ms, commit.tenant, commit.table), (5, "shop", 300));
        assert_eq!(commit.transaction().unwrap(), (every_kind(), time(99)));
    }

    #[test]
    fn half_a_message_is_none() {
        let bytes = encode_commit(5, "shop", TABLE, &every_kind(), time(99)).unwrap();
        for length in 0..bytes.len() {
            assert!(decode::<Commit<'_>>(&bytes[..length]).is_err(), "{length} bytes");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(decode::<Commit<'_>>(&longer).err(), Some(Unreadable("bytes are left over")));
    }

    #[test]
    fn every_refusal_has_its_own_encoding() {
        for (store_refusal, domain_error) in StoreRefusal::ALL {
            assert_eq!(StoreRefusal::of(&domain_error), Some(store_refusal));
            assert_eq!(store_refusal.domain_error(), domain_error);
        }
    }

    #[test]
    fn answers_arrive_as_they_were_given() {
        let done: CommitResult = Ok(vec![Outcome::Written(time(3)), Outcome::Deleted]);
        let refused: CommitResult =
            Err(FailedOperation { index: 1, domain_error: DomainError::ConditionNotMet });
        for result in [done, refused] {
            let bytes = encode_answer(&Ok(result.clone())).unwrap();
            let ForwardOutcome::Answered(Ok(outcome)) =
                decode::<Answer<'_>>(&bytes).unwrap().outcome(2)
            else {
                panic!("no result")
            };
            assert_eq!(outcome, result);
        }
    }

    #[test]
    fn an_answer_to_something_else_says_nothing() {
        let bytes = encode_answer(&Ok(Ok(vec![Outcome::Deleted]))).unwrap();
        let outcome = decode::<Answer<'_>>(&bytes).unwrap().outcome(2);
        assert!(
            matches!(outcome, ForwardOutcome::Answered(Err(StoreError::UnknownOutcome))),
            "{outcome:?}"
        );
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(commit) = decode::<Commit<'_>>(&bytes) {
                let _whatever = commit.transaction();
            }
            if let Ok(answer) = decode::<Answer<'_>>(&bytes) {
                let _whatever = answer.outcome(1);
            }
        }

        #[test]
        fn damaged_messages_do_no_harm(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = encode_commit(5, "shop", TABLE, &every_kind(), time(99)).unwrap();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(commit) = decode::<Commit<'_>>(&bytes) {
                let _whatever = commit.transaction();
            }
        }
    }
}
