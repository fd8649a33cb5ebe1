//! What checking a credential costs, beside what a point GET costs as a whole.
//!
//! The check is a pure function, so it is measured here, on requests as the generator sends them,
//! in CPU time of this thread; the GET is measured over the wire, in CPU time of the server.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant, SystemTime};
use std::{env, fs, process};

use futures_util::FutureExt as _;
use http::Request;
use http::request::Parts;
use serde::Serialize;
use serde_json::json;
use tavola_core::{AccountName, ServiceKind};
use tavola_protocol::auth::{AccountKey, AccountKeys, AccountSas, Scheme, TableSas, sign_request};
use tavola_protocol::{
    Address, AddressRules, AuthContext, Caller, Precedence, authenticate, locate,
};
use tavola_server::config::{Layers, Origin, TokenConfig};
use tavola_server::tokens::TokenAuthority;
use tavola_testkit::tokens::{SigningKey, key_set};

use crate::process::thread_cpu_time;
use crate::report::Record;
use crate::round::Round;
use crate::series::Series;
use crate::server_target::TABLE;
use tavola_load::Spread;
use tavola_load::{Context, Failure, Result};
use tavola_protocol::connection_string::{DEVELOPMENT_ACCOUNT as ACCOUNT, DEVELOPMENT_KEY as KEY};

/// Long enough that the clock's own cost does not count.
const SAMPLE: Duration = Duration::from_millis(100);
const CALLS_AT_ONCE: u32 = 200;
/// Another key is tried for every signature, so an account with two is the usual case.
const OTHER_KEY: &str = "b3RoZXIga2V5IG9mIHRoZSBkZXZlbG9wbWVudCBhY2NvdW50";

const ISSUER: &str = "https://login.example/tenant";

/// The cost of one kind of credential.
#[derive(Debug, Serialize)]
pub(crate) struct Authentication {
    pub(crate) kind: &'static str,
    pub(crate) microseconds: Spread,
    /// Of the server's CPU time for a point GET.
    pub(crate) share: Spread,
}

/// Measures every kind, once per round of point reads.
pub(crate) fn measure(record: &Record) -> Result<Vec<Authentication>> {
    let target = record
        .targets_of(Series::Get.name())
        .into_iter()
        .next()
        .ok_or("no point reads were measured")?;
    let rounds = record.rounds_of(Series::Get.name(), &target);
    let reads: Vec<f64> =
        rounds.filter_map(Round::cpu_per_request).map(|seconds| seconds * 1e6).collect();
    let mut costs = Vec::new();
    for (kind, request) in requests()? {
        let bench = Bench::new(request)?;
        costs.push(cost_of(kind, &reads, || bench.authenticates())?);
    }
    let token = KnownToken::new()?;
    costs.push(cost_of("token seen before", &reads, || token.is_known())?);
    Ok(costs)
}

fn cost_of(kind: &'static str, reads: &[f64], call: impl Fn() -> bool) -> Result<Authentication> {
    let samples: Vec<f64> = reads.iter().map(|_| sample(&call)).collect::<Result<_>>()?;
    let share = Spread::of_ratios(&samples, reads).ok_or("no rounds")?;
    Ok(Authentication { kind, microseconds: Spread::of(samples).ok_or("no rounds")?, share })
}

/// One request of each kind, as SDKs send them.
fn requests() -> Result<Vec<(&'static str, Request<()>)>> {
    let account = AccountName::parse(ACCOUNT).ok_or("the account's name")?;
    let key = AccountKey::parse(KEY).context(|| "the key".into())?;
    let (version, expiry) = ("2019-02-02".to_owned(), "2034-01-01T00:00:00Z".to_owned());
    let table_sas = TableSas {
        version: version.clone(),
        table: TABLE.to_owned(),
        permissions: "raud".to_owned(),
        expiry: expiry.clone(),
        start_partition_key: "p000".to_owned(),
        end_partition_key: "p999".to_owned(),
        ..TableSas::default()
    };
    let account_sas = AccountSas {
        version,
        services: "t".to_owned(),
        resource_types: "sco".to_owned(),
        permissions: "rwdlacu".to_owned(),
        expiry,
        ..AccountSas::default()
    };
    let mut requests = vec![
        ("table signature", request(&table_sas.signed(&account, &key))?),
        ("account signature", request(&account_sas.signed(&account, &key))?),
    ];
    for (kind, scheme) in
        [("SharedKey", Scheme::SharedKey), ("SharedKeyLite", Scheme::SharedKeyLite)]
    {
        let mut signed = request("")?;
        sign_request(&mut signed, scheme, &account, &key, SystemTime::now());
        requests.push((kind, signed));
    }
    Ok(requests)
}

fn request(query: &str) -> Result<Request<()>> {
    let target = format!("/{ACCOUNT}/{TABLE}(PartitionKey='p042',RowKey='000000000042')?{query}");
    Request::get(target.trim_end_matches('?'))
        .header("host", "127.0.0.1:10002")
        .header("x-ms-version", "2019-02-02")
        .header("accept", "application/json;odata=minimalmetadata")
        .body(())
        .context(|| "a request".into())
}

struct Bench {
    parts: Parts,
    address: Address,
    keys: AccountKeys,
}

impl Bench {
    fn new(request: Request<()>) -> Result<Self> {
        let (parts, ()) = request.into_parts();
        let rules = AddressRules { path_style_only: false, scheme: "http" };
        let address = locate(&parts, &rules, &|name| name == ACCOUNT)
            .map_err(|api_error| Failure::new(format!("the address: {api_error:?}")))?;
        let keys = AccountKeys::parse(KEY, Some(OTHER_KEY)).context(|| "the keys".into())?;
        let bench = Self { parts, address, keys };
        if bench.authenticates() {
            Ok(bench)
        } else {
            Err(Failure::new("a request of our own is refused"))
        }
    }

    fn authenticates(&self) -> bool {
        let caller = Caller { ip: IpAddr::V4(Ipv4Addr::LOCALHOST), https: false };
        let (now, precedence) = (SystemTime::now(), Precedence::Header);
        let service = ServiceKind::Table;
        let auth =
            AuthContext { service, keys: &self.keys, challenge: "", caller, now, precedence };
        authenticate(black_box(&self.parts), &self.address, &auth).is_ok()
    }
}

/// A token of a usual size that was checked a moment ago, as clients send it with every request.
struct KnownToken {
    authority: TokenAuthority,
    token: String,
    account: AccountName,
}

impl KnownToken {
    fn new() -> Result<Self> {
        let key = SigningKey::rsa("key");
        // Not in the run's scratch folder, whose end would be that of all data folders.
        let file = env::temp_dir().join(format!("tavola-bench-keys-{}.json", process::id()));
        fs::write(&file, key_set([&key]).to_string()).context(|| "the key set".into())?;
        let mut layers = Layers::default();
        for (path, value) in [
            ("auth.oidc.bench.issuer", ISSUER),
            ("auth.oidc.bench.jwks_file", &file.to_string_lossy()),
            ("auth.roles.bench.value", "reader"),
            ("auth.roles.bench.role", "reader"),
        ] {
            layers.set(path, value, Origin::Flag(path.to_owned()));
        }
        let config = TokenConfig::resolve(&layers).context(|| "the issuer".into())?;
        let authority = TokenAuthority::new(&config).context(|| "the issuer".into())?;
        fs::remove_file(&file).context(|| "the key set".into())?;
        let since_epoch = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .context(|| "the clock".into())?;
        let claims = json!({
            "iss": ISSUER, "aud": "https://storage.azure.com", "exp": since_epoch.as_secs() + 3600,
            "roles": ["reader"], "name": "x".repeat(600),
        });
        let account = AccountName::parse(ACCOUNT).ok_or("the account's name")?;
        let token = Self { authority, token: key.token(&claims), account };
        if token.is_known() {
            Ok(token)
        } else {
            Err(Failure::new("a token of our own is refused"))
        }
    }

    /// Nothing waits here: the keys are on disk.
    fn is_known(&self) -> bool {
        let roles = self.authority.roles(black_box(&self.token), &self.account, SystemTime::now());
        roles.now_or_never().is_some_and(|roles| roles.is_ok_and(|roles| !roles.is_empty()))
    }
}

/// Microseconds of one call.
fn sample(call: impl Fn() -> bool) -> Result<f64> {
    let (started, cpu, mut calls) = (Instant::now(), thread_cpu_time()?, 0_u32);
    while started.elapsed() < SAMPLE {
        for _ in 0..CALLS_AT_ONCE {
            black_box(call());
        }
        calls += CALLS_AT_ONCE;
    }
    Ok((thread_cpu_time()? - cpu).as_secs_f64() * 1e6 / f64::from(calls))
}
