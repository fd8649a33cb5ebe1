//! The wire: credentials, requests in, answers out.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use http::Request;
use tavola_core::reply::{BoxedEntity, OperationReply};
use tavola_core::request::Continuation;
use tavola_core::{DateTime, Entity, PartitionKey, RowKey, TableReply};
use tavola_protocol::auth::{AccountKeys, TableSas};
use tavola_protocol::table::render_reply;
use tavola_protocol::{Caller, Exchange, Gate, Presentation, authenticate};

use super::input::{self, Located};
use crate::counted::count;
use crate::failure::{Result, refused};

const REQUEST_ID: &str = "0b5f6c1e-7a52-4d7c-9a43-5c1b2f0e6d11";
const PAGE_ENTITIES: usize = 100;
const BATCH_ENTITIES: usize = 10;

pub(super) fn authenticate_shared_key() -> Result {
    count_authentication(input::get(1, input::MINIMAL_METADATA, input::now())?)
}

pub(super) fn authenticate_table_sas() -> Result {
    let sas = TableSas {
        version: "2019-02-02".to_owned(),
        table: input::TABLE.to_owned(),
        permissions: "raud".to_owned(),
        expiry: "2034-01-01T00:00:00Z".to_owned(),
        start_partition_key: "p000".to_owned(),
        end_partition_key: "p999".to_owned(),
        ..TableSas::default()
    };
    count_authentication(input::get_with_signature(1, &sas.signed(&input::account()?, &input::key()?))?)
}

fn count_authentication(request: Request<Bytes>) -> Result {
    let request = Located::new(request)?;
    let keys = AccountKeys::parse(input::KEY, Some(input::OTHER_KEY))?;
    let caller = Caller { ip: IpAddr::V4(Ipv4Addr::LOCALHOST), https: false };
    let gate = Gate { keys: &keys, challenge: "Bearer", caller, now: input::now() };
    let check = || authenticate(black_box(&request.parts), &request.address, &gate);
    check().map_err(|rejection| refused("a credential")(&rejection))?;
    count(check)
}

pub(super) fn parse_get() -> Result {
    count_parsing(input::get(1, input::MINIMAL_METADATA, input::now())?)
}

pub(super) fn parse_insert() -> Result {
    count_parsing(input::insert(1, input::now())?)
}

/// All that the handler does from the head and the body to what is asked, but for the credentials.
fn count_parsing(request: Request<Bytes>) -> Result {
    let Located { parts, body, .. } = Located::new(request)?;
    let parse = || parse(black_box(&parts), black_box(&body));
    parse()?;
    count(parse)
}

fn parse(parts: &http::request::Parts, body: &Bytes) -> Result<(tavola_core::TableRequest, Presentation)> {
    let address = input::locate_account(parts)?;
    let mut presentation = Presentation::of(parts, Some(&address));
    let request = tavola_protocol::table::parse_request(parts, body, &address, &mut presentation);
    Ok((request.map_err(|rejection| refused("a request")(&rejection))?, presentation))
}

pub(super) fn render_no_metadata() -> Result {
    render_entity("application/json;odata=nometadata")
}

pub(super) fn render_minimal_metadata() -> Result {
    render_entity(input::MINIMAL_METADATA)
}

pub(super) fn render_full_metadata() -> Result {
    render_entity("application/json;odata=fullmetadata")
}

fn render_entity(accept: &str) -> Result {
    let (_, presentation) = Located::new(input::get(1, accept, input::now())?)?.parse()?;
    count_rendering(&TableReply::Entity(input::table()?, Box::new(input::row(1)?)), &presentation)
}

/// A page that another follows.
pub(super) fn render_page() -> Result {
    let (_, presentation) = Located::new(input::get_page(input::now())?)?.parse()?;
    let rows = (0..PAGE_ENTITIES).map(|index| Ok(Box::new(input::row(index)?) as BoxedEntity));
    let next = Continuation {
        partition_key: PartitionKey::new("p000000").map_err(|refusal| refused("a key")(&refusal))?,
        row_key: Some(RowKey::new("r000000100").map_err(|refusal| refused("a key")(&refusal))?),
    };
    let (table, entities) = (input::table()?, rows.collect::<Result<_>>()?);
    count_rendering(&TableReply::Entities { table, entities, next: Some(next) }, &presentation)
}

fn count_rendering(reply: &TableReply, presentation: &Presentation) -> Result {
    count(|| render_reply(black_box(reply), &exchange(presentation)))
}

fn exchange(presentation: &Presentation) -> Exchange<'_> {
    Exchange { request_id: REQUEST_ID, now: DateTime::from_unix(input::NOW), presentation }
}

/// In and out: the request is understood, and the answer that a store without conflicts gives is written.
pub(super) fn batch() -> Result {
    let Located { parts, body, .. } = Located::new(input::batch(0..BATCH_ENTITIES, input::now())?)?;
    let inserted = |index| {
        let entity = Entity::from_view(&input::row(index)?).map_err(|refusal| refused("an entity")(&refusal))?;
        Ok(OperationReply::Inserted(entity))
    };
    let reply = TableReply::TransactionDone(input::table()?, (0..BATCH_ENTITIES).map(inserted).collect::<Result<_>>()?);
    let answer = || {
        let (request, presentation) = parse(black_box(&parts), black_box(&body))?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((request, render_reply(&reply, &exchange(&presentation))))
    };
    answer()?;
    count(answer)
}
