//! Spread partitions: G127, and what every pattern must show: G129 cuts, G130 races, G131 costs.

use std::collections::BTreeMap;

use futures_util::TryStreamExt as _;
use tavola_client::patterns::Spread;
use tavola_client::testing::{Checked, Sim, counting, every_cut, race};
use tavola_client::{
    ClientOptions, Continuation, DynEntity, Entity, ErrorKind, Flavour, Outcome, TableClient,
    TableServiceClient,
};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(partition = "{hour}", row = "{second:04}!{id:08}")]
struct Event {
    hour: String,
    second: u16,
    id: u32,
    text: String,
}

fn event(second: u16) -> Event {
    Event { hour: "2014082218".to_owned(), second, id: 7, text: "login".to_owned() }
}

fn hour() -> EventKeyHour {
    Event::key().hour("2014082218")
}

async fn table() -> TableClient {
    let service = TableServiceClient::on(tavola_local::in_memory(), None);
    let table = service.table_client("events");
    table.create().await.unwrap();
    table
}

async fn seed(sim: Sim) -> Checked {
    let table = sim.table("events");
    table.create().await?;
    let events = Spread::<Event>::open(&table, 4).await?;
    for second in 0..8 {
        events.insert(&event(second)).await?;
    }
    Ok(())
}

async fn seconds(events: &Spread<Event>) -> Result<Vec<u16>, tavola_client::Error> {
    events.query(hour()).stream().map_ok(|event| event.second).try_collect().await
}

/// Rows of each partition of the service, those of the library left out.
async fn load(table: &TableClient) -> BTreeMap<String, usize> {
    let rows = table.scan::<DynEntity>().stream();
    let mut load = BTreeMap::new();
    let rows: Vec<_> = rows.try_collect().await.unwrap();
    for row in rows.iter().filter(|row| !row.row().starts_with('!')) {
        *load.entry(row.partition().to_owned()).or_default() += 1;
    }
    load
}

/// G127: the anti-pattern first: keys that grow send every insert of an hour to one partition.
/// Spread over ten, the busiest has little more than a tenth.
#[tokio::test]
async fn growing_keys_have_one_busy_partition() {
    let table = table().await;
    for second in 0..1000 {
        table.insert(&event(second)).await.unwrap();
    }
    let peak = load(&table).await.into_values().max();
    assert_eq!(peak, Some(1000));

    let table = self::table().await;
    let events = Spread::<Event>::open(&table, 10).await.unwrap();
    for second in 0..1000 {
        events.insert(&event(second)).await.unwrap();
    }
    let load = load(&table).await;
    let peak = load.values().max().copied().unwrap_or_default();
    assert!(load.len() == 10 && peak < 150, "{load:?}");
    assert_eq!(seconds(&events).await.unwrap(), (0..1000).collect::<Vec<_>>());
}

/// G127: pages of any size, resumed elsewhere, also after the number grew.
#[tokio::test]
async fn reads_are_merged_and_resumed() {
    for size in [1, 3, 7, 40, 100] {
        let table = table().await;
        let events = Spread::<Event>::open(&table, 3).await.unwrap();
        for second in 0..40 {
            events.insert(&event(second)).await.unwrap();
        }
        let mut found = Vec::new();
        let mut token: Option<String> = None;
        loop {
            // Another process, which finds the number in the table.
            let events = Spread::<Event>::open(&table, 9).await.unwrap();
            let resume = token.take().map(|text| text.parse::<Continuation>().unwrap());
            let query = events.query(hour().second_in(..35)).page_size(size).resume(resume);
            let Some(page) = query.pages().try_next().await.unwrap() else { break };
            found.extend(page.items.iter().map(|event| event.second));
            token = page.next.map(|next| next.to_string());
            if token.is_none() {
                break;
            }
        }
        assert_eq!(found, (0..35).collect::<Vec<_>>(), "{size}");
    }
}

async fn grow(sim: Sim) -> Checked {
    Spread::<Event>::open(&sim.table("events"), 4).await?.grow(8).await?;
    Ok(())
}

/// What was inserted is read once, in order, and is found by its key.
async fn all_are_found(sim: Sim) -> Checked {
    let table = sim.table("events");
    let events = Spread::<Event>::open(&table, 1).await?;
    let notes = sim.notes();
    let noted = notes.iter().filter_map(|note| note.parse::<u16>().ok());
    let mut expected: Vec<u16> = (0..8).chain(noted).collect();
    expected.sort_unstable();
    let found = seconds(&events).await?;
    if found != expected {
        return Err(format!("{found:?} instead of {expected:?}").into());
    }
    for second in expected {
        let found = events.get(hour().second(second).id(7)).await?;
        found.ok_or_else(|| format!("{second} is not found by its key"))?;
    }
    Ok(())
}

/// G129: a growth that is cut is ended by the next, and nothing is lost on the way.
#[tokio::test]
async fn every_cut_of_a_growth() {
    let finally = |sim: Sim| async move {
        let table = sim.table("events");
        let meta = table.get::<DynEntity>(("!spread!", "!meta")).await?.ok_or("no row")?;
        let numbers = meta.get::<String>("n")?;
        if numbers == "4,8" { Ok(()) } else { Err(numbers.into()) }
    };
    let cuts = every_cut(tavola_local::in_memory, grow).seed(seed).recover(grow);
    let cuts = cuts.always(all_are_found).finally(finally).depth(2);
    // Open; read and write twice; read that it is done. Then each insert is where it was.
    assert_eq!(cuts.run().await.unwrap().requests, 2 + 2 + 2 + 1);
}

/// G127, G130: writers and a reader beside two growths: what was acknowledged before the reader
/// began is read.
#[tokio::test]
async fn a_growth_races() {
    let write = |from: u16| {
        move |sim: Sim| async move {
            for second in [from, from + 1] {
                let events = Spread::<Event>::open(&sim.table("events"), 4).await?;
                events.insert(&event(second)).await?;
                sim.note(second.to_string());
            }
            Ok(())
        }
    };
    let read = |sim: Sim| async move {
        let promised: Vec<u16> = sim.notes().iter().filter_map(|note| note.parse().ok()).collect();
        let events = Spread::<Event>::open(&sim.table("events"), 4).await?;
        let found = seconds(&events).await?;
        let is_there = |second: &u16| found.contains(second);
        let is_ascending = found.windows(2).all(|pair| pair[0] < pair[1]);
        if is_ascending && promised.iter().chain(&[0, 7]).all(is_there) {
            return Ok(());
        }
        Err(format!("{found:?} without one of {promised:?}").into())
    };
    let race = race(tavola_local::in_memory).seed(seed).writer(write(20)).writer(write(30));
    let race = race.writer(read).writer(grow).writer(grow);
    race.at_most(200, 200).finally(all_are_found).run().await.unwrap();
}

/// G127: a reader that read the number while it was to come finds what is written by it, without
/// reading it again within the lease.
#[tokio::test]
async fn readers_know_the_next_number_before_writers() {
    let counted = counting(tavola_local::in_memory());
    let table = TableServiceClient::on(counted.clone(), None).table_client("events");
    table.create().await.unwrap();
    let mut meta = DynEntity::new("!spread!", "!meta");
    meta.set("n", "4");
    meta.set("next", 8);
    table.insert(&meta).await.unwrap();
    let reader = Spread::<Event>::open(&table, 4).await.unwrap();
    // What a growth does after the lease.
    meta.set("n", "4,8");
    meta.remove("next");
    table.upsert(&meta, tavola_client::Mode::Replace).await.unwrap();
    let writer = Spread::<Event>::open(&table, 4).await.unwrap();
    for second in 0..50 {
        writer.insert(&event(second)).await.unwrap();
    }
    assert_eq!(load(&table).await.len(), 8);
    let _ = counted.take();
    assert_eq!(seconds(&reader).await.unwrap(), (0..50).collect::<Vec<_>>());
    assert_eq!(counted.take().len(), 8);
    for second in 0..50 {
        assert!(reader.get(hour().second(second).id(7)).await.unwrap().is_some());
    }
}

/// G131: requests of each call.
#[tokio::test]
async fn costs() {
    let counted = counting(tavola_local::in_memory());
    let table = TableServiceClient::on(counted.clone(), None).table_client("events");
    table.create().await.unwrap();
    let _ = counted.take();
    let cost = || counted.take().len();
    let events = Spread::<Event>::open(&table, 4).await.unwrap();
    assert_eq!(counted.take(), ["InsertEntity"]);
    for second in 0..100 {
        events.insert(&event(second)).await.unwrap();
    }
    assert_eq!(cost(), 100);
    assert_eq!((seconds(&events).await.unwrap().len(), cost()), (100, 4));
    let mut found = events.get(hour().second(7).id(7)).await.unwrap().unwrap();
    assert_eq!(cost(), 1);
    found.text = "logout".to_owned();
    events.replace(&mut found).await.unwrap();
    events.replace(&mut found).await.unwrap();
    assert_eq!(cost(), 2, "the version was left in it");
    let found = events.get(hour().second(7).id(7)).await.unwrap().unwrap();
    assert_eq!((found.text.as_str(), found.key().row()), ("logout", "0007!00000007"));
    table.delete(&found).await.unwrap();
    assert!(events.get(hour().second(7).id(7)).await.unwrap().is_none());
}

/// Refused before anything is sent, or as the service does.
#[tokio::test]
async fn refusals() {
    let table = table().await;
    for buckets in [0, 101] {
        let error = Spread::<Event>::open(&table, buckets).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotSent);
    }
    let events = Spread::<Event>::open(&table, 100).await.unwrap();
    events.insert(&event(1)).await.unwrap();
    assert!(events.insert(&event(1)).await.unwrap_err().is_conflict());
    let mut found = events.get(hour().second(1).id(7)).await.unwrap().unwrap();
    found.second = 2;
    let moved = events.replace(&mut found).await.unwrap_err();
    assert_eq!(moved.outcome(), Outcome::NotSent);
    let many = events.query(Event::key().hour_prefix("2014")).stream().try_next().await;
    assert!(many.unwrap_err().to_string().contains("one partition"));

    let options = ClientOptions::default().flavour(Flavour::Cosmos);
    let cosmos = TableServiceClient::on(tavola_local::in_memory(), Some(options));
    let cosmos = cosmos.table_client("events");
    cosmos.create().await.unwrap();
    let events = Spread::<Event>::open(&cosmos, 4).await.unwrap();
    let error = events.query(hour()).stream().try_next().await.unwrap_err();
    assert!(*error.kind() == ErrorKind::Pattern && error.to_string().contains("no order"));
}
