//! `expenses`: each user's claims, the newest first.
//!
//! A client on a user's device has no account key. It gets a signature that opens that user's
//! partition for a while, and a new one before the old one ends: no request fails, and the claims
//! of another user stay closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use futures_util::TryStreamExt as _;
use tavola_client::patterns::{LogEntry, LogTail};
use tavola_client::{
    Account, BoxFuture, Credential, DynEntity, Entity, Error, Permissions, Properties, SasIssuer,
    SasScope, SasSource, Secret, SourceError, TableClient, TableServiceClient,
};
use time::OffsetDateTime;

use super::Program;
use crate::frame::show::{number, table};
use crate::frame::{Checked, Crew, Stage};

const OPEN: &str = "a user reads the newest claims, in order, without a failed request";
const CLOSED: &str = "a neighbour's claims are not listed, and refused by key (403)";
const COMPLETE: &str = "every claim that was acknowledged is there once";
const RENEWED: &str = "signatures were renewed";
const ENDED: &str = "a signature that ended is refused (403)";

pub(super) const PROGRAM: Program = Program {
    name: "expenses",
    invariants: &[OPEN, CLOSED, COMPLETE, RENEWED, ENDED],
    needs_server: true,
    run: |stage| Box::pin(run(stage)),
};

const USERS: [u32; 4] = [123, 207, 318, 444];
const VALID_MIN: Duration = Duration::from_secs(4);
const VALID_MAX: Duration = Duration::from_secs(60);
const RENEWAL_LOOKS_MAX: u32 = 600;
const SHORT: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Properties)]
struct Claim {
    user: i64,
    amount: f64,
    what: String,
}

/// The keys of all claims: what a signature is limited to.
#[derive(Debug, Clone, Entity)]
#[entity(partition = "{user:06}", row = "{place}")]
struct ClaimKey {
    user: u32,
    place: String,
}

fn partition(user: u32) -> String {
    format!("{user:06}")
}

/// How a device gets its signature. In earnest it asks a service that knows the user, as
/// `crates/tavola-client/examples/sas_issuer.rs` shows; only that service has the account key.
struct OwnClaims {
    issuer: SasIssuer,
    scope: SasScope,
    asked: AtomicU64,
}

impl SasSource for OwnClaims {
    fn sas(&self) -> BoxFuture<'_, Result<Secret, SourceError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(self.issuer.issue(&self.scope)?) })
    }
}

/// A user's device.
#[derive(Clone)]
struct Device {
    user: u32,
    claims: TableClient,
    log: LogTail<Claim>,
    source: Arc<OwnClaims>,
}

impl Device {
    /// A device that can read the claims of `user`, and nothing else.
    fn new(endpoint: &str, table: &str, user: u32, issuer: &SasIssuer) -> Checked<Self> {
        let scope = SasScope::table(table, Permissions::READ).only(ClaimKey::key().user(user))?;
        let (issuer, asked) = (issuer.clone(), AtomicU64::new(0));
        let source = Arc::new(OwnClaims { issuer, scope, asked });
        let credential = Credential::SasSource(Arc::clone(&source) as Arc<dyn SasSource>);
        let service = TableServiceClient::new(endpoint, Some(credential), None)?;
        let claims = service.table_client(table);
        Ok(Self { user, log: LogTail::new(&claims), claims, source })
    }

    fn has_renewed(&self) -> bool {
        self.source.asked.load(Ordering::Relaxed) > 1
    }
}

/// What was claimed, by the books of the program itself.
#[derive(Debug, Default)]
struct Books {
    begun: AtomicU64,
    acknowledged: AtomicU64,
}

async fn run(stage: Stage) -> Checked {
    let account = stage.account().cloned().ok_or("signatures are checked by a server")?;
    let claims = stage.table("claims").await?;
    // Several signatures within the run, each of which ends in it.
    let issuer = SasIssuer::new(&account, (stage.duration() / 3).clamp(VALID_MIN, VALID_MAX))?;
    let endpoint = account.endpoint();
    let devices = USERS.map(|user| Device::new(endpoint, claims.name(), user, &issuer));
    let devices: Arc<[Device]> = devices.into_iter().collect::<Checked<Vec<_>>>()?.into();
    let books = Arc::new(Books::default());
    let log = LogTail::<Claim>::new(&claims);

    let (kept, written, shown) = (Arc::clone(&books), log.clone(), Arc::clone(&devices));
    let read_by = stage.clone();
    Crew::new(&stage)
        .workers(4, move |random| file(written.clone(), Arc::clone(&kept), random))
        .workers(4, move |random| look(read_by.clone(), Arc::clone(&shown), random))
        .run()
        .await?;

    let newest = devices[0].log.stream(partition(devices[0].user)).latest(10).await?;
    show(&stage, &devices[0], &newest);
    audit(&stage, &log, &books).await?;
    wait_for_renewal(&stage, &devices).await?;
    let made = number(issuer.made());
    stage.say(format!("{made} signatures were issued to {} users\n", USERS.len()));
    let old = claims.sas(Permissions::READ, SHORT).only(ClaimKey::key().user(USERS[0])).build()?;
    use_after_its_end(&stage, &account, claims.name(), old).await
}

/// A short run may be over before the first signature ends: the devices look on for a while.
async fn wait_for_renewal(stage: &Stage, devices: &Arc<[Device]>) -> Checked {
    for _ in 0..RENEWAL_LOOKS_MAX {
        if devices.iter().all(Device::has_renewed) {
            break;
        }
        for at in 0..devices.len() {
            look_at(stage, devices, at).await?;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for device in devices.iter() {
        stage.check(RENEWED, device.has_renewed(), || format!("user {}", device.user));
    }
    Ok(())
}

/// A service that has the account key files a claim for somebody.
async fn file(log: LogTail<Claim>, books: Arc<Books>, mut random: Rng) -> Checked {
    let user = USERS[random.usize(..USERS.len())];
    let what = ["train", "hotel", "taxi", "dinner"][random.usize(..4)].to_owned();
    let amount = f64::from(random.u32(500..50_000)) / 100.0;
    books.begun.fetch_add(1, Ordering::Relaxed);
    let claim = Claim { user: user.into(), amount, what };
    log.stream(partition(user)).append(&claim).await?;
    books.acknowledged.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(random.u64(..10))).await;
    Ok(())
}

/// A user looks at the newest claims, and tries those of a neighbour.
async fn look(stage: Stage, devices: Arc<[Device]>, mut random: Rng) -> Checked {
    look_at(&stage, &devices, random.usize(..devices.len())).await
}

async fn look_at(stage: &Stage, devices: &[Device], at: usize) -> Checked {
    let (device, neighbour) = (&devices[at], &devices[(at + 1) % devices.len()]);
    let own = device.log.stream(partition(device.user));
    match own.latest(10).await {
        Ok(newest) => {
            let is_own = newest.iter().all(|entry| entry.value.user == i64::from(device.user));
            let is_ordered = newest.is_sorted_by(|one, next| one.at >= next.at);
            stage.check(OPEN, is_own && is_ordered, || format!("user {}", device.user));
        }
        Err(error) if error.status() == Some(403) => {
            stage.check(OPEN, false, || error.to_string());
        }
        Err(error) => return Err(error.into()),
    }
    look_beyond(stage, device, neighbour).await
}

/// A query shows only what the signature opens; a single claim of somebody else is refused.
async fn look_beyond(stage: &Stage, device: &Device, neighbour: &Device) -> Checked {
    let of_neighbour = partition(neighbour.user);
    let listed = device.log.stream(of_neighbour.as_str()).latest(1).await?;
    let newest = neighbour.log.stream(of_neighbour).latest(1).await?;
    let Some(newest) = newest.first() else { return Ok(()) };
    let refused = match device.claims.get::<DynEntity>(&newest.key).await {
        Err(error) if error.status() == Some(403) => true,
        Err(error) => return Err(error.into()),
        Ok(_) => false,
    };
    let holds = listed.is_empty() && refused;
    stage.check(CLOSED, holds, || format!("{} saw {}", device.user, neighbour.user));
    Ok(())
}

fn show(stage: &Stage, device: &Device, newest: &[LogEntry<Claim>]) {
    let line = |entry: &LogEntry<Claim>| {
        let at = entry.at;
        let at = format!("{:02}:{:02}:{:02}", at.hour(), at.minute(), at.second());
        vec![at, entry.value.what.clone(), format!("{:.2}", entry.value.amount)]
    };
    let lines: Vec<_> = newest.iter().map(line).collect();
    stage.say(format!("The ten newest claims of user {}, read without a key:\n", device.user));
    stage.say(format!("{}\n", table(&["time", "what", "amount"], &lines)));
}

/// A killed worker may have written a claim that it did not see acknowledged.
async fn audit(stage: &Stage, log: &LogTail<Claim>, books: &Books) -> Checked {
    let end_of_run = OffsetDateTime::now_utc() + Duration::from_secs(60);
    let mut stored = 0;
    for user in USERS {
        let stream = log.stream(partition(user));
        let all = stream.older_than(end_of_run)?.stream();
        stored += all.try_fold(0, async |count, _| Ok(count + 1)).await?;
    }
    let acknowledged = books.acknowledged.load(Ordering::Relaxed);
    let begun = books.begun.load(Ordering::Relaxed);
    let holds = (acknowledged..=begun).contains(&stored);
    let text = format!("{} claims filed, {} stored", number(acknowledged), number(stored));
    stage.say(&text);
    stage.check(COMPLETE, holds, || text);
    Ok(())
}

async fn use_after_its_end(
    stage: &Stage,
    account: &Account,
    name: &str,
    signature: String,
) -> Checked {
    let service =
        TableServiceClient::new(account.endpoint(), Some(Credential::sas(signature)), None)?;
    let log = LogTail::<Claim>::new(&service.table_client(name)).stream(partition(USERS[0]));
    // Its end is written in whole seconds.
    tokio::time::sleep(SHORT + Duration::from_secs(1)).await;
    let after = log.latest(1).await;
    let status = after.as_ref().err().and_then(Error::status);
    stage.check(ENDED, status == Some(403), || format!("{:?}", after.map(|read| read.len())));
    Ok(())
}
