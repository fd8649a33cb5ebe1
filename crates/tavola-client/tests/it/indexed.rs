//! Indexes in the entity's partition: G106 to G109, G113, and what every pattern must show: G129
//! cuts, G130 races, G131 costs.

use tavola_client::patterns::Indexed;
use tavola_client::testing::{Checked, Sim, counting, every_cut, race};
use tavola_client::{
    DynEntity, Entity, ErrorKind, IfMatch, Mode, Outcome, TableClient, TableServiceClient,
};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(kind = "employee", partition = "{dept}", row = "empid_{id:06}")]
#[entity(index(email, row = "email_{email:lower}", unique, copy(last)))]
#[entity(index(badge, row = "badge_{badge}!{id:06}", full))]
struct Employee {
    dept: String,
    id: u32,
    last: String,
    email: String,
    badge: Option<String>,
}

fn employee(id: u32, email: &str) -> Employee {
    Employee {
        dept: "Sales".to_owned(),
        id,
        last: "Jones".to_owned(),
        email: email.to_owned(),
        badge: Some(format!("B{id}")),
    }
}

fn staff(sim: &Sim) -> Indexed<Employee> {
    sim.table("staff").indexed()
}

async fn seed(sim: Sim) -> Checked {
    sim.table("staff").create().await?;
    Ok(())
}

async fn seed_one(sim: Sim) -> Checked {
    seed(sim.clone()).await?;
    staff(&sim).insert(&employee(1, "ann@x.org")).await?;
    Ok(())
}

/// The invariant of the guide: each entity with a value has exactly one row, each row its entity.
async fn is_clean(sim: Sim) -> Checked {
    let report = staff(&sim).verify("Sales").await?;
    if report.is_clean() { Ok(()) } else { Err(format!("{report:?}").into()) }
}

async fn get(table: &TableClient, id: u32) -> tavola_client::Stored<Employee> {
    table.get(Employee::key().dept("Sales").id(id)).await.unwrap().unwrap()
}

async fn table() -> (TableClient, Indexed<Employee>) {
    let service = TableServiceClient::on(tavola_local::in_memory(), None);
    let table = service.table_client("staff");
    table.create().await.unwrap();
    let staff = table.indexed();
    (table, staff)
}

/// The gap of the guide: a full or partial copy that is *written* takes the address of somebody else
/// without a word.
#[tokio::test]
async fn a_copy_by_upsert_steals_the_value_of_another() {
    let writer = |id: u32| {
        move |sim: Sim| async move {
            let table = sim.table("staff");
            let mut both = table.transaction("Sales");
            let mut copy = DynEntity::new("Sales", "email_ann@x.org");
            copy.set("tv_base", format!("empid_{id:06}"));
            copy.set("last", "Jones");
            let ann = Employee { badge: None, ..employee(id, "ann@x.org") };
            both.insert(&ann)?.upsert(&copy, Mode::Replace)?;
            both.commit().await?;
            Ok(())
        }
    };
    let race = race(tavola_local::in_memory).seed(seed).writer(writer(1)).writer(writer(2));
    let broken = race.finally(is_clean).run().await.unwrap_err();
    assert!(broken.reason().contains("duplicate: 1"), "{broken}");
}

/// G108, G130: of two who want one value one gets it, and the other is told who.
#[tokio::test]
async fn one_of_two_gets_a_unique_value() {
    let writer = |id: u32| {
        move |sim: Sim| async move {
            match staff(&sim).insert(&employee(id, "ann@x.org")).await {
                Ok(_) => sim.note("won"),
                Err(error) => match error.kind() {
                    ErrorKind::Duplicate { index: "email", holder, .. } if error.is_conflict() => {
                        sim.note(format!("lost to {}", holder.row()));
                    }
                    _ => return Err(error.into()),
                },
            }
            Ok(())
        }
    };
    let finally = |sim: Sim| async move {
        let mut notes = sim.notes();
        notes.sort();
        match (notes[0].as_str(), notes[1].as_str()) {
            ("lost to empid_000001" | "lost to empid_000002", "won") => Ok(()),
            _ => Err(format!("{notes:?}").into()),
        }
    };
    let race = race(tavola_local::in_memory).seed(seed).writer(writer(1)).writer(writer(2));
    let report = race.always(is_clean).finally(finally).run().await.unwrap();
    assert!(report.is_exhaustive);
}

/// G130, G107: changes of one entity meet, a value changes hands, and a rebuild runs beside them.
#[tokio::test]
async fn changes_race() {
    let rename = |sim: Sim| async move {
        let key = Employee::key().dept("Sales").id(1);
        staff(&sim).modify(key, |ann| ann.last = "Smith".to_owned()).await?;
        Ok(())
    };
    let readdress = |sim: Sim| async move {
        let key = Employee::key().dept("Sales").id(1);
        staff(&sim).modify(key, |ann| ann.email = "ann@y.org".to_owned()).await?;
        Ok(())
    };
    let take = |sim: Sim| async move {
        match staff(&sim).insert(&employee(2, "ann@x.org")).await {
            Err(error) if !matches!(error.kind(), ErrorKind::Duplicate { .. }) => Err(error.into()),
            _ => Ok(()),
        }
    };
    let rebuild = |sim: Sim| async move {
        staff(&sim).rebuild("Sales").await?;
        Ok(())
    };
    let finally = |sim: Sim| async move {
        let ann = get(&sim.table("staff"), 1).await;
        let is_both = ann.last == "Smith" && ann.email == "ann@y.org";
        if is_both { Ok(()) } else { Err(format!("{ann:?}").into()) }
    };
    let race = race(tavola_local::in_memory).seed(seed_one).writer(rename).writer(readdress);
    let race = race.writer(take).writer(rebuild).at_most(300, 100);
    race.always(is_clean).finally(finally).run().await.unwrap();
}

/// G129, G106, G107: each request of each operation cut in each way. By its id a write knows what
/// became of it; a delete that finds nothing does not.
#[tokio::test]
async fn every_cut_leaves_entity_and_rows_together() {
    let scenario = |sim: Sim| async move {
        let staff = staff(&sim);
        staff.insert(&employee(2, "bob@x.org")).await?;
        let find = Employee::by_email().dept("Sales").email("ann@x.org");
        let mut ann = staff.find(find).await?.ok_or("ann is not found")?;
        ann.email = "ann@y.org".to_owned();
        staff.replace(&mut ann).await?;
        ann.badge = None;
        staff.replace(&mut ann).await?;
        let bob = Employee::key().dept("Sales").id(2);
        let bob = staff.modify(bob, |bob| bob.last = "Brown".to_owned()).await?.entity;
        sim.note("changed");
        staff.delete(&bob).await.map_err(|error| {
            assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
            error
        })?;
        Ok(())
    };
    let finally = |sim: Sim| async move {
        let ann = get(&sim.table("staff"), 1).await;
        if sim.notes().is_empty() || (ann.email == "ann@y.org" && ann.badge.is_none()) {
            return Ok(());
        }
        Err(format!("{ann:?}").into())
    };
    let cuts = every_cut(tavola_local::in_memory, scenario).seed(seed_one);
    let report = cuts.always(is_clean).finally(finally).run().await.unwrap();
    assert_eq!(report.requests, 1 + 2 + 1 + 1 + 2 + 1);
}

/// G92: after a lost reply nothing is an error but the delete.
#[tokio::test]
async fn a_lost_reply_is_decided_by_the_id() {
    let scenario = |sim: Sim| async move {
        let staff = staff(&sim);
        let key = Employee::key().dept("Sales").id(1);
        let done = staff.modify(key, |ann| ann.email = "ann@y.org".to_owned()).await;
        sim.note(if done.is_ok() { "done" } else { "unknown" });
        Ok(())
    };
    let finally = |sim: Sim| async move {
        let ann = get(&sim.table("staff"), 1).await;
        match sim.notes().first().map(String::as_str) {
            None => Ok(()),
            Some("done") if ann.email == "ann@y.org" => Ok(()),
            other => Err(format!("{other:?} {ann:?}").into()),
        }
    };
    let cuts = every_cut(tavola_local::in_memory, scenario).seed(seed_one);
    assert_eq!(cuts.finally(finally).run().await.unwrap().runs, 9);
}

/// G131, G109: requests of each call; what is copied needs no second one.
#[tokio::test]
async fn costs() {
    let counted = counting(tavola_local::in_memory());
    let table = TableServiceClient::on(counted.clone(), None).table_client("staff");
    table.create().await.unwrap();
    let staff = table.indexed::<Employee>();
    let _ = counted.take();
    let cost = || counted.take().len();

    staff.insert(&employee(1, "Ann@x.org")).await.unwrap();
    assert_eq!(cost(), 1);
    staff.insert(&employee(2, "bob@x.org")).await.unwrap();
    let _ = cost();
    let ann = || Employee::by_email().dept("Sales").email("ann@X.org");
    let row = staff.row(ann()).await.unwrap().unwrap();
    assert_eq!((row.get::<String>("last").unwrap().as_str(), cost()), ("Jones", 1));
    assert_eq!(row.base().row(), "empid_000001");
    assert!(row.entity().is_err(), "the index copies one property");
    let badge = Employee::by_badge().dept("Sales").badge("B1").id(1);
    let row = staff.row(badge).await.unwrap().unwrap();
    assert_eq!((row.entity().unwrap(), cost()), (employee(1, "Ann@x.org"), 1));
    let mut found = staff.find(ann()).await.unwrap().unwrap();
    assert_eq!((found.id, cost()), (1, 2));
    found.email = "ann@y.org".to_owned();
    staff.replace(&mut found).await.unwrap();
    assert_eq!(cost(), 1);
    found.last = "Smith".to_owned();
    staff.replace(&mut found).await.unwrap();
    assert_eq!(cost(), 1, "the version was left in it");
    let key = || Employee::key().dept("Sales").id(2);
    staff.modify(key(), |bob| bob.last = "Brown".to_owned()).await.unwrap();
    assert_eq!(cost(), 2);
    assert!(staff.modify(key(), |_| ()).await.unwrap().written.is_none());
    assert_eq!(cost(), 1);
    let range = || staff.range(Employee::by_email().dept("Sales"));
    let rows = range().stale().await.unwrap();
    let last: Vec<_> = rows.iter().map(|row| row.get::<String>("last").unwrap()).collect();
    assert_eq!((last, cost()), (vec!["Smith".to_owned(), "Brown".to_owned()], 1));
    let ids: Vec<_> = range().checked().await.unwrap().iter().map(|one| one.id).collect();
    assert_eq!((ids, cost()), (vec![1, 2], 1 + 2));
    let report = staff.verify("Sales").await.unwrap();
    assert!(report.is_clean());
    assert_eq!((report.read, report.requests, cost()), (6, 1, 1));
    staff.delete(&found).await.unwrap();
    assert_eq!(cost(), 1);
    assert!(staff.find(ann()).await.unwrap().is_none());
    assert_eq!(cost(), 1);
    assert_eq!(staff.verify("Sales").await.unwrap().read, 3);
    assert_eq!(staff.mended(), 0);
}

/// G113: what others broke is never read, is mended by the write that meets it, and counted.
#[tokio::test]
async fn drift_is_mended_by_the_write_that_meets_it() {
    let (table, staff) = table().await;
    staff.insert(&employee(1, "ann@x.org")).await.unwrap();
    let email = ("Sales", "email_ann@x.org");

    // A row is missing: a change of another property brings it back.
    table.delete_at::<DynEntity>(email, IfMatch::Any).await.unwrap();
    let mut ann = get(&table, 1).await;
    ann.last = "Smith".to_owned();
    staff.replace(&mut ann).await.unwrap();
    assert_eq!(staff.mended(), 1);
    assert!(staff.verify("Sales").await.unwrap().is_clean());

    // A row is missing that is to go.
    table.delete_at::<DynEntity>(email, IfMatch::Any).await.unwrap();
    ann.email = "ann@y.org".to_owned();
    staff.replace(&mut ann).await.unwrap();
    assert_eq!(staff.mended(), 2);

    // A row is nobody's: it is not found, and the next insert takes the value.
    let mut orphan = DynEntity::new("Sales", "email_bob@x.org");
    orphan.set("tv_base", "empid_000001");
    table.insert(&orphan).await.unwrap();
    let bob = || Employee::by_email().dept("Sales").email("bob@x.org");
    assert!(staff.find(bob()).await.unwrap().is_none());
    assert!(staff.range(bob()).checked().await.unwrap().is_empty());
    staff.insert(&employee(2, "bob@x.org")).await.unwrap();
    assert_eq!(staff.mended(), 3);
    assert_eq!(staff.find(bob()).await.unwrap().unwrap().id, 2);
    assert!(staff.verify("Sales").await.unwrap().is_clean());

    // A row that is no index row is left alone.
    table.insert(&DynEntity::new("Sales", "email_eve@x.org")).await.unwrap();
    let error = staff.insert(&employee(3, "eve@x.org")).await.unwrap_err();
    assert!(error.is_conflict() && matches!(error.kind(), ErrorKind::Transaction { .. }));
}

/// Three entities, and one row of each kind of drift.
async fn seed_drift(sim: Sim) -> Checked {
    seed(sim.clone()).await?;
    let table = sim.table("staff");
    for (id, email) in [(1, "ann@x.org"), (2, "bob@x.org"), (3, "eve@x.org")] {
        staff(&sim).insert(&employee(id, email)).await?;
    }
    table.delete_at::<DynEntity>(("Sales", "email_ann@x.org"), IfMatch::Any).await?;
    let key = Employee::key().dept("Sales").id(2);
    table.modify(key, |bob: &mut Employee| bob.last = "Brown".to_owned()).await?;
    let key = Employee::key().dept("Sales").id(3);
    table.modify(key, |eve: &mut Employee| eve.email = "eve@y.org".to_owned()).await?;
    Ok(())
}

async fn rebuild(sim: Sim) -> Checked {
    staff(&sim).rebuild("Sales").await?;
    Ok(())
}

/// G113: all of it is found and mended, and the second time there is nothing to do.
#[tokio::test]
async fn a_rebuild_mends_all_of_it() {
    let scenario = |sim: Sim| async move {
        let staff = staff(&sim);
        let found = staff.verify("Sales").await?;
        // Bob's both rows are old; Eve's row under her old address is nobody's, the new one is
        // missing, and her badge's is old.
        assert_eq!((found.missing, found.orphan, found.stale, found.mended), (2, 1, 3, 0));
        let mended = staff.rebuild("Sales").await?;
        assert_eq!((mended.missing, mended.orphan, mended.stale, mended.mended), (2, 1, 3, 6));
        let again = staff.rebuild("Sales").await?;
        assert!(again.is_clean() && again.requests == 1);
        Ok(())
    };
    let alone = race(tavola_local::in_memory).seed(seed_drift).writer(scenario);
    alone.finally(is_clean).run().await.unwrap();
}

/// G113, G129, G130: a rebuild that is cut is ended by the next; beside a writer both succeed.
#[tokio::test]
async fn a_rebuild_is_cut_and_races() {
    let cuts = every_cut(tavola_local::in_memory, rebuild).seed(seed_drift).recover(rebuild);
    cuts.finally(is_clean).run().await.unwrap();

    let change = |sim: Sim| async move {
        let key = Employee::key().dept("Sales").id(3);
        staff(&sim).modify(key, |eve| eve.email = "eve@x.org".to_owned()).await?;
        Ok(())
    };
    let race = race(tavola_local::in_memory).seed(seed_drift).writer(rebuild).writer(change);
    let race = race.at_most(200, 100).finally(|sim| async move {
        rebuild(sim.clone()).await?;
        is_clean(sim).await
    });
    race.run().await.unwrap();
}

/// Refused before anything is sent, or as the service does.
#[tokio::test]
async fn other_refusals() {
    let (table, staff) = table().await;
    staff.insert(&employee(1, "ann@x.org")).await.unwrap();
    let again = staff.insert(&employee(1, "bob@x.org")).await.unwrap_err();
    assert!(again.is_conflict() && matches!(again.kind(), ErrorKind::Transaction { .. }));
    let mut ann = get(&table, 1).await;
    let mut old = ann.clone();
    ann.id = 9;
    let moved = staff.replace(&mut ann).await.unwrap_err();
    assert_eq!(moved.outcome(), Outcome::NotSent);
    ann.id = 1;
    staff.replace(&mut ann).await.unwrap();
    assert!(staff.replace(&mut old).await.unwrap_err().is_changed());
    assert!(staff.delete(&old).await.unwrap_err().is_changed());
    let key = Employee::key().dept("Sales").id(7);
    assert!(staff.modify(key, |_| ()).await.unwrap_err().is_not_found());
    assert!(staff.verify("Sales").await.unwrap().is_clean());
}
