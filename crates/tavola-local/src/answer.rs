//! Between what the service says and what a client hears.

use http::StatusCode;
use tavola_client::Failure;
use tavola_core::reply::OperationReply;
use tavola_core::request::{Continuation, Select};
use tavola_core::{
    ETag, Entity, EntityView, PartitionKey, Properties, RowKey, TableName, TableReply,
    TableRequest, Timestamp,
};
use tavola_protocol::api_error::ServiceApiError as _;
use tavola_protocol::table::TableError;
use tavola_protocol::table::continuation;
use tavola_protocol::table::decode::{Decoded, ServiceError};
use tavola_protocol::table::encode::NextPage;
use tavola_protocol::table::entity_json::DecodedEntity;
use tavola_protocol::table::receive::{
    NotReceived, NotReceivedReason, Received, Reply, ReplyHead, WriteReply,
};
use tavola_service::ServiceError as ServiceTrouble;
use tavola_store::StoreError;

/// The request with the place where its page begins.
pub(crate) fn resume(
    request: TableRequest,
    page: Option<NextPage>,
) -> Result<TableRequest, Failure> {
    let Some(page) = page else { return Ok(request) };
    let refused = || refused(StatusCode::BAD_REQUEST, "InvalidInput", "the page is not one");
    let key = |token: Option<&String>| match token {
        Some(token) => continuation::decode(token).map(Some).ok_or_else(refused),
        None => Ok(None),
    };
    Ok(match request {
        TableRequest::QueryEntities(table, mut query) => {
            let partition = key(page.partition_key.as_ref())?.ok_or_else(refused)?;
            let row = key(page.row_key.as_ref())?;
            query.from = Some(Continuation {
                partition_key: PartitionKey::stored(partition).map_err(|_| refused())?,
                row_key: row.map(RowKey::stored).transpose().map_err(|_| refused())?,
            });
            TableRequest::QueryEntities(table, query)
        }
        TableRequest::QueryTables(mut query) => {
            let name = key(page.table_name.as_ref())?.ok_or_else(refused)?;
            query.from = Some(TableName::parse(&name).map_err(|_| refused())?);
            TableRequest::QueryTables(query)
        }
        other => other,
    })
}

/// What the client hears of an answer.
pub(crate) fn reply(
    request: &TableRequest,
    reply: TableReply,
    select: &Select,
) -> Result<Received, Failure> {
    let status = match request {
        TableRequest::Write(..) => StatusCode::NO_CONTENT,
        _ => StatusCode::OK,
    };
    let unreadable = || Failure::lost("a stored entity cannot be read");
    let decoded = match reply {
        TableReply::Written(_, done) => {
            return Ok(received(status, Reply::Written(vec![written(done)])));
        }
        TableReply::TransactionDone(_, done) => {
            let all = done.into_iter().map(written).collect();
            return Ok(received(StatusCode::ACCEPTED, Reply::Written(all)));
        }
        TableReply::Table(name) => Decoded::Table(name.as_str().to_owned()),
        TableReply::Tables { names, next } => {
            let table_name = next.map(|next| continuation::encode(&next));
            let next =
                table_name.map(|name| NextPage { table_name: Some(name), ..NextPage::default() });
            Decoded::Tables(names.iter().map(ToString::to_string).collect(), next)
        }
        TableReply::Policies(policies) => Decoded::Policies(policies),
        TableReply::Entity(_, entity) => {
            Decoded::Entity(decoded(&*entity, select).ok_or_else(unreadable)?)
        }
        TableReply::Entities { entities, next, .. } => {
            let all: Option<Vec<_>> = entities.iter().map(|one| decoded(&**one, select)).collect();
            Decoded::Entities(all.ok_or_else(unreadable)?, next.map(next_page))
        }
        TableReply::ServiceProperties(properties) => Decoded::ServiceProperties(properties),
        TableReply::ServiceStats(at) => {
            Decoded::Document(tavola_protocol::xml::write_stats(at).into())
        }
        TableReply::TableCreated(_)
        | TableReply::TableDeleted
        | TableReply::PoliciesSet
        | TableReply::ServicePropertiesSet
        | TableReply::Metadata(_) => Decoded::Done(None),
    };
    Ok(received(status, Reply::Decoded(decoded)))
}

fn received(status: StatusCode, reply: Reply) -> Received {
    Received { head: head(status), reply }
}

fn head(status: StatusCode) -> ReplyHead {
    ReplyHead { status, request_id: None, retry_after: None }
}

fn written(done: OperationReply) -> WriteReply {
    let timestamp = match done {
        OperationReply::Inserted(Entity { timestamp, .. }) | OperationReply::Updated(timestamp) => {
            Some(timestamp)
        }
        OperationReply::Deleted => None,
    };
    let etag = timestamp.map(ETag::of);
    WriteReply { status: StatusCode::NO_CONTENT, etag, timestamp, echo: None }
}

fn next_page(next: Continuation) -> NextPage {
    NextPage {
        partition_key: Some(continuation::encode(next.partition_key.as_str())),
        row_key: next.row_key.map(|row_key| continuation::encode(row_key.as_str())),
        table_name: None,
    }
}

fn decoded(view: &dyn EntityView, select: &Select) -> Option<DecodedEntity> {
    let Entity { key, timestamp, properties } = Entity::from_view(view).ok()?;
    let properties = match select {
        Select::All => properties,
        Select::Names(names) => selected(&properties, names)?,
    };
    Some(DecodedEntity {
        partition_key: Some(key.partition_key),
        row_key: Some(key.row_key),
        timestamp: Some(timestamp),
        etag: Some(tag(timestamp)),
        properties,
    })
}

fn tag(timestamp: Timestamp) -> ETag {
    ETag::of(timestamp)
}

fn selected(properties: &Properties, names: &[String]) -> Option<Properties> {
    let kept = properties.iter().filter(|(name, _)| names.iter().any(|wanted| wanted == name));
    let kept = kept
        .map(|(name, value)| Some((tavola_core::PropertyName::new(name).ok()?, value.to_owned())));
    Properties::new(kept.collect::<Option<Vec<_>>>()?).ok()
}

/// What the client hears of a refusal or of trouble.
pub(crate) fn failure(request: &TableRequest, error: ServiceTrouble) -> Failure {
    let in_transaction = matches!(request, TableRequest::Transaction(..));
    let (error, index) = match error {
        ServiceTrouble::Refused(error) => (error, in_transaction.then_some(0)),
        ServiceTrouble::OperationRefused(failed) => {
            (failed.domain_error, in_transaction.then_some(failed.index))
        }
        ServiceTrouble::PartitionOverBudget => return busy(),
        ServiceTrouble::Stopped { .. } => return Failure::lost("the service stopped"),
        ServiceTrouble::Store(error) => return store_failure(&error),
    };
    let parts = TableError::from(error).parts();
    let service = ServiceError {
        status: parts.status,
        code: parts.code.to_owned(),
        message: parts.text.to_string(),
        operation: index,
    };
    let reason = NotReceivedReason::Service(service);
    Failure::answered(NotReceived { head: head(parts.status), reason })
}

fn store_failure(error: &StoreError) -> Failure {
    match error {
        StoreError::Contended | StoreError::Unavailable { .. } | StoreError::Full { .. } => busy(),
        other => Failure::lost(other.to_string()),
    }
}

fn busy() -> Failure {
    refused(StatusCode::SERVICE_UNAVAILABLE, "ServerBusy", "the service has no capacity now")
}

fn refused(status: StatusCode, code: &str, message: &str) -> Failure {
    let service = ServiceError {
        status,
        code: code.to_owned(),
        message: message.to_owned(),
        operation: None,
    };
    Failure::answered(NotReceived {
        head: head(status),
        reason: NotReceivedReason::Service(service),
    })
}
