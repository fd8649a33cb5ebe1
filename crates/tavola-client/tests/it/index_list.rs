//! Lists of entities that share a value: G113 to G117, and what every pattern must show: G129 cuts,
//! G130 races, G131 costs. G116: the variant with a blob waits for the blob service.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tavola_client::__store::Runtime;
use tavola_client::patterns::{IndexList, Place};
use tavola_client::testing::{Checked, Sim, counting, every_cut, race};
use tavola_client::{
    BoxFuture, DynEntity, Entity, Failure, IfMatch, Mode, Outcome, Reply, Request, StoreTraits,
    TableClient, TableServiceClient, TableStore,
};
use tavola_local::LocalStore;

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(kind = "employee", partition = "{dept}", row = "empid_{id:06}")]
struct Employee {
    dept: String,
    id: u32,
    last: String,
}

fn employee(id: u32, last: &str) -> Employee {
    Employee { dept: "Sales".to_owned(), id, last: last.to_owned() }
}

const BOTH: [Place; 2] = [Place::List, Place::Rows];

fn names(table: &TableClient, place: Place) -> IndexList<Employee> {
    let prefix = if place == Place::List { "lastname_" } else { "lastrow_" };
    IndexList::new(table, prefix, |one: &Employee| Some(one.last.clone())).unwrap().place(place)
}

async fn add(
    table: &TableClient,
    place: Place,
    id: u32,
    last: &str,
) -> Result<(), tavola_client::Error> {
    let one = employee(id, last);
    let mut change = table.transaction("Sales");
    change.insert(&one)?;
    names(table, place).add_with(change, last, one.entity_key()?).await.map(drop)
}

async fn rename(table: &TableClient, place: Place, id: u32, last: &str) -> Checked {
    loop {
        let key = Employee::key().dept("Sales").id(id);
        let mut one = table.get(key.clone()).await?.ok_or("nobody")?;
        let old = std::mem::replace(&mut one.last, last.to_owned());
        let mut change = table.transaction("Sales");
        change.replace(&one)?;
        match names(table, place).rename_with(change, old, last, key).await {
            Err(error) if error.is_changed() && error.outcome() == Outcome::NotApplied => {}
            other => return Ok(other.map(drop)?),
        }
    }
}

async fn remove(table: &TableClient, place: Place, id: u32) -> Checked {
    let key = Employee::key().dept("Sales").id(id);
    let one = table.get(key.clone()).await?.ok_or("nobody")?;
    let mut change = table.transaction("Sales");
    change.delete(&one)?;
    names(table, place).remove_with(change, one.last.clone(), key).await?;
    Ok(())
}

async fn seed(sim: Sim) -> Checked {
    sim.table("staff").create().await?;
    Ok(())
}

async fn members(table: &TableClient, place: Place, last: &str) -> Vec<String> {
    let members = names(table, place).members("Sales", last).await.unwrap();
    members.iter().map(|key| key.row().to_owned()).collect()
}

/// The invariant of the guide: a list is the set of the entities with its value.
fn clean(place: Place) -> impl Fn(Sim) -> BoxFuture<'static, Checked> + Send + Sync + Copy {
    move |sim| {
        Box::pin(async move {
            let report = names(&sim.table("staff"), place).verify("Sales").await?;
            if report.is_clean() { Ok(()) } else { Err(format!("{report:?}").into()) }
        })
    }
}

async fn table() -> TableClient {
    let service = TableServiceClient::on(tavola_local::in_memory(), None);
    let table = service.table_client("staff");
    table.create().await.unwrap();
    table
}

/// The gap: a list that is read and written back without its version loses a member.
#[tokio::test]
async fn a_list_under_a_plain_update_loses_a_member() {
    let writer = |id: u32| {
        move |sim: Sim| async move {
            let table = sim.table("staff");
            let key = ("Sales", "lastname_Jones!00");
            let mut list = table.get::<DynEntity>(key).await?.ok_or("no list")?.into_inner();
            let ids = list.get::<String>("m00")?;
            list.set("m00", format!("{ids},{id:06}"));
            let mut both = table.transaction("Sales");
            both.insert(&employee(id, "Jones"))?;
            both.update(&list, Mode::Replace, &IfMatch::Any)?;
            both.commit().await?;
            Ok(())
        }
    };
    let seed_one = |sim: Sim| async move {
        seed(sim.clone()).await?;
        Ok(add(&sim.table("staff"), Place::List, 1, "Jones").await?)
    };
    let race = race(tavola_local::in_memory).seed(seed_one).writer(writer(2)).writer(writer(3));
    let broken = race.finally(clean(Place::List)).run().await.unwrap_err();
    assert!(broken.reason().contains("missing: 1"), "{broken}");
}

/// G114, G130: n writers on one value all succeed, the first makes the list, none is lost, and a
/// reader sees the list right at every moment.
#[tokio::test]
async fn writers_of_one_value_all_succeed() {
    for (place, writers, orders) in
        BOTH.into_iter().flat_map(|place| [(place, 2, 300), (place, 3, 200), (place, 8, 20)])
    {
        let mut all = race(tavola_local::in_memory).seed(seed);
        for id in 1..=writers {
            all = all.writer(move |sim: Sim| async move {
                Ok(add(&sim.table("staff"), place, id, "Jones").await?)
            });
        }
        let finally = move |sim: Sim| async move {
            let found = members(&sim.table("staff"), place, "Jones").await;
            let wanted: Vec<_> = (1..=writers).map(|id| format!("empid_{id:06}")).collect();
            if found == wanted { Ok(()) } else { Err(format!("{found:?}").into()) }
        };
        all.at_most(orders, 20).always(clean(place)).finally(finally).run().await.unwrap();
    }
}

/// G114, G130: additions, renames and the removal of the last member meet.
#[tokio::test]
async fn changes_race() {
    for place in BOTH {
        let seed_two = move |sim: Sim| async move {
            seed(sim.clone()).await?;
            add(&sim.table("staff"), place, 1, "Jones").await?;
            Ok(add(&sim.table("staff"), place, 2, "Smith").await?)
        };
        let first = move |sim: Sim| async move { remove(&sim.table("staff"), place, 1).await };
        let second =
            move |sim: Sim| async move { rename(&sim.table("staff"), place, 2, "Jones").await };
        let third =
            move |sim: Sim| async move { Ok(add(&sim.table("staff"), place, 3, "Smith").await?) };
        let finally = move |sim: Sim| async move {
            let table = sim.table("staff");
            let found =
                [members(&table, place, "Jones").await, members(&table, place, "Smith").await];
            let is_right = found == [["empid_000002"], ["empid_000003"]];
            if is_right { Ok(()) } else { Err(format!("{found:?}").into()) }
        };
        let race = race(tavola_local::in_memory).seed(seed_two).writer(first).writer(second);
        let race = race.writer(third).at_most(150, 50).always(clean(place)).finally(finally);
        race.run().await.unwrap();
    }
}

/// G114, G129: whatever is cut, list and entities agree, and what was acknowledged is there.
#[tokio::test]
async fn every_cut_leaves_lists_right() {
    for (place, requests) in [(Place::List, 11), (Place::Rows, 6)] {
        let scenario = move |sim: Sim| async move {
            let table = sim.table("staff");
            add(&table, place, 1, "Jones").await?;
            sim.note("added");
            add(&table, place, 2, "Jones").await?;
            rename(&table, place, 1, "Smith").await?;
            sim.note("renamed");
            remove(&table, place, 1).await?;
            sim.note("removed");
            Ok(())
        };
        let finally = move |sim: Sim| async move {
            let (table, notes) = (sim.table("staff"), sim.notes());
            let is_noted = |text: &str| notes.iter().any(|note| note == text);
            let jones = members(&table, place, "Jones").await;
            let smith = members(&table, place, "Smith").await;
            let is_right = match (is_noted("removed"), is_noted("renamed"), is_noted("added")) {
                (true, ..) => smith.is_empty() && jones == ["empid_000002"],
                (_, true, _) => jones == ["empid_000002"],
                (.., true) => jones.len() + smith.len() >= 1,
                _ => true,
            };
            if is_right { Ok(()) } else { Err(format!("{jones:?} {smith:?}").into()) }
        };
        let cuts = every_cut(tavola_local::in_memory, scenario).seed(seed);
        let report = cuts.always(clean(place)).finally(finally).run().await.unwrap();
        assert_eq!(report.requests, requests);
    }
}

/// G131: requests of each call.
#[tokio::test]
async fn costs() {
    for (place, change, renamed) in [(Place::List, 2, 3), (Place::Rows, 1, 1)] {
        let counted = counting(tavola_local::in_memory());
        let table = TableServiceClient::on(counted.clone(), None).table_client("staff");
        table.create().await.unwrap();
        let _ = counted.take();
        add(&table, place, 1, "Jones").await.unwrap();
        assert_eq!(counted.take().len(), change);
        add(&table, place, 2, "Jones").await.unwrap();
        let _ = counted.take();
        assert_eq!(members(&table, place, "Jones").await.len(), 2);
        assert_eq!(counted.take().len(), 1);
        let found = names(&table, place).entities("Sales", "Jones").await.unwrap();
        assert_eq!((found.entities.len(), found.requests, counted.take().len()), (2, 3, 3));
        rename(&table, place, 1, "Smith").await.unwrap();
        assert_eq!(counted.take().len(), 1 + renamed);
        remove(&table, place, 1).await.unwrap();
        assert_eq!(counted.take().len(), 1 + change);
        assert!(names(&table, place).verify("Sales").await.unwrap().is_clean());
        assert_eq!(counted.take().len(), 1);
    }
}

/// G114: a set: twice is once, what is not there need not go; the last one takes the list along.
#[tokio::test]
async fn a_list_is_a_set() {
    for place in BOTH {
        let table = table().await;
        let names = names(&table, place);
        let key = || Employee::key().dept("Sales").id(7);
        for _ in 0..2 {
            names.add_with(table.transaction("Sales"), "O'Neil, Jr/x", key()).await.unwrap();
        }
        assert_eq!(members(&table, place, "O'Neil, Jr/x").await, ["empid_000007"]);
        assert!(members(&table, place, "O'Neil").await.is_empty());
        let rows = || async {
            let rows = names.verify("Sales").await.unwrap();
            rows.read
        };
        assert_eq!(rows().await, 1);
        for _ in 0..2 {
            names.remove_with(table.transaction("Sales"), "O'Neil, Jr/x", key()).await.unwrap();
        }
        assert_eq!(rows().await, 0);
        let stranger = Employee::key().dept("Support").id(7);
        let error = names.add_with(table.transaction("Sales"), "x", stranger).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotSent);
    }
    let table = table().await;
    assert!(IndexList::<Employee>::new(&table, "empid_x", |_| None).is_err());
    assert!(IndexList::<Employee>::new(&table, "", |_| None).is_err());
}

/// A refusal of the change itself is told, and nothing is listed.
#[tokio::test]
async fn a_refused_change_lists_nobody() {
    for place in BOTH {
        let table = table().await;
        add(&table, place, 1, "Jones").await.unwrap();
        let error = add(&table, place, 1, "Smith").await.unwrap_err();
        assert!(error.is_conflict() && error.outcome() == Outcome::NotApplied);
        assert!(members(&table, place, "Smith").await.is_empty());
    }
}

/// Ids of entities whose keys are as long as they may be.
fn long_id(id: usize) -> String {
    format!("{id:06}{}", "x".repeat(493))
}

fn long_names(table: &TableClient) -> IndexList<DynEntity> {
    IndexList::new(table, "list_", |one: &DynEntity| one.get("Name").ok()).unwrap()
}

/// G115: at 64 KiB the next property begins, at 1 MiB the next row, and what is removed leaves
/// room.
#[tokio::test]
async fn lists_are_split_at_each_edge() {
    let table = table().await;
    let names = long_names(&table);
    // 65 ids and their commas are 32,499 units, and a 66th would be too many.
    let texts: Vec<String> = (0..15)
        .map(|at| (at * 65..(at + 1) * 65).map(long_id).collect::<Vec<_>>().join(","))
        .collect();
    let mut row = DynEntity::new("Sales", "list_Jones!00");
    for (at, text) in texts.iter().enumerate().take(14) {
        row.set(format!("m{at:02}"), text.as_str());
    }
    table.insert(&row).await.unwrap();
    let stored = |number: usize| {
        let table = table.clone();
        async move {
            let key = ("Sales", format!("list_Jones!{number:02}"));
            table.get::<DynEntity>(key).await.unwrap()
        }
    };
    let add = |id: usize| {
        let change = table.transaction("Sales");
        names.add_with(change, "Jones", ("Sales", long_id(id)))
    };
    for id in 910..975 {
        add(id).await.unwrap();
    }
    let full = stored(0).await.unwrap();
    for (at, text) in texts.iter().enumerate() {
        assert_eq!(full.get::<String>(&format!("m{at:02}")).unwrap(), *text);
    }
    assert!(stored(1).await.is_none());
    add(975).await.unwrap();
    assert_eq!(stored(1).await.unwrap().get::<String>("m00").unwrap(), long_id(975));
    assert_ne!(stored(0).await.unwrap().etag(), full.etag(), "its version is the list's");
    assert_eq!(names.members("Sales", "Jones").await.unwrap().len(), 976);
    let remove = |id: usize| {
        let change = table.transaction("Sales");
        names.remove_with(change, "Jones", ("Sales", long_id(id)))
    };
    remove(975).await.unwrap();
    assert!(stored(1).await.is_none());
    remove(3).await.unwrap();
    add(976).await.unwrap();
    assert!(stored(1).await.is_none());
}

/// G115: a list of many rows is read in several pages, as it was at one moment.
#[tokio::test]
async fn a_list_of_many_pages() {
    let counted = counting(tavola_local::in_memory());
    let table = TableServiceClient::on(counted.clone(), None).table_client("staff");
    table.create().await.unwrap();
    for number in 0..12 {
        let mut row = DynEntity::new("Sales", format!("list_Jones!{number:02}"));
        for at in 0..15 {
            let first = (number * 15 + at) * 65;
            let ids: Vec<_> = (first..first + 65).map(long_id).collect();
            row.set(format!("m{at:02}"), ids.join(","));
        }
        table.insert(&row).await.unwrap();
    }
    let _ = counted.take();
    let members = long_names(&table).members("Sales", "Jones").await.unwrap();
    assert_eq!(members.len(), 12 * 975);
    assert!(members.is_sorted());
    let requests = counted.take();
    assert!(requests.len() > 2, "pages, and a look at the version: {requests:?}");
    // A change reads all rows and writes two.
    let change = table.transaction("Sales");
    let new = long_id(99_999);
    long_names(&table).add_with(change, "Jones", ("Sales", new.as_str())).await.unwrap();
    let last = table.get::<DynEntity>(("Sales", "list_Jones!12")).await.unwrap().unwrap();
    assert_eq!(last.get::<String>("m00").unwrap(), new);
}

/// G117: a member is left out if it changed meanwhile, and drift only if the list still names it.
#[tokio::test]
async fn entities_have_the_value_of_the_list() {
    for place in BOTH {
        let table = table().await;
        for id in [3, 1, 2] {
            add(&table, place, id, "Jones").await.unwrap();
        }
        // Renamed by other means: the list still names it.
        let key = Employee::key().dept("Sales").id(2);
        table.modify(key, |one: &mut Employee| one.last = "Smith".to_owned()).await.unwrap();
        table
            .delete_at::<Employee>(Employee::key().dept("Sales").id(3), IfMatch::Any)
            .await
            .unwrap();
        let found = names(&table, place).entities("Sales", "Jones").await.unwrap();
        assert_eq!(found.entities.iter().map(|one| one.id).collect::<Vec<_>>(), [1]);
        let drift: Vec<_> = found.drift.iter().map(|key| key.row()).collect();
        assert_eq!(drift, ["empid_000002", "empid_000003"]);
    }
}

/// G117, G130: beside writers that keep the rules a reader never sees drift nor a wrong value.
#[tokio::test]
async fn readers_race_with_changes() {
    for place in BOTH {
        let seed_two = move |sim: Sim| async move {
            seed(sim.clone()).await?;
            add(&sim.table("staff"), place, 1, "Jones").await?;
            Ok(add(&sim.table("staff"), place, 2, "Jones").await?)
        };
        let reader = move |sim: Sim| async move {
            let found = names(&sim.table("staff"), place).parallel(1);
            let found = found.entities("Sales", "Jones").await?;
            assert!(found.drift.is_empty(), "{:?}", found.drift);
            assert!(found.entities.iter().all(|one| one.last == "Jones"));
            Ok(())
        };
        let writer = move |sim: Sim| async move {
            rename(&sim.table("staff"), place, 1, "Smith").await?;
            rename(&sim.table("staff"), place, 1, "Jones").await?;
            remove(&sim.table("staff"), place, 2).await
        };
        let race = race(tavola_local::in_memory).seed(seed_two).writer(reader).writer(writer);
        race.at_most(400, 100).finally(clean(place)).run().await.unwrap();
    }
}

/// A store that notes how many requests it has at a time.
#[derive(Debug)]
struct Gauge {
    inner: Arc<LocalStore>,
    now: AtomicUsize,
    most: AtomicUsize,
}

impl TableStore for Gauge {
    fn execute(&self, request: Request) -> BoxFuture<'_, Result<Reply, Failure>> {
        Box::pin(async move {
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            let reply = self.inner.execute(request).await;
            self.now.fetch_sub(1, Ordering::SeqCst);
            reply
        })
    }

    fn traits(&self) -> StoreTraits {
        self.inner.traits()
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        self.inner.runtime()
    }
}

/// G117: details are read in parallel, no more than allowed, and come in the order of the keys.
#[tokio::test]
async fn details_are_read_in_parallel() {
    let (inner, zero) = (tavola_local::in_memory(), AtomicUsize::default);
    let gauge = Arc::new(Gauge { inner, now: zero(), most: zero() });
    let table = TableServiceClient::on(gauge.clone(), None).table_client("staff");
    table.create().await.unwrap();
    for id in (1..=20).rev() {
        add(&table, Place::List, id, "Jones").await.unwrap();
    }
    assert_eq!(gauge.most.swap(0, Ordering::SeqCst), 1);
    let names = names(&table, Place::List).parallel(4);
    let found = names.entities("Sales", "Jones").await.unwrap();
    assert_eq!(found.entities.iter().map(|one| one.id).collect::<Vec<_>>(), Vec::from_iter(1..=20));
    assert_eq!(gauge.most.load(Ordering::SeqCst), 4);
}

/// Three entities: one that its list does not name, one under its old name, one that is gone.
async fn seed_drift(sim: Sim, place: Place) -> Checked {
    seed(sim.clone()).await?;
    let table = sim.table("staff");
    table.insert(&employee(1, "Jones")).await?;
    add(&table, place, 2, "Jones").await?;
    add(&table, place, 3, "Smith").await?;
    let key = Employee::key().dept("Sales").id(2);
    table.modify(key, |one: &mut Employee| one.last = "Smith".to_owned()).await?;
    table.delete_at::<Employee>(Employee::key().dept("Sales").id(3), IfMatch::Any).await?;
    Ok(())
}

/// G113: all of it is found and mended, and the second time there is nothing to do.
#[tokio::test]
async fn a_rebuild_mends_all_of_it() {
    for place in BOTH {
        let scenario = move |sim: Sim| async move {
            let names = names(&sim.table("staff"), place);
            let found = names.verify("Sales").await?;
            assert_eq!((found.missing, found.orphan, found.mended), (2, 2, 0));
            let mended = names.rebuild("Sales").await?;
            assert_eq!((mended.missing, mended.orphan, mended.mended), (2, 2, 4));
            let again = names.rebuild("Sales").await?;
            assert!(again.is_clean() && again.requests == 1);
            Ok(())
        };
        let alone = race(tavola_local::in_memory).seed(move |sim| seed_drift(sim, place));
        alone.writer(scenario).finally(clean(place)).run().await.unwrap();
    }
}

/// G113, G129, G130: a rebuild that is cut is ended by the next; beside writers all succeed.
#[tokio::test]
async fn a_rebuild_is_cut_and_races() {
    for place in BOTH {
        let rebuild = move |sim: Sim| async move {
            names(&sim.table("staff"), place).rebuild("Sales").await?;
            Ok(())
        };
        let seed_drift = move |sim: Sim| seed_drift(sim, place);
        let cuts = every_cut(tavola_local::in_memory, rebuild).seed(seed_drift).recover(rebuild);
        cuts.finally(clean(place)).run().await.unwrap();

        let change = move |sim: Sim| async move {
            let table = sim.table("staff");
            // The key of the entity that is gone is used again.
            add(&table, place, 3, "Smith").await?;
            rename(&table, place, 1, "Brown").await
        };
        let race = race(tavola_local::in_memory).seed(seed_drift).writer(rebuild).writer(change);
        let race = race.at_most(300, 100).finally(move |sim: Sim| async move {
            let table = sim.table("staff");
            let found = members(&table, place, "Smith").await;
            if found != ["empid_000002", "empid_000003"] {
                return Err(format!("{found:?}").into());
            }
            names(&table, place).rebuild("Sales").await?;
            clean(place)(sim).await
        });
        race.run().await.unwrap();
    }
}
