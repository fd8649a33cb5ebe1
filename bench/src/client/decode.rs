//! A page of 1,000 entities, read from bytes again and again.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use http::Response;
use tavola_client::__store::Runtime;
use tavola_client::{
    BoxFuture, DynEntity, Entity, Failure as Refusal, Flavour, Reply, Request, StoreTraits,
    TableServiceClient, TableStore,
};
use tavola_load::source::PAGE_ENTITIES;
use tavola_load::{Client, Context, Result, Signer};
use tavola_protocol::table::receive_reply;

use super::sample::{BarePage, Typed};
use super::{Bench, Contender, Sample, sample, timed};
use crate::server_target::TABLE;

pub(super) fn against_serde<'a>(bench: &'a Bench<'a>) -> Result<Vec<Contender<'a>>> {
    let page = page(bench)?;
    let (table, length) = (canned(&page).table_client(TABLE), bench.args.duration());
    let ours = move |_| measure(length, || read::<Typed>(bench, &table));
    let theirs = move |_| {
        measure(length, || {
            let page: BarePage = serde_json::from_slice(&page).context(|| "a page".into())?;
            Ok(black_box(page).value.len())
        })
    };
    Ok(vec![("tavola-client, typed", Box::new(ours)), ("serde_json", Box::new(theirs))])
}

pub(super) fn dynamic_against_typed<'a>(bench: &'a Bench<'a>) -> Result<Vec<Contender<'a>>> {
    let page = page(bench)?;
    let (first, second) = (canned(&page).table_client(TABLE), canned(&page).table_client(TABLE));
    let length = bench.args.duration();
    let dynamic = move |_| measure(length, || read::<DynEntity>(bench, &first));
    let typed = move |_| measure(length, || read::<Typed>(bench, &second));
    Ok(vec![("dynamic", Box::new(dynamic)), ("typed", Box::new(typed))])
}

fn read<E: Entity>(bench: &Bench<'_>, table: &tavola_client::TableClient) -> Result<usize> {
    let mut pages = table.scan::<E>().pages();
    let page = bench.runtime.block_on(pages.try_next()).context(|| "a page".into())?;
    Ok(black_box(page.ok_or("no page")?).items.len())
}

/// The cost of one entity.
fn measure(length: Duration, read: impl Fn() -> Result<usize>) -> Result<Sample> {
    let started = Instant::now();
    let (entities, cpu, elapsed) = timed(|| {
        let mut entities = 0;
        while started.elapsed() < length {
            entities += read()? as u64;
        }
        Ok(entities)
    })?;
    Ok(sample(entities, cpu, elapsed))
}

/// As the server sends it.
fn page(bench: &Bench<'_>) -> Result<Bytes> {
    let site = &bench.target.server.site;
    let mut client = Client::connect(site)?;
    let request = Signer::new(site).get(&format!("{TABLE}()"), "");
    let page = Bytes::copy_from_slice(client.ask(&request, 200)?.body);
    let read: BarePage = serde_json::from_slice(&page).context(|| "a page".into())?;
    if read.value.len() as u64 == PAGE_ENTITIES { Ok(page) } else { Err("no whole page".into()) }
}

fn canned(page: &Bytes) -> TableServiceClient {
    let store = Canned { page: page.clone(), runtime: Arc::new(tavola_local::TokioRuntime::new()) };
    TableServiceClient::on(Arc::new(store), None)
}

/// A service that gives the same page to every query.
#[derive(Debug)]
struct Canned {
    page: Bytes,
    runtime: Arc<dyn Runtime>,
}

impl TableStore for Canned {
    fn execute(&self, request: Request) -> BoxFuture<'_, std::result::Result<Reply, Refusal>> {
        let response = Response::builder()
            .header("content-type", "application/json;odata=minimalmetadata")
            .body(self.page.clone());
        Box::pin(async move {
            let response = response.map_err(|_| Refusal::lost("no response"))?;
            let received = receive_reply(request.operation(), &response);
            received.map(Reply::new).map_err(|_| Refusal::lost("no page"))
        })
    }

    fn traits(&self) -> StoreTraits {
        StoreTraits::new(Flavour::Tavola, "canned:", None)
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::clone(&self.runtime)
    }
}
