//! Writes of one entity, of one partition, of many.

use tavola_client::{Created, DynEntity, ErrorKind, IfMatch, Mode, Outcome, Proof, TableClient};

use super::person;
use crate::site::{Difference, Site};

async fn age(table: &TableClient, row: &str) -> Option<i32> {
    let found = table.get::<DynEntity>(("Smith", row)).await.unwrap();
    found.map(|person| person.get::<i32>("Age").unwrap())
}

pub(super) async fn one_entity(site: &Site) {
    let table = site.table().await;
    let written = table.insert(&person("1", 5)).await.unwrap();
    assert_eq!((written.status, written.proof, written.attempts), (204, Proof::Reply, 1));
    let error = table.insert(&person("1", 5)).await.unwrap_err();
    assert!(error.is_conflict() && error.outcome() == Outcome::NotApplied, "{error}");
    assert_eq!(error.code(), Some("EntityAlreadyExists"));
    let mut stored = table.get::<DynEntity>(("Smith", "1")).await.unwrap().unwrap();
    assert_eq!(stored.get::<String>("Näme").unwrap(), "O'Brien");
    assert_eq!(Some(stored.etag()), written.etag.as_ref());
    assert_eq!(Some(stored.timestamp()), written.timestamp);

    stored.set("Age", 6);
    stored.remove("Näme");
    let replaced = table.replace(&mut stored).await.unwrap();
    assert_eq!(Some(stored.etag()), replaced.etag.as_ref());
    table.update(&DynEntity::new("Smith", "1"), Mode::Merge, IfMatch::Any).await.unwrap();
    let merged = table.get::<DynEntity>(("Smith", "1")).await.unwrap().unwrap();
    assert_eq!(merged.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["Age"]);
    let error = table.replace(&mut stored).await.unwrap_err();
    assert!(error.is_changed() && error.outcome() == Outcome::NotApplied, "{error}");
    assert!(table.delete(&stored).await.unwrap_err().is_changed());
    table.delete(&merged).await.unwrap();
    assert!(table.replace(&mut stored).await.unwrap_err().is_not_found());
    for mode in [Mode::Merge, Mode::Replace] {
        let update = table.update(&person("1", 9), mode, IfMatch::Any);
        assert!(update.await.unwrap_err().is_not_found());
        assert_eq!(table.upsert(&person("1", 9), mode).await.unwrap().status, 204);
        assert!(table.delete_if_exists::<DynEntity>(("Smith", "1")).await.unwrap());
        assert!(!table.delete_if_exists::<DynEntity>(("Smith", "1")).await.unwrap());
    }
    assert!(matches!(table.create_if_missing(&person("1", 7)).await.unwrap(), Created::New(_)));
    let existing = table.create_if_missing(&person("1", 8)).await.unwrap();
    assert!(matches!(existing, Created::Existing(found) if found.get::<i32>("Age").unwrap() == 7));
}

/// G93: what one request cannot know is for the service to say: here, that a merge makes an entity too
/// large.
pub(super) async fn limits(site: &Site) {
    let table = site.table().await;
    let half = |from: i32| {
        let mut half = DynEntity::new("p", "r");
        (from..from + 130).for_each(|at| drop(half.set(format!("P{at}"), at)));
        half
    };
    table.insert(&half(0)).await.unwrap();
    let merged = table.upsert(&half(130), Mode::Merge).await;
    if site.differs(Difference::MergesWithoutLimits) {
        merged.unwrap();
    } else {
        assert_eq!(merged.unwrap_err().code(), Some("TooManyProperties"));
        let stored = table.get::<DynEntity>(("p", "r")).await.unwrap().unwrap();
        assert_eq!(stored.iter().len(), 130);
    }
    let large = |name: &str| {
        let mut large = DynEntity::new("p", "large");
        (0..10).for_each(|at| drop(large.set(format!("{name}{at}"), vec![7; 60_000])));
        large
    };
    table.insert(&large("A")).await.unwrap();
    let merged = table.upsert(&large("B"), Mode::Merge).await;
    let code = merged.map_or_else(|error| error.code().map(str::to_owned), |_| None);
    let is_checked = !site.differs(Difference::MergesWithoutLimits);
    assert_eq!(code.as_deref(), is_checked.then_some("EntityTooLarge"));
    // What it can know is refused before it is sent.
    let error = table.insert(&DynEntity::new("p/q", "r")).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Invalid { .. }), "{error}");
}

pub(super) async fn modify(site: &Site) {
    let table = site.table().await;
    table.insert(&person("1", 0)).await.unwrap();
    let increment = || async {
        table
            .try_modify::<DynEntity>(("Smith", "1"), |person| {
                *person.get_mut::<i32>("Age")? += 1;
                Ok(())
            })
            .await
            .unwrap()
    };
    futures_util::future::join_all((0..4).map(|_| increment())).await;
    assert_eq!(age(&table, "1").await, Some(4));
    let removed = table.modify::<DynEntity>(("Smith", "1"), |one| drop(one.remove("Age"))).await;
    assert!(removed.unwrap().written.is_some());
    let left = table.get::<DynEntity>(("Smith", "1")).await.unwrap().unwrap();
    assert_eq!(left.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["Näme"]);
}

pub(super) async fn transactions(site: &Site) {
    let table = site.table().await;
    table.insert(&person("1", 1)).await.unwrap();
    let stored = table.get::<DynEntity>(("Smith", "1")).await.unwrap().unwrap();
    let mut every = table.transaction("Smith");
    every.insert(&person("2", 2)).unwrap().upsert(&person("3", 3), Mode::Merge).unwrap();
    every.upsert(&person("4", 4), Mode::Replace).unwrap().guard(&stored).unwrap();
    let written = every.commit().await.unwrap();
    assert_eq!(written.len(), 4);
    for (row, written) in ["2", "3", "4"].into_iter().zip(&written) {
        let stored = table.get::<DynEntity>(("Smith", row)).await.unwrap().unwrap();
        assert_eq!(Some(stored.etag()), written.etag.as_ref(), "{row}");
    }
    let mut changed = table.transaction("Smith");
    changed.update(&person("2", 20), Mode::Replace, &IfMatch::Any).unwrap();
    changed.update(&person("3", 30), Mode::Merge, &IfMatch::Any).unwrap();
    changed.delete_row("4").unwrap();
    changed.commit().await.unwrap();
    let ages = [age(&table, "2").await, age(&table, "3").await, age(&table, "4").await];
    assert_eq!(ages, [Some(20), Some(30), None]);
}

pub(super) async fn whole_transactions(site: &Site) {
    let table = site.table().await;
    table.insert(&person("1", 1)).await.unwrap();
    let old = table.get::<DynEntity>(("Smith", "1")).await.unwrap().unwrap();
    table.update(&person("1", 2), Mode::Replace, IfMatch::Any).await.unwrap();
    for (kind, what) in [(409, "insert '1'"), (412, "delete '1'"), (404, "delete '9'")] {
        let mut failing = table.transaction("Smith");
        failing.insert(&person("0", 0)).unwrap();
        match kind {
            409 => failing.insert(&person("1", 1)).unwrap(),
            412 => failing.delete(&old).unwrap(),
            _ => failing.delete_row("9").unwrap(),
        };
        let error = failing.commit().await.unwrap_err();
        let index = match error.kind() {
            ErrorKind::Transaction { index, .. } => *index,
            other => panic!("{other:?}"),
        };
        assert_eq!((error.status(), index), (Some(kind), Some(1)), "{error}");
        assert!(error.to_string().contains(&format!("operation 2 of 2, {what}")), "{error}");
        assert_eq!(age(&table, "0").await, None, "{kind}: nothing of it was applied");
    }
    let mut hundred = table.transaction("Smith");
    for row in 100..200 {
        hundred.insert(&person(&row.to_string(), row)).unwrap();
    }
    assert_eq!(hundred.commit().await.unwrap().len(), 100);
}

pub(super) async fn bulk(site: &Site) {
    let table = site.table().await;
    let people = (0..250).map(|row| person(&format!("{row:03}"), row));
    let others = (0..3).map(|row| DynEntity::new(format!("other{row}"), "1"));
    let report = table.bulk().parallel(4).upsert_all(people.chain(others), Mode::Replace).await;
    let report = report.unwrap();
    assert_eq!((report.written, report.requests, report.failed.len()), (253, 6, 0));
    let report = table.bulk().insert_all([person("000", 1), person("999", 1)]).await.unwrap();
    assert_eq!((report.written, report.failed.len()), (0, 1));
    assert!(report.into_result().unwrap_err().is_conflict());
    assert_eq!(age(&table, "999").await, None);
}
