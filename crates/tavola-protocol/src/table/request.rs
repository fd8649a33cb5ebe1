//! From HTTP to what is asked.

use bytes::Bytes;
use http::Method;
use http::header::{CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH};
use http::request::Parts;
use tavola_core::limits::TRANSACTION_OPERATIONS_MAX;
use tavola_core::request::Misaddressed;
use tavola_core::{
    DomainError, ETag, EntityGroupTransaction, EntityKey, EntityOperation, NewEntity, PartitionKey,
    Precondition, ServiceKind, TableName, TableRequest,
};

use super::batch::{BatchRequest, BatchedRequest, read_batch};
use super::entity_json::read_entity;
use super::fields::Fields;
use super::format::{Envelope, ResponseFormat, TableContext};
use super::query::{Parameter, Query};
use super::tables_json::read_table_name;
use super::uri::{Below, Resource};
use crate::address::{Address, resource_path_in_batch};
use crate::api_error::ApiError;
use crate::headers::name;
use crate::table::error::TableError;
use crate::xml::{read_policies, read_service_properties};

/// The media type of the older format.
const ATOM: &str = "application/atom+xml";

/// Understands a request; `context` learns how its answer is to be written.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse_request(
    parts: &Parts,
    body: &Bytes,
    address: &Address,
    context: &mut TableContext,
) -> Result<TableRequest, TableError> {
    let query = Query::parse(parts.uri.query());
    query.check()?;
    context.set_timeout(query.timeout()?);
    let operation =
        Operation { method: &parts.method, fields: Fields::Whole(&parts.headers), query, body };
    match Resource::parse(&address.resource_path)? {
        Resource::Batch => parse_batch(&operation, body, address, context),
        resource if operation.query.is_xml_operation() => {
            operation.parse_xml(resource, address.secondary)
        }
        resource => {
            context.check_format()?;
            operation.parse(resource)
        }
    }
}

/// The verb that is executed, tunnelled or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Get,
    Post,
    Put,
    Merge,
    Delete,
    Other,
}

/// One operation as HTTP has it: a whole request, or a part of a batch.
struct Operation<'a> {
    method: &'a Method,
    fields: Fields<'a>,
    query: Query<'a>,
    body: &'a [u8],
}

impl Operation<'_> {
    /// The operations with JSON bodies.
    fn parse(&self, resource: Resource) -> Result<TableRequest, TableError> {
        if self.query.get(Parameter::Comp).is_some() {
            return Err(self.query.invalid(Parameter::Comp));
        }
        match (resource, self.verb()?) {
            (Resource::Tables, Verb::Get) => {
                Ok(TableRequest::QueryTables(self.query.tables_query()?))
            }
            (Resource::Tables, Verb::Post) => Ok(TableRequest::CreateTable(self.new_table()?)),
            (Resource::Tables, _) => Err(allowed("GET, HEAD, POST")),
            (Resource::Table(table), Verb::Get) => Ok(TableRequest::GetTable(table)),
            (Resource::Table(table), Verb::Delete) => Ok(TableRequest::DeleteTable(table)),
            (Resource::Table(_), _) => Err(allowed("GET, HEAD, DELETE")),
            (Resource::EntitySet(table), Verb::Get) => {
                Ok(TableRequest::QueryEntities(table, self.query.entity_query()?))
            }
            (Resource::EntitySet(table), Verb::Post) => self.insert(table),
            (Resource::EntitySet(_), _) => Err(allowed("GET, HEAD, POST")),
            (Resource::Entity(table, key), Verb::Get) => Ok(TableRequest::GetEntity(table, key)),
            (Resource::Entity(table, key), Verb::Put) => self.replace(table, key),
            (Resource::Entity(table, key), Verb::Merge) => self.merge(table, key),
            (Resource::Entity(table, key), Verb::Delete) => self.delete(table, key),
            (Resource::Entity(..), _) => Err(allowed("GET, HEAD, PUT, PATCH, MERGE, DELETE")),
            (Resource::Metadata, Verb::Get) => Ok(TableRequest::GetMetadata),
            (Resource::Metadata, _) => Err(allowed("GET, HEAD")),
            (Resource::BelowTable(table, below), verb) => self.below_table(table, below, verb),
            (Resource::Service | Resource::Batch, _) => {
                Err(TableError::Common(ApiError::InvalidUri))
            }
        }
    }

    /// A path with a segment behind the table's, as clients make it whose endpoint names the table
    /// already. The service goes by the table and takes the rest for part of an entity's address.
    fn below_table(
        &self,
        table: TableName,
        below: Below,
        verb: Verb,
    ) -> Result<TableRequest, TableError> {
        match (below, verb) {
            (Below::Itself, Verb::Post) => self.insert(table),
            (Below::Tables, Verb::Post) => match self.insert(table.clone()) {
                Err(TableError::Domain(DomainError::PropertiesNeedValue)) => {
                    Ok(TableRequest::Misaddressed(table, Misaddressed::CreateTable))
                }
                inserted => inserted,
            },
            (Below::Table, Verb::Delete) => {
                Ok(TableRequest::Misaddressed(table, Misaddressed::DeleteTable))
            }
            // An insert whose body is not JSON.
            (Below::Batch, Verb::Post) => Err(TableError::MediaTypeNotSupported),
            _ => Err(TableError::Common(ApiError::InvalidUri)),
        }
    }

    /// The operations with XML bodies, which a query parameter names.
    fn parse_xml(&self, resource: Resource, secondary: bool) -> Result<TableRequest, TableError> {
        let Some(comp) = self.query.get(Parameter::Comp) else {
            return Err(TableError::Common(ApiError::MissingQueryParameter(
                Parameter::Comp.name(),
            )));
        };
        match (resource, comp, self.verb()?) {
            (Resource::EntitySet(table), "acl", Verb::Get) => Ok(TableRequest::GetPolicies(table)),
            (Resource::EntitySet(table), "acl", Verb::Put) => {
                Ok(TableRequest::SetPolicies(table, read_policies(ServiceKind::Table, self.body)?))
            }
            (Resource::Service, "properties", Verb::Get) => Ok(TableRequest::GetServiceProperties),
            (Resource::Service, "properties", Verb::Put) => {
                Ok(TableRequest::SetServiceProperties(read_service_properties(self.body)?))
            }
            (Resource::EntitySet(_), "acl", _) | (Resource::Service, "properties", _) => {
                Err(allowed("GET, HEAD, PUT"))
            }
            (Resource::Service, "stats", Verb::Get) if secondary => {
                Ok(TableRequest::GetServiceStats)
            }
            (Resource::Service, "stats", _) if secondary => Err(allowed("GET, HEAD")),
            // Stats on the primary too: only the secondary knows how far it has come.
            _ => Err(self.query.invalid(Parameter::Comp)),
        }
    }

    fn verb(&self) -> Result<Verb, TableError> {
        let mut tunnelled = self.fields.all(&name::METHOD);
        let is_post = self.method == Method::POST;
        match (tunnelled.next(), tunnelled.next()) {
            (None, _) => Ok(verb_named(self.method.as_str())),
            (Some(_), Some(_)) => Err(TableError::XMethodIncorrectCount),
            (Some(_), None) if !is_post => Err(TableError::XMethodNotUsingPost),
            (Some(name), None) => match verb_named(name.unwrap_or_default()) {
                verb @ (Verb::Put | Verb::Merge | Verb::Delete) => Ok(verb),
                Verb::Get | Verb::Post | Verb::Other => Err(TableError::XMethodIncorrectValue),
            },
        }
    }

    fn new_table(&self) -> Result<TableName, TableError> {
        self.check_body_is_not_atom()?;
        Ok(TableName::parse(&read_table_name(self.body)?)?)
    }

    fn insert(&self, table: TableName) -> Result<TableRequest, TableError> {
        self.check_body_is_not_atom()?;
        let entity = read_entity(self.body)?;
        let (Some(partition_key), Some(row_key)) = (entity.partition_key, entity.row_key) else {
            return Err(DomainError::PropertiesNeedValue.into());
        };
        let (partition_key, new) =
            NewEntity::new(EntityKey::new(partition_key, row_key), entity.properties)?;
        Ok(TableRequest::Write(table, partition_key, EntityOperation::Insert(new)))
    }

    fn replace(&self, table: TableName, key: EntityKey) -> Result<TableRequest, TableError> {
        let wanted = self.precondition("PUT")?;
        let (partition_key, new) = self.entity_at(key)?;
        Ok(TableRequest::Write(table, partition_key, EntityOperation::Replace(new, wanted)))
    }

    fn merge(&self, table: TableName, key: EntityKey) -> Result<TableRequest, TableError> {
        let wanted = self.precondition("MERGE")?;
        let (partition_key, new) = self.entity_at(key)?;
        Ok(TableRequest::Write(table, partition_key, EntityOperation::Merge(new, wanted)))
    }

    fn delete(&self, table: TableName, key: EntityKey) -> Result<TableRequest, TableError> {
        match self.precondition("DELETE")? {
            Precondition::None => {
                Err(TableError::Common(ApiError::MissingRequiredHeader("If-Match")))
            }
            wanted => Ok(TableRequest::Write(
                table,
                key.partition_key,
                EntityOperation::Delete(key.row_key, wanted),
            )),
        }
    }

    /// The body's properties under the URL's key; keys in the body are ignored.
    fn entity_at(&self, key: EntityKey) -> Result<(PartitionKey, NewEntity), TableError> {
        self.check_body_is_not_atom()?;
        Ok(NewEntity::new(key, read_entity(self.body)?.properties)?)
    }

    fn precondition(&self, verb: &'static str) -> Result<Precondition, TableError> {
        let mut tags = self.fields.all(&IF_MATCH);
        let (tag, more) = (tags.next(), tags.next());
        if self.fields.has(&IF_NONE_MATCH) {
            return Err(if tag.is_some() {
                TableError::BothConditions
            } else {
                TableError::IfNoneMatch(verb)
            });
        }
        let Some(tag) = tag else {
            return Ok(Precondition::None);
        };
        let tag = tag.unwrap_or_default().trim();
        match ETag::parse(tag).filter(|_| more.is_none()) {
            Some(tag) => Ok(Precondition::Version(tag)),
            None if tag == "*" && more.is_none() => Ok(Precondition::Exists),
            None => Err(TableError::InvalidETag(tag.to_owned())),
        }
    }

    /// Any other content type is taken for JSON: the body decides.
    fn check_body_is_not_atom(&self) -> Result<(), TableError> {
        let content_type = self.fields.text(&CONTENT_TYPE).unwrap_or_default();
        let media_type = content_type.trim_start().get(..ATOM.len()).unwrap_or_default();
        if media_type.eq_ignore_ascii_case(ATOM) {
            Err(TableError::AtomFormatNotSupported)
        } else {
            Ok(())
        }
    }
}

fn verb_named(name: &str) -> Verb {
    match name {
        "GET" | "HEAD" => Verb::Get,
        "POST" => Verb::Post,
        "PUT" => Verb::Put,
        "PATCH" | "MERGE" => Verb::Merge,
        "DELETE" => Verb::Delete,
        _ => Verb::Other,
    }
}

fn allowed(allowed: &'static str) -> TableError {
    TableError::Common(ApiError::MethodNotAllowed { allowed })
}

fn parse_batch(
    outer: &Operation<'_>,
    body: &Bytes,
    address: &Address,
    context: &mut TableContext,
) -> Result<TableRequest, TableError> {
    if outer.verb()? != Verb::Post {
        return Err(allowed("POST"));
    }
    let content_type = outer.fields.text(&CONTENT_TYPE).unwrap_or_default();
    let account = address.account.as_str();
    match read_batch(content_type, body)? {
        BatchRequest::Changeset(requests) => {
            let mut formats = Vec::with_capacity(requests.len());
            let transaction = parse_changeset(&requests, account, &mut formats);
            context.envelope = Envelope::Changeset(formats);
            transaction
        }
        BatchRequest::Query(request) => {
            context.envelope = Envelope::BatchedQuery;
            let query = inner_operation(&request);
            let (format, refused) = ResponseFormat::read(query.fields, &query.query);
            context.format = format;
            match parse_inner(&query, refused, request.uri.path(), account)? {
                query @ (TableRequest::GetEntity(..) | TableRequest::QueryEntities(..)) => {
                    Ok(query)
                }
                _ => Err(TableError::Common(ApiError::InvalidInput)),
            }
        }
    }
}

/// Fills `formats` as far as it comes, so that the one part of a failed batch is written in the
/// format that its operation asked for.
fn parse_changeset(
    requests: &[BatchedRequest<'_>],
    account: &str,
    formats: &mut Vec<ResponseFormat>,
) -> Result<TableRequest, TableError> {
    if requests.len() > TRANSACTION_OPERATIONS_MAX {
        let index = TRANSACTION_OPERATIONS_MAX - 1;
        return Err(TableError::from(DomainError::TooManyOperations).in_operation(index));
    }
    let mut operations = Vec::with_capacity(requests.len());
    let mut common_table: Option<TableName> = None;
    for (index, request) in requests.iter().enumerate() {
        let inner = inner_operation(request);
        let (format, refused) = ResponseFormat::read(inner.fields, &inner.query);
        formats.push(format);
        let (table, partition_key, operation) =
            parse_write(&inner, refused, request.uri.path(), account)
                .map_err(|table_error| table_error.in_operation(index))?;
        if common_table.get_or_insert_with(|| table.clone()) != &table {
            return Err(TableError::from(DomainError::DifferentPartitions).in_operation(index));
        }
        operations.push((partition_key, operation));
    }
    let table = common_table.ok_or(TableError::MalformedBatch)?;
    Ok(TableRequest::Transaction(table, EntityGroupTransaction::new(operations)?))
}

fn inner_operation<'a>(request: &'a BatchedRequest<'_>) -> Operation<'a> {
    let (fields, query) = (Fields::Batched(&request.fields), Query::parse(request.uri.query()));
    Operation { method: &request.method, fields, query, body: request.body.as_bytes() }
}

/// `refused` says why its answer cannot be as it wants it.
fn parse_inner(
    operation: &Operation<'_>,
    refused: Option<TableError>,
    path: &str,
    account: &str,
) -> Result<TableRequest, TableError> {
    operation.query.check()?;
    refused.map_or(Ok(()), Err)?;
    let resource = Resource::parse(resource_path_in_batch(path, account))?;
    operation.parse(resource).map_err(|table_error| match table_error {
        // No verb would do: what a batch cannot hold is wrong with the batch.
        TableError::Common(ApiError::MethodNotAllowed { .. }) => {
            TableError::Common(ApiError::InvalidInput)
        }
        other => other,
    })
}

fn parse_write(
    operation: &Operation<'_>,
    refused: Option<TableError>,
    path: &str,
    account: &str,
) -> Result<(TableName, PartitionKey, EntityOperation), TableError> {
    match parse_inner(operation, refused, path, account)? {
        TableRequest::Write(table, partition_key, operation) => {
            Ok((table, partition_key, operation))
        }
        _ => Err(TableError::Common(ApiError::InvalidInput)),
    }
}

#[cfg(test)]
mod tests;
