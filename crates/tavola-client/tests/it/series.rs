//! Data series: G122, G123, and what every pattern must show: G129 cuts, G130 races, G131 costs.

use tavola_client::patterns::Series;
use tavola_client::testing::{Checked, Sim, counting, every_cut, race};
use tavola_client::{DynEntity, ErrorKind, TableClient, TableServiceClient};

const DAY: (&str, &str) = ("000123", "20140822");

fn hours(table: &TableClient) -> Series<i64, 24> {
    Series::new(table, "H")
}

async fn seed(sim: Sim) -> Checked {
    sim.table("counts").create().await?;
    Ok(())
}

async fn hour(sim: &Sim, slot: usize) -> Result<Option<i64>, tavola_client::Error> {
    Ok(hours(&sim.table("counts")).read(DAY).await?.and_then(|hours| hours[slot]))
}

/// The gap of the guide: an increment under the ETag that is repeated after a lost reply counts
/// twice.
#[tokio::test]
async fn a_blind_repeat_counts_twice() {
    let scenario = |sim: Sim| async move {
        let table = sim.table("counts");
        for _ in 0..2 {
            let change = |row: &mut DynEntity| {
                let old = row.get::<i64>("H09").unwrap_or(0);
                row.set("H09", old + 1);
            };
            if table.modify::<DynEntity>(DAY, change).await.is_ok() {
                break;
            }
        }
        Ok(())
    };
    let one = |sim: Sim| async move {
        match hour(&sim, 9).await? {
            None | Some(0 | 1) => Ok(()),
            other => Err(format!("{other:?}").into()),
        }
    };
    let seed_row = |sim: Sim| async move {
        seed(sim.clone()).await?;
        hours(&sim.table("counts")).set(DAY, 9, 0).await?;
        Ok(())
    };
    let cuts = every_cut(tavola_local::in_memory, scenario).seed(seed_row).finally(one);
    let broken = cuts.run().await.unwrap_err();
    assert_eq!(broken.reason(), "Some(2)", "{broken}");
}

/// G122, G129: an addition counts once, whatever is cut, and says what became of it.
#[tokio::test]
async fn every_cut_of_an_addition_counts_once() {
    let scenario = |sim: Sim| async move {
        let hours = hours(&sim.table("counts"));
        for _ in 0..2 {
            sim.note("begun");
            hours.add(DAY, 9, 1).await?;
            sim.note("done");
        }
        Ok(())
    };
    let finally = |sim: Sim| async move {
        let count = |text| sim.notes().iter().filter(|note| *note == text).count() as i64;
        let sum = hour(&sim, 9).await?.unwrap_or(0);
        if (count("done")..=count("begun")).contains(&sum) {
            return Ok(());
        }
        Err(format!("{sum} of {:?}", sim.notes()).into())
    };
    let cuts = every_cut(tavola_local::in_memory, scenario).seed(seed).finally(finally);
    assert_eq!(cuts.run().await.unwrap().requests, 4);

    // Lost replies and requests are no failures.
    let patient = move |sim: Sim| async move {
        scenario(sim.clone()).await?;
        sim.note("all");
        Ok(())
    };
    let exact = |sim: Sim| async move {
        let is_whole = sim.notes().iter().any(|note| note == "all");
        let is_crash = sim.notes().len() < 4;
        let sum = hour(&sim, 9).await?;
        if is_crash || (is_whole && sum == Some(2)) {
            Ok(())
        } else {
            Err(format!("{sum:?}").into())
        }
    };
    every_cut(tavola_local::in_memory, patient).seed(seed).finally(exact).run().await.unwrap();
}

/// G122, G130: n writers, m additions each: the exact sum; other slots are left alone.
#[tokio::test]
async fn additions_race_with_sets() {
    let add = |sim: Sim| async move {
        let hours = hours(&sim.table("counts"));
        hours.add(DAY, 9, 1).await?;
        hours.add(DAY, 9, 1).await?;
        Ok(())
    };
    let set = |sim: Sim| async move {
        hours(&sim.table("counts")).set(DAY, 10, 7).await?;
        Ok(())
    };
    let finally = |sim: Sim| async move {
        match (hour(&sim, 9).await?, hour(&sim, 10).await?) {
            (Some(4), Some(7)) => Ok(()),
            other => Err(format!("{other:?}").into()),
        }
    };
    let race = race(tavola_local::in_memory).seed(seed).writer(add).writer(add).writer(set);
    race.at_most(500, 100).finally(finally).run().await.unwrap();
}

/// G131, G123: requests of each call; slots that are none.
#[tokio::test]
async fn costs_and_bounds() {
    let counted = counting(tavola_local::in_memory());
    let table = TableServiceClient::on(counted.clone(), None).table_client("counts");
    table.create().await.unwrap();
    let hours = hours(&table);
    let _ = counted.take();
    assert_eq!(hours.read(DAY).await.unwrap(), None);
    assert_eq!(counted.take().len(), 1);
    hours.set(DAY, 0, 5).await.unwrap();
    assert_eq!(counted.take().len(), 1);
    hours.add(DAY, 23, 2).await.unwrap();
    assert_eq!(counted.take().len(), 2);
    let values = hours.read(DAY).await.unwrap().unwrap();
    assert_eq!((values[0], values[1], values[23]), (Some(5), None, Some(2)));
    assert_eq!(counted.take().len(), 1);
    assert!(matches!(hours.set(DAY, 24, 0).await.unwrap_err().kind(), ErrorKind::Invalid { .. }));
    assert!(counted.take().is_empty());

    // One handle is one writer, however often it adds; 65 at a time are too many for a row.
    for _ in 0..70 {
        hours.add(DAY, 1, 1).await.unwrap();
    }
    for writer in 1..64 {
        Series::<i64, 24>::new(&table, "H").add(DAY, 1, 1).await.unwrap_or_else(|error| {
            panic!("writer {writer}: {error}");
        });
    }
    let error = Series::<i64, 24>::new(&table, "H").add(DAY, 1, 1).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Pattern);
    assert_eq!(hours.read(DAY).await.unwrap().unwrap()[1], Some(133));
}
