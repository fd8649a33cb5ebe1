//! From HTTP to what was answered: the client's half of [`super::reply`].

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG};
use http::{HeaderMap, Response, StatusCode};
use tavola_core::{AccessPolicy, ETag, ServiceKind, ServiceProperties, TableRequest};

use super::batch::decode_batch_response;
use super::encode::NextPage;
use super::entity_json::{DecodedEntity, decode_entity, decode_entity_set};
use super::tables_json::{decode_table_set, read_table_name};
use crate::error_body;
use crate::xml::{read_policies, read_service_properties};

/// What a service answered to a request that it carried out.
#[derive(Debug, Clone, PartialEq)]
pub enum Decoded {
    /// Done; the new version of the entity, where there is one.
    Done(Option<ETag>),
    /// Done, each operation of the transaction.
    TransactionDone(Vec<Option<ETag>>),
    /// The table.
    Table(String),
    /// A page of tables.
    Tables(Vec<String>, Option<NextPage>),
    /// The entity, with the version that its headers name.
    Entity(DecodedEntity),
    /// A page of entities; it may be empty and not the last.
    Entities(Vec<DecodedEntity>, Option<NextPage>),
    /// The policies of a table.
    Policies(Vec<AccessPolicy>),
    /// The service's properties.
    ServiceProperties(ServiceProperties),
    /// Stats or schema, left as the XML that they are.
    Document(Bytes),
}

/// Why an answer is not [`Decoded`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The service says no.
    #[error("{0}")]
    Service(ServiceError),
    /// Not an answer of the Table service.
    #[error("the answer is not one of the Table service")]
    Malformed,
}

/// An error as the service words it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{status}: {code}: {message}")]
pub struct ServiceError {
    /// The HTTP status; of the failed operation if it is a batch's.
    pub status: StatusCode,
    /// What programs decide by; empty if the service gave none.
    pub code: String,
    /// What people read, with request id and time, without the operation's index.
    pub message: String,
    /// Which operation of a batch failed, if the service says.
    pub operation: Option<usize>,
}

/// Reads the answer to `request`.
///
/// # Errors
/// If the service refused, or the answer makes no sense.
pub fn decode_reply(
    request: &TableRequest,
    response: &Response<Bytes>,
) -> Result<Decoded, DecodeError> {
    if !response.status().is_success() {
        return Err(DecodeError::Service(service_error(response)));
    }
    let body = response.body();
    let headers = response.headers();
    Ok(match request {
        TableRequest::CreateTable(_)
        | TableRequest::DeleteTable(_)
        | TableRequest::SetPolicies(..)
        | TableRequest::Write(..)
        | TableRequest::SetServiceProperties(_)
        | TableRequest::Misaddressed(..) => Decoded::Done(etag(headers)),
        TableRequest::QueryTables(_) => {
            Decoded::Tables(json(decode_table_set(body))?, next_page(headers))
        }
        TableRequest::GetTable(_) => Decoded::Table(json(read_table_name(body))?),
        TableRequest::GetPolicies(_) => Decoded::Policies(
            read_policies(ServiceKind::Table, body).map_err(|_| DecodeError::Malformed)?,
        ),
        TableRequest::GetEntity(..) => {
            let entity = json(decode_entity(body))?;
            // Without metadata the version stands in the headers only.
            let etag = etag(headers).or(entity.etag);
            Decoded::Entity(DecodedEntity { etag, ..entity })
        }
        TableRequest::QueryEntities(..) => {
            Decoded::Entities(json(decode_entity_set(body))?, next_page(headers))
        }
        TableRequest::Transaction(_, group) => {
            transaction(group.operations().len(), headers, body)?
        }
        TableRequest::GetServiceProperties => {
            let groups = read_service_properties(body).map_err(|_| DecodeError::Malformed)?;
            Decoded::ServiceProperties(ServiceProperties::default().changed(groups))
        }
        TableRequest::GetServiceStats | TableRequest::GetMetadata => {
            Decoded::Document(body.clone())
        }
    })
}

fn json<T, E>(result: Result<T, E>) -> Result<T, DecodeError> {
    result.map_err(|_| DecodeError::Malformed)
}

pub(super) fn etag(headers: &HeaderMap) -> Option<ETag> {
    ETag::parse(headers.get(ETAG)?.to_str().ok()?)
}

fn next_page(headers: &HeaderMap) -> Option<NextPage> {
    let token = |name: &str| {
        let text = headers.get(name).and_then(|value| value.to_str().ok());
        // The service refuses an empty token that is sent back.
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let page = NextPage {
        partition_key: token("x-ms-continuation-nextpartitionkey"),
        row_key: token("x-ms-continuation-nextrowkey"),
        table_name: token("x-ms-continuation-nexttablename"),
    };
    (page != NextPage::default()).then_some(page)
}

fn transaction(
    operations: usize,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Decoded, DecodeError> {
    let content_type =
        headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let parts = decode_batch_response(content_type, body).map_err(|_| DecodeError::Malformed)?;
    if let Some(failed) = parts.iter().find(|part| !part.status().is_success()) {
        return Err(DecodeError::Service(failed_operation(service_error(failed))));
    }
    if parts.len() != operations {
        return Err(DecodeError::Malformed);
    }
    Ok(Decoded::TransactionDone(parts.iter().map(|part| etag(part.headers())).collect()))
}

/// The index stands before the text's first colon; some errors come without one.
pub(super) fn failed_operation(mut error: ServiceError) -> ServiceError {
    if let Some((index, message)) = error.message.split_once(':')
        && let Ok(index) = index.parse()
    {
        error.operation = Some(index);
        error.message = message.to_owned();
    }
    error
}

pub(super) fn service_error(response: &Response<Bytes>) -> ServiceError {
    let (mut code, message) = error_body::read(response.body()).unwrap_or_default();
    let header = response.headers().get("x-ms-error-code").and_then(|value| value.to_str().ok());
    if code.is_empty() {
        code = header.unwrap_or_default().to_owned();
    }
    ServiceError { status: response.status(), code, message, operation: None }
}

#[cfg(test)]
mod tests;
