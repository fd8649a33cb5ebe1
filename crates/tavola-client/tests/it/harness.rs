//! The harness finds what is wrong: G129, G130, G131.

use tavola_client::testing::{Checked, Sim, counting, every_cut, race};
use tavola_client::{DynEntity, TableServiceClient};

async fn seed(sim: Sim) -> Checked {
    sim.table("people").create().await?;
    Ok(())
}

async fn has(sim: &Sim, row: &str) -> Result<bool, tavola_client::Error> {
    Ok(sim.table("people").get::<DynEntity>(("p", row)).await?.is_some())
}

/// Two rows that must agree, by two requests: wrong.
async fn two_inserts(sim: Sim) -> Checked {
    let table = sim.table("people");
    table.insert(&DynEntity::new("p", "base")).await?;
    table.insert(&DynEntity::new("p", "copy")).await?;
    Ok(())
}

async fn agree(sim: Sim) -> Checked {
    if has(&sim, "base").await? != has(&sim, "copy").await? {
        return Err("one row without the other".into());
    }
    Ok(())
}

#[tokio::test]
async fn a_crash_between_two_requests_is_found() {
    let wrong = every_cut(tavola_local::in_memory, two_inserts).seed(seed).finally(agree);
    let broken = wrong.run().await.unwrap_err();
    let found = "crash after request 1 (InsertEntity): one row without the other";
    assert_eq!(broken.to_string(), found);

    let always = every_cut(tavola_local::in_memory, two_inserts).seed(seed).always(agree);
    let broken = always.run().await.unwrap_err();
    assert_eq!(broken.to_string(), "uncut: after request 1: one row without the other");
}

#[tokio::test]
async fn a_recovery_is_run_and_cut_as_well() {
    let recover = |sim: Sim| async move {
        if has(&sim, "base").await? {
            sim.table("people").create_if_missing(&DynEntity::new("p", "copy")).await?;
        }
        Ok(())
    };
    let right = || every_cut(tavola_local::in_memory, two_inserts).seed(seed).recover(recover);
    let report = right().finally(agree).run().await.unwrap();
    assert_eq!((report.requests, report.runs), (2, 9));
    let report = right().finally(agree).depth(2).run().await.unwrap();
    assert!(report.runs > 40, "{report:?}");

    // One that ends before it wrote is wrong only if it is cut.
    let hasty = |sim: Sim| async move {
        if !sim.notes().is_empty() {
            return Ok(());
        }
        sim.note("recovered");
        if has(&sim, "base").await? {
            sim.table("people").create_if_missing(&DynEntity::new("p", "copy")).await?;
        }
        Ok(())
    };
    let wrong = || every_cut(tavola_local::in_memory, two_inserts).seed(seed).recover(hasty);
    wrong().finally(agree).run().await.unwrap();
    let broken = wrong().finally(agree).depth(2).run().await.unwrap_err();
    assert!(broken.path().contains("of the recovery"), "{broken}");
}

#[tokio::test]
async fn what_was_told_is_checked_after_each_loss() {
    let insert = |sim: Sim| async move {
        sim.table("people").insert(&DynEntity::new("p", "base")).await?;
        sim.note("inserted");
        Ok(())
    };
    let told = |sim: Sim| async move {
        if !sim.notes().is_empty() && !has(&sim, "base").await? {
            return Err("it was told to be there".into());
        }
        Ok(())
    };
    let right = every_cut(tavola_local::in_memory, insert).seed(seed).finally(told);
    assert_eq!(right.run().await.unwrap().runs, 5);
}

async fn blind_increment(sim: Sim) -> Checked {
    let table = sim.table("people");
    let found = table.get::<DynEntity>(("p", "n")).await?.ok_or("no counter")?;
    let mut counter = DynEntity::new("p", "n");
    counter.set("N", found.get::<i32>("N")? + 1);
    table.upsert(&counter, tavola_client::Mode::Replace).await?;
    Ok(())
}

async fn increment(sim: Sim) -> Checked {
    let change = |counter: &mut DynEntity| {
        *counter.get_mut::<i32>("N")? += 1;
        Ok(())
    };
    sim.table("people").try_modify::<DynEntity>(("p", "n"), change).await?;
    Ok(())
}

async fn seed_counter(sim: Sim) -> Checked {
    seed(sim.clone()).await?;
    let mut counter = DynEntity::new("p", "n");
    counter.set("N", 0);
    sim.table("people").insert(&counter).await?;
    Ok(())
}

async fn counted_two(sim: Sim) -> Checked {
    let found = sim.table("people").get::<DynEntity>(("p", "n")).await?.ok_or("no counter")?;
    match found.get::<i32>("N")? {
        2 => Ok(()),
        n => Err(format!("two increments made {n}").into()),
    }
}

#[tokio::test]
async fn a_lost_update_is_found_and_a_right_one_is_not() {
    let new = || race(tavola_local::in_memory).seed(seed_counter).finally(counted_two);
    let broken = new().writer(blind_increment).writer(blind_increment).run().await.unwrap_err();
    let found = "writers in the order 1 2 1 2: two increments made 1";
    assert_eq!(broken.to_string(), found);

    let report = new().writer(increment).writer(increment).run().await.unwrap();
    assert!(report.is_exhaustive && report.runs == 6, "{report:?}");
    let some = new().writer(increment).writer(increment).at_most(2, 20).run().await.unwrap();
    assert!(!some.is_exhaustive && some.runs == 22, "{some:?}");
}

#[tokio::test]
async fn requests_are_counted() {
    let counted = counting(tavola_local::in_memory());
    let table = TableServiceClient::on(counted.clone(), None).table_client("people");
    table.create().await.unwrap();
    table.insert(&DynEntity::new("p", "1")).await.unwrap();
    assert_eq!(counted.take(), ["CreateTable", "InsertEntity"]);
    assert!(counted.take().is_empty());
}
