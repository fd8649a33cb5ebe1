//! Any body of an insert and of a replace; and the same bytes as an answer that a client reads.

#![no_main]

use http::{HeaderValue, Method};
use libfuzzer_sys::fuzz_target;
use tavola_core::request::Select;
use tavola_core::{Entity, EntityKey, EntityOperation, TableRequest, Timestamp};
use tavola_fuzz::{ACCOUNT, check_request, request};
use tavola_protocol::table::entity_json::{
    BodyError, Links, MetadataLevel, decode_entity, decode_entity_set, read_entity, write_entity,
};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

fuzz_target!(|data: &[u8]| {
    let _ = (decode_entity(data), decode_entity_set(data));
    // The reader alone: whole requests that are refused would only cost time.
    if let Err(BodyError::Malformed(detail) | BodyError::InvalidKey(detail)) = read_entity(data) {
        let breaks_a_line = |character: char| {
            character.is_control() || matches!(character, '\u{2028}' | '\u{2029}')
        };
        assert!(detail.len() < 1024 && !detail.contains(breaks_a_line), "{detail:?}");
        return;
    }
    check_request(request(Method::PUT, "/Tab(PartitionKey='p',RowKey='r')", JSON, data));
    if let Some(TableRequest::Write(_, partition_key, EntityOperation::Insert(new))) =
        check_request(request(Method::POST, "/Tab", JSON, data))
    {
        let key = EntityKey::new(partition_key, new.row_key().clone());
        check_answer(&Entity {
            key,
            timestamp: Timestamp::MIN,
            properties: new.properties().clone(),
        });
    }
});

/// What the service writes of a stored entity, a client reads as that entity.
fn check_answer(stored: &Entity) {
    let links =
        Links { base: "http://127.0.0.1:10002/devstoreaccount1", account: ACCOUNT, table: "Tab" };
    for level in [MetadataLevel::Minimal, MetadataLevel::Full] {
        let mut answer = Vec::new();
        write_entity(&mut answer, stored, level, &Select::All, &links);
        let read = decode_entity(&answer).map(|read| read.into_entity());
        assert_eq!(read.as_ref(), Ok(&Some(stored.clone())), "{level:?}");
    }
}
