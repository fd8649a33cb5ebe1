//! The wire: credentials, requests in, answers out.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use http::Request;
use tavola_core::reply::{BoxedEntity, OperationReply};
use tavola_core::request::Continuation;
use tavola_core::{DateTime, Entity, PartitionKey, RowKey, ServiceKind, TableReply};
use tavola_protocol::auth::{AccountKeys, TableSas};
use tavola_protocol::table::TableContext;
use tavola_protocol::table::render_reply;
use tavola_protocol::{AuthContext, Caller, Precedence, ResponseHead, authenticate};

use super::input;
use crate::counted::Run;
use crate::failure::{Failure, Result, refused};

const REQUEST_ID: &str = "0b5f6c1e-7a52-4d7c-9a43-5c1b2f0e6d11";
const PAGE_ENTITIES: usize = 100;
const BATCH_ENTITIES: usize = 10;

pub(super) fn authenticate_shared_key(run: &Run<'_>) -> Result {
    count_authentication(run, input::get(1, input::MINIMAL_METADATA, input::now())?)
}

pub(super) fn authenticate_table_sas(run: &Run<'_>) -> Result {
    let sas = TableSas {
        version: "2019-02-02".to_owned(),
        table: input::TABLE.to_owned(),
        permissions: "raud".to_owned(),
        expiry: "2034-01-01T00:00:00Z".to_owned(),
        start_partition_key: "p000".to_owned(),
        end_partition_key: "p999".to_owned(),
        ..TableSas::default()
    };
    count_authentication(
        run,
        input::get_with_signature(1, &sas.signed(&input::account()?, &input::key()?))?,
    )
}

fn count_authentication(run: &Run<'_>, request: Request<Bytes>) -> Result {
    let (parts, _) = request.into_parts();
    let address = input::locate_account(&parts)?;
    let keys = AccountKeys::parse(input::KEY, Some(input::OTHER_KEY))?;
    let caller = Caller { ip: IpAddr::V4(Ipv4Addr::LOCALHOST), https: false };
    let auth = AuthContext {
        service: ServiceKind::Table,
        keys: &keys,
        challenge: "Bearer",
        caller,
        now: input::now(),
        precedence: Precedence::Header,
    };
    let check = || authenticate(black_box(&parts), &address, &auth);
    check().map_err(|api_error| refused("a credential")(&api_error))?;
    run.count(check)
}

pub(super) fn parse_get(run: &Run<'_>) -> Result {
    count_parsing(run, input::get(1, input::MINIMAL_METADATA, input::now())?)
}

pub(super) fn parse_insert(run: &Run<'_>) -> Result {
    count_parsing(run, input::insert(1, input::now())?)
}

fn count_parsing(run: &Run<'_>, request: Request<Bytes>) -> Result {
    let (parts, body) = request.into_parts();
    let parse = || input::understand(black_box(&parts), black_box(&body));
    parse()?;
    run.count(parse)
}

pub(super) fn render_no_metadata(run: &Run<'_>) -> Result {
    render_entity(run, "application/json;odata=nometadata")
}

pub(super) fn render_minimal_metadata(run: &Run<'_>) -> Result {
    render_entity(run, input::MINIMAL_METADATA)
}

pub(super) fn render_full_metadata(run: &Run<'_>) -> Result {
    render_entity(run, "application/json;odata=fullmetadata")
}

fn render_entity(run: &Run<'_>, accept: &str) -> Result {
    let context = input::context(input::get(1, accept, input::now())?)?;
    count_rendering(run, &TableReply::Entity(input::table()?, Box::new(input::row(1)?)), &context)
}

/// A page that another follows.
pub(super) fn render_page(run: &Run<'_>) -> Result {
    let context = input::context(input::get_page(input::now())?)?;
    let rows = (0..PAGE_ENTITIES).map(|index| Ok(Box::new(input::row(index)?) as BoxedEntity));
    let next = Continuation {
        partition_key: PartitionKey::new("p000000")
            .map_err(|domain_error| refused("a key")(&domain_error))?,
        row_key: Some(
            RowKey::new("r000000100").map_err(|domain_error| refused("a key")(&domain_error))?,
        ),
    };
    let (table, entities) = (input::table()?, rows.collect::<Result<_>>()?);
    count_rendering(run, &TableReply::Entities { table, entities, next: Some(next) }, &context)
}

fn count_rendering(run: &Run<'_>, reply: &TableReply, context: &TableContext) -> Result {
    run.count(|| render_reply(black_box(reply), &response_head(context)))
}

fn response_head(context: &TableContext) -> ResponseHead<'_, TableContext> {
    ResponseHead { request_id: REQUEST_ID, now: DateTime::from_unix(input::NOW), context }
}

/// In and out: the request is understood, and the answer that a store without conflicts gives is
/// written.
pub(super) fn batch(run: &Run<'_>) -> Result {
    let (parts, body) = input::batch(0..BATCH_ENTITIES, input::now())?.into_parts();
    let inserted = |index| {
        let entity = Entity::from_view(&input::row(index)?)
            .map_err(|domain_error| refused("an entity")(&domain_error))?;
        Ok(OperationReply::Inserted(entity))
    };
    let reply = TableReply::TransactionDone(
        input::table()?,
        (0..BATCH_ENTITIES).map(inserted).collect::<Result<_>>()?,
    );
    let answer = || {
        let (request, context) = input::understand(black_box(&parts), black_box(&body))?;
        Ok::<_, Failure>((request, render_reply(&reply, &response_head(&context))))
    };
    answer()?;
    run.count(answer)
}
