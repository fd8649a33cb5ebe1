//! From what is asked to HTTP: the client's half of [`super::request`]. What is encoded here parses
//! there to the same request.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, IF_MATCH};
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tavola_core::filter::Filter;
use tavola_core::properties::ServicePropertiesChange;
use tavola_core::request::{Misaddressed, Select};
use tavola_core::{
    EntityGroupTransaction, EntityKey, EntityOperation, PartitionKey, Precondition, RowKey,
    ServiceProperties, TableName, TableRequest,
};

use super::batch::encode_batch;
use super::continuation;
use super::entity_json::{MetadataLevel, encode_entity_body, entity_url_path};
use super::format::ResponseFormat;
use super::query::Parameter;
use super::tables_json::encode_table_body;
use crate::headers::name;
use crate::xml::{write_policies, write_service_properties};

/// The version that requests speak: the one that the official clients send.
const VERSION: &str = "2019-02-02";

/// What need not be escaped in a query string.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// How a client writes its requests.
#[derive(Debug, Clone, Copy)]
pub struct Style<'a> {
    /// What all URLs begin with: scheme, host and, in path style, the account; no slash at the end.
    pub base: &'a str,
    /// How answers are to be written.
    pub format: &'a ResponseFormat,
    /// The page to ask for, as the service named it. Instead of the request's own place, because
    /// such names are opaque.
    pub page: Option<&'a NextPage>,
    /// GUIDs for the boundaries of a batch.
    pub boundary_ids: [&'a str; 2],
}

/// Where the next page begins, in the service's own words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NextPage {
    /// `NextPartitionKey`
    pub partition_key: Option<String>,
    /// `NextRowKey`
    pub row_key: Option<String>,
    /// `NextTableName`
    pub table_name: Option<String>,
}

/// The verb of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MergeVerb {
    /// `PATCH`, as the Table service takes it.
    #[default]
    Patch,
    /// `POST` with `X-HTTP-Method: MERGE`, because Cosmos knows no `PATCH`.
    Tunnelled,
}

/// A request that cannot be written as HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The base is not one, or key and filter are too long for a URL.
    #[error("the request's URL is not one, or is too long")]
    Url,
    /// An entity tag with characters that no header can have.
    #[error("the entity tag cannot stand in a header")]
    ETag,
}

/// Writes a request, unsigned, with an absolute URL.
///
/// # Errors
/// If its URL or its entity tag cannot be written.
pub fn encode_request(
    request: &TableRequest,
    style: &Style<'_>,
) -> Result<Request<Bytes>, EncodeError> {
    encode_request_with(request, style, MergeVerb::Patch)
}

/// The same for a service that wants merges by another verb.
///
/// # Errors
/// If its URL or its entity tag cannot be written.
pub fn encode_request_with(
    request: &TableRequest,
    style: &Style<'_>,
    merge: MergeVerb,
) -> Result<Request<Bytes>, EncodeError> {
    let draft = match request {
        TableRequest::CreateTable(name) => {
            Draft::new(Method::POST, "Tables").json(encode_table_body(name)).prefer(style.format)
        }
        TableRequest::QueryTables(query) => {
            let from = query.from.as_ref().map(|name| continuation::encode(name.as_str()));
            let page = NextPage { table_name: from, ..NextPage::default() };
            Draft::new(Method::GET, "Tables").page_of(
                query.filter.as_ref(),
                query.top,
                style.page.unwrap_or(&page),
            )
        }
        TableRequest::GetTable(name) => Draft::new(Method::GET, table_path(name)),
        TableRequest::DeleteTable(name) => Draft::new(Method::DELETE, table_path(name)),
        TableRequest::GetPolicies(table) => {
            Draft::new(Method::GET, table.as_str()).xml_operation("acl", Vec::new())
        }
        TableRequest::SetPolicies(table, policies) => {
            Draft::new(Method::PUT, table.as_str()).xml_operation("acl", write_policies(policies))
        }
        TableRequest::GetEntity(table, key) => {
            let path =
                entity_url_path(table.as_str(), key.partition_key.as_str(), key.row_key.as_str());
            Draft::new(Method::GET, path).select(&style.format.select)
        }
        TableRequest::QueryEntities(table, query) => {
            let own = query.from.as_ref().map_or_else(NextPage::default, |from| NextPage {
                partition_key: Some(continuation::encode(from.partition_key.as_str())),
                row_key: from
                    .row_key
                    .as_ref()
                    .map(|row_key| continuation::encode(row_key.as_str())),
                table_name: None,
            });
            Draft::new(Method::GET, format!("{table}()")).select(&style.format.select).page_of(
                query.filter.as_ref(),
                query.top,
                style.page.unwrap_or(&own),
            )
        }
        TableRequest::Write(table, partition_key, operation) => {
            write(table, partition_key, operation, style, merge)?
        }
        TableRequest::Transaction(table, group) => transaction(table, group, style, merge)?,
        TableRequest::GetServiceProperties => service(Method::GET, "properties", Vec::new()),
        TableRequest::SetServiceProperties(change) => {
            service(Method::PUT, "properties", properties_body(change))
        }
        TableRequest::GetServiceStats => service(Method::GET, "stats", Vec::new()),
        TableRequest::GetMetadata => Draft::new(Method::GET, "$metadata"),
        TableRequest::Misaddressed(table, Misaddressed::CreateTable) => {
            Draft::new(Method::POST, format!("{table}/Tables")).json(encode_table_body(table))
        }
        TableRequest::Misaddressed(table, Misaddressed::DeleteTable) => {
            Draft::new(Method::DELETE, format!("{table}/{}", table_path(table)))
        }
    };
    draft.finish(style)
}

fn table_path(name: &TableName) -> String {
    format!("Tables('{name}')")
}

fn service(method: Method, comp: &str, body: Vec<u8>) -> Draft {
    Draft::new(method, "").parameter(Parameter::RestType, "service").xml_operation(comp, body)
}

fn write(
    table: &TableName,
    partition_key: &PartitionKey,
    operation: &EntityOperation,
    style: &Style<'_>,
    merge: MergeVerb,
) -> Result<Draft, EncodeError> {
    let path = |row_key: &RowKey| {
        entity_url_path(table.as_str(), partition_key.as_str(), row_key.as_str())
    };
    let (method, path, new, wanted) = match operation {
        EntityOperation::Insert(new) => {
            (Method::POST, table.to_string(), Some(new), &Precondition::None)
        }
        EntityOperation::Replace(new, wanted) => {
            (Method::PUT, path(new.row_key()), Some(new), wanted)
        }
        EntityOperation::Merge(new, wanted) => {
            (Method::PATCH, path(new.row_key()), Some(new), wanted)
        }
        // A delete without a condition cannot be said; with the entity's existence as one it means
        // the same.
        EntityOperation::Delete(row_key, Precondition::None) => {
            (Method::DELETE, path(row_key), None, &Precondition::Exists)
        }
        EntityOperation::Delete(row_key, wanted) => (Method::DELETE, path(row_key), None, wanted),
    };
    let mut draft = match (method, merge) {
        (Method::PATCH, MergeVerb::Tunnelled) => Draft::new(Method::POST, path)
            .header(name::METHOD.clone(), HeaderValue::from_static("MERGE")),
        (method, _) => Draft::new(method, path),
    };
    draft = draft.if_match(wanted)?;
    if let Some(new) = new {
        let key = EntityKey::new(partition_key.clone(), new.row_key().clone());
        draft = draft.json(encode_entity_body(&key, new.properties()));
    }
    let inserts = matches!(operation, EntityOperation::Insert(_));
    Ok(if inserts { draft.prefer(style.format) } else { draft })
}

fn transaction(
    table: &TableName,
    group: &EntityGroupTransaction,
    style: &Style<'_>,
    merge: MergeVerb,
) -> Result<Draft, EncodeError> {
    let inner =
        |operation| write(table, group.partition_key(), operation, style, merge)?.finish(style);
    let requests = group.operations().iter().map(inner).collect::<Result<Vec<_>, _>>()?;
    let (content_type, body) = encode_batch(&requests, style.boundary_ids);
    let content_type = HeaderValue::try_from(content_type).map_err(|_| EncodeError::Url)?;
    let mut draft = Draft::new(Method::POST, "$batch").header(CONTENT_TYPE, content_type);
    draft.body = body;
    Ok(draft)
}

/// The whole document without the groups that the change leaves alone. Their text is that of the
/// defaults, and what stands in the others is escaped, so a group's tag is found only where the
/// group is.
fn properties_body(change: &ServicePropertiesChange) -> Vec<u8> {
    let whole = write_service_properties(&ServiceProperties::default().changed(change.clone()));
    let mut document = String::from_utf8_lossy(&whole).into_owned();
    for (name, given) in [
        ("Logging", change.logging.is_some()),
        ("HourMetrics", change.hour_metrics.is_some()),
        ("MinuteMetrics", change.minute_metrics.is_some()),
        ("Cors", change.cors.is_some()),
    ] {
        let end_tag = format!("</{name}>");
        let start = document.find(&format!("<{name}>")).filter(|_| !given);
        if let (Some(start), Some(end)) = (start, document.find(&end_tag)) {
            document.replace_range(start..end + end_tag.len(), "");
        }
        if !given {
            document = document.replace(&format!("<{name} />"), "");
        }
    }
    document.into_bytes()
}

/// A request while it is being written.
struct Draft {
    method: Method,
    path: String,
    query: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
    is_xml: bool,
}

impl Draft {
    fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            query: String::new(),
            headers: Vec::new(),
            body: Bytes::new(),
            is_xml: false,
        }
    }

    fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    fn parameter(mut self, parameter: Parameter, value: &str) -> Self {
        self.query.push(if self.query.is_empty() { '?' } else { '&' });
        self.query.push_str(parameter.name());
        self.query.push('=');
        self.query.extend(utf8_percent_encode(value, PLAIN));
        self
    }

    fn maybe_parameter(self, parameter: Parameter, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.parameter(parameter, value),
            None => self,
        }
    }

    fn json(mut self, body: Vec<u8>) -> Self {
        self.body = body.into();
        self.header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
    }

    fn xml_operation(mut self, comp: &str, body: Vec<u8>) -> Self {
        self.is_xml = true;
        let draft = self.parameter(Parameter::Comp, comp);
        if body.is_empty() {
            return draft;
        }
        Self { body: body.into(), ..draft }
            .header(CONTENT_TYPE, HeaderValue::from_static("application/xml"))
    }

    fn prefer(self, format: &ResponseFormat) -> Self {
        match format.prefer {
            Some(prefer) => self
                .header(HeaderName::from_static("prefer"), HeaderValue::from_static(prefer.name())),
            None => self,
        }
    }

    fn select(self, select: &Select) -> Self {
        match select {
            Select::All => self,
            Select::Names(names) => self.parameter(Parameter::Select, &names.join(",")),
        }
    }

    fn page_of(self, filter: Option<&Filter>, top: Option<usize>, page: &NextPage) -> Self {
        let (filter, top) = (filter.map(Filter::to_string), top.map(|top| top.to_string()));
        self.maybe_parameter(Parameter::Filter, filter.as_deref())
            .maybe_parameter(Parameter::Top, top.as_deref())
            .maybe_parameter(Parameter::NextPartitionKey, page.partition_key.as_deref())
            .maybe_parameter(Parameter::NextRowKey, page.row_key.as_deref())
            .maybe_parameter(Parameter::NextTableName, page.table_name.as_deref())
    }

    fn if_match(self, wanted: &Precondition) -> Result<Self, EncodeError> {
        let tag = match wanted {
            Precondition::None => return Ok(self),
            Precondition::Exists => "*",
            Precondition::Version(tag) => tag.as_str(),
        };
        Ok(self.header(IF_MATCH, HeaderValue::from_str(tag).map_err(|_| EncodeError::ETag)?))
    }

    fn finish(self, style: &Style<'_>) -> Result<Request<Bytes>, EncodeError> {
        let uri = format!("{}/{}{}", style.base, self.path, self.query);
        let mut request = Request::new(self.body);
        *request.method_mut() = self.method;
        *request.uri_mut() = uri.parse::<Uri>().map_err(|_| EncodeError::Url)?;
        let headers = request.headers_mut();
        headers.extend(self.headers.into_iter().map(|(name, value)| (Some(name), value)));
        headers.insert(HeaderName::from_static("x-ms-version"), HeaderValue::from_static(VERSION));
        let accept = if self.is_xml { "application/xml" } else { accept(style.format.level) };
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        if !self.is_xml {
            headers.insert(
                HeaderName::from_static("dataserviceversion"),
                HeaderValue::from_static("3.0"),
            );
        }
        Ok(request)
    }
}

const fn accept(level: MetadataLevel) -> &'static str {
    match level {
        MetadataLevel::None => "application/json;odata=nometadata",
        MetadataLevel::Minimal => "application/json;odata=minimalmetadata",
        MetadataLevel::Full => "application/json;odata=fullmetadata",
    }
}

#[cfg(test)]
mod tests;
