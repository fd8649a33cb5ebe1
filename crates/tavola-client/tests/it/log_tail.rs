//! Log tails: G76, G120, and what every pattern must show: G129 cuts, G130 races, G131 costs.

use futures_util::TryStreamExt as _;
use tavola_client::key::TicksDesc;
use tavola_client::patterns::{LogEntry, LogPlace, LogStream, LogTail};
use tavola_client::testing::{Checked, Sim, counting, every_cut, race};
use tavola_client::{
    ClientOptions, DynEntity, EntityKey, ErrorKind, Flavour, Properties, TableClient,
    TableServiceClient,
};
use time::{Duration, OffsetDateTime};

#[derive(Properties, Debug, Clone, PartialEq)]
struct Note {
    text: String,
}

fn note(text: impl Into<String>) -> Note {
    Note { text: text.into() }
}

async fn seed(sim: Sim) -> Checked {
    sim.table("notes").create().await?;
    Ok(())
}

fn log(table: &TableClient) -> LogStream<Note> {
    LogTail::new(table).stream("000123")
}

async fn texts(table: &TableClient) -> Result<Vec<String>, tavola_client::Error> {
    let entries = log(table).latest(usize::MAX).await?;
    Ok(entries.into_iter().map(|entry| entry.value.text).collect())
}

/// G76: the vector of the guide begins the key. G120: in the guide's layout the second entry of a
/// tick has no place; here both survive, newest first.
#[tokio::test]
async fn entries_of_one_tick_survive() {
    let scenario = |sim: Sim| async move {
        let table = sim.table("notes");
        let guide = DynEntity::new("000124", "2519936321679999999");
        table.insert(&guide).await?;
        let second = table.insert(&guide).await;
        assert!(second.is_err_and(|error| error.is_conflict()));

        let log = log(&table);
        for text in ["a", "b", "c"] {
            let place = log.append(&note(text)).await?;
            assert!(place.key().row().starts_with("2519936321679999999"), "{place:?}");
            assert_eq!(place.key().row().len(), 32);
        }
        assert_eq!(texts(&table).await?, ["c", "b", "a"]);
        Ok(())
    };
    // One writer alone, with the clock of the harness.
    race(tavola_local::in_memory).seed(seed).writer(scenario).run().await.unwrap();
}

/// G129: what was acknowledged is there once, whatever is cut; an append that is repeated at its
/// place after a crash makes no second entry.
#[tokio::test]
async fn every_cut_leaves_each_entry_once() {
    let scenario = |sim: Sim| async move {
        let log = log(&sim.table("notes"));
        log.append(&note("first")).await?;
        sim.note("first");
        let place = log.place()?;
        sim.note(format!("place {}", place.key().row()));
        log.append_at(&place, &note("second")).await?;
        Ok(())
    };
    let recover = |sim: Sim| async move {
        let log = log(&sim.table("notes"));
        let notes = sim.notes();
        let Some(row) = notes.iter().find_map(|note| note.strip_prefix("place ")) else {
            return Ok(());
        };
        let key = EntityKey::new("000123", row)?;
        let place = LogPlace::at(key);
        log.append_at(&place, &note("second")).await?;
        Ok(())
    };
    let finally = |sim: Sim| async move {
        let found = texts(&sim.table("notes")).await?;
        let count = |text: &str| found.iter().filter(|found| *found == text).count();
        let is_promised = |text: &str| sim.notes().iter().any(|note| note.starts_with(text));
        let first = count("first") == 1 || (!is_promised("first") && count("first") == 0);
        let second = count("second") == usize::from(is_promised("place"));
        if first && second { Ok(()) } else { Err(format!("{found:?}").into()) }
    };
    let cuts = every_cut(tavola_local::in_memory, scenario).seed(seed).recover(recover);
    let report = cuts.finally(finally).depth(2).run().await.unwrap();
    assert_eq!(report.requests, 2);
}

/// G130: two writers and a reader who pages. All entries survive, each writer's in its order, and no
/// page repeats one.
#[tokio::test]
async fn writers_and_a_reader_race() {
    let writer = |name: &'static str| {
        move |sim: Sim| async move {
            let log = log(&sim.table("notes"));
            log.append(&note(format!("{name}1"))).await?;
            log.append(&note(format!("{name}2"))).await?;
            Ok(())
        }
    };
    let reader = |sim: Sim| async move {
        let table = sim.table("notes");
        let log = log(&table);
        let all = log.newer_than(OffsetDateTime::UNIX_EPOCH)?.page_size(1);
        let keys: Vec<_> = all.stream().map_ok(|entry| entry.key).try_collect().await?;
        let is_ascending = keys.windows(2).all(|pair| pair[0] < pair[1]);
        if is_ascending { Ok(()) } else { Err("a page repeats an entry".into()) }
    };
    let finally = |sim: Sim| async move {
        let found = texts(&sim.table("notes")).await?;
        let of = |name: char| -> Vec<_> {
            found.iter().filter(|text| text.starts_with(name)).cloned().collect()
        };
        if of('a') == ["a2", "a1"] && of('b') == ["b2", "b1"] {
            return Ok(());
        }
        Err(format!("{found:?}").into())
    };
    let race = race(tavola_local::in_memory).seed(seed).finally(finally);
    let race = race.writer(writer("a")).writer(writer("b")).writer(reader);
    let report = race.run().await.unwrap();
    assert!(report.is_exhaustive && report.runs > 50, "{report:?}");
}

async fn count(entries: tavola_client::Query<'_, DynEntity, LogEntry<Note>>) -> usize {
    entries.stream().try_collect::<Vec<_>>().await.unwrap().len()
}

/// G131, G120: requests of each call; ranges by time; trimming from the old end.
#[tokio::test]
async fn costs_ranges_and_trimming() {
    let counted = counting(tavola_local::in_memory());
    let table = TableServiceClient::on(counted.clone(), None).table_client("notes");
    table.create().await.unwrap();
    let log = log(&table);
    let _ = counted.take();
    log.append(&note("0")).await.unwrap();
    assert_eq!(counted.take(), ["InsertEntity"]);
    for number in 1..1001 {
        log.append(&note(number.to_string())).await.unwrap();
    }
    let _ = counted.take();
    assert_eq!(log.latest(10).await.unwrap()[9].value.text, "991");
    assert_eq!(counted.take().len(), 1);
    let all = log.latest(1001).await.unwrap();
    assert_eq!((all.len(), counted.take().len()), (1001, 2));

    let middle = all[500].at;
    let older = count(log.older_than(middle).unwrap()).await;
    let newer = count(log.newer_than(middle).unwrap()).await;
    let at = all.iter().filter(|entry| entry.at == middle).count();
    assert_eq!(older + newer + at, 1001);
    assert_eq!(older, all.iter().filter(|entry| entry.at < middle).count());

    let _ = counted.take();
    let trimmed = log.trim_before(middle).await.unwrap();
    assert_eq!(trimmed.deleted, older);
    assert_eq!(counted.take().len(), 1 + older.div_ceil(100));
    assert_eq!(log.latest(2000).await.unwrap().len(), newer + at);
    assert_eq!(log.trim_before(middle).await.unwrap().deleted, 0);
}

async fn seed_days(sim: Sim) -> Checked {
    seed(sim.clone()).await?;
    for day in 0..150 {
        let at = OffsetDateTime::UNIX_EPOCH + Duration::days(day);
        let mut row = DynEntity::new("000123", TicksDesc::encode(at, "at")?);
        row.set("text", format!("{day:03}"));
        sim.table("notes").insert(&row).await?;
    }
    Ok(())
}

async fn trim(sim: Sim) -> Checked {
    let until = OffsetDateTime::UNIX_EPOCH + Duration::days(140);
    log(&sim.table("notes")).trim_before(until).await?;
    Ok(())
}

/// What remains is the newest part, without a gap.
async fn is_a_tail(sim: Sim) -> Checked {
    let found = texts(&sim.table("notes")).await?;
    let expected: Vec<_> =
        (0..150).rev().take(found.len()).map(|day| format!("{day:03}")).collect();
    if found == expected && found.len() >= 10 { Ok(()) } else { Err(format!("{found:?}").into()) }
}

async fn is_trimmed(sim: Sim) -> Checked {
    match texts(&sim.table("notes")).await?.len() {
        10 => Ok(()),
        other => Err(format!("{other} remain").into()),
    }
}

/// G129, G120: a trim that is cut leaves the newest part, and one that follows ends it.
#[tokio::test]
async fn every_cut_of_a_trim() {
    let cuts = every_cut(tavola_local::in_memory, trim).seed(seed_days).recover(trim);
    let report = cuts.always(is_a_tail).finally(is_trimmed).run().await.unwrap();
    assert_eq!(report.requests, 3);
}

/// G130: two trims at once.
#[tokio::test]
async fn trims_race() {
    let race = race(tavola_local::in_memory).seed(seed_days).writer(trim).writer(trim);
    race.at_most(20, 10).finally(is_trimmed).run().await.unwrap();
}

/// G120: without an order of keys there is no newest entry.
#[tokio::test]
async fn a_service_without_key_order_is_refused() {
    let options = ClientOptions::default().flavour(Flavour::Cosmos);
    let service = TableServiceClient::on(tavola_local::in_memory(), Some(options));
    let error = log(&service.table_client("notes")).append(&note("a")).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Pattern);
    assert!(error.to_string().contains("no order"), "{error}");
}
