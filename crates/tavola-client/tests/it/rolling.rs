//! Rolling tables: G121, and what every pattern must show: G129 cuts, G130 races, G131 costs.

use futures_util::TryStreamExt as _;
use tavola_client::patterns::{Merged, Rolling};
use tavola_client::testing::{Checked, Sim, counting, every_cut, race};
use tavola_client::{
    ClientOptions, Continuation, DynEntity, Entity, ErrorKind, Flavour, KeyRange, Outcome,
    TableServiceClient, prop,
};
use time::{Duration, OffsetDateTime};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(partition = "{user:06}", row = "{at:desc}")]
struct Login {
    user: u32,
    at: OffsetDateTime,
    device: String,
}

fn login(user: u32, at: OffsetDateTime) -> Login {
    Login { user, at, device: "desk".to_owned() }
}

/// The time at which every execution of the harness begins: 2014-08-22 00:50:32.
fn beginning() -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(1_408_668_632).unwrap()
}

fn now() -> OffsetDateTime {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    OffsetDateTime::UNIX_EPOCH + since.unwrap()
}

fn days(count: i64) -> Duration {
    Duration::days(count)
}

fn rolling(sim: &Sim) -> Rolling {
    Rolling::daily(sim.tables(), "Logins", 60).unwrap()
}

async fn names(service: &TableServiceClient) -> Vec<String> {
    service.tables().try_collect().await.unwrap()
}

async fn times(rows: Merged<'_, Login>) -> Result<Vec<OffsetDateTime>, tavola_client::Error> {
    rows.stream().map_ok(|row| row.at).try_collect().await
}

fn service() -> TableServiceClient {
    TableServiceClient::on(tavola_local::in_memory(), None)
}

/// The gap of the guide: a table that a late write finds missing and creates is a period that was
/// dropped, and comes back.
#[tokio::test]
async fn without_a_window_a_dropped_period_comes_back() {
    let write = |sim: Sim| async move {
        let table = sim.table("Logins20140101");
        let row = login(1, beginning() - days(233));
        if table.insert(&row).await.is_err_and(|error| error.is_not_found()) {
            table.create_table_if_missing().await?;
            table.insert(&row).await?;
        }
        Ok(())
    };
    let drop = |sim: Sim| async move {
        sim.table("Logins20140101").delete_table_if_exists().await?;
        Ok(())
    };
    let seed = |sim: Sim| async move {
        sim.table("Logins20140101").create().await?;
        Ok(())
    };
    let gone = |sim: Sim| async move {
        // A write came in time, or not at all.
        let names = names(sim.tables()).await;
        if names.is_empty() { Ok(()) } else { Err(format!("{names:?}").into()) }
    };
    let race = race(tavola_local::in_memory).seed(seed).writer(write).writer(drop);
    let broken = race.finally(gone).run().await.unwrap_err();
    assert!(broken.reason().contains("Logins20140101"), "{broken}");
}

/// Tables that are too old.
const EXPIRED: [&str; 3] = ["Logins20140101", "Logins20140620", "Logins20140621"];
/// Tables of the window, the one that left it today, and others whose names are only alike.
const KEPT: [&str; 9] = [
    "Log20140101",
    "Logins120140101",
    "Logins2014",
    "Logins201401",
    "Logins20140199",
    "Logins20140622",
    "Logins20140623",
    "Logins20140822",
    "LoginsArchive20140101",
];

async fn seed_tables(sim: Sim) -> Checked {
    for name in EXPIRED.iter().chain(&KEPT) {
        sim.table(name).create().await?;
    }
    Ok(())
}

async fn only_expired_are_gone(sim: Sim) -> Checked {
    let names = names(sim.tables()).await;
    if names == KEPT { Ok(()) } else { Err(format!("{names:?}").into()) }
}

async fn drop_expired(sim: Sim) -> Checked {
    rolling(&sim).drop_expired(false).await?;
    Ok(())
}

/// G121, G129: a drop that is cut is ended by the next, and touches only names of its own pattern.
/// The window of 60 days ends at 0623; what is one day older is refused, what is two is dropped.
#[tokio::test]
async fn every_cut_of_a_drop() {
    let scenario = |sim: Sim| async move {
        let report = rolling(&sim).drop_expired(true).await?;
        assert_eq!((report.expired, report.dropped), (EXPIRED.map(str::to_owned).to_vec(), 0));
        let report = rolling(&sim).drop_expired(false).await?;
        sim.note(format!("dropped {}", report.dropped));
        Ok(())
    };
    let cuts = every_cut(tavola_local::in_memory, scenario).seed(seed_tables);
    let cuts = cuts.recover(drop_expired).finally(only_expired_are_gone).depth(2);
    let report = cuts.run().await.unwrap();
    assert_eq!(report.requests, 1 + 1 + 3);
}

/// G130: two drops at once, beside writers who create the table of today and one that refuses.
#[tokio::test]
async fn drops_and_writers_race() {
    let write = |sim: Sim| async move {
        rolling(&sim).insert(beginning(), &login(1, beginning())).await?;
        let old = rolling(&sim).insert(beginning() - days(61), &login(1, beginning())).await;
        let error = old.err().ok_or("a write outside the window was accepted")?;
        assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Pattern, Outcome::NotSent));
        Ok(())
    };
    let also = |sim: Sim| async move {
        rolling(&sim).insert(beginning(), &login(2, beginning())).await?;
        Ok(())
    };
    let seed = |sim: Sim| async move {
        seed_tables(sim.clone()).await?;
        sim.table("Logins20140822").delete_table().await?;
        Ok(())
    };
    let finally = |sim: Sim| async move {
        only_expired_are_gone(sim.clone()).await?;
        match rows_of_today(&sim).await? {
            2 => Ok(()),
            other => Err(format!("{other} rows").into()),
        }
    };
    let race = race(tavola_local::in_memory).seed(seed).writer(write).writer(also);
    let race = race.writer(drop_expired).writer(drop_expired);
    race.at_most(300, 100).finally(finally).run().await.unwrap();
}

/// The rows of the day on which every execution begins. Checks have the clock of the machine.
async fn rows_of_today(sim: &Sim) -> Result<usize, tavola_client::Error> {
    let table = sim.table("Logins20140822");
    match table.scan::<Login>().stream().try_collect::<Vec<_>>().await {
        Err(error) if error.is_not_found() => Ok(0),
        rows => rows.map(|rows| rows.len()),
    }
}

/// The keys of all users.
fn all() -> KeyRange<Login> {
    Login::key().user_in(0..)
}

/// G129: an insert that finds no table makes one, whatever is cut; the row is there once.
#[tokio::test]
async fn every_cut_of_an_insert() {
    let scenario = |sim: Sim| async move {
        let rolling = rolling(&sim);
        rolling.insert(beginning(), &login(1, beginning())).await?;
        sim.note("done");
        Ok(())
    };
    let finally = |sim: Sim| async move {
        match (sim.notes().len(), rows_of_today(&sim).await?) {
            (1, 1) | (0, 0 | 1) => Ok(()),
            other => Err(format!("{other:?}").into()),
        }
    };
    let cuts = every_cut(tavola_local::in_memory, scenario).finally(finally);
    assert_eq!(cuts.run().await.unwrap().requests, 3);

    // Lost requests and replies are no failures.
    let patient = move |sim: Sim| async move {
        scenario(sim.clone()).await.inspect_err(|_| sim.note("failed"))
    };
    let never = |sim: Sim| async move {
        if sim.notes().iter().any(|note| note == "failed") { Err("failed".into()) } else { Ok(()) }
    };
    every_cut(tavola_local::in_memory, patient).finally(never).run().await.unwrap();
}

/// A service with logins of 3 users on each of 5 days, one of them without a table.
async fn with_logins() -> (TableServiceClient, Rolling, Vec<OffsetDateTime>) {
    let service = service();
    let rolling = Rolling::daily(&service, "Logins", 60).unwrap();
    let now = now();
    let mut all = Vec::new();
    for day in [0, 1, 3, 4] {
        for user in 1..=3 {
            for second in 0..4 {
                let at = now - days(day) - Duration::milliseconds(second);
                rolling.insert(at, &login(user, at)).await.unwrap();
                all.push(at);
            }
        }
    }
    (service, rolling, all)
}

/// What the rows keep of a time: ticks.
fn ticks(at: OffsetDateTime) -> i128 {
    at.unix_timestamp_nanos() / 100
}

/// G121: reads over the tables are in one order, by one user and by all, and the newest first; in
/// pages of any size with continuations that survive being text.
#[tokio::test]
async fn reads_are_merged_and_resumed() {
    let (_, rolling, inserted) = with_logins().await;
    let user = || Login::key().user(2);
    let mut expected: Vec<_> = inserted.into_iter().map(ticks).collect();
    expected.sort();
    expected.dedup();
    expected.reverse();
    let newest: Vec<_> =
        times(rolling.newest_first(.., user())).await.unwrap().into_iter().map(ticks).collect();
    assert_eq!(newest, expected);
    // Keys of inverted times: the order of the keys is the same.
    let by_key: Vec<_> =
        times(rolling.query(.., user())).await.unwrap().into_iter().map(ticks).collect();
    assert_eq!(by_key, expected);

    let keys = |rows: &[tavola_client::Stored<Login>]| -> Vec<_> {
        rows.iter().map(|row| row.key().clone()).collect()
    };
    let whole: Vec<_> = rolling.query(.., all()).stream().try_collect().await.unwrap();
    assert_eq!(whole.len(), 48);
    assert!(keys(&whole).is_sorted());
    for size in [1, 5, 16, 48, 100] {
        for is_newest in [false, true] {
            let query = || match is_newest {
                true => rolling.newest_first(.., all()),
                false => rolling.query(.., all()),
            };
            let whole: Vec<_> = query().stream().try_collect().await.unwrap();
            let mut found = Vec::new();
            let mut token: Option<String> = None;
            loop {
                let resume = token.take().map(|text| text.parse::<Continuation>().unwrap());
                let mut pages = query().page_size(size).resume(resume).pages();
                let Some(page) = pages.try_next().await.unwrap() else { break };
                assert!(page.items.len() <= size);
                found.extend(page.items);
                token = page.next.map(|next| next.to_string());
                if token.is_none() {
                    break;
                }
            }
            assert_eq!(keys(&found), keys(&whole), "{size} {is_newest}");
        }
    }
    // A continuation is of one query.
    let page = rolling.query(.., user()).page_size(1).pages().try_next().await.unwrap().unwrap();
    let foreign = rolling.newest_first(.., user()).resume(page.next).pages().try_next().await;
    assert!(foreign.unwrap_err().to_string().contains("another query"));
}

/// G121: times choose tables; rows of one key in two tables are both read.
#[tokio::test]
async fn times_choose_tables() {
    let (_, rolling, _) = with_logins().await;
    let now = now();
    let count = |rows: Vec<OffsetDateTime>| rows.len();
    assert_eq!(times(rolling.query(now - days(1).., all())).await.map(count).unwrap(), 24);
    assert_eq!(times(rolling.query(..now - days(2), all())).await.map(count).unwrap(), 24);
    let future = now + days(400);
    assert_eq!(times(rolling.query(future.., all())).await.map(count).unwrap(), 0);

    let twice = login(9, now);
    rolling.insert(now, &twice).await.unwrap();
    rolling.insert(now - days(1), &twice).await.unwrap();
    for size in [1, 2] {
        let query = || rolling.query(.., Login::key().user(9)).page_size(size);
        let first = query().pages().try_next().await.unwrap().unwrap();
        let rest: Vec<_> = match first.next {
            Some(next) => query().resume(next).stream().try_collect().await.unwrap(),
            None => Vec::new(),
        };
        assert_eq!(first.items.len() + rest.len(), 2, "{size}");
    }
}

/// G121, G130: tables that are dropped under a reader end cleanly: what it returns is in order, and
/// all rows of the tables that stay are among it.
#[tokio::test]
async fn tables_are_dropped_under_a_reader() {
    let old = || beginning() - days(59);
    let seed = move |sim: Sim| async move {
        for (name, at) in [("Logins20140624", old()), ("Logins20140822", beginning())] {
            sim.table(name).create().await?;
            for second in 0..3 {
                sim.table(name).insert(&login(1, at - Duration::seconds(second))).await?;
            }
        }
        Ok(())
    };
    let drop = |sim: Sim| async move {
        // A clock that is some days ahead.
        Rolling::daily(sim.tables(), "Logins", 50)?.drop_expired(false).await?;
        Ok(())
    };
    let reader = |is_newest: bool| {
        move |sim: Sim| async move {
            let rolling = rolling(&sim);
            let around = beginning() - days(60)..=beginning();
            let user = Login::key().user(1);
            let rows = match is_newest {
                true => rolling.newest_first(around, user),
                false => rolling.query(around, user),
            };
            let found = times(rows.page_size(1)).await?;
            let is_ordered = found.windows(2).all(|pair| pair[0] > pair[1]);
            let kept = found.iter().filter(|at| **at > beginning() - days(1)).count();
            if is_ordered && kept == 3 { Ok(()) } else { Err(format!("{found:?}").into()) }
        }
    };
    for is_newest in [false, true] {
        let race = race(tavola_local::in_memory).seed(seed);
        let race = race.writer(reader(is_newest)).writer(drop);
        race.at_most(60, 40).run().await.unwrap();
    }
}

/// G131: requests of each call.
#[tokio::test]
async fn costs() {
    let counted = counting(tavola_local::in_memory());
    let service = TableServiceClient::on(counted.clone(), None);
    let rolling = Rolling::monthly(&service, "Claims", 2).unwrap().ahead(2);
    let cost = || counted.take().len();
    let created = rolling.create_ahead().await.unwrap();
    assert_eq!((created.len(), cost()), (3, 3));
    assert!(rolling.create_ahead().await.unwrap().is_empty());
    assert_eq!(cost(), 3);
    let now = now();
    rolling.insert(now, &login(1, now)).await.unwrap();
    assert_eq!(counted.take(), ["InsertEntity"]);
    let before = now - days(40);
    rolling.insert(before, &login(1, before)).await.unwrap();
    assert_eq!(counted.take(), ["InsertEntity", "CreateTable", "InsertEntity"]);
    // Two months before, this one, two after.
    assert_eq!(times(rolling.query(.., Login::key().user(1))).await.unwrap().len(), 2);
    assert_eq!(cost(), 5);
    let newest = rolling.newest_first(..=now, Login::key().user(1)).take(1);
    assert_eq!((times(newest).await.unwrap().len(), cost()), (1, 1));
    rolling.drop_expired(false).await.unwrap();
    assert_eq!(cost(), 1);
    rolling.table_at(now).unwrap().get::<Login>(Login::key().user(1).at(now)).await.unwrap();
    assert_eq!(cost(), 1);
}

/// G131, G8: 2,500 rows one by one against one drop. For a million rows that is 1,000 pages and at
/// least 10,000 transactions against one request.
#[tokio::test]
async fn rows_one_by_one_cost_more_than_a_table() {
    const ROWS: usize = 2_500;
    let counted = counting(tavola_local::in_memory());
    let service = TableServiceClient::on(counted.clone(), None);
    let table = service.table_client("Logins20140822");
    table.create().await.unwrap();
    let row = |number: usize| DynEntity::new("000123", format!("{number:05}"));
    let report = table.bulk().insert_all((0..ROWS).map(row)).await.unwrap();
    assert_eq!(report.written, ROWS);
    let _ = counted.take();
    let where_ = table.delete_where::<DynEntity>(prop("PartitionKey").eq("000123"));
    let deleted = where_.run().await.unwrap().deleted;
    assert_eq!((deleted, counted.take().len()), (ROWS, ROWS.div_ceil(1000) + ROWS.div_ceil(100)));
    table.delete_table().await.unwrap();
    assert_eq!(counted.take().len(), 1);
}

/// Refused before anything is sent.
#[tokio::test]
async fn refusals() {
    let service = service();
    for prefix in ["", "1a", "log_in", "Log2"] {
        assert!(Rolling::daily(&service, prefix, 1).is_err(), "{prefix}");
    }
    assert!(Rolling::daily(&service, "a".repeat(56), 1).is_err());
    let rolling = Rolling::daily(&service, "Logins", 60).unwrap();
    let now = now();
    assert!(rolling.table_at(now + days(1)).is_ok() && rolling.table_at(now - days(60)).is_ok());
    for days in [Duration::days(2), Duration::days(-61)] {
        let error = rolling.insert(now + days, &login(1, now)).await.unwrap_err();
        assert!(error.to_string().contains("outside the window"), "{error}");
    }
    assert!(names(&service).await.is_empty());

    // Without an order of keys there is neither a newest row nor a merged order.
    let options = ClientOptions::default().flavour(Flavour::Cosmos);
    let cosmos = TableServiceClient::on(tavola_local::in_memory(), Some(options));
    let rolling = Rolling::daily(&cosmos, "Logins", 60).unwrap();
    for rows in [rolling.newest_first(.., all()), rolling.query(.., all())] {
        let error = rows.stream().try_next().await.unwrap_err();
        assert!(*error.kind() == ErrorKind::Pattern && error.to_string().contains("no order"));
    }
}
