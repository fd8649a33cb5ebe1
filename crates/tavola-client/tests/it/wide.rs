//! Wide entities: G124, and what every pattern must show: G129 cuts, G130 races, G131 costs.

use tavola_client::patterns::{Wide, WideStored};
use tavola_client::testing::{Checked, Sim, counting, every_cut, race};
use tavola_client::{
    DynEntity, Entity, ErrorKind, IfMatch, Mode, Outcome, Properties, Rule, TableClient,
    TableServiceClient,
};

/// Ten properties.
#[derive(Properties, Debug, Clone, Copy, PartialEq)]
struct Ten {
    d0: i64,
    d1: i64,
    d2: i64,
    d3: i64,
    d4: i64,
    d5: i64,
    d6: i64,
    d7: i64,
    d8: i64,
    d9: i64,
}

/// Fifty.
#[derive(Properties, Debug, Clone, Copy, PartialEq)]
struct Fifty {
    #[entity(flatten, prefix = "a")]
    a: Ten,
    #[entity(flatten, prefix = "b")]
    b: Ten,
    #[entity(flatten, prefix = "c")]
    c: Ten,
    #[entity(flatten, prefix = "d")]
    d: Ten,
    #[entity(flatten, prefix = "e")]
    e: Ten,
}

/// As many as a part has: 251.
#[derive(Properties, Debug, Clone, Copy, PartialEq)]
struct Full {
    #[entity(flatten, prefix = "a")]
    a: Fifty,
    #[entity(flatten, prefix = "b")]
    b: Fifty,
    #[entity(flatten, prefix = "c")]
    c: Fifty,
    #[entity(flatten, prefix = "d")]
    d: Fifty,
    #[entity(flatten, prefix = "e")]
    e: Fifty,
    last: i64,
}

fn full(all: i64) -> Full {
    let [d0, d1, d2, d3, d4, d5, d6, d7, d8, d9] = [all; 10];
    let ten = Ten { d0, d1, d2, d3, d4, d5, d6, d7, d8, d9 };
    let fifty = Fifty { a: ten, b: ten, c: ten, d: ten, e: ten };
    Full { a: fifty, b: fifty, c: fifty, d: fifty, e: fifty, last: all }
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(wide, partition = "p", row = "{id:04}")]
struct W251 {
    id: u16,
    #[entity(flatten, prefix = "x")]
    x: Full,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(wide, partition = "p", row = "{id:04}")]
struct W252 {
    id: u16,
    #[entity(flatten, prefix = "x")]
    x: Full,
    more: i64,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(wide, partition = "p", row = "{id:04}")]
struct W502 {
    id: u16,
    #[entity(flatten, prefix = "x")]
    x: Full,
    #[entity(flatten, prefix = "y")]
    y: Full,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(wide, partition = "p", row = "{id:04}")]
struct W503 {
    id: u16,
    #[entity(flatten, prefix = "x")]
    x: Full,
    #[entity(flatten, prefix = "y")]
    y: Full,
    more: i64,
}

/// Three parts, of which the second and the third may be empty.
#[derive(Entity, Debug, Clone, PartialEq, Default)]
#[entity(kind = "year", partition = "{user:06}", row = "{year:04}")]
struct Year {
    user: u32,
    year: u16,
    january: Option<i64>,
    february: Option<String>,
    #[entity(part = 1)]
    july: Option<i64>,
    august: Option<String>,
    #[entity(part = 2)]
    october: Option<i64>,
}

/// A year whose values are all the same.
fn year(value: i64) -> Year {
    Year {
        user: 123,
        year: 2014,
        january: Some(value),
        july: Some(value),
        october: Some(value),
        ..Year::default()
    }
}

fn key() -> tavola_client::PointKey<Year> {
    Year::key().user(123).year(2014)
}

/// One part a request, so that a read is several of them.
fn years(sim: &Sim) -> Wide<Year> {
    Wide::new(&sim.table("years")).page_size(1)
}

async fn seed(sim: Sim) -> Checked {
    sim.table("years").create().await?;
    Ok(())
}

async fn seed_year(sim: Sim) -> Checked {
    seed(sim.clone()).await?;
    years(&sim).insert(&year(1)).await?;
    Ok(())
}

async fn table() -> TableClient {
    let service = TableServiceClient::on(tavola_local::in_memory(), None);
    let table = service.table_client("years");
    table.create().await.unwrap();
    table
}

/// The gap of the guide: two point reads that straddle a transaction return a mixture.
#[tokio::test]
async fn two_point_reads_are_torn() {
    let rows = |value: i64| {
        ["2014_01", "2014_02"].map(|row| {
            let mut half = DynEntity::new("000123", row);
            half.set("D", value);
            half
        })
    };
    let seed_halves = move |sim: Sim| async move {
        seed(sim.clone()).await?;
        for half in rows(1) {
            sim.table("years").insert(&half).await?;
        }
        Ok(())
    };
    let write = move |sim: Sim| async move {
        let table = sim.table("years");
        let mut both = table.transaction("000123");
        for half in rows(2) {
            both.upsert(&half, Mode::Replace)?;
        }
        both.commit().await?;
        Ok(())
    };
    let read = |sim: Sim| async move {
        let table = sim.table("years");
        let mut values = Vec::new();
        for row in ["2014_01", "2014_02"] {
            let half = table.get::<DynEntity>(("000123", row)).await?.ok_or("no half")?;
            values.push(half.get::<i64>("D")?);
        }
        if values[0] == values[1] { Ok(()) } else { Err(format!("{values:?}").into()) }
    };
    let race = race(tavola_local::in_memory).seed(seed_halves).writer(read).writer(write);
    let broken = race.run().await.unwrap_err();
    assert!(broken.reason().contains("[1, 2]"), "{broken}");
}

fn check_whole(found: Option<&WideStored<Year>>) -> Checked {
    let Some(found) = found else { return Ok(()) };
    // Parts may be empty; what is there is of one write.
    let values: Vec<_> = [found.january, found.july, found.october].into_iter().flatten().collect();
    if values.windows(2).all(|pair| pair[0] == pair[1]) {
        return Ok(());
    }
    Err(format!("a mixture: {values:?}").into())
}

async fn is_whole(sim: Sim) -> Checked {
    let found = Wide::<Year>::new(&sim.table("years")).read(key()).await?;
    check_whole(found.as_ref())
}

/// Reads, changes and writes back until nobody is faster.
async fn rewrite(sim: Sim, change: impl Fn(&mut Year)) -> Checked {
    let years = years(&sim);
    for _ in 0..10 {
        let Some(mut found) = years.read(key()).await? else { return Ok(()) };
        change(&mut found);
        match years.replace(&mut found).await {
            Err(error) if error.outcome() == Outcome::NotApplied => {}
            done => return Ok(done?),
        }
    }
    Err("others were always faster".into())
}

/// G124, G130: readers who read part by part beside writers never get a mixture, also while parts
/// come and go and the whole is deleted and made again.
#[tokio::test]
async fn reads_are_of_one_generation() {
    let read = |sim: Sim| async move {
        let found = years(&sim).read(key()).await?;
        check_whole(found.as_ref())
    };
    let write = |sim: Sim| rewrite(sim, |found| *found = year(2));
    let shrink = |sim: Sim| {
        rewrite(sim, |found| {
            found.july = None;
            found.october = None;
        })
    };
    let remake = |sim: Sim| async move {
        let years = years(&sim);
        let Some(found) = years.read(key()).await? else { return Err("it is gone".into()) };
        match years.delete(&found).await {
            Err(error) if error.outcome() == Outcome::NotApplied => return Ok(()),
            done => done?,
        }
        years.insert(&year(3)).await?;
        Ok(())
    };
    let two = race(tavola_local::in_memory).seed(seed_year).writer(read).writer(write);
    let report = two.always(is_whole).run().await.unwrap();
    assert!(report.is_exhaustive, "{report:?}");
    let three = race(tavola_local::in_memory).seed(seed_year).writer(read).writer(shrink);
    three.writer(write).always(is_whole).at_most(300, 200).run().await.unwrap();
    let remade = race(tavola_local::in_memory).seed(seed_year).writer(read).writer(remake);
    remade.writer(write).always(is_whole).at_most(300, 200).run().await.unwrap();
}

/// G124, G130: a property that is set is never lost to a write of the whole, nor the other way
/// round; those who set different properties of one part do not meet.
#[tokio::test]
async fn sets_and_writes_of_the_whole_race() {
    let august = |sim: Sim| async move {
        years(&sim).set(key(), Year::AUGUST, Some("hot".to_owned())).await?;
        Ok(())
    };
    let february = |sim: Sim| async move {
        years(&sim).set(key(), Year::FEBRUARY, Some("cold".to_owned())).await?;
        Ok(())
    };
    let write = |sim: Sim| {
        rewrite(sim, |found| {
            found.january = Some(2);
            found.july = Some(2);
            found.october = None;
        })
    };
    let finally = |sim: Sim| async move {
        let found = years(&sim).read(key()).await?.ok_or("it is gone")?;
        let texts = (found.february.as_deref(), found.august.as_deref());
        match (texts, found.january, found.july, found.october) {
            ((Some("cold"), Some("hot")), Some(2), Some(2), None) => Ok(()),
            _ => Err(format!("{found:?}").into()),
        }
    };
    let race = race(tavola_local::in_memory).seed(seed_year);
    let race = race.writer(august).writer(february).writer(write);
    race.finally(finally).at_most(500, 200).run().await.unwrap();
}

/// G124, G129: each request of each operation cut in each way: all parts or none.
#[tokio::test]
async fn every_cut_leaves_all_parts_or_none() {
    let scenario = |sim: Sim| async move {
        let years = Wide::<Year>::new(&sim.table("years"));
        years.insert(&year(1)).await?;
        let mut found = years.read(key()).await?.ok_or("it was inserted")?;
        *found = year(2);
        years.replace(&mut found).await?;
        // The versions were left in it, whatever was lost.
        found.july = None;
        found.october = None;
        years.replace(&mut found).await?;
        sim.note("replaced");
        years.set(key(), Year::OCTOBER, Some(2)).await?;
        sim.note("set");
        let found = years.read(key()).await?.ok_or("it is there")?;
        years.delete(&found).await.map_err(|error| {
            assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
            error
        })?;
        sim.note("deleted");
        Ok(())
    };
    let finally = |sim: Sim| async move {
        let found = Wide::<Year>::new(&sim.table("years")).read(key()).await?;
        let table = sim.table("years");
        let rows = futures_util::StreamExt::count(table.scan::<DynEntity>().stream()).await;
        let parts = found.as_ref().map_or(0, WideStored::parts);
        let is_expected = match sim.notes().last().map(String::as_str) {
            Some("deleted") => found.is_none(),
            _ => true,
        };
        if rows == parts && is_expected { Ok(()) } else { Err(format!("{rows} {found:?}").into()) }
    };
    let cuts = every_cut(tavola_local::in_memory, scenario).seed(seed);
    let report = cuts.always(is_whole).finally(finally).run().await.unwrap();
    // The set of a part that was not there: merge, read, and all parts.
    assert_eq!(report.requests, 1 + 1 + 1 + 1 + 3 + 1 + 1);
}

/// G92: lost requests and replies are no failures, but for the delete.
#[tokio::test]
async fn a_lost_reply_is_decided_by_the_generation() {
    let scenario = |sim: Sim| async move {
        let run = async {
            let years = Wide::<Year>::new(&sim.table("years"));
            let mut found = years.read(key()).await?.ok_or("it was inserted")?;
            for value in [2, 3] {
                *found = year(value);
                years.replace(&mut found).await?;
            }
            years.set(key(), Year::AUGUST, Some("hot".to_owned())).await?;
            Checked::Ok(())
        };
        if let Err(error) = run.await {
            sim.note(error.to_string());
        }
        Ok(())
    };
    let none_failed = |sim: Sim| async move {
        if sim.notes().is_empty() { Ok(()) } else { Err(format!("{:?}", sim.notes()).into()) }
    };
    let cuts = every_cut(tavola_local::in_memory, scenario).seed(seed_year);
    cuts.finally(none_failed).run().await.unwrap();
}

/// G124: a part has 251 properties of the entity, and one of its own.
#[tokio::test]
async fn edges_of_parts() {
    let table = table().await;
    macro_rules! edge {
        ($entity:expr, $type:ty, $parts:expr) => {
            let entity = $entity;
            let wide = Wide::<$type>::new(&table);
            wide.insert(&entity).await.unwrap();
            let found = wide.read(<$type>::key().id(entity.id)).await.unwrap().unwrap();
            assert_eq!((&*found, found.parts()), (&entity, $parts));
        };
    }
    let (x, y) = (full(7), full(8));
    edge!(W251 { id: 1, x }, W251, 1);
    edge!(W252 { id: 2, x, more: 9 }, W252, 2);
    edge!(W502 { id: 3, x, y }, W502, 2);
    edge!(W503 { id: 4, x, y, more: 9 }, W503, 3);
    let count = |row: &'static str| {
        let table = table.clone();
        async move { table.get::<DynEntity>(("p", row)).await.unwrap().unwrap().iter().len() }
    };
    assert_eq!((count("0001!w00").await, count("0002!w01").await), (252, 2));
    assert_eq!((count("0003!w01").await, count("0004!w02").await), (252, 2));

    // Adding a field at the end moves none: an older program's rows are read by the newer one, whose
    // set of an older property is one merge in the same part.
    let older = Wide::<W502>::new(&table);
    let newer = Wide::<W503>::new(&table);
    newer.set(W503::key().id(3), W503::MORE, 5).await.unwrap();
    let found = newer.read(W503::key().id(3)).await.unwrap().unwrap();
    assert_eq!(*found, W503 { id: 3, x, y, more: 5 });
    // The older one keeps what it does not know.
    let mut found = older.read(W502::key().id(3)).await.unwrap().unwrap();
    found.y = full(1);
    older.replace(&mut found).await.unwrap();
    let found = newer.read(W503::key().id(3)).await.unwrap().unwrap();
    assert_eq!(*found, W503 { id: 3, x, y: full(1), more: 5 });
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(partition = "p", row = "{id:04}")]
struct Large {
    id: u16,
    #[entity(flatten, prefix = "a")]
    a: Texts,
    #[entity(part = 1, flatten, prefix = "b")]
    b: Texts,
    #[entity(part = 2, flatten, prefix = "c")]
    c: Texts,
    #[entity(part = 3, flatten, prefix = "d")]
    d: Texts,
}

/// Up to 20 × 64 KiB.
#[derive(Properties, Debug, Clone, PartialEq, Default)]
struct Texts {
    t0: Vec<u8>,
    t1: Vec<u8>,
    t2: Vec<u8>,
    t3: Vec<u8>,
    t4: Vec<u8>,
    t5: Vec<u8>,
    t6: Vec<u8>,
    t7: Vec<u8>,
    t8: Vec<u8>,
    t9: Vec<u8>,
    u0: Vec<u8>,
    u1: Vec<u8>,
    u2: Vec<u8>,
    u3: Vec<u8>,
    u4: Vec<u8>,
    u5: Vec<u8>,
    u6: Vec<u8>,
}

fn texts(size: usize, last: usize) -> Texts {
    let text = || vec![7; size];
    Texts {
        t0: text(),
        t1: text(),
        t2: text(),
        t3: text(),
        t4: text(),
        t5: text(),
        t6: text(),
        t7: text(),
        t8: text(),
        t9: text(),
        u0: text(),
        u1: text(),
        u2: text(),
        u3: text(),
        u4: text(),
        u5: vec![7; last],
        u6: Vec::new(),
    }
}

/// G124: too large by bytes: an entity of almost 3 MiB is written and read, a part above 1 MiB and
/// a transaction above 4 MiB are refused before anything is sent.
#[tokio::test]
async fn edges_of_bytes() {
    let counted = counting(tavola_local::in_memory());
    let table = TableServiceClient::on(counted.clone(), None).table_client("years");
    table.create().await.unwrap();
    let wide = Wide::<Large>::new(&table);
    let _ = counted.take();
    // The bytes are Base64 in a request: three parts of 960 KiB are almost 4 MiB.
    let most = texts(64 << 10, 0);
    let (a, b, c, d) = (most.clone(), most.clone(), most, Texts::default());
    let large = Large { id: 1, a, b, c, d };
    wide.insert(&large).await.unwrap();
    let found = wide.page_size(1).read(Large::key().id(1)).await.unwrap().unwrap();
    assert_eq!(*found, large);
    let _ = counted.take();

    let wide = Wide::<Large>::new(&table);
    let above = texts(64 << 10, 64 << 10);
    let error = wide.insert(&Large { id: 2, b: above, ..large.clone() }).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Invalid { rule: Rule::EntitySize, .. }), "{error}");
    assert!(error.to_string().starts_with("part 1 has"), "{error}");
    let error = wide.insert(&Large { id: 3, d: texts(16 << 10, 0), ..large }).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Invalid { rule: Rule::Transaction, .. }), "{error}");
    assert!(counted.take().is_empty());
}

/// G131: requests of each call.
#[tokio::test]
async fn costs() {
    let counted = counting(tavola_local::in_memory());
    let table = TableServiceClient::on(counted.clone(), None).table_client("years");
    table.create().await.unwrap();
    let years = Wide::<Year>::new(&table);
    let _ = counted.take();
    let cost = || counted.take().len();
    assert!(years.read(key()).await.unwrap().is_none());
    assert_eq!(cost(), 1);
    years.insert(&year(1)).await.unwrap();
    assert_eq!(cost(), 1);
    years.set(key(), Year::AUGUST, Some("hot".to_owned())).await.unwrap();
    assert_eq!(counted.take(), ["MergeEntity"]);
    let mut found = years.read(key()).await.unwrap().unwrap();
    assert_eq!((found.parts(), found.august.as_deref(), cost()), (3, Some("hot"), 1));
    found.october = None;
    years.replace(&mut found).await.unwrap();
    assert_eq!((found.parts(), cost()), (2, 1));
    years.replace(&mut found).await.unwrap();
    assert_eq!(cost(), 1, "the versions were left in it");
    years.delete(&found).await.unwrap();
    assert_eq!(cost(), 1);
    assert!(years.read(key()).await.unwrap().is_none());
}

/// G124: what others broke is an error, not a default; properties that nobody knows stay where they
/// are.
#[tokio::test]
async fn broken_parts_are_errors() {
    let table = table().await;
    let years = Wide::<Year>::new(&table);
    let unwritten = years.set(key(), Year::JULY, Some(1)).await.unwrap_err();
    assert!(unwritten.is_not_found(), "{unwritten}");
    years.insert(&year(1)).await.unwrap();
    assert!(years.insert(&year(2)).await.unwrap_err().is_conflict());
    let removed = years.set(key(), Year::JULY, None).await.unwrap_err();
    assert_eq!(removed.outcome(), Outcome::NotSent);

    let row = |part: &str| ("000123".to_owned(), format!("2014!w{part}"));
    let mut foreign = DynEntity::new("000123", "2014!w02");
    foreign.set("foreign", "kept");
    table.update(&foreign, Mode::Merge, IfMatch::Any).await.unwrap();
    let mut found = years.read(key()).await.unwrap().unwrap();
    found.october = None;
    years.replace(&mut found).await.unwrap();
    assert_eq!(found.parts(), 3, "the foreign property keeps its part");
    let last = table.get::<DynEntity>(row("02")).await.unwrap().unwrap();
    assert_eq!(last.get::<String>("foreign").unwrap(), "kept");

    let message = |error: tavola_client::Error| {
        assert_eq!(*error.kind(), ErrorKind::Pattern);
        error.to_string()
    };
    table.delete_at::<DynEntity>(row("01"), IfMatch::Any).await.unwrap();
    let missing = years.read(key()).await.unwrap_err();
    assert!(message(missing).contains("part 1 is missing"));
    table.delete_at::<DynEntity>(row("02"), IfMatch::Any).await.unwrap();
    let missing = years.read(key()).await.unwrap_err();
    assert!(message(missing).contains("1 of 3 parts"));
    assert!(years.replace(&mut found).await.unwrap_err().is_not_found());
    let mut other = DynEntity::new("000123", "2014!w01");
    other.set("tv_gen", "0000000000000009-0000000000000009-03");
    table.insert(&other).await.unwrap();
    let torn = years.read(key()).await.unwrap_err();
    assert!(message(torn).contains("several generations"));
}
