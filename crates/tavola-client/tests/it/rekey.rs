//! Re-keying a live table: G190, and what every pattern must show: G129 cuts, G130 races, G131
//! costs.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use tavola_client::patterns::{Rekey, RekeyPhase};
use tavola_client::testing::{Checked, Sim, counting, every_cut, race};
use tavola_client::{DynEntity, Entity, Mode, TableClient, TableServiceClient};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(partition = "{dept}", row = "{id:04}")]
struct Old {
    dept: String,
    id: u32,
    value: i64,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(partition = "{id:08}", row = "employee")]
struct New {
    id: u32,
    dept: String,
    value: i64,
}

impl From<&Old> for New {
    fn from(old: &Old) -> Self {
        Self { id: old.id, dept: old.dept.clone(), value: old.value }
    }
}

fn old(id: u32, value: i64) -> Old {
    Old { dept: "Sales".to_owned(), id, value }
}

fn staff(sim: &Sim) -> Rekey<Old, New> {
    Rekey::new(&sim.table("old"), &sim.table("new"), "staff")
}

async fn value(sim: &Sim, id: u32) -> Result<Option<i64>, tavola_client::Error> {
    let key = (Old::key().dept("Sales").id(id), New::key().id(id));
    Ok(staff(sim).get(key.0, key.1).await?.map(|found| found.value))
}

/// Entities 1 to 4, from before the re-keying.
async fn seed(sim: Sim) -> Checked {
    sim.table("old").create().await?;
    sim.table("new").create().await?;
    for id in 1..=4 {
        sim.table("old").insert(&old(id, 0)).await?;
    }
    Ok(())
}

/// Notes what a write is about to do, does it, and notes that it was done. The value -1 is a
/// delete.
async fn write(sim: &Sim, id: u32, value: i64) -> Checked {
    let number = sim.notes().len();
    sim.note(format!("begin {number} {id} {value}"));
    // A handle of its own: the harness has a clock for each client, and so no leases.
    let staff = staff(sim);
    match value {
        -1 => staff.delete(&old(id, 0)).await?,
        _ => staff.upsert(&old(id, value)).await?,
    }
    sim.note(format!("end {number} {id} {value}"));
    Ok(())
}

/// For each entity the values that a read may return: that of the last write that ended, and those
/// of writes under way since.
fn allowed(sim: &Sim) -> BTreeMap<u32, Vec<i64>> {
    let mut allowed: BTreeMap<u32, Vec<i64>> = (1..=4).map(|id| (id, vec![0])).collect();
    for note in sim.notes() {
        let words: Vec<_> = note.split(' ').collect();
        let [word, _, id, value] = words[..] else { continue };
        let (id, value) = (id.parse().unwrap(), value.parse().unwrap());
        let values = allowed.entry(id).or_insert_with(|| vec![-1]);
        match word {
            "begin" => values.push(value),
            _ => *values = vec![value],
        }
    }
    allowed
}

/// What was acknowledged is read, in whatever phase it is.
async fn nothing_is_lost(sim: Sim) -> Checked {
    for (id, allowed) in allowed(&sim) {
        let found = value(&sim, id).await?.unwrap_or(-1);
        if !allowed.contains(&found) {
            return Err(format!("{id} is {found}, and not one of {allowed:?}").into());
        }
    }
    Ok(())
}

async fn rows(table: &TableClient) -> Vec<New> {
    let rows = table.scan::<DynEntity>().stream();
    let rows: Vec<_> = rows.try_collect().await.unwrap();
    rows.iter().filter_map(|row| row.to::<New>().ok()).collect()
}

/// In the end the new table alone has all of it, and nothing else.
async fn is_done(sim: Sim) -> Checked {
    if staff(&sim).phase().await? != RekeyPhase::Done {
        return Err("it is not done".into());
    }
    nothing_is_lost(sim.clone()).await?;
    let found = rows(&sim.table("new")).await;
    let is_allowed = |new: &New| {
        allowed(&sim).get(&new.id).is_some_and(|values| values.iter().any(|value| *value >= 0))
    };
    match found.iter().find(|new| !is_allowed(new)) {
        Some(zombie) => Err(format!("{zombie:?} came back").into()),
        None => Ok(()),
    }
}

async fn finish(sim: Sim) -> Checked {
    while staff(&sim).step().await?.phase != RekeyPhase::Done {}
    Ok(())
}

/// The gap: a copy by upsert, from what was read before, puts an old value over a new one.
#[tokio::test]
async fn a_copy_by_upsert_loses_a_write() {
    let copy = |sim: Sim| async move {
        let found = sim.table("old").get::<Old>(Old::key().dept("Sales").id(1)).await?;
        let new = New::from(&*found.ok_or("no entity")?);
        sim.table("new").upsert(&new, Mode::Replace).await?;
        Ok(())
    };
    let both = |sim: Sim| async move {
        sim.table("old").upsert(&old(1, 7), Mode::Replace).await?;
        sim.table("new").upsert(&New::from(&old(1, 7)), Mode::Replace).await?;
        Ok(())
    };
    let seven = |sim: Sim| async move {
        match rows(&sim.table("new")).await.first() {
            Some(New { value: 7, .. }) => Ok(()),
            other => Err(format!("{other:?}").into()),
        }
    };
    let race = race(tavola_local::in_memory).seed(seed).writer(copy).writer(both);
    let broken = race.finally(seven).run().await.unwrap_err();
    assert!(broken.reason().contains("value: 0"), "{broken}");
}

/// G190, G129: each request of all steps, with writes between them, cut in each way.
#[tokio::test]
async fn every_cut_of_all_steps() {
    let scenario = |sim: Sim| async move {
        let mut value = 1;
        loop {
            write(&sim, 1, value).await?;
            match value {
                2 => write(&sim, 2, -1).await?,
                3 => write(&sim, 5, 1).await?,
                4 => write(&sim, 3, -1).await?,
                5 => write(&sim, 2, 9).await?,
                _ => {}
            }
            value += 1;
            if staff(&sim).step().await?.phase == RekeyPhase::Done {
                break;
            }
        }
        write(&sim, 1, value).await?;
        write(&sim, 5, -1).await
    };
    let cuts = every_cut(tavola_local::in_memory, scenario).seed(seed).recover(finish);
    let report = cuts.always(nothing_is_lost).finally(is_done).run().await.unwrap();
    assert!(report.requests > 60, "{report:?}");
}

/// G190: each step cut twice.
#[tokio::test]
async fn every_two_cuts_of_the_steps() {
    // One entity is enough, and three that were deleted.
    let seed_one = |sim: Sim| async move {
        sim.table("old").create().await?;
        sim.table("new").create().await?;
        sim.table("old").insert(&old(1, 0)).await?;
        (2..=4).for_each(|id| sim.note(format!("end 0 {id} -1")));
        Ok(())
    };
    let cuts = every_cut(tavola_local::in_memory, finish).seed(seed_one).recover(finish);
    cuts.finally(is_done).depth(2).run().await.unwrap();
}

/// Steps as fast as leases allow: before each, the writes that have begun must have ended.
async fn step_by_step(sim: Sim) -> Checked {
    loop {
        let begun: Vec<_> = sim
            .notes()
            .iter()
            .filter_map(|note| Some(note.strip_prefix("begin ")?.to_owned()))
            .collect();
        let has_ended = |write: &String| sim.notes().contains(&format!("end {write}"));
        while !begun.iter().all(has_ended) {
            // A request, so that the others get their turn.
            sim.table("new").get::<DynEntity>(("wait", "wait")).await?;
        }
        if staff(&sim).step().await?.phase == RekeyPhase::Done {
            return Ok(());
        }
    }
}

/// G190, G130: writers of the same entities, deletes, readers, and two who step.
#[tokio::test]
async fn writers_and_steps_race() {
    let writer = |sim: Sim| async move {
        for value in [1, 2, 3] {
            write(&sim, 1, value).await?;
        }
        write(&sim, 2, -1).await
    };
    let other = |sim: Sim| async move {
        write(&sim, 3, -1).await?;
        write(&sim, 3, 5).await?;
        write(&sim, 6, 1).await
    };
    let read = |sim: Sim| async move {
        for _ in 0..3 {
            // Nobody writes it.
            let found = value(&sim, 4).await?;
            if found != Some(0) {
                return Err(format!("{found:?}").into());
            }
        }
        Ok(())
    };
    let race = race(tavola_local::in_memory).seed(seed).writer(writer).writer(other).writer(read);
    let race = race.writer(step_by_step).finally(|sim| async move {
        finish(sim.clone()).await?;
        is_done(sim).await
    });
    race.at_most(30, 150).run().await.unwrap();
}

/// G190, G130: two writers of one entity, one of whom deletes it: in the end both keys say the
/// same.
#[tokio::test]
async fn writers_of_one_entity_agree() {
    let seed_dual = |sim: Sim| async move {
        seed(sim.clone()).await?;
        let staff = staff(&sim).lease(Duration::from_millis(1));
        while staff.step().await?.phase != RekeyPhase::Backfill {}
        Ok(())
    };
    let put = |value: i64| move |sim: Sim| async move { write(&sim, 1, value).await };
    let agree = |sim: Sim| async move {
        let key = Old::key().dept("Sales").id(1);
        let old = sim.table("old").get::<Old>(key).await?.map(|old| old.value);
        let new = sim.table("new").get::<New>(New::key().id(1)).await?.map(|new| new.value);
        if old == new { Ok(()) } else { Err(format!("{old:?} and {new:?}").into()) }
    };
    for second in [2, -1] {
        let race = race(tavola_local::in_memory).seed(seed_dual).writer(put(1)).writer(put(second));
        race.finally(agree).run().await.unwrap();
    }
}

/// G131: requests of each call in each phase.
#[tokio::test]
async fn costs() {
    let counted = counting(tavola_local::in_memory());
    let service = TableServiceClient::on(counted.clone(), None);
    let (from, to) = (service.table_client("old"), service.table_client("new"));
    from.create().await.unwrap();
    to.create().await.unwrap();
    let staff = Rekey::<Old, New>::new(&from, &to, "staff").lease(Duration::from_millis(200));
    let key = || (Old::key().dept("Sales").id(1), New::key().id(1));
    let mut requests = Vec::new();
    loop {
        // The phase is read once.
        let _ = staff.get(key().0, key().1).await.unwrap();
        let _ = counted.take();
        staff.upsert(&old(1, 1)).await.unwrap();
        let upsert = counted.take().len();
        assert!(staff.get(key().0, key().1).await.unwrap().is_some());
        let get = counted.take().len();
        staff.delete(&old(1, 1)).await.unwrap();
        requests.push((upsert, get, counted.take().len()));
        for id in 1..=3 {
            staff.upsert(&old(id, 0)).await.unwrap();
        }
        let step = staff.step().await.unwrap();
        // Until half the lease has passed the handle uses the phase before.
        tokio::time::sleep(Duration::from_millis(110)).await;
        if step.phase == RekeyPhase::Switched {
            assert_eq!((step.drift.read, step.drift.mended), (6, 0));
        }
        if requests.len() == 6 {
            break;
        }
    }
    let both = (4, 1, 4);
    assert_eq!(requests, [(1, 1, 1), both, both, both, both, (1, 1, 1)]);
    assert_eq!(staff.phase().await.unwrap(), RekeyPhase::Done);
}

/// G190: within one table too, beside rows of other types; what was broken is found and mended.
#[tokio::test]
async fn one_table_and_drift() {
    let service = TableServiceClient::on(tavola_local::in_memory(), None);
    let table = service.table_client("staff");
    table.create().await.unwrap();
    table.insert(&DynEntity::new("Sales", "other")).await.unwrap();
    let staff = Rekey::<Old, New>::new(&table, &table, "staff").lease(Duration::from_millis(1));
    for id in 1..=3 {
        staff.upsert(&old(id, 1)).await.unwrap();
    }
    let mut steps = Vec::new();
    loop {
        let step = staff.step().await.unwrap();
        steps.push(step.phase);
        if step.phase == RekeyPhase::Verify {
            assert_eq!(step.copied, 3);
            let one = New { value: 9, ..New::from(&old(1, 1)) };
            table.upsert(&one, Mode::Merge).await.unwrap();
            table.delete_if_exists::<New>(New::key().id(2)).await.unwrap();
            table.delete_if_exists::<Old>(Old::key().dept("Sales").id(3)).await.unwrap();
        }
        if step.phase == RekeyPhase::Switched {
            let drift = step.drift;
            assert_eq!((drift.stale, drift.missing, drift.orphan, drift.mended), (1, 1, 1, 3));
        }
        if step.phase == RekeyPhase::Done {
            break;
        }
    }
    assert!(steps.is_sorted() && steps.len() == 5, "{steps:?}");
    let found: Vec<_> = rows(&table).await.iter().map(|new| (new.id, new.value)).collect();
    assert_eq!(found, [(1, 1), (2, 1)]);
    assert_eq!(staff.step().await.unwrap().phase, RekeyPhase::Done);
}
