//! Lists in a partition of their own: G116 (the variant with a blob waits for the blob service),
//! G113, and what every pattern must show: G129 cuts, G130 races, G131 costs.

use tavola_client::patterns::{IndexListElsewhere, Outbox};
use tavola_client::testing::{Checked, Sim, counting, every_cut, race};
use tavola_client::{Entity, IfMatch, TableClient, TableServiceClient};

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

async fn seed(sim: Sim) -> Checked {
    sim.table("staff").create().await?;
    Ok(())
}

fn organisation(table: &TableClient) -> IndexListElsewhere<Employee> {
    let outbox = Outbox::new(table);
    IndexListElsewhere::new(&outbox, table, "lastname", |one: &Employee| Some(one.last.clone()))
}

async fn add(sim: &Sim, id: u32, last: &str) -> Result<(), tavola_client::Error> {
    let (table, one) = (sim.table("staff"), employee(id, last));
    let mut change = table.transaction("Sales");
    change.insert(&one)?;
    organisation(&table).add_with(change, last, one.entity_key()?).await.map(drop)
}

async fn rename(sim: &Sim, id: u32, last: &str) -> Checked {
    let table = sim.table("staff");
    let key = Employee::key().dept("Sales").id(id);
    let mut one = table.get(key.clone()).await?.ok_or("nobody")?;
    let old = std::mem::replace(&mut one.last, last.to_owned());
    let mut change = table.transaction("Sales");
    change.replace(&one)?;
    organisation(&table).rename_with(change, old, last, key).await?;
    Ok(())
}

async fn work(sim: Sim) -> Checked {
    let table = sim.table("staff");
    Outbox::new(&table).worker().step(organisation(&table).step()).drain().await?;
    Ok(())
}

/// What readers may see: fewer than there are, and never one with another value.
async fn no_false_hits(sim: Sim) -> Checked {
    for last in ["Jones", "Smith"] {
        let found = organisation(&sim.table("staff")).entities(last).await?;
        if !found.entities.iter().all(|one| one.last == last) {
            return Err(format!("{:?} in the list of {last}", found.entities).into());
        }
    }
    Ok(())
}

async fn is_settled(sim: Sim) -> Checked {
    work(sim.clone()).await?;
    let report = organisation(&sim.table("staff")).verify("Sales").await?;
    if report.is_clean() { Ok(()) } else { Err(format!("{report:?}").into()) }
}

/// G116, G129: lists in another partition: whatever is cut of writer or worker, a reader sees no
/// wrong entity, and once the outbox is empty the lists are right.
#[tokio::test]
async fn every_cut_ends_right() {
    let scenario = |sim: Sim| async move {
        add(&sim, 1, "Jones").await?;
        rename(&sim, 1, "Smith").await?;
        work(sim).await
    };
    let cuts = every_cut(tavola_local::in_memory, scenario).seed(seed).recover(work);
    cuts.always(no_false_hits).finally(is_settled).run().await.unwrap();
}

/// G116, G130: two writers and two workers.
#[tokio::test]
async fn writers_and_workers_race() {
    let seed_one = |sim: Sim| async move {
        seed(sim.clone()).await?;
        Ok(add(&sim, 1, "Jones").await?)
    };
    let change = |sim: Sim| async move { rename(&sim, 1, "Smith").await };
    let insert = |sim: Sim| async move { Ok(add(&sim, 2, "Jones").await?) };
    let race = race(tavola_local::in_memory).seed(seed_one).writer(change).writer(insert);
    let race = race.writer(work).writer(work).at_most(60, 60).always(no_false_hits);
    race.finally(is_settled).run().await.unwrap();
}

/// G116, G113, G131: over all departments; requests; what others broke is mended.
#[tokio::test]
async fn costs_and_rebuild() {
    let counted = counting(tavola_local::in_memory());
    let table = TableServiceClient::on(counted.clone(), None).table_client("staff");
    table.create().await.unwrap();
    let names = organisation(&table);
    for (dept, requests) in [("Sales", 2), ("Support", 2), ("Sales", 1)] {
        let id = if requests == 1 { 7 } else { 104 };
        let one = Employee { dept: dept.to_owned(), ..employee(id, "Jones") };
        let mut change = table.transaction(one.dept.as_str());
        change.insert(&one).unwrap();
        let _ = counted.take();
        names.add_with(change, "Jones", one.entity_key().unwrap()).await.unwrap();
        // The first in a partition and minute writes a hint.
        assert_eq!(counted.take().len(), requests);
    }
    Outbox::new(&table).worker().step(names.step()).drain().await.unwrap();
    let _ = counted.take();
    let members = names.members("Jones").await.unwrap();
    let members: Vec<_> = members.iter().map(|key| (key.partition(), key.row())).collect();
    let wanted =
        [("Sales", "empid_000007"), ("Sales", "empid_000104"), ("Support", "empid_000104")];
    assert_eq!((members.as_slice(), counted.take().len()), (&wanted[..], 1));
    let found = names.entities("Jones").await.unwrap();
    assert_eq!((found.entities.len(), found.requests, counted.take().len()), (3, 4, 4));

    table.insert(&employee(8, "Smith")).await.unwrap();
    table.delete_at::<Employee>(Employee::key().dept("Sales").id(7), IfMatch::Any).await.unwrap();
    let found = names.verify("Sales").await.unwrap();
    assert_eq!((found.missing, found.orphan, found.mended), (1, 1, 0));
    let mended = names.rebuild("Sales").await.unwrap();
    assert_eq!((mended.missing, mended.orphan, mended.mended), (1, 1, 2));
    assert!(names.verify("Sales").await.unwrap().is_clean());
    assert!(names.verify("Support").await.unwrap().is_clean());
}
