//! Shared access signatures: offline, cached, renewed early, handed out (G160, G161, G162, G178).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use tavola_client::__store::Runtime;
use tavola_client::{
    Account, BoxFuture, CachedSas, Credential, DynEntity, Entity, ErrorKind, KeyRange, Outcome,
    Permissions, SasIssuer, SasScope, SasSource, Secret, SourceError, TableServiceClient,
};
use tavola_protocol::auth::TableSas;
use time::OffsetDateTime;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

#[allow(unreachable_pub, reason = "it is a program of its own as well")]
#[path = "../../examples/sas_issuer.rs"]
mod sas_issuer;

const MINUTE: Duration = Duration::from_secs(60);
const KEY: &str = "AccountName=shop;AccountKey=c2VjcmV0;TableEndpoint=http://127.0.0.1:1/shop";

/// A clock that goes on when it is told.
#[derive(Debug, Default)]
struct Clock(Mutex<Duration>);

impl Clock {
    fn advance(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }
}

impl Runtime for Clock {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    fn time_of_day(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_408_668_632) + self.now()
    }

    /// Takes no time.
    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn random(&self) -> u64 {
        7
    }
}

/// What a source does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Answers,
    Fails,
    Hangs,
}

/// A source whose signatures are good for so long; each has a number.
#[derive(Debug)]
struct Source {
    clock: Arc<Clock>,
    valid: Duration,
    asked: AtomicUsize,
    does: Mutex<Does>,
}

impl Source {
    fn new(clock: &Arc<Clock>, valid: Duration) -> Arc<Self> {
        let (asked, does) = (AtomicUsize::new(0), Mutex::new(Does::Answers));
        Arc::new(Self { clock: clock.clone(), valid, asked, does })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

struct Shared(Arc<Source>);

impl SasSource for Shared {
    fn sas(&self) -> BoxFuture<'_, Result<Secret, SourceError>> {
        let number = self.0.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let does = *self.0.does.lock().unwrap();
        Box::pin(async move {
            match does {
                Does::Answers => {
                    let ends = self.0.clock.time_of_day() + self.0.valid;
                    Ok(Secret::new(format!("sig={number}"), Some(ends)))
                }
                Does::Fails => Err("the issuer is away".into()),
                Does::Hangs => std::future::pending().await,
            }
        })
    }
}

fn cached(clock: &Arc<Clock>, source: &Arc<Source>) -> CachedSas {
    CachedSas::new(Shared(source.clone())).with_runtime(clock.clone())
}

async fn sas(cached: &CachedSas) -> String {
    cached.sas().await.unwrap().text().to_owned()
}

/// G160: kept until five minutes before its end, then renewed; at no moment is an old one used.
#[tokio::test]
async fn a_signature_is_kept_and_renewed_early() {
    let clock = Arc::new(Clock::default());
    let source = Source::new(&clock, 60 * MINUTE);
    let cached = cached(&clock, &source);
    for _ in 0..54 {
        assert_eq!(sas(&cached).await, "sig=1");
        clock.advance(MINUTE);
    }
    assert_eq!((sas(&cached).await.as_str(), source.asked()), ("sig=1", 1));
    clock.advance(MINUTE);
    assert_eq!((sas(&cached).await.as_str(), source.asked()), ("sig=2", 2));
    // A day, a request each minute: every signature is good, and one is made in 55 minutes.
    for _ in 0..24 * 60 {
        let secret = cached.clone().sas().await.unwrap();
        assert!(secret.expires().unwrap() >= clock.time_of_day() + 5 * MINUTE);
        clock.advance(MINUTE);
    }
    assert_eq!(source.asked(), 2 + 24 * 60 / 55);
}

/// G160: a short one is not renewed with each request, but when a quarter is left.
#[tokio::test]
async fn short_signatures_are_kept_too() {
    let clock = Arc::new(Clock::default());
    let source = Source::new(&clock, MINUTE);
    let cached = cached(&clock, &source);
    for second in 0..45 {
        assert_eq!(sas(&cached).await, "sig=1", "{second}");
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(sas(&cached).await, "sig=2");
}

/// G160: while the old one is good, a source that fails or hangs fails no request, and is not asked
/// with each of them.
#[tokio::test]
async fn a_renewal_that_fails_fails_no_request() {
    for does in [Does::Fails, Does::Hangs] {
        let clock = Arc::new(Clock::default());
        let source = Source::new(&clock, 60 * MINUTE);
        let cached = cached(&clock, &source);
        assert_eq!(sas(&cached).await, "sig=1");
        clock.advance(55 * MINUTE);
        *source.does.lock().unwrap() = does;
        for _ in 0..10 {
            assert_eq!(sas(&cached).await, "sig=1");
        }
        assert_eq!(source.asked(), 2);
        clock.advance(MINUTE);
        assert_eq!(sas(&cached).await, "sig=1");
        assert_eq!(source.asked(), 3);
        *source.does.lock().unwrap() = Does::Answers;
        clock.advance(MINUTE);
        assert_eq!(sas(&cached).await, "sig=4");
        // It is over, and there is no other: then a request fails, and says why.
        *source.does.lock().unwrap() = Does::Fails;
        clock.advance(61 * MINUTE);
        let error = cached.sas().await.unwrap_err();
        assert!(error.to_string().contains("the issuer is away"));
    }
}

/// G160: of many requests at once one asks; the others wait for the first, and never for a next.
#[tokio::test]
async fn one_request_renews_for_all() {
    let clock = Arc::new(Clock::default());
    let source = Source::new(&clock, 60 * MINUTE);
    let cached = cached(&clock, &source);
    for round in 1..=3 {
        let all = (0..20).map(|_| cached.sas());
        let all = futures_util::future::try_join_all(all).await.unwrap();
        assert_eq!(all.len(), 20);
        assert_eq!(source.asked(), round);
        clock.advance(56 * MINUTE);
    }
}

#[derive(Entity)]
#[entity(partition = "{user:06}", row = "{kind}!{at:desc}!{no:05,desc}")]
struct Claim {
    user: u32,
    kind: String,
    at: OffsetDateTime,
    no: u16,
}

fn claim(user: u32, kind: &str) -> Claim {
    let at = OffsetDateTime::from_unix_timestamp(1_408_668_632).unwrap();
    Claim { user, kind: kind.to_owned(), at, no: 3 }
}

/// True if the signature's range has the key, as the service compares.
fn allows(fields: &TableSas, partition: &str, row: &str) -> bool {
    let (spk, epk) = (&fields.start_partition_key, &fields.end_partition_key);
    let (srk, erk) = (&fields.start_row_key, &fields.end_row_key);
    let from = spk.is_empty() || (partition, row) >= (spk.as_str(), srk.as_str());
    let end = if erk.is_empty() { "\u{10ffff}" } else { erk };
    from && (epk.is_empty() || (partition, row) <= (epk.as_str(), end))
}

proptest! {
    /// G161: bounds that a cursor gives have exactly the keys that the cursor has.
    #[test]
    fn bounds_come_from_templates(
        own in 0_u32..4, other in 0_u32..4,
        kind in "[a./0>@\\[\\]!~ é]{1,3}", another in "[a./0>@\\[\\]!~ é]{1,3}",
    ) {
        let issuer = SasIssuer::new(&account(), MINUTE).unwrap();
        let of = |scope: SasScope| TableSas::read(issuer.issue(&scope).unwrap().text()).unwrap();
        let scope = || SasScope::table("claims", Permissions::READ);
        let key = claim(other, &another).entity_key().unwrap();
        let users = of(scope().only(Claim::key().user(own)).unwrap());
        prop_assert_eq!(allows(&users, key.partition(), key.row()), own == other);
        let kinds = of(scope().only(Claim::key().user(own).kind(kind.as_str())).unwrap());
        let expected = own == other && kind == another;
        prop_assert_eq!(allows(&kinds, key.partition(), key.row()), expected);
        let several = of(scope().only(Claim::key().user_in(1..3)).unwrap());
        prop_assert_eq!(allows(&several, key.partition(), key.row()), (1..3).contains(&other));
    }
}

fn account() -> Account {
    Account::from_connection_string(KEY).unwrap()
}

/// G160, G161: made without a request; the wrong parts are refused where they are said.
#[tokio::test]
async fn signatures_are_made_offline() {
    let table = account().tables().unwrap().table_client("claims");
    let sas = table.sas(Permissions::READ | Permissions::DELETE, MINUTE);
    let sas = sas.only(Claim::key().user(123)).ip("10.0.0.1-10.0.0.9").policy("p1").build();
    let fields = TableSas::read(&sas.unwrap()).unwrap();
    assert_eq!((fields.permissions.as_str(), fields.policy.as_str()), ("rd", "p1"));
    assert_eq!(
        (fields.start_partition_key.as_str(), fields.ip.as_str()),
        ("000123", "10.0.0.1-10.0.0.9")
    );
    assert_eq!(fields.end_partition_key, "000123");
    let wide = table.sas(Permissions::READ, MINUTE).only(Claim::key().user(1_000_000)).build();
    assert!(matches!(wide.unwrap_err().kind(), ErrorKind::Invalid { .. }));
    // Signing needs the key.
    let signed = Account::new("https://a.example/?sv=2019-02-02&sig=x", None).unwrap();
    let error = signed.tables().unwrap().table_client("t").sas(Permissions::READ, MINUTE).build();
    let error = error.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Credential, Outcome::NotSent));
    assert!(SasIssuer::new(&signed, MINUTE).is_err());
}

/// G178: an issuer makes one signature for a scope, hands it out while half its time is left, and
/// keeps scopes apart.
#[test]
fn an_issuer_keeps_what_it_made() {
    let clock = Arc::new(Clock::default());
    let issuer = SasIssuer::new(&account(), 60 * MINUTE).unwrap().with_runtime(clock.clone());
    let of =
        |user| SasScope::table("claims", Permissions::READ).only(Claim::key().user(user)).unwrap();
    let first = issuer.issue(&of(1)).unwrap();
    let other = issuer.clone().issue(&of(2)).unwrap();
    assert_ne!(first.text(), other.text());
    for _ in 0..29 {
        clock.advance(MINUTE);
        assert_eq!(issuer.issue(&of(1)).unwrap().text(), first.text());
    }
    clock.advance(MINUTE);
    let second = issuer.issue(&of(1)).unwrap();
    assert_ne!(second.text(), first.text());
    assert!(second.expires().unwrap() > clock.time_of_day() + 59 * MINUTE);
    assert_eq!(issuer.made(), 3);
    // Another permission or table is another scope.
    issuer.issue(&SasScope::table("claims", Permissions::ADD)).unwrap();
    issuer.issue(&SasScope::table("other", Permissions::ADD)).unwrap();
    assert_eq!(issuer.made(), 5);
    // However many scopes there are, what is kept is bounded, and each is right.
    for user in 0..3000 {
        let fields = TableSas::read(issuer.issue(&of(user)).unwrap().text()).unwrap();
        assert_eq!(fields.start_partition_key, format!("{user:06}"));
    }
    assert!(!format!("{issuer:?} {first:?}").contains("sig="));
}

/// A stand-in for a table service that knows the account's key: the queries of its requests, those
/// that hold.
async fn table_service() -> (String, Arc<Mutex<Vec<TableSas>>>) {
    use tavola_core::AccountName;
    use tavola_protocol::AccountKey;

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/shop", listener.local_addr().unwrap());
    let seen: Arc<Mutex<Vec<TableSas>>> = Arc::default();
    let accepted = seen.clone();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let Ok(byte) = socket.read_u8().await else { break };
                head.push(byte);
            }
            let head = String::from_utf8(head).unwrap();
            assert!(!head.to_lowercase().contains("authorization"), "{head}");
            let query =
                head.split_whitespace().nth(1).and_then(|uri| uri.split_once('?')).unwrap().1;
            let fields = TableSas::read(query).unwrap();
            let name = AccountName::parse("shop").unwrap();
            let signed = fields.signed(&name, &AccountKey::parse("c2VjcmV0").unwrap());
            let holds = query.split('&').all(|part| signed.split('&').any(|own| own == part));
            let (status, code) = if holds {
                ("404 Not Found", "ResourceNotFound")
            } else {
                ("403 Forbidden", "AuthenticationFailed")
            };
            let body = format!(
                "{{\"odata.error\":{{\"code\":\"{code}\",\"message\":{{\"lang\":\"en-US\",\"value\":\"x\"}}}}}}"
            );
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nx-ms-request-id: 1\r\nconnection: close\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            );
            socket.write_all(answer.as_bytes()).await.unwrap();
            if holds {
                accepted.lock().unwrap().push(fields);
            }
        }
    });
    (address, seen)
}

/// G162, G178: the example's endpoint hands out signatures, and a client without a key uses them.
#[tokio::test]
async fn a_client_without_a_key_gets_signatures_from_an_endpoint() {
    let (endpoint, seen) = table_service().await;
    let issuer = SasIssuer::new(&account(), 60 * MINUTE).unwrap();
    let address = sas_issuer::serve(issuer.clone(), "claims").await.unwrap();
    let source = |token| sas_issuer::FromIssuer::new(address, token);
    let ann = sas_issuer::client(&endpoint, source("token-of-ann"), "claims").unwrap();
    for _ in 0..3 {
        assert!(ann.get::<DynEntity>(("000123", "1")).await.unwrap().is_none());
    }
    let bob = sas_issuer::client(&endpoint, source("token-of-bob"), "claims").unwrap();
    assert!(bob.get::<DynEntity>(("000124", "1")).await.unwrap().is_none());
    let users: Vec<_> =
        seen.lock().unwrap().iter().map(|sas| sas.start_partition_key.clone()).collect();
    assert_eq!(users, ["000123", "000123", "000123", "000124"]);
    assert_eq!(issuer.made(), 2);
    // An unknown token gets none, and the error says so; nothing was sent to the service.
    let eve = sas_issuer::client(&endpoint, source("token-of-eve"), "claims").unwrap();
    let error = eve.get::<DynEntity>(("000123", "1")).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Credential, Outcome::NotSent));
    assert!(error.to_string().contains("401"), "{error}");
    assert_eq!(seen.lock().unwrap().len(), 4);
}

/// G162: a signature alone opens a table; a client that has only that cannot sign others.
#[tokio::test]
async fn a_signature_is_all_that_a_client_needs() {
    let (endpoint, seen) = table_service().await;
    let issuer = SasIssuer::new(&account(), 60 * MINUTE).unwrap();
    let own = KeyRange::<DynEntity>::partition("000123");
    let scope = SasScope::table("claims", Permissions::READ).only(own).unwrap();
    let sas = issuer.issue(&scope).unwrap().text().to_owned();
    for credential in [Credential::sas(sas.as_str()), Credential::sas(format!("?{sas}"))] {
        let service = TableServiceClient::new(&endpoint, Some(credential), None).unwrap();
        let table = service.table_client("claims");
        assert!(table.get::<DynEntity>(("000123", "1")).await.unwrap().is_none());
        assert!(table.sas(Permissions::READ, MINUTE).build().is_err());
    }
    let whole = format!("{endpoint}?{sas}");
    let table = TableServiceClient::new(&whole, None, None).unwrap().table_client("claims");
    assert!(table.get::<DynEntity>(("000123", "1")).await.unwrap().is_none());
    assert_eq!(seen.lock().unwrap().len(), 3);
}
