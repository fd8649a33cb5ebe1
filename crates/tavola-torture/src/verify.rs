//! What a server shows, read whole over the wire.

use std::collections::BTreeSet;

use tavola_core::request::{EntityQuery, TablesQuery};
use tavola_core::{EdmRef, TableRequest};
use tavola_protocol::table::decode::{DecodeError, Decoded};
use tavola_protocol::table::entity_json::DecodedEntity;

use super::Violation;
use super::ledger::{Key, Rows, Version, timestamp_of};
use tavola_testkit::client::{Client, name};

/// The names of all tables.
pub(super) fn tables(client: &mut Client) -> Result<BTreeSet<String>, Violation> {
    let request = TableRequest::QueryTables(TablesQuery::default());
    let (mut all, mut page) = (BTreeSet::new(), None);
    loop {
        match client.ask_page(&request, page.as_ref()) {
            Ok(Ok(Decoded::Tables(names, next))) => {
                all.extend(names);
                match next {
                    Some(next) => page = Some(next),
                    None => return Ok(all),
                }
            }
            other => return Err(Violation::new(format!("the tables cannot be listed: {other:?}"))),
        }
    }
}

/// All rows of a table, which must come in order; `None` if there is no such table.
pub(super) fn rows(client: &mut Client, table: &str) -> Result<Option<Rows>, Violation> {
    let request = TableRequest::QueryEntities(name(table), EntityQuery::default());
    let (mut all, mut page) = (Rows::new(), None);
    loop {
        match client.ask_page(&request, page.as_ref()) {
            Ok(Ok(Decoded::Entities(entities, next))) => {
                for entity in entities {
                    let (key, version) = row(entity)?;
                    if all.last_key_value().is_some_and(|(last, _)| *last >= key) {
                        return Err(Violation::new(format!(
                            "a scan of {table} shows {key:?} out of order or twice"
                        )));
                    }
                    all.insert(key, version);
                }
                match next {
                    Some(next) => page = Some(next),
                    None => return Ok(Some(all)),
                }
            }
            Ok(Err(DecodeError::Service(error))) if error.code == "TableNotFound" => {
                return Ok(None);
            }
            other => return Err(Violation::new(format!("{table} cannot be read: {other:?}"))),
        }
    }
}

/// An entity in the ledger's words. Its ETag must be that of its timestamp.
pub(super) fn row(entity: DecodedEntity) -> Result<(Key, Version), Violation> {
    let tag = entity.etag.clone();
    let strange = || Violation::new("an entity came without its system properties");
    let entity = entity.into_entity().ok_or_else(strange)?;
    let key =
        (entity.key.partition_key.as_str().to_owned(), entity.key.row_key.as_str().to_owned());
    if let Some(tag) = tag
        && timestamp_of(&tag)? != entity.timestamp
    {
        return Err(Violation::new(format!(
            "{key:?} has the ETag {tag} and the Timestamp {}",
            entity.timestamp
        )));
    }
    let value = |(name, value): (&str, EdmRef<'_>)| (name.to_owned(), value.to_owned());
    let values = entity.properties.iter().map(value).collect();
    Ok((key, Version { values, timestamp: entity.timestamp }))
}
