//! Requests in a row against the whole handler on a store in memory: answers are well formed and
//! never blame the server, nobody gets in without the key, and what the server holds is what a
//! plain model of it holds.
//!
//! Requests are as HTTP/1.1 writes them, with a line `===` between two. `{etag}` stands for the tag
//! of what was written last, and `{token:TEXT}` for the continuation token of any text, legal as a
//! key or not. A request is signed with the account's key, unless it brings credentials of its own,
//! which nobody signed; its header `sas` has the fields of a signature for a table, which is then
//! made with the key.

#![no_main]

use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request, Response};
use libfuzzer_sys::fuzz_target;
use tavola_core::{EntityKey, EntityOperation, PartitionKey, Precondition, RowKey, TableRequest};
use tavola_fuzz::{
    Model, Server, account_key, account_name, check_answer, led_to_account, read_request, sign,
};
use tavola_protocol::auth::TableSas;
use tavola_protocol::table::TableContext;
use tavola_protocol::table::decode::{DecodeError, Decoded};
use tavola_protocol::table::{continuation, decode_reply, parse_request};
use tavola_protocol::{Address, Version};

const SEPARATOR: &[u8] = b"\n===\n";
const TAG: &[u8] = b"{etag}";
const TOKEN: &[u8] = b"{token:";
/// Bounds the time of one input.
const REQUESTS_MAX: usize = 16;

fuzz_target!(|data: &[u8]| {
    let (server, mut model) = (Server::new(), Model::default());
    for text in split(data, SEPARATOR).into_iter().take(REQUESTS_MAX) {
        let tag = model.last_tag().map(ToString::to_string).unwrap_or_default();
        let text = with_tokens(&split(text, TAG).join(tag.as_bytes()));
        if let Ok((request, address)) = led_to_account(read_request(&text)) {
            check_exchange(&server, &mut model, request, &address);
        }
    }
    model.check_all(&server);
});

fn split<'a>(mut data: &'a [u8], separator: &[u8]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    while let Some(at) = data.windows(separator.len()).position(|window| window == separator) {
        pieces.push(&data[..at]);
        data = &data[at + separator.len()..];
    }
    pieces.push(data);
    pieces
}

/// Forges what a mutation would not hit on: a well-formed token, of a text that need not be a key
/// or a name.
fn with_tokens(text: &[u8]) -> Vec<u8> {
    let pieces = split(text, TOKEN);
    let mut written = pieces[0].to_vec();
    for piece in &pieces[1..] {
        let (content, rest) =
            piece.split_at(piece.iter().position(|byte| *byte == b'}').unwrap_or(piece.len()));
        written.extend(continuation::encode(&String::from_utf8_lossy(content)).into_bytes());
        written.extend(rest.strip_prefix(b"}").unwrap_or(rest));
    }
    written
}

/// Who asks.
#[derive(Debug)]
enum Caller {
    /// The bearer of the account's key.
    Owner,
    /// The bearer of a signature that was made with the key, whether or not it opens anything.
    Bearer(Box<TableSas>),
    /// Somebody with credentials that nobody signed.
    Stranger,
}

impl Caller {
    /// Finds out who asks, and gives them their credentials.
    fn admit(request: &mut Request<Bytes>) -> Self {
        if let Some(fields) = request.headers_mut().remove("sas") {
            let fields = fields.to_str().ok().and_then(|fields| TableSas::read(fields).ok());
            let signed = fields.and_then(|sas| Some((with_query(request, &sas)?, sas)));
            let Some((uri, sas)) = signed else { return Self::Stranger };
            *request.uri_mut() = uri;
            request.headers_mut().remove(AUTHORIZATION);
            return Self::Bearer(Box::new(sas));
        }
        let has_signature = request.uri().query().is_some_and(|query| query.contains("sig="));
        if has_signature || request.headers().contains_key(AUTHORIZATION) {
            return Self::Stranger;
        }
        sign(request);
        Self::Owner
    }
}

fn with_query(request: &Request<Bytes>, sas: &TableSas) -> Option<http::Uri> {
    let uri = request.uri().to_string();
    let joint = if request.uri().query().is_some() { '&' } else { '?' };
    format!("{uri}{joint}{}", sas.signed(account_name(), account_key())).parse().ok()
}

fn check_exchange(
    server: &Server,
    model: &mut Model,
    mut request: Request<Bytes>,
    address: &Arc<Address>,
) {
    let visitor = Caller::admit(&mut request);
    let (parts, body) = request.clone().into_parts();
    let asked = parse_request(&parts, &body, address, &mut TableContext::of(&parts, Some(address)));
    let answer = server.answer(request);
    let inner = check_answer(&parts.headers, &answer);
    if parts.method == Method::OPTIONS {
        return;
    }
    let is_done = answer.status().is_success()
        && inner.iter().flatten().all(|part| part.status().is_success());
    let Ok(asked) = asked else {
        assert!(!is_done, "{answer:?} to a request that makes no sense");
        return;
    };
    let done = decoded(&asked, answer, inner);
    assert_eq!(done.is_some(), is_done, "{asked:?}");
    if let (Caller::Bearer(sas), Some(done)) = (&visitor, &done) {
        check_granted(sas, model, &asked, done);
    }
    assert!(
        done.is_none() || !matches!(visitor, Caller::Stranger),
        "{asked:?} was done for a stranger"
    );
    let may_fail =
        !matches!(visitor, Caller::Owner) || address.secondary || Version::of(&parts).is_err();
    model.learn(server, &asked, done.as_ref(), may_fail);
}

/// What a client reads of the answer; `None` if it says no.
fn decoded(
    asked: &TableRequest,
    answer: Response<Bytes>,
    inner: Option<Vec<Response<Bytes>>>,
) -> Option<Decoded> {
    let is_query = !matches!(asked, TableRequest::Transaction(..));
    let answer = inner.filter(|_| is_query).and_then(|mut parts| parts.pop()).unwrap_or(answer);
    match decode_reply(asked, &answer) {
        Ok(decoded) => Some(decoded),
        Err(DecodeError::Service(_)) => None,
        Err(error) => {
            panic!("{error}: {:?} {answer:?} to {asked:?}", answer.headers().get(CONTENT_TYPE))
        }
    }
}

/// What was done for the bearer of a signature is what the signature says, letter by letter and key
/// by key.
fn check_granted(sas: &TableSas, model: &Model, asked: &TableRequest, done: &Decoded) {
    let policy = model
        .policies(&sas.table)
        .iter()
        .find(|policy| !sas.policy.is_empty() && policy.id == sas.policy);
    let letters =
        policy.and_then(|policy| policy.permission.clone()).unwrap_or_default() + &sas.permissions;
    let table = asked.table().map_or("", |table| table.as_str());
    assert!(table.eq_ignore_ascii_case(&sas.table), "{asked:?} with {sas:?}");
    let check_key = |partition_key: &PartitionKey, row_key: &RowKey| {
        let key = EntityKey::new(partition_key.clone(), row_key.clone());
        assert!(is_in_range(sas, &key), "{key:?} with {sas:?}");
    };
    let check_operation = |partition_key: &PartitionKey, operation: &EntityOperation| {
        assert!(
            letters_of(operation).chars().all(|letter| letters.contains(letter)),
            "{operation:?} with {sas:?}"
        );
        check_key(partition_key, operation.row_key());
    };
    match asked {
        TableRequest::GetEntity(_, key) => check_key(&key.partition_key, &key.row_key),
        TableRequest::QueryEntities(..) => {}
        TableRequest::Write(_, partition_key, operation) => {
            check_operation(partition_key, operation)
        }
        TableRequest::Transaction(_, group) => {
            group
                .operations()
                .iter()
                .for_each(|operation| check_operation(group.partition_key(), operation));
        }
        other => panic!("{other:?} with {sas:?}"),
    }
    if !asked.is_write() {
        assert!(letters.contains('r'), "{asked:?} with {sas:?}");
    }
    if let Decoded::Entities(entities, _) = done {
        // With `$select` an entity may come without its keys.
        let keys = entities
            .iter()
            .filter_map(|entity| Some((entity.partition_key.as_ref()?, entity.row_key.as_ref()?)));
        keys.for_each(|(partition_key, row_key)| check_key(partition_key, row_key));
    }
}

fn letters_of(operation: &EntityOperation) -> &'static str {
    match operation {
        EntityOperation::Insert(_) => "a",
        EntityOperation::Replace(_, Precondition::None)
        | EntityOperation::Merge(_, Precondition::None) => "au",
        EntityOperation::Replace(..) | EntityOperation::Merge(..) => "u",
        EntityOperation::Delete(..) => "d",
    }
}

/// The rule as the service's documentation has it: a row's bound counts in the partition of the
/// bound only.
fn is_in_range(sas: &TableSas, key: &EntityKey) -> bool {
    let partition = |text: &str| PartitionKey::new(text).expect("what is granted is a key");
    let row = |text: &str| RowKey::new(text).expect("what is granted is a key");
    let (start, end) = (&sas.start_partition_key, &sas.end_partition_key);
    let is_after_start = start.is_empty()
        || key.partition_key > partition(start)
        || (key.partition_key == partition(start) && key.row_key >= row(&sas.start_row_key));
    let is_before_end = end.is_empty()
        || key.partition_key < partition(end)
        || (key.partition_key == partition(end)
            && (sas.end_row_key.is_empty() || key.row_key <= row(&sas.end_row_key)));
    is_after_start && is_before_end
}
