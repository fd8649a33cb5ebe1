//! Copies of an entity's properties in others: G118, and what every pattern must show: G129 cuts,
//! G130 races, G131 costs. G113: verify and rebuild beside writers.

use tavola_client::patterns::{Copies, Outbox};
use tavola_client::testing::{Checked, Sim, counting, every_cut, race};
use tavola_client::{Entity, ErrorKind, IfMatch, Outcome, Stored, TableClient, TableServiceClient};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(kind = "employee", partition = "{dept}", row = "empid_{id:06}")]
struct Employee {
    dept: String,
    id: u32,
    email: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(kind = "team", partition = "{dept}", row = "team_{name}")]
struct Team {
    dept: String,
    name: String,
    lead: Option<i32>,
    lead_email: Option<String>,
}

fn leads(table: &TableClient) -> Copies<Employee, Team> {
    Copies::new(
        table,
        |team: &Team| {
            let lead = u32::try_from(team.lead?).unwrap();
            Some(Employee::key().dept(&team.dept).id(lead))
        },
        |lead: &Employee, team: &mut Team| team.lead_email = Some(lead.email.clone()),
    )
}

fn clear(team: &mut Team) {
    (team.lead, team.lead_email) = (None, None);
}

fn employee(id: u32) -> Employee {
    Employee { dept: "Sales".to_owned(), id, email: format!("{id}@x.org") }
}

fn team(name: &str, lead: Option<i32>) -> Team {
    Team { dept: "Sales".to_owned(), name: name.to_owned(), lead, lead_email: None }
}

fn of(id: u32) -> tavola_client::PointKey<Employee> {
    Employee::key().dept("Sales").id(id)
}

async fn get(table: &TableClient, name: &str) -> Result<Stored<Team>, tavola_client::Error> {
    Ok(table.get(Team::key().dept("Sales").name(name)).await?.unwrap())
}

/// Two employees; the first leads the team `a`.
async fn seed(sim: Sim) -> Checked {
    let table = sim.table("staff");
    table.create().await?;
    for id in [1, 2] {
        table.insert(&employee(id)).await?;
    }
    leads(&table).insert(&mut team("a", Some(1))).await?;
    Ok(())
}

/// The invariant of the guide: a copy says what its source says.
async fn is_clean(sim: Sim) -> Checked {
    let report = leads(&sim.table("staff")).verify("Sales").await?;
    if report.is_clean() { Ok(()) } else { Err(format!("{report:?}").into()) }
}

async fn readdress(sim: Sim) -> Checked {
    let change = |one: &mut Employee| one.email = "new@x.org".to_owned();
    leads(&sim.table("staff")).modify_source(of(2), change).await?;
    Ok(())
}

async fn replace_lead(sim: Sim) -> Checked {
    let table = sim.table("staff");
    loop {
        let mut team = get(&table, "a").await?;
        team.lead = Some(2);
        match leads(&table).repoint(&mut team).await {
            // Somebody else wrote the team.
            Err(error) if error.is_changed() && error.outcome() == Outcome::NotApplied => {}
            other => return Ok(other.map(drop)?),
        }
    }
}

/// The gap of the guide: a new manager's address is copied while it changes. Without a guard on the
/// employee both transactions succeed, and the copy is old for ever.
#[tokio::test]
async fn a_copy_without_a_guard_is_stale() {
    let unguarded = |sim: Sim| async move {
        let table = sim.table("staff");
        let source = table.get(of(2)).await?.ok_or("nobody")?;
        let mut team = get(&table, "a").await?;
        (team.lead, team.lead_email) = (Some(2), Some(source.email.clone()));
        let mut one = table.transaction("Sales");
        one.replace(&team)?;
        one.commit().await?;
        Ok(())
    };
    let race = race(tavola_local::in_memory).seed(seed).writer(unguarded).writer(readdress);
    let broken = race.finally(is_clean).run().await.unwrap_err();
    assert!(broken.reason().contains("stale: 1"), "{broken}");
}

/// G118, G130: "manager replaced" against "address changed" ends consistent, in every order, and is
/// so at every moment.
#[tokio::test]
async fn a_repoint_races_with_a_change() {
    let first = |sim: Sim| async move {
        let change = |one: &mut Employee| one.email = "old@x.org".to_owned();
        leads(&sim.table("staff")).modify_source(of(1), change).await?;
        Ok(())
    };
    let race = || race(tavola_local::in_memory).seed(seed).always(is_clean);
    let finally = |sim: Sim| async move {
        let team = get(&sim.table("staff"), "a").await?;
        match (team.lead, team.lead_email.as_deref()) {
            (Some(2), Some("new@x.org")) => Ok(()),
            other => Err(format!("{other:?}").into()),
        }
    };
    let two = race().writer(replace_lead).writer(readdress).finally(finally);
    assert!(two.run().await.unwrap().is_exhaustive);
    let three = race().writer(replace_lead).writer(readdress).writer(first);
    three.at_most(300, 100).finally(finally).run().await.unwrap();
}

/// G130: a copy that is made while its source is deleted: one of the two is refused.
#[tokio::test]
async fn an_insert_races_with_a_deletion() {
    let insert = |sim: Sim| async move {
        match leads(&sim.table("staff")).insert(&mut team("b", Some(2))).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => Ok(other.map(drop)?),
        }
    };
    let delete = |sim: Sim| async move {
        let leads = leads(&sim.table("staff"));
        let mut source = leads.source(of(2)).await?.ok_or("nobody")?;
        match leads.delete_source(&mut source).await {
            Err(error) if error.is_changed() || *error.kind() == ErrorKind::Pattern => Ok(()),
            other => Ok(other.map(drop)?),
        }
    };
    let race = race(tavola_local::in_memory).seed(seed).writer(insert).writer(delete);
    assert!(race.always(is_clean).run().await.unwrap().is_exhaustive);
}

/// G118, G129: whatever is cut, copies and sources agree.
#[tokio::test]
async fn every_cut_leaves_copies_right() {
    let scenario = |sim: Sim| async move {
        let leads = leads(&sim.table("staff")).clearing(clear);
        leads.insert(&mut team("b", Some(2))).await?;
        readdress(sim.clone()).await?;
        replace_lead(sim.clone()).await?;
        let mut source = leads.source(of(2)).await?.ok_or("nobody")?;
        source.email = "last@x.org".to_owned();
        leads.replace_source(&mut source).await?;
        leads.delete_source(&mut source).await?;
        sim.note("done");
        Ok(())
    };
    let finally = |sim: Sim| async move {
        let team = get(&sim.table("staff"), "a").await?;
        let is_done = sim.notes().iter().any(|note| note == "done");
        if is_done && (team.lead, team.lead_email.as_deref()) != (None, None) {
            return Err(format!("{team:?}").into());
        }
        Ok(())
    };
    let cuts = every_cut(tavola_local::in_memory, scenario).seed(seed).always(is_clean);
    assert_eq!(cuts.finally(finally).run().await.unwrap().requests, 2 + 3 + 3 + 2 + 1 + 1);
}

async fn counted() -> (std::sync::Arc<tavola_client::testing::Counted>, TableClient) {
    let counted = counting(tavola_local::in_memory());
    let table = TableServiceClient::on(counted.clone(), None).table_client("staff");
    table.create().await.unwrap();
    for id in [1, 2] {
        table.insert(&employee(id)).await.unwrap();
    }
    let _ = counted.take();
    (counted, table)
}

/// G131: requests of each call.
#[tokio::test]
async fn costs() {
    let (counted, table) = counted().await;
    let leads = leads(&table);
    leads.insert(&mut team("a", Some(1))).await.unwrap();
    assert_eq!(counted.take().len(), 2);
    let mut source = leads.source(of(1)).await.unwrap().unwrap();
    assert_eq!((source.copies().len(), counted.take().len()), (1, 2));
    source.email = "new@x.org".to_owned();
    leads.replace_source(&mut source).await.unwrap();
    assert_eq!(counted.take().len(), 1);
    // The versions are those of the write.
    leads.replace_source(&mut source).await.unwrap();
    assert_eq!(counted.take().len(), 1);
    leads.modify_source(of(1), |one| one.email.push('!')).await.unwrap();
    assert_eq!(counted.take().len(), 3);
    let mut team = get(&table, "a").await.unwrap();
    assert_eq!(team.lead_email.as_deref(), Some("new@x.org!"));
    let _ = counted.take();
    team.lead = Some(2);
    leads.repoint(&mut team).await.unwrap();
    assert_eq!(counted.take().len(), 2);
    leads.repoint(&mut team).await.unwrap();
    assert_eq!(team.lead_email.as_deref(), Some("2@x.org"));
    assert!(leads.verify("Sales").await.unwrap().is_clean());
}

/// 99 copies are one transaction; the hundredth is one too many, and nothing is sent.
#[tokio::test]
async fn copies_are_bounded() {
    let (counted, table) = counted().await;
    let leads = leads(&table);
    for number in 0..99 {
        leads.insert(&mut team(&format!("{number:02}"), Some(1))).await.unwrap();
    }
    leads.modify_source(of(1), |one| one.email = "new@x.org".to_owned()).await.unwrap();
    assert!(leads.verify("Sales").await.unwrap().is_clean());
    leads.insert(&mut team("99", Some(1))).await.unwrap();
    let _ = counted.take();
    let error = leads.modify_source(of(1), |_| ()).await.unwrap_err();
    let is_bound = matches!(error.kind(), ErrorKind::Invalid { limit: Some(99), .. });
    assert!(is_bound && error.outcome() == Outcome::NotSent, "{error}");
    assert!(!counted.take().contains(&"Transaction"));
}

/// G118: what becomes of the copies of a source that is deleted is said; by default it stays.
#[tokio::test]
async fn deletion_has_a_policy() {
    for policy in ["refuse", "clear", "delete"] {
        let (_, table) = counted().await;
        let leads = leads(&table);
        leads.insert(&mut team("a", Some(1))).await.unwrap();
        let mut source = leads.source(of(1)).await.unwrap().unwrap();
        let leads = match policy {
            "clear" => leads.clearing(clear),
            "delete" => leads.deleting_copies(),
            _ => {
                let error = leads.delete_source(&mut source).await.unwrap_err();
                assert_eq!(
                    (error.kind(), error.outcome()),
                    (&ErrorKind::Pattern, Outcome::NotSent)
                );
                continue;
            }
        };
        leads.delete_source(&mut source).await.unwrap();
        let team: Option<Stored<Team>> =
            table.get(Team::key().dept("Sales").name("a")).await.unwrap();
        assert_eq!(team.is_some(), policy == "clear");
        assert!(team.is_none_or(|team| team.lead.is_none() && team.lead_email.is_none()));
        assert!(table.get(of(1)).await.unwrap().is_none());
        assert!(leads.verify("Sales").await.unwrap().is_clean());
    }
}

/// One copy that is old, and one without a source.
async fn seed_drift(sim: Sim) -> Checked {
    seed(sim.clone()).await?;
    let table = sim.table("staff");
    leads(&table).insert(&mut team("b", Some(2))).await?;
    table.modify(of(1), |one: &mut Employee| one.email = "other@x.org".to_owned()).await?;
    table.delete_at::<Employee>(of(2), IfMatch::Any).await?;
    Ok(())
}

async fn rebuild(sim: Sim) -> Checked {
    leads(&sim.table("staff")).clearing(clear).rebuild("Sales").await?;
    Ok(())
}

/// G113, G118, G129, G130: found, mended, also if it is cut, and beside writers.
#[tokio::test]
async fn a_rebuild_mends_all_of_it() {
    let scenario = |sim: Sim| async move {
        let leads = leads(&sim.table("staff"));
        let found = leads.verify("Sales").await?;
        assert_eq!((found.stale, found.orphan, found.mended), (1, 1, 0));
        // Nobody said what becomes of the one without a source.
        let mended = leads.rebuild("Sales").await?;
        assert_eq!((mended.stale, mended.orphan, mended.mended), (1, 1, 1));
        let mended = leads.clearing(clear).rebuild("Sales").await?;
        assert_eq!((mended.stale, mended.orphan, mended.mended), (0, 1, 1));
        Ok(())
    };
    let alone = race(tavola_local::in_memory).seed(seed_drift).writer(scenario);
    alone.finally(is_clean).run().await.unwrap();

    let cuts = every_cut(tavola_local::in_memory, rebuild).seed(seed_drift).recover(rebuild);
    cuts.finally(is_clean).run().await.unwrap();

    let change = |sim: Sim| async move {
        let change = |one: &mut Employee| one.email = "late@x.org".to_owned();
        leads(&sim.table("staff")).modify_source(of(1), change).await?;
        Ok(())
    };
    let race = race(tavola_local::in_memory).seed(seed_drift).writer(rebuild).writer(change);
    race.at_most(300, 50).finally(is_clean).run().await.unwrap();
}

async fn work(sim: Sim) -> Checked {
    let table = sim.table("staff");
    let outbox = Outbox::new(&table);
    outbox.worker().step(leads(&table).chunked(&outbox, "leads").step()).drain().await?;
    Ok(())
}

/// 150 teams of one lead, written as they are inserted.
async fn seed_many(sim: Sim) -> Checked {
    let table = sim.table("staff");
    table.create().await?;
    table.insert(&employee(1)).await?;
    for first in [0, 75] {
        let mut all = table.transaction("Sales");
        for number in first..first + 75 {
            let lead_email = Some("1@x.org".to_owned());
            all.insert(&Team { lead_email, ..team(&format!("{number:03}"), Some(1)) })?;
        }
        all.commit().await?;
    }
    Ok(())
}

async fn change_many(sim: Sim) -> Checked {
    let table = sim.table("staff");
    let chunked = leads(&table).chunked(&Outbox::new(&table), "leads");
    chunked.modify_source(of(1), |one| one.email = "new@x.org".to_owned()).await?;
    Ok(())
}

/// G118, G129, G130: more than 99 copies: not at once, but all in the end, wherever it is stopped,
/// and beside a writer that takes a copy away.
#[tokio::test]
async fn many_copies_go_in_chunks() {
    let scenario = |sim: Sim| async move {
        change_many(sim.clone()).await?;
        work(sim).await
    };
    let settled = |sim: Sim| async move {
        work(sim.clone()).await?;
        is_clean(sim).await
    };
    let cuts = every_cut(tavola_local::in_memory, scenario).seed(seed_many).recover(work);
    cuts.finally(settled).run().await.unwrap();

    let take_away = |sim: Sim| async move {
        let table = sim.table("staff");
        loop {
            let mut team = get(&table, "070").await?;
            clear(&mut team);
            match leads(&table).repoint(&mut team).await {
                Err(error) if error.is_changed() && error.outcome() == Outcome::NotApplied => {}
                other => return Ok(other.map(drop)?),
            }
        }
    };
    let race = race(tavola_local::in_memory).seed(seed_many).writer(scenario).writer(take_away);
    race.at_most(20, 10).finally(settled).run().await.unwrap();
}
