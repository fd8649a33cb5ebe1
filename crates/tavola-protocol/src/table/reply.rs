//! From what is answered to HTTP.

use std::borrow::Cow;
use std::ptr;

use bytes::Bytes;
use http::header;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use sha2::{Digest as _, Sha256};
use tavola_core::reply::OperationReply;
use tavola_core::request::{Continuation, Select};
use tavola_core::{ETag, Guid, TableName, TableReply, Timestamp};

use super::batch::{PartsWriter, write_batch};
use super::continuation;
use super::entity_json::{Links, MetadataLevel, entity_url, write_entity, write_entity_set};
use super::error::TableError;
use super::format::{Envelope, Prefer, ResponseFormat, TableContext, json_content_type};
use super::metadata::write_metadata;
use super::tables_json::{write_table, write_table_set};
use crate::api_error::{ApiError, ServiceApiError as _};
use crate::headers::text_value;
use crate::response::{ResponseHead, add_advice};
use crate::{error_body, xml};

/// Headers of most answers, and those that all have: room for both, so that nothing grows.
const HEADERS_USUAL: usize = 7;
const COMMON_HEADERS: usize = 8;

/// Writes the answer to a request that was carried out.
#[must_use]
pub fn render_reply(
    reply: &TableReply,
    response_head: &ResponseHead<'_, TableContext>,
) -> Response<Bytes> {
    let context = response_head.context;
    match (reply, &context.envelope) {
        (TableReply::TransactionDone(table, operations), envelope) => {
            let format = |index: usize| match envelope {
                Envelope::Changeset(formats) => formats.get(index).unwrap_or(&context.format),
                Envelope::Plain | Envelope::BatchedQuery => &context.format,
            };
            batch_response(true, response_head, |parts| {
                for (index, operation) in operations.iter().enumerate() {
                    operation_answer(table, operation, format(index), context).write_part(parts);
                    if index == 0 {
                        parts.reserve_parts(1, operations.len() - 1);
                    }
                }
            })
        }
        (reply, Envelope::BatchedQuery) => {
            batch_response(false, response_head, |parts| answer(reply, context).write_part(parts))
        }
        (reply, Envelope::Plain | Envelope::Changeset(_)) => {
            answer(reply, context).into_response(response_head)
        }
    }
}

/// Writes the answer to a request that was not carried out. What is wrong inside a batch stands in
/// the batch's answer.
#[must_use]
pub fn render_error(
    table_error: &TableError,
    response_head: &ResponseHead<'_, TableContext>,
) -> Response<Bytes> {
    let part = |table_error: &TableError, index: Option<usize>| {
        let formats = match &response_head.context.envelope {
            Envelope::Changeset(formats) => formats.as_slice(),
            Envelope::Plain | Envelope::BatchedQuery => &[],
        };
        let prefer = index.and_then(|index| formats.get(index)).and_then(|format| format.prefer);
        error_answer(table_error, prefer, response_head)
    };
    match (&response_head.context.envelope, table_error) {
        (Envelope::Changeset(_), TableError::InOperation { index, .. }) => {
            batch_response(true, response_head, |parts| {
                part(table_error, Some(*index)).write_part(parts)
            })
        }
        // A refusal of the batch as a whole, a missing table for example, is the first operation's.
        (Envelope::Changeset(_), TableError::Domain(_)) => {
            let table_error = table_error.clone().in_operation(0);
            batch_response(true, response_head, |parts| {
                part(&table_error, Some(0)).write_part(parts)
            })
        }
        (Envelope::BatchedQuery, _) if table_error.parts().status.is_client_error() => {
            batch_response(false, response_head, |parts| part(table_error, None).write_part(parts))
        }
        _ => {
            let table_error = table_error.innermost();
            let code = table_error.parts().code;
            let answer = error_answer(table_error, None, response_head).header(&ERROR_CODE, code);
            let mut response = answer.into_response(response_head);
            if let TableError::Common(api_error) = table_error {
                add_advice(api_error, response.headers_mut());
            }
            response
        }
    }
}

/// The name of a header as the service spells it, which counts in the parts of a batch, and ready
/// for a response.
struct Name {
    spelled: &'static str,
    name: HeaderName,
}

impl Name {
    const fn new(spelled: &'static str, name: HeaderName) -> Self {
        Self { spelled, name }
    }
}

static CACHE_CONTROL: Name = Name::new("Cache-Control", header::CACHE_CONTROL);
static CONTENT_TYPE: Name = Name::new("Content-Type", header::CONTENT_TYPE);
static DATA_SERVICE_ID: Name = Name::new("DataServiceId", HeaderName::from_static("dataserviceid"));
static DATA_SERVICE_VERSION: Name =
    Name::new("DataServiceVersion", HeaderName::from_static("dataserviceversion"));
static ENTITY_TAG: Name = Name::new("ETag", header::ETAG);
/// Names the code of an error, which clients of other languages read rather than the body.
static ERROR_CODE: Name = Name::new("x-ms-error-code", HeaderName::from_static("x-ms-error-code"));
static LOCATION: Name = Name::new("Location", header::LOCATION);
static NEXT_PARTITION_KEY: Name = Name::new(
    "x-ms-continuation-NextPartitionKey",
    HeaderName::from_static("x-ms-continuation-nextpartitionkey"),
);
static NEXT_ROW_KEY: Name = Name::new(
    "x-ms-continuation-NextRowKey",
    HeaderName::from_static("x-ms-continuation-nextrowkey"),
);
static NEXT_TABLE_NAME: Name = Name::new(
    "x-ms-continuation-NextTableName",
    HeaderName::from_static("x-ms-continuation-nexttablename"),
);
static NO_SNIFF: Name = Name::new("X-Content-Type-Options", header::X_CONTENT_TYPE_OPTIONS);
static PREFERENCE_APPLIED: Name =
    Name::new("Preference-Applied", HeaderName::from_static("preference-applied"));

/// A value that is the same in every answer: as text, and checked when this is compiled rather than
/// for every answer.
struct Constant {
    text: &'static str,
    value: HeaderValue,
}

impl Constant {
    const fn new(text: &'static str) -> Self {
        Self { text, value: HeaderValue::from_static(text) }
    }
}

static NO_CACHE_VALUE: Constant = Constant::new("no-cache");
static NO_SNIFF_VALUE: Constant = Constant::new("nosniff");
static JSON_WITHOUT_METADATA: Constant = Constant::new(json_content_type(MetadataLevel::None));
static JSON_WITH_MINIMAL_METADATA: Constant =
    Constant::new(json_content_type(MetadataLevel::Minimal));
static JSON_WITH_FULL_METADATA: Constant = Constant::new(json_content_type(MetadataLevel::Full));

/// The value of a header.
enum Value {
    Constant(&'static Constant),
    Text(Cow<'static, str>),
}

impl Value {
    fn as_str(&self) -> &str {
        match self {
            Self::Constant(constant) => constant.text,
            Self::Text(text) => text,
        }
    }

    fn into_header(self) -> HeaderValue {
        match self {
            Self::Constant(constant) => constant.value.clone(),
            Self::Text(Cow::Borrowed(text)) => HeaderValue::from_static(text),
            Self::Text(Cow::Owned(text)) => text_value(text),
        }
    }
}

impl<T: Into<Cow<'static, str>>> From<T> for Value {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}

/// An answer before it becomes a response or a part of one. Names are spelled as the service spells
/// them, which counts in the parts of a batch; their order is the service's too.
struct Answer {
    status: StatusCode,
    headers: Vec<(&'static Name, Value)>,
    body: Option<Vec<u8>>,
    /// The OData version that a part says; whole responses say none.
    version: &'static str,
}

impl Answer {
    /// An answer of an OData operation.
    fn odata(status: StatusCode) -> Self {
        let mut headers = Vec::with_capacity(HEADERS_USUAL);
        let (nosniff, no_cache) =
            (Value::Constant(&NO_SNIFF_VALUE), Value::Constant(&NO_CACHE_VALUE));
        headers.extend([(&NO_SNIFF, nosniff), (&CACHE_CONTROL, no_cache)]);
        Self { status, headers, body: None, version: "3.0;" }
    }

    fn xml(status: StatusCode, body: Vec<u8>) -> Self {
        let headers = vec![(&CONTENT_TYPE, "application/xml".into())];
        Self { status, headers, body: Some(body), version: "3.0;" }
    }

    /// An answer of an XML operation that has nothing to say.
    fn bare(status: StatusCode) -> Self {
        Self { status, headers: Vec::new(), body: None, version: "3.0;" }
    }

    fn header(mut self, name: &'static Name, value: impl Into<Value>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn maybe_header(self, name: &'static Name, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.header(name, value),
            None => self,
        }
    }

    fn json(mut self, level: MetadataLevel, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let content_type = match level {
            MetadataLevel::None => &JSON_WITHOUT_METADATA,
            MetadataLevel::Minimal => &JSON_WITH_MINIMAL_METADATA,
            MetadataLevel::Full => &JSON_WITH_FULL_METADATA,
        };
        self.headers.push((&CONTENT_TYPE, Value::Constant(content_type)));
        let mut body = Vec::new();
        write(&mut body);
        self.body = Some(body);
        self
    }

    /// Writes the answer as a part of a batch's.
    fn write_part(mut self, parts: &mut PartsWriter<'_>) {
        let before = |name: &Name| {
            [&NO_SNIFF, &CACHE_CONTROL, &PREFERENCE_APPLIED].iter().any(|one| ptr::eq(*one, name))
        };
        let at = self.headers.iter().take_while(|(name, _)| before(name)).count();
        self.headers.insert(at, (&DATA_SERVICE_VERSION, self.version.into()));
        let spelled = self.headers.iter().map(|(name, value)| (name.spelled, value.as_str()));
        parts.push(self.status, spelled, self.body.as_deref().unwrap_or_default());
    }

    fn into_response(self, response_head: &ResponseHead<'_, TableContext>) -> Response<Bytes> {
        let mut headers = HeaderMap::with_capacity(self.headers.len() + COMMON_HEADERS);
        for (name, value) in self.headers {
            headers.insert(name.name.clone(), value.into_header());
        }
        response_head.respond(self.status, headers, self.body.map(Bytes::from).unwrap_or_default())
    }
}

fn answer(reply: &TableReply, context: &TableContext) -> Answer {
    let ResponseFormat { level, select, prefer } = &context.format;
    let level = *level;
    let links = |table| Links { base: context.base(), account: context.account(), table };
    let ok = || Answer::odata(StatusCode::OK);
    match reply {
        TableReply::TableCreated(name) => table_created(name, *prefer, level, context),
        TableReply::Table(name) => {
            ok().json(level, |out| write_table(out, name, level, &links("Tables")))
        }
        TableReply::Tables { names, next } => ok()
            .maybe_header(&NEXT_TABLE_NAME, next.as_deref().map(continuation::encode))
            .json(level, |out| write_table_set(out, names, level, &links("Tables"))),
        TableReply::TableDeleted => Answer::odata(StatusCode::NO_CONTENT),
        TableReply::Policies(policies) => {
            Answer::xml(StatusCode::OK, xml::write_policies(policies))
        }
        TableReply::PoliciesSet => Answer::bare(StatusCode::NO_CONTENT),
        TableReply::Entity(table, entity) => {
            ok().header(&ENTITY_TAG, etag(entity.timestamp())).json(level, |out| {
                write_entity(out, entity.as_ref(), level, select, &links(table.as_str()))
            })
        }
        TableReply::Entities { table, entities, next } => with_continuation(ok(), next.as_ref())
            .json(level, |out| {
                write_entity_set(out, entities, level, select, &links(table.as_str()))
            }),
        TableReply::Written(table, operation) => {
            operation_answer(table, operation, &context.format, context)
        }
        // Rendered part by part; a caller that comes here all the same gets an answer without them.
        TableReply::TransactionDone(..) => Answer::odata(StatusCode::ACCEPTED),
        TableReply::ServiceProperties(properties) => {
            Answer::xml(StatusCode::OK, xml::write_service_properties(properties))
        }
        TableReply::ServicePropertiesSet => Answer::bare(StatusCode::ACCEPTED),
        TableReply::ServiceStats(last_sync) => {
            Answer::xml(StatusCode::OK, xml::write_stats(*last_sync))
        }
        TableReply::Metadata(names) => {
            Answer::xml(StatusCode::OK, write_metadata(names, context.account()))
        }
    }
}

fn with_continuation(answer: Answer, next: Option<&Continuation>) -> Answer {
    let Some(next) = next else {
        return answer;
    };
    let row_key = next.row_key.as_ref().map(|row_key| continuation::encode(row_key.as_str()));
    answer
        .header(&NEXT_PARTITION_KEY, continuation::encode(next.partition_key.as_str()))
        .maybe_header(&NEXT_ROW_KEY, row_key)
}

fn table_created(
    name: &TableName,
    prefer: Option<Prefer>,
    level: MetadataLevel,
    context: &TableContext,
) -> Answer {
    let url = format!("{}/Tables('{name}')", context.base());
    let links = Links { base: context.base(), account: context.account(), table: "Tables" };
    created(url, prefer, None)
        .unwrap_or_else(|answer| answer.json(level, |out| write_table(out, name, level, &links)))
}

/// What creating a table or an entity answers: whole if nothing is to be echoed, else in `Err` for
/// want of its body.
fn created(
    url: String,
    prefer: Option<Prefer>,
    timestamp: Option<Timestamp>,
) -> Result<Answer, Answer> {
    let echoed = prefer != Some(Prefer::ReturnNoContent);
    let status = if echoed { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
    let service_id = (!echoed).then(|| url.clone());
    let answer = Answer::odata(status)
        .maybe_header(&PREFERENCE_APPLIED, prefer.map(Prefer::name))
        .header(&LOCATION, url)
        .maybe_header(&DATA_SERVICE_ID, service_id)
        .maybe_header(&ENTITY_TAG, timestamp.map(etag));
    if echoed { Err(answer) } else { Ok(answer) }
}

fn operation_answer(
    table: &TableName,
    operation: &OperationReply,
    format: &ResponseFormat,
    context: &TableContext,
) -> Answer {
    let written = || Answer { version: "1.0;", ..Answer::odata(StatusCode::NO_CONTENT) };
    match operation {
        OperationReply::Inserted(entity) => {
            let url = entity_url(
                context.base(),
                table.as_str(),
                entity.key.partition_key.as_str(),
                entity.key.row_key.as_str(),
            );
            let links =
                Links { base: context.base(), account: context.account(), table: table.as_str() };
            let write =
                |out: &mut Vec<u8>| write_entity(out, entity, format.level, &Select::All, &links);
            let created = created(url, format.prefer, Some(entity.timestamp));
            created.unwrap_or_else(|answer| answer.json(format.level, write))
        }
        OperationReply::Updated(timestamp) => written().header(&ENTITY_TAG, etag(*timestamp)),
        OperationReply::Deleted => written(),
    }
}

fn etag(timestamp: Timestamp) -> String {
    ETag::of(timestamp).into_string()
}

/// Without the header that names the code: the parts of a batch have none.
fn error_answer(
    table_error: &TableError,
    prefer: Option<Prefer>,
    response_head: &ResponseHead<'_, TableContext>,
) -> Answer {
    let error = table_error.parts();
    // The challenge comes from before the service knows what was asked, and is always XML.
    let is_challenge =
        matches!(table_error, TableError::Common(ApiError::CredentialsMissing { .. }));
    if response_head.context.is_xml || is_challenge {
        let body = error_body::odata_xml(
            &error,
            table_error.common(),
            response_head.request_id,
            response_head.now,
        );
        return Answer::xml(error.status, body);
    }
    Answer::odata(error.status)
        .maybe_header(&PREFERENCE_APPLIED, prefer.map(Prefer::name))
        // Recordings of errors say this level whatever was asked.
        .json(MetadataLevel::Minimal, |out| {
            *out = error_body::json(
                &error,
                table_error.detail(),
                response_head.request_id,
                response_head.now,
            );
        })
}

fn batch_response(
    in_changeset: bool,
    response_head: &ResponseHead<'_, TableContext>,
    write_parts: impl FnOnce(&mut PartsWriter<'_>),
) -> Response<Bytes> {
    let ids = ["batch", "changeset"].map(|name| boundary_id(name, response_head.request_id));
    let (content_type, body) = write_batch(in_changeset, [&ids[0], &ids[1]], write_parts);
    let answer = Answer::odata(StatusCode::ACCEPTED).header(&CONTENT_TYPE, content_type);
    Answer { body: Some(body.into()), ..answer }.into_response(response_head)
}

/// A GUID that differs per request, so that no content can be made to contain the boundary in
/// advance.
fn boundary_id(name: &str, request_id: &str) -> String {
    let digest = Sha256::new().chain_update(name).chain_update(request_id).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    Guid::from_bytes(bytes).to_string()
}

#[cfg(test)]
mod tests;
