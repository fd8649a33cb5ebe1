//! Point reads, one at a time, against a bare HTTP client that sends the same bytes.

use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tavola_core::AccountName;
use tavola_load::{Context, Failure, Family, Key, Random, Result};
use tavola_protocol::auth::{AccountKey, Scheme, sign_request};
use tavola_protocol::connection_string::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};

use super::sample::Typed;
use super::{Bench, Contender, Sample, sample, sdk, timed};
use crate::server_target::TABLE;

/// Requests are made between the measurements, so many at a time.
const AT_ONCE: usize = 500;

pub(super) fn targets<'a>(bench: &'a Bench<'a>) -> Result<Vec<Contender<'a>>> {
    let table = bench.client()?.table_client(TABLE);
    let ours = move |round| {
        measure(
            bench,
            round,
            |key| (key.partition_key(), key.row_key()),
            async |keys| {
                for key in keys {
                    let found = table.get::<Typed>(key).await.context(|| "a get".into())?;
                    found.ok_or("an entity is not there")?;
                }
                Ok(())
            },
        )
    };
    let client = bare_client();
    let theirs = move |round| {
        let signer = Signer::new(bench)?;
        measure(
            bench,
            round,
            |key| signer.get(key),
            async |requests| {
                for request in requests {
                    let reply = client.request(request?).await.context(|| "a get".into())?;
                    let status = reply.status();
                    let body =
                        reply.into_body().collect().await.context(|| "a get".into())?.to_bytes();
                    if status != 200 || body.len() < 500 {
                        return Err(Failure::new(format!("{status}: {body:?}")));
                    }
                }
                Ok(())
            },
        )
    };
    let mut targets: Vec<Contender<'a>> =
        vec![("tavola-client", Box::new(ours)), ("hyper", Box::new(theirs))];
    targets.extend(sdk::targets(bench, sdk::Task::Get)?);
    Ok(targets)
}

fn bare_client() -> Client<HttpConnector, Empty<Bytes>> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new()).build(connector)
}

/// Signs as the client does, with the same headers.
struct Signer {
    base: String,
    account: AccountName,
    key: AccountKey,
}

impl Signer {
    fn new(bench: &Bench<'_>) -> Result<Self> {
        Ok(Self {
            base: format!("{}/{TABLE}", bench.target.server.site.url()),
            account: AccountName::parse(DEVELOPMENT_ACCOUNT).ok_or("the account's name")?,
            key: AccountKey::parse(DEVELOPMENT_KEY).context(|| "the key".into())?,
        })
    }

    fn get(&self, key: Key) -> Result<Request<Empty<Bytes>>> {
        let mut request = Request::get(format!("{}{}", self.base, key.predicate()))
            .header("x-ms-version", "2019-02-02")
            .header("accept", "application/json;odata=minimalmetadata")
            .header("dataserviceversion", "3.0")
            .header("user-agent", concat!("tavola-client/", env!("CARGO_PKG_VERSION")))
            .header("x-ms-client-request-id", "53069d20-b303-4e23-94ed-a8d0fb6f6b25")
            .body(Empty::new())
            .context(|| "a request".into())?;
        sign_request(&mut request, Scheme::SharedKey, &self.account, &self.key, SystemTime::now());
        Ok(request)
    }
}

/// Until the round is over: makes requests, sends them, and counts only the latter.
fn measure<R>(
    bench: &Bench<'_>,
    round: u32,
    make: impl Fn(Key) -> R,
    send: impl AsyncFn(Vec<R>) -> Result,
) -> Result<Sample> {
    let mut random = Random::new(u64::from(round));
    let (started, mut sent) = (Instant::now(), 0);
    let (mut cpu, mut elapsed) = (Duration::ZERO, Duration::ZERO);
    while started.elapsed() < bench.args.duration() {
        let keys = (0..AT_ONCE).map(|_| Family::Loaded.key(random.below(bench.target.entities)));
        let requests: Vec<R> = keys.map(&make).collect();
        let ((), of_cpu, of_clock) = timed(|| bench.runtime.block_on(send(requests)))?;
        cpu += of_cpu;
        elapsed += of_clock;
        sent += AT_ONCE as u64;
    }
    Ok(sample(sent, cpu, elapsed))
}
