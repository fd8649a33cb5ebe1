//! Calls as requests of the Table service, and its replies as answers.

use std::ops::Range;

use http::StatusCode;
use tavola_core::filter::{Comparison, Filter};
use tavola_core::request::EntityQuery;
use tavola_core::{
    DateTime, ETag, EdmRef, EdmValue, EntityGroupTransaction, EntityOperation, NewEntity,
    PartitionKey, Precondition, Properties, PropertyName, TableRequest, Timestamp,
};
use tavola_protocol::table::continuation;
use tavola_protocol::table::decode::{DecodeError, Decoded};
use tavola_protocol::table::encode::NextPage;
use tavola_protocol::table::entity_json::DecodedEntity;

use super::record::{
    Answer, Ask, Condition, Content, DomainError, Entity, PROPERTIES, Place, Verb, Version, Write,
};
use crate::Violation;
use tavola_testkit::client::{entity_key, name};

type Reply = Result<Decoded, DecodeError>;

fn key(partition: u8, row: u8) -> String {
    format!("p{partition:02}/r{row:02}")
}

/// The request for a get or a write.
pub(super) fn request(table: &str, partition: u8, ask: &Ask) -> TableRequest {
    match ask {
        Ask::Get(row) => TableRequest::GetEntity(name(table), entity_key(&key(partition, *row))),
        Ask::Write(writes) => {
            let mut operations: Vec<_> =
                writes.iter().map(|write| operation(partition, write)).collect();
            if let [_] = operations[..] {
                let (partition_key, operation) = operations.remove(0);
                return TableRequest::Write(name(table), partition_key, operation);
            }
            let group = EntityGroupTransaction::new(operations)
                .expect("rows differ and are of one partition");
            TableRequest::Transaction(name(table), group)
        }
        Ask::Page(_) => unreachable!("pages have a request of their own"),
    }
}

/// The request for a page of what lies between two places: a partition, or the whole table.
pub(super) fn page_request(table: &str, scope: &Range<Place>, top: usize) -> TableRequest {
    let one = scope.end.0 - scope.start.0 == 1;
    let filter = one.then(|| Filter::Compare {
        property: "PartitionKey".to_owned(),
        comparison: Comparison::Equal,
        constant: EdmValue::String(format!("p{:02}", scope.start.0)),
    });
    TableRequest::QueryEntities(name(table), EntityQuery { filter, top: Some(top), from: None })
}

fn operation(partition: u8, write: &Write) -> (PartitionKey, EntityOperation) {
    let key = entity_key(&key(partition, write.row));
    let condition = match write.condition {
        Condition::None => Precondition::None,
        Condition::Exists => Precondition::Exists,
        Condition::Version(version) => Precondition::Version(ETag::of(
            Timestamp::from_ticks(version).expect("a version that was answered"),
        )),
    };
    if write.verb == Verb::Delete {
        return (key.partition_key, EntityOperation::Delete(key.row_key, condition));
    }
    let set = PROPERTIES.iter().zip(write.content.0).filter(|(_, number)| *number != 0);
    let property = |(name, number): (&&str, u32)| {
        (PropertyName::new(*name).expect("an identifier"), EdmValue::Int64(i64::from(number)))
    };
    let properties = Properties::new(set.map(property).collect());
    let (partition_key, new) =
        NewEntity::new(key, properties.expect("few properties")).expect("a small entity");
    let operation = match write.verb {
        Verb::Insert => EntityOperation::Insert(new),
        Verb::Replace => EntityOperation::Replace(new, condition),
        Verb::Merge | Verb::Delete => EntityOperation::Merge(new, condition),
    };
    (partition_key, operation)
}

/// The reply of a server that cannot serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureReply {
    /// 503 `ServerBusy`: it has not done it, and will not.
    NotDone,
    /// 500 `OperationTimedOut`: it does not know.
    Unknown,
}

/// Whether a reply says that the server cannot serve.
pub(super) fn failure_reply(reply: &Reply) -> Option<FailureReply> {
    let Err(DecodeError::Service(error)) = reply else { return None };
    match (error.status, error.code.as_str()) {
        (StatusCode::SERVICE_UNAVAILABLE, "ServerBusy") => Some(FailureReply::NotDone),
        (StatusCode::INTERNAL_SERVER_ERROR, "OperationTimedOut") => Some(FailureReply::Unknown),
        _ => None,
    }
}

/// What the server said to a get or a write.
///
/// # Errors
/// If a healthy server does not say such things.
pub(super) fn answer(ask: &Ask, reply: &Reply) -> Result<Answer, Violation> {
    match (ask, reply) {
        (Ask::Get(_), Ok(Decoded::Entity(entity))) => Ok(Answer::Found(Some(read(entity)?.1))),
        (Ask::Get(_), Err(DecodeError::Service(error))) if error.code == "ResourceNotFound" => {
            Ok(Answer::Found(None))
        }
        (Ask::Write(_), Ok(Decoded::Done(tag))) => {
            Ok(Answer::Written(vec![version(tag.as_ref())?]))
        }
        (Ask::Write(_), Ok(Decoded::TransactionDone(tags))) => tags
            .iter()
            .map(|tag| version(tag.as_ref()))
            .collect::<Result<_, _>>()
            .map(Answer::Written),
        (Ask::Write(writes), Err(DecodeError::Service(error))) => {
            let domain_error = match (error.status, error.code.as_str()) {
                (StatusCode::CONFLICT, "EntityAlreadyExists") => DomainError::Exists,
                (StatusCode::NOT_FOUND, "ResourceNotFound") => DomainError::Missing,
                (StatusCode::PRECONDITION_FAILED, "UpdateConditionNotSatisfied") => {
                    DomainError::Changed
                }
                _ => return Err(unexpected(ask, reply)),
            };
            match error.operation {
                Some(index) => Ok(Answer::Refused(index, domain_error)),
                None if writes.len() == 1 => Ok(Answer::Refused(0, domain_error)),
                None => Err(unexpected(ask, reply)),
            }
        }
        _ => Err(unexpected(ask, reply)),
    }
}

/// The entities of a page, and where to go on.
pub(super) type Page = (Vec<(Place, Entity)>, Option<(Place, NextPage)>);

/// Reads a page.
///
/// # Errors
/// If a healthy server does not say such things.
pub(super) fn page(reply: &Reply) -> Result<Page, Violation> {
    let Ok(Decoded::Entities(entities, next)) = reply else {
        return Err(Violation::new(format!("a page was answered with {reply:?}")));
    };
    let entities = entities.iter().map(read).collect::<Result<_, _>>()?;
    let next = next.clone().map(|next| {
        let key =
            |token: &Option<String>| continuation::decode(token.as_deref().unwrap_or_default());
        let place =
            key(&next.partition_key).zip(key(&next.row_key)).and_then(|(pk, rk)| place(&pk, &rk));
        let place = place
            .ok_or_else(|| Violation::new(format!("a page goes on at no key of ours: {next:?}")));
        place.map(|place| (place, next))
    });
    Ok((entities, next.transpose()?))
}

fn unexpected(ask: &Ask, reply: &Reply) -> Violation {
    Violation::new(format!("{ask:?} was answered with {reply:?}"))
}

fn place(partition_key: &str, row_key: &str) -> Option<Place> {
    Some((partition_key.strip_prefix('p')?.parse().ok()?, row_key.strip_prefix('r')?.parse().ok()?))
}

fn read(entity: &DecodedEntity) -> Result<(Place, Entity), Violation> {
    let strange = || Violation::new(format!("no write made this entity: {entity:?}"));
    let keys = entity.partition_key.as_ref().zip(entity.row_key.as_ref());
    let place = keys.and_then(|(pk, rk)| place(pk.as_str(), rk.as_str())).ok_or_else(strange)?;
    let mut content = Content::default();
    for (name, value) in entity.properties.iter() {
        let index = PROPERTIES.iter().position(|property| *property == name).ok_or_else(strange)?;
        let EdmRef::Int64(number) = value else { return Err(strange()) };
        content.0[index] = u32::try_from(number).map_err(|_| strange())?;
    }
    let version = version(entity.etag.as_ref())?.ok_or_else(strange)?;
    if entity.timestamp.map(Timestamp::ticks) != Some(version) {
        return Err(Violation::new(format!("Timestamp and ETag differ: {entity:?}")));
    }
    Ok((place, Entity { content, version }))
}

/// The version that an ETag names.
fn version(tag: Option<&ETag>) -> Result<Option<Version>, Violation> {
    let Some(tag) = tag else { return Ok(None) };
    let time = tag.as_str().strip_prefix("W/\"datetime'").and_then(|rest| rest.strip_suffix("'\""));
    let time = time.and_then(|time| DateTime::parse(&time.replace("%3A", ":")).ok());
    let version = time
        .map(|time| time.ticks())
        .ok_or_else(|| Violation::new(format!("not an ETag of ours: {tag}")));
    version.map(Some)
}
