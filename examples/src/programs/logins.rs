//! `logins`: a table for each day, sixty days kept.
//!
//! What is too old goes with its table, one request however many rows there are; the same rows in
//! one table go by hundreds. A long read of that table stores where it is, is killed in the middle
//! of pages, and goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use futures_util::TryStreamExt as _;
use tavola_client::patterns::Rolling;
use tavola_client::{Continuation, Entity, Mode, TableClient};
use time::{Duration, OffsetDateTime};

use super::Program;
use crate::frame::show::{number, table, times};
use crate::frame::{Checked, Cost, Crew, Stage};

const NEWEST: &str = "a user's logins come newest first, over all tables";
const OUTSIDE: &str = "a login that is too old is refused";
const RESUMED: &str = "a read that is killed and goes on counts each row once";
const DROPPED: &str = "only tables outside the window are dropped";

pub(super) const PROGRAM: Program = Program {
    name: "logins",
    invariants: &[NEWEST, OUTSIDE, RESUMED, DROPPED],
    needs_server: false,
    run: |stage| Box::pin(run(stage)),
};

const DAYS_KEPT: u16 = 60;
/// Written under an older rule that kept more.
const DAYS_WRITTEN: i64 = 70;
const LOGINS_A_DAY: i64 = 60;
/// Those who log in every day; the others come now and then.
const REGULARS: u32 = 6;
const OTHERS: u32 = 5_000;
const PAGE: usize = 25;

#[derive(Debug, Clone, Entity)]
#[entity(rename_all = "PascalCase", partition = "{user:06}", row = "{at:desc}")]
struct Login {
    user: u32,
    #[entity(store)]
    at: OffsetDateTime,
    device: String,
}

/// Where the long read is: written after each page, with what was counted up to it.
#[derive(Debug, Clone, Entity)]
#[entity(rename_all = "PascalCase", partition = "{reader}", row = "progress")]
struct Progress {
    reader: String,
    token: Option<String>,
    counted: i64,
    is_done: bool,
}

/// What the workers share.
#[derive(Clone)]
struct Log {
    stage: Stage,
    now: OffsetDateTime,
    days: Rolling,
    /// The same logins in one table.
    whole: TableClient,
    progress: TableClient,
    rounds: Arc<AtomicU64>,
}

fn login(random: &mut Rng, at: OffsetDateTime) -> Login {
    let device = ["desk", "phone", "tablet"][random.usize(..3)].to_owned();
    let is_regular = random.u8(..4) > 0;
    let user = if is_regular { random.u32(1..=REGULARS) } else { random.u32(1..=OTHERS) };
    Login { user, at, device }
}

async fn run(stage: Stage) -> Checked {
    let prefix = stage.table_name("Day");
    let service = stage.service();
    let log = Log {
        stage: stage.clone(),
        now: OffsetDateTime::now_utc(),
        days: Rolling::daily(service, &prefix, DAYS_KEPT)?,
        whole: stage.table("whole").await?,
        progress: stage.table("progress").await?,
        rounds: Arc::default(),
    };
    log.days.create_ahead().await?;
    let rows = write_past(&log, &Rolling::daily(service, &prefix, 120)?).await?;
    stage.say(format!("{} logins of {DAYS_WRITTEN} days are there", number(rows)));
    log.progress.insert(&beginning()).await?;

    let (writers, readers, counters) = (log.clone(), log.clone(), log.clone());
    Crew::new(&stage)
        .workers(4, move |random| log_in(writers.clone(), random))
        .workers(2, move |random| look(readers.clone(), random))
        .workers(1, move |_| count_a_page(counters.clone(), rows))
        .run()
        .await?;
    // The reader may be in the middle of the table when the time is over.
    while log.rounds.load(Ordering::Relaxed) == 0 {
        count_a_page(log.clone(), rows).await?;
    }
    compare(&log, &prefix).await
}

/// The logins of the past days, in tables of days and in one table.
async fn write_past(log: &Log, days: &Rolling) -> Checked<i64> {
    let mut all = Vec::new();
    for day in 0..DAYS_WRITTEN {
        let date = log.now.date().midnight().assume_utc() - Duration::days(day);
        let logins = (0..LOGINS_A_DAY).map(|nth| {
            let at = date + Duration::seconds(nth * 1_400);
            login(&mut Rng::new(), at)
        });
        let logins: Vec<_> = logins.collect();
        let table = days.table_at(date)?;
        table.create_table_if_missing().await?;
        table.bulk().parallel(16).insert_all(logins.clone()).await?.into_result()?;
        all.extend(logins);
    }
    let rows = i64::try_from(all.len())?;
    log.whole.bulk().parallel(16).insert_all(all).await?.into_result()?;
    Ok(rows)
}

/// Somebody logs in on one of the kept days; a login of long ago has no table.
async fn log_in(log: Log, mut random: Rng) -> Checked {
    let ago = Duration::milliseconds(random.i64(0..i64::from(DAYS_KEPT) * 86_400_000));
    let login = login(&mut random, OffsetDateTime::now_utc() - ago);
    match log.days.insert(login.at, &login).await {
        Err(error) if error.is_conflict() => {}
        other => drop(other?),
    }
    let old = log.now - Duration::days(i64::from(DAYS_KEPT) + 2);
    let refused = log.days.insert(old, &Login { at: old, ..login }).await;
    log.stage.check(OUTSIDE, refused.is_err(), || format!("{old} was accepted"));
    Ok(())
}

async fn look(log: Log, mut random: Rng) -> Checked {
    let user = random.u32(1..=REGULARS);
    let newest = log.days.newest_first(.., Login::key().user(user)).take(50).stream();
    let newest: Vec<_> = newest.try_collect().await?;
    let holds = newest.is_sorted_by(|one, next| one.at > next.at) && newest.len() == 50;
    log.stage.check(NEWEST, holds, || format!("{} logins of user {user}", newest.len()));
    Ok(())
}

fn beginning() -> Progress {
    Progress { reader: "audit".to_owned(), token: None, counted: 0, is_done: false }
}

/// One page from where the last one ended. Killed anywhere, it is begun anew from there: the place
/// and the count are one row, written under its version.
async fn count_a_page(log: Log, rows: i64) -> Checked {
    let found = log.progress.get(Progress::key().reader("audit")).await?;
    let mut progress = found.ok_or("the progress is gone")?;
    if progress.is_done {
        let counted = progress.counted;
        log.stage.check(RESUMED, counted == rows, || format!("{counted} of {rows}"));
        log.rounds.fetch_add(1, Ordering::Relaxed);
        log.progress.upsert(&beginning(), Mode::Replace).await?;
        return Ok(());
    }
    let token = progress.token.as_deref().map(str::parse::<Continuation>).transpose()?;
    let mut pages = log.whole.scan::<Login>().page_size(PAGE).resume(token).pages();
    if let Some(page) = pages.try_next().await? {
        progress.counted += i64::try_from(page.items.len())?;
        progress.token = page.next.map(|token| token.to_string());
    }
    progress.is_done = progress.token.is_none();
    log.progress.replace(&mut progress).await?;
    Ok(())
}

/// The same old rows by tables, and one by one.
async fn compare(log: &Log, prefix: &str) -> Checked {
    let Log { stage, days, whole, .. } = log;
    let (dropped, by_table) = stage.measure(async { days.drop_expired(false).await }).await?;
    let dropped = dropped?;
    let first_kept = log.now.date() - Duration::days(i64::from(DAYS_KEPT));
    let left: Vec<String> = stage.service().tables().try_collect().await?;
    let left = left.iter().filter_map(|name| name.strip_prefix(prefix)?.parse::<u32>().ok());
    let left: Vec<_> = left.collect();
    let number_of = |date: time::Date| {
        date.year() as u32 * 10_000
            + u32::from(u8::from(date.month())) * 100
            + u32::from(date.day())
    };
    let kept = (0..=i64::from(DAYS_KEPT)).map(|day| number_of(first_kept + Duration::days(day)));
    let holds = kept.clone().all(|day| left.contains(&day)) && dropped.dropped > 0;
    stage.check(DROPPED, holds, || format!("{} tables left", left.len()));

    let end = (first_kept - Duration::DAY).midnight().assume_utc();
    let old = whole.delete_where::<Login>(Login::AT.lt(end));
    let (deleted, by_row) = stage.measure(async { old.run().await }).await?;
    let deleted = deleted?;
    let line = |what: &str, rows: String, cost: Option<Cost>| {
        let cells = cost
            .map(|cost| [number(cost.requests), format!("{:.0}", cost.time.as_secs_f64() * 1e3)]);
        let [requests, ms] = cells.unwrap_or(["?", "?"].map(str::to_owned));
        vec![what.to_owned(), rows, requests, ms]
    };
    let tables = format!("{} tables", dropped.dropped);
    let lines = [
        line("a table for each day", tables, by_table),
        line("one table, row by row", format!("{} rows", number(deleted.deleted)), by_row),
    ];
    stage.say(table(&["what is too old", "deleted", "requests", "ms"], &lines));
    let rounds = times(log.rounds.load(Ordering::Relaxed));
    stage.say(format!("the long read came to the end of the table {rounds}"));
    Ok(())
}
