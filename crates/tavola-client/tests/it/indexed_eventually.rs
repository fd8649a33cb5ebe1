//! Indexes in other partitions: G110 the outbox, G111 no false hit, G112 workers without an order, G113
//! verify and rebuild; and what every pattern must show: G129 cuts, G130 races, G131 costs.

use std::time::Duration;

use tavola_client::patterns::{IndexedEventually, Outbox, Worker};
use tavola_client::testing::{Checked, Sim, counting, every_cut, race};
use tavola_client::{DynEntity, Entity, IfMatch, Mode, Outcome, TableClient, TableServiceClient};

use crate::common::stall_everywhere;

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(kind = "employee", partition = "{dept}", row = "empid_{id:06}")]
#[entity(index(last, partition = "last_{dept}!{last}", row = "{id:06}", copy(email)))]
#[entity(index(email, row = "email_{email:lower}", unique))]
struct Employee {
    dept: String,
    id: u32,
    last: String,
    email: String,
}

fn employee(id: u32, last: &str) -> Employee {
    let (dept, email) = ("Sales".to_owned(), format!("{id}@x.org"));
    Employee { dept, id, last: last.to_owned(), email }
}

fn staff(sim: &Sim) -> IndexedEventually<Employee> {
    let table = sim.table("staff");
    table.indexed_eventually(&Outbox::new(&table))
}

fn worker(table: &TableClient) -> Worker {
    let outbox = Outbox::new(table);
    outbox.worker().step(table.indexed_eventually::<Employee>(&outbox))
}

async fn drain(sim: Sim) -> Checked {
    worker(&sim.table("staff")).drain().await?;
    Ok(())
}

async fn seed(sim: Sim) -> Checked {
    sim.table("staff").create().await?;
    Ok(())
}

async fn seed_one(sim: Sim) -> Checked {
    seed(sim.clone()).await?;
    staff(&sim).insert(&employee(1, "Jones")).await?;
    drain(sim).await
}

async fn rename(sim: &Sim, id: u32, last: &'static str) -> Checked {
    let key = Employee::key().dept("Sales").id(id);
    staff(sim).modify(key, |one| one.last = last.to_owned()).await?;
    Ok(())
}

/// G111: whatever the index says, who is returned has the value.
async fn no_false_hit(sim: Sim) -> Checked {
    for last in ["Jones", "Smith", "Brown"] {
        let keys = || Employee::by_last().dept("Sales").last(last);
        let found = staff(&sim).range(keys()).checked().await?;
        if let Some(other) = found.iter().find(|one| one.last != last) {
            return Err(format!("{other:?} is found as {last}").into());
        }
        if let Some(one) = staff(&sim).find(keys().id(1)).await?
            && one.last != last
        {
            return Err(format!("{one:?} is found as {last}").into());
        }
    }
    Ok(())
}

/// Once quiet: each entity is found, and there is no other row.
async fn is_clean(sim: Sim) -> Checked {
    drain(sim.clone()).await?;
    let report = staff(&sim).verify().await?;
    if !report.is_clean() {
        return Err(format!("{report:?}").into());
    }
    let near = staff(&sim).verify_partition("Sales").await?;
    if near.is_clean() { Ok(()) } else { Err(format!("{near:?}").into()) }
}

/// The gap of the guide: *write the wanted row, delete the old one*, without versions and without
/// looking again, deletes the row of an entity that got its value back.
#[tokio::test]
async fn by_the_steps_of_the_guide_an_entity_is_lost() {
    let change = |last: &'static str| {
        move |sim: Sim| async move {
            let table = sim.table("staff");
            let key = || Employee::key().dept("Sales").id(1);
            let mut old = None;
            let set = |one: &mut Employee| {
                old = Some(std::mem::replace(&mut one.last, last.to_owned()));
            };
            table.modify(key(), set).await?;
            let old = old.ok_or("not called")?;
            // The worker of this change.
            let base = table.get(key()).await?.ok_or("no base")?;
            let row = |last: &str| Employee::by_last().dept("Sales").last(last).id(1).into_key();
            let wanted = row(&base.last)?;
            let mut copy = DynEntity::new(wanted.partition(), wanted.row());
            copy.set("tv_base", "empid_000001");
            copy.set("tv_base_pk", "Sales");
            copy.set("email", base.email.as_str());
            table.upsert(&copy, Mode::Replace).await?;
            if old != base.last {
                table.delete_if_exists::<DynEntity>(row(&old)?).await?;
            }
            Ok(())
        }
    };
    let new = || race(tavola_local::in_memory).seed(seed_one).at_most(3000, 0);
    let guide = new().writer(change("Smith")).writer(change("Jones")).finally(is_clean);
    let broken = guide.run().await.unwrap_err();
    assert!(broken.reason().contains("missing: 1"), "{broken}");
}

/// G110, G129: each request of each write cut in each way, and then a worker.
#[tokio::test]
async fn every_cut_of_the_writer_is_indexed_in_the_end() {
    let scenario = |sim: Sim| async move {
        staff(&sim).insert(&employee(2, "Brown")).await?;
        rename(&sim, 1, "Smith").await?;
        let bob = Employee::key().dept("Sales").id(2);
        let bob = sim.table("staff").get(bob).await?.ok_or("no bob")?;
        staff(&sim).delete(&bob).await.map_err(|error| {
            assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
            error
        })?;
        Ok(())
    };
    let cuts = every_cut(tavola_local::in_memory, scenario).seed(seed_one).recover(drain);
    let report = cuts.always(no_false_hit).finally(is_clean).run().await.unwrap();
    // Each handle hints once.
    assert_eq!(report.requests, 2 + 3 + 1 + 2);
}

/// G112, G129: a worker is cut anywhere, and the next one as well.
#[tokio::test]
async fn every_cut_of_the_worker_is_made_good() {
    let seed_change = |sim: Sim| async move {
        seed_one(sim.clone()).await?;
        rename(&sim, 1, "Smith").await
    };
    let cuts = every_cut(tavola_local::in_memory, drain).seed(seed_change).recover(drain);
    cuts.finally(is_clean).depth(2).run().await.unwrap();
    let seed_delete = |sim: Sim| async move {
        seed_one(sim.clone()).await?;
        let ann = sim.table("staff").get(Employee::key().dept("Sales").id(1)).await?;
        staff(&sim).delete(&ann.ok_or("no ann")?).await?;
        Ok(())
    };
    let cuts = every_cut(tavola_local::in_memory, drain).seed(seed_delete).recover(drain);
    cuts.always(no_false_hit).finally(is_clean).run().await.unwrap();
}

/// G112, G130: changes there and back, two workers that are stalled anywhere, in any order.
#[tokio::test]
async fn changes_and_workers_race() {
    let change = |last: &'static str| move |sim: Sim| async move { rename(&sim, 1, last).await };
    let seed_changed = |sim: Sim| async move {
        seed_one(sim.clone()).await?;
        rename(&sim, 1, "Smith").await
    };
    let race = || race(tavola_local::in_memory).seed(seed_changed);
    let two = race().writer(drain).writer(drain).writer(change("Jones")).at_most(80, 100);
    two.always(no_false_hit).finally(is_clean).run().await.unwrap();

    let mut many = race().at_most(10, 30);
    for last in ["Jones", "Brown", "Smith", "Jones", "Brown", "Smith"] {
        many = many.writer(change(last));
    }
    many.writer(drain).writer(drain).finally(is_clean).run().await.unwrap();
}

/// How long the work is a worker's alone, where it stalls.
const LEASE: Duration = Duration::from_millis(20);

/// G112: a worker stalls before any of its requests for longer than its lease; meanwhile the value
/// changes, and another worker does all of the work.
#[tokio::test]
async fn a_worker_that_stalls_anywhere_leaves_nothing_wrong() {
    let of = |service: &TableServiceClient| {
        let table = service.table_client("staff");
        let outbox = Outbox::new(&table);
        let staff = table.indexed_eventually::<Employee>(&outbox);
        (staff.clone(), outbox.worker().step(staff).lease(LEASE))
    };
    let ann = || Employee::key().dept("Sales").id(1);
    let seed = async |service: &TableServiceClient| {
        service.table_client("staff").create().await.unwrap();
        let (staff, worker) = of(service);
        staff.insert(&employee(1, "Jones")).await.unwrap();
        worker.drain().await.unwrap();
        staff.modify(ann(), |one| one.last = "Smith".to_owned()).await.unwrap();
    };
    let work = |service: TableServiceClient| async move {
        of(&service).1.drain().await.unwrap();
    };
    for last in ["Jones", "Brown"] {
        let meanwhile = async |service: &TableServiceClient| {
            let (staff, worker) = of(service);
            staff.modify(ann(), |one| one.last = last.to_owned()).await.unwrap();
            tokio::time::sleep(LEASE * 2).await;
            worker.drain().await.unwrap();
        };
        let check = async |service: &TableServiceClient, at: usize| {
            let report = of(service).0.verify().await.unwrap();
            assert!(report.is_clean(), "stalled at {at}: {report:?}");
        };
        let requests = stall_everywhere(seed, work, meanwhile, check).await;
        assert!(requests >= 2 + 7, "{requests}");
    }
}

/// G112, G130: deleted and created again while workers still have the work of the first life.
#[tokio::test]
async fn an_entity_that_is_created_again_is_found() {
    let create_again = |last: &'static str| {
        move |sim: Sim| async move {
            let ann = sim.table("staff").get(Employee::key().dept("Sales").id(1)).await?;
            staff(&sim).delete(&ann.ok_or("no ann")?).await?;
            staff(&sim).insert(&employee(1, last)).await?;
            Ok(())
        }
    };
    // The first life has counted to three.
    let seed_changed = |sim: Sim| async move {
        seed_one(sim.clone()).await?;
        rename(&sim, 1, "Smith").await?;
        rename(&sim, 1, "Jones").await
    };
    for last in ["Jones", "Brown"] {
        let race = race(tavola_local::in_memory).seed(seed_changed).writer(create_again(last));
        let race = race.writer(drain).writer(drain).at_most(40, 60);
        race.always(no_false_hit).finally(is_clean).run().await.unwrap();
    }
}

async fn table() -> (TableClient, IndexedEventually<Employee>) {
    let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client("staff");
    table.create().await.unwrap();
    let staff = table.indexed_eventually(&Outbox::new(&table));
    (table, staff)
}

fn ann(last: &str) -> tavola_client::PointKey<tavola_client::key::IndexOf<Employee>> {
    Employee::by_last().dept("Sales").last(last).id(1)
}

/// G111, G113: an orphan is not believed, is counted, and is removed; what is missing comes back.
#[tokio::test]
async fn drift_is_not_believed_and_is_mended() {
    let (table, staff) = table().await;
    for id in 1..=3 {
        staff.insert(&employee(id, "Jones")).await.unwrap();
    }
    assert!(staff.find(ann("Jones")).await.unwrap().is_none(), "not yet");
    assert_eq!(staff.verify().await.unwrap().missing, 3, "what waits counts");
    worker(&table).drain().await.unwrap();
    assert_eq!(staff.find(ann("Jones")).await.unwrap().unwrap().id, 1);
    assert!(staff.verify().await.unwrap().is_clean());
    assert_eq!(staff.false_hits(), 0);

    // One by other means than this pattern; a row is deleted; a row of nobody.
    let key = Employee::key().dept("Sales").id(1);
    table.modify(key, |one: &mut Employee| one.last = "Smith".to_owned()).await.unwrap();
    let second = Employee::by_last().dept("Sales").last("Jones").id(2).into_key().unwrap();
    table.delete_at::<DynEntity>(&second, IfMatch::Any).await.unwrap();
    let key = Employee::key().dept("Sales").id(3);
    table.modify(key, |one: &mut Employee| one.email = "new".to_owned()).await.unwrap();
    assert!(staff.find(ann("Jones")).await.unwrap().is_none());
    assert_eq!(staff.false_hits(), 1);
    let stale = staff.row(ann("Jones")).await.unwrap().unwrap();
    assert_eq!(stale.base().row(), "empid_000001");
    let jones = || Employee::by_last().dept("Sales").last("Jones");
    assert_eq!(staff.range(jones()).checked().await.unwrap().len(), 1);
    assert_eq!((staff.range(jones()).stale().await.unwrap().len(), staff.false_hits()), (2, 2));

    let found = staff.verify().await.unwrap();
    let counts = (found.missing, found.orphan, found.stale, found.mended);
    assert_eq!(counts, (2, 1, 1, 0));
    let mended = staff.rebuild().await.unwrap();
    let counts = (mended.missing, mended.orphan, mended.stale, mended.mended);
    assert_eq!(counts, (2, 1, 1, 4));
    assert!(staff.rebuild().await.unwrap().is_clean());
    assert_eq!(staff.find(ann("Smith")).await.unwrap().unwrap().id, 1);
}

/// Three entities, and drift of each kind.
async fn seed_drift(sim: Sim) -> Checked {
    seed(sim.clone()).await?;
    for id in 1..=2 {
        staff(&sim).insert(&employee(id, "Jones")).await?;
    }
    drain(sim.clone()).await?;
    let table = sim.table("staff");
    let key = Employee::key().dept("Sales").id(1);
    table.modify(key, |one: &mut Employee| one.last = "Smith".to_owned()).await?;
    let second = Employee::by_last().dept("Sales").last("Jones").id(2).into_key()?;
    table.delete_at::<DynEntity>(&second, IfMatch::Any).await?;
    Ok(())
}

async fn rebuild(sim: Sim) -> Checked {
    staff(&sim).rebuild().await?;
    Ok(())
}

/// G113, G129, G130: a rebuild that is cut is ended by the next one; beside writers and workers all
/// succeed.
#[tokio::test]
async fn a_rebuild_is_cut_and_races() {
    let cuts = every_cut(tavola_local::in_memory, rebuild).seed(seed_drift).recover(rebuild);
    cuts.always(no_false_hit).finally(is_clean).run().await.unwrap();

    let change = |sim: Sim| async move { rename(&sim, 1, "Brown").await };
    let race = race(tavola_local::in_memory).seed(seed_drift).writer(rebuild).writer(change);
    let race = race.writer(drain).at_most(60, 80);
    let finally = |sim: Sim| async move {
        drain(sim.clone()).await?;
        rebuild(sim.clone()).await?;
        is_clean(sim).await
    };
    race.always(no_false_hit).finally(finally).run().await.unwrap();
}

/// G113: a rebuild is resumed where it ended, by a token that was kept as a text.
#[tokio::test]
async fn a_rebuild_is_resumed() {
    let (table, staff) = table().await;
    let all: Vec<_> = (0..1100).map(|id| employee(id, "Jones")).collect();
    table.bulk().insert_all(all).await.unwrap();
    let (first, mut token) = staff.rebuild_from(None).await.unwrap();
    assert_eq!((first.missing, token.is_some()), (1000, true));
    let (mut missing, mut parts) = (first.missing, 1);
    while let Some(kept) = token.map(|token| token.to_string()) {
        let part;
        (part, token) = staff.rebuild_from(Some(kept.parse().unwrap())).await.unwrap();
        missing += part.missing;
        parts += 1;
    }
    // The rest of the scan meets the new rows.
    assert_eq!((missing, parts), (1100, 3));
    let jones = staff.range(Employee::by_last().dept("Sales").last("Jones"));
    assert_eq!(jones.stale().await.unwrap().len(), 1100);
}

/// G131: requests of each call, and of the worker for each.
#[tokio::test]
async fn costs() {
    let counted = counting(tavola_local::in_memory());
    let table = TableServiceClient::on(counted.clone(), None).table_client("staff");
    table.create().await.unwrap();
    let outbox = Outbox::new(&table);
    let staff = table.indexed_eventually::<Employee>(&outbox);
    let work = outbox.worker().step(staff.clone());
    let cost = || counted.take().len();
    let _ = cost();
    staff.insert(&employee(1, "Jones")).await.unwrap();
    assert_eq!(cost(), 1 + 1, "the transaction, and the hint");
    assert_eq!(work.run_once().await.unwrap().done, 1);
    assert_eq!(cost(), 2 + 5, "to look; claim, entity, insert, entity, delete the work");
    let mut found = staff.find(ann("Jones")).await.unwrap().unwrap();
    assert_eq!(cost(), 2);
    found.last = "Smith".to_owned();
    staff.replace(&mut found).await.unwrap();
    assert!(cost() <= 2, "a hint if a minute began");
    assert_eq!(work.run_once().await.unwrap().done, 1);
    assert_eq!(cost() - looks(&work, &counted).await, 7, "and get and delete the old row");
    found.email = "ann@x.org".to_owned();
    staff.replace(&mut found).await.unwrap();
    let _ = cost();
    assert_eq!(work.run_once().await.unwrap().done, 1);
    assert_eq!(cost() - looks(&work, &counted).await, 6, "get and replace the row");
    assert_eq!(
        staff.row(ann("Smith")).await.unwrap().unwrap().get::<String>("email").unwrap(),
        "ann@x.org"
    );
    let _ = cost();
    staff.delete(&found).await.unwrap();
    assert!(cost() <= 2);
    assert_eq!(work.run_once().await.unwrap().done, 1);
    assert_eq!(cost() - looks(&work, &counted).await, 7, "the entity is looked at once more");
    assert!(staff.row(ann("Smith")).await.unwrap().is_none());
}

/// The requests of a look that finds nothing.
async fn looks(work: &Worker, counted: &tavola_client::testing::Counted) -> usize {
    work.run_once().await.unwrap();
    counted.take().len()
}

/// An index whose key does not name the entity, and without copies.
#[derive(Entity, Debug, Clone)]
#[entity(partition = "{dept}", row = "{id:06}")]
#[entity(index(phone, partition = "phone_{phone}", row = "0", unique))]
struct Desk {
    dept: String,
    id: u32,
    phone: Option<String>,
    floor: i32,
}

/// G112, G113: a row is deleted only if it belongs to the entity. Of two with one row the first is
/// found; a rebuild gives the row to the other one, once it is free.
#[tokio::test]
async fn a_row_of_another_entity_is_left_alone() {
    let (table, _) = table().await;
    let outbox = Outbox::new(&table);
    let desks = table.indexed_eventually::<Desk>(&outbox);
    let work = outbox.worker().step(desks.clone());
    let find = || desks.find(Desk::by_phone().phone("7"));
    let desk = |id| {
        let phone = Some("7".to_owned());
        Desk { dept: "Sales".to_owned(), id, phone, floor: 1 }
    };
    desks.insert(&desk(1)).await.unwrap();
    desks.insert(&desk(2)).await.unwrap();
    work.drain().await.unwrap();
    assert_eq!(find().await.unwrap().unwrap().id, 1);
    assert_eq!(desks.verify().await.unwrap().duplicate, 1);
    desks.modify(("Sales", "000002"), |two| two.phone = None).await.unwrap();
    work.drain().await.unwrap();
    assert_eq!(find().await.unwrap().unwrap().id, 1);
    assert!(desks.verify().await.unwrap().is_clean());

    // The number changes hands, and the work of the first comes late.
    desks.modify(("Sales", "000001"), |one| one.phone = None).await.unwrap();
    desks.modify(("Sales", "000002"), |two| two.phone = Some("7".to_owned())).await.unwrap();
    work.drain().await.unwrap();
    let found = find().await.unwrap();
    assert_eq!(found.map(|two| two.id), Some(2));
    assert!(desks.verify().await.unwrap().is_clean());

    // Without copies a change of another property is no work.
    desks.modify(("Sales", "000002"), |two| two.floor = 9).await.unwrap();
    assert_eq!(outbox.status().await.unwrap().waiting, 0);

    // A row that is no index row is not touched: the work is parked.
    table.insert(&DynEntity::new("phone_8", "0")).await.unwrap();
    desks.modify(("Sales", "000002"), |two| two.phone = Some("8".to_owned())).await.unwrap();
    let report = outbox.worker().step(desks.clone()).poison_after(1).drain().await.unwrap();
    assert_eq!(report.poisoned, 1);
    let error = outbox.poisoned().await.unwrap()[0].error.clone().unwrap();
    assert!(error.contains("holds a row that is none"), "{error}");
}
