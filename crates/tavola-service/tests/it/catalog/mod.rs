//! The catalogue with a kind of its own beside tables, on the reference store and on one that loses
//! races, forgets to answer and delays.

mod shelves;

use std::sync::Arc;
use std::time::Duration;

use tavola_core::{
    AccessPolicy, AccountName, EntityGroupTransaction, EntityOperation, EntityView, Metadata,
    TableId, TableRequest, Timestamp,
};
use tavola_service::Audit;
use tavola_service::catalog::{Catalog, CatalogBase, Creation, Entry, LastModified, Tables};
use tavola_service::record::{int64, require};
use tavola_store::{MemoryStore, StopToken, Store};

use self::shelves::{
    Shelf, ShelfAttributes, ShelfError, Shelves, metadata, of_height, shelf, until_answered,
};
use crate::common::{Fixture, TestClock, name, new_entity, on_every_store, pass};

on_every_store!(
    a_resource_is_created_once,
    creation_finds_what_is_there,
    listings_are_cut_by_prefix_marker_and_page,
    policies_metadata_and_attributes_change_one_by_one,
    only_modifications_advance_the_last_one,
    deletion_asks_first_and_frees_the_name,
    renewal_keeps_everything_but_the_content,
    equal_names_of_different_kinds_do_not_meet,
    what_any_kind_dropped_is_reclaimed,
    of_many_creations_one_succeeds,
    no_change_is_lost,
    a_change_never_brings_back_what_was_deleted,
    what_is_held_is_not_deleted_by_another,
    no_find_after_a_renewal_has_the_old_table,
    an_audit_understands_every_kind,
);

async fn a_resource_is_created_once(fixture: Fixture) {
    let shelves = Shelves::new(&fixture);
    assert!(shelves.find("one").await.is_none());
    let made = shelves.make("one", of_height(3)).await;
    let (again, _) = shelves.create("one", of_height(4)).await;
    assert!(matches!(again, Err(ShelfError::AlreadyExists)), "{again:?}");
    let found = shelves.find("one").await.unwrap();
    assert_eq!((found.id(), found.attributes.height), (made.id(), 3));
    assert_eq!(found.modified(), made.modified(), "a creation answers with its version");
    assert!(shelves.find("two").await.is_none());
}

async fn creation_finds_what_is_there(fixture: Fixture) {
    let shelves = Shelves::new(&fixture);
    let create = async |attributes: ShelfAttributes| {
        let name = shelf("one");
        until_answered(|| {
            shelves.catalog.create_or_find(&shelves.account, &name, attributes.clone())
        })
        .await
    };
    let noted =
        ShelfAttributes { metadata: metadata(&[("Of", "oak"), ("b", "=\t=")]), ..of_height(1) };
    let (created, unknown) = create(noted.clone()).await;
    let created = match created.unwrap() {
        Creation::Created(entry) => entry,
        Creation::Found(entry) if unknown > 0 => entry,
        other => panic!("{other:?}"),
    };
    let (again, _) = create(of_height(2)).await;
    let Creation::Found(found) = again.unwrap() else { panic!("it was there") };
    assert_eq!((found.id(), found.attributes.height), (created.id(), 1));
    assert_eq!(found.modified(), created.modified());
    assert_eq!(found.attributes.metadata, noted.metadata);
    let names: Vec<_> = found.attributes.metadata.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["Of", "b"], "case and order are kept");
}

async fn listings_are_cut_by_prefix_marker_and_page(fixture: Fixture) {
    let shelves = Shelves::new(&fixture);
    let names = ["a-1", "a-10", "a-2", "aa1", "b--", "b-1"];
    for name in names.iter().rev() {
        shelves.make(name, of_height(1)).await;
    }
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(shelves.names("", None, 5000).await, (owned(&names), None));
    assert_eq!(shelves.names("", None, 2).await, (owned(&names[..2]), Some("a-2".to_owned())));
    assert_eq!(shelves.names("", Some("a-2"), 4).await, (owned(&names[2..]), None));
    assert_eq!(shelves.names("", Some("a-11"), 1).await.0, ["a-2"], "a marker that is gone");
    assert_eq!(shelves.names("a-", None, 5000).await, (owned(&names[..3]), None));
    assert_eq!(shelves.names("a-1", None, 1).await, (owned(&["a-1"]), Some("a-10".to_owned())));
    assert_eq!(shelves.names("a-1", Some("a-10"), 1).await, (owned(&["a-10"]), None));
    assert_eq!(shelves.names("b", Some("a-10"), 9).await.0, ["b--", "b-1"]);
    assert_eq!(shelves.names("", None, 0).await, (Vec::new(), None));
    for none in ["c", "A", "a-1~", "\u{1}", "é", "a/b", &"a".repeat(2000)] {
        assert_eq!(shelves.names(none, None, 9).await, (Vec::new(), None), "{none:?}");
    }
    let listed = shelves.list("", None, 2).await;
    assert_eq!(listed.cost.rows_read, 2, "a page costs what it has");
}

async fn policies_metadata_and_attributes_change_one_by_one(fixture: Fixture) {
    let shelves = Shelves::new(&fixture);
    let many: Vec<_> = (0..300).map(|n| (format!("name{n}"), format!("value {n}"))).collect();
    let many = Metadata::new(many).unwrap();
    let policy = AccessPolicy { id: "p".to_owned(), start: None, expiry: None, permission: None };
    shelves.make("one", of_height(3)).await;
    let advances = LastModified::Advances;
    let (changed, _) = shelves
        .change("one", advances, |entry| {
            entry.attributes.metadata = many.clone();
            Ok(())
        })
        .await;
    changed.unwrap();
    let (changed, _) = shelves
        .change("one", advances, |entry| {
            entry.policies = vec![policy.clone()];
            Ok(())
        })
        .await;
    let changed = changed.unwrap();
    let found = shelves.find("one").await.unwrap();
    assert_eq!(found.policies, [policy]);
    assert_eq!((&found.attributes.metadata, found.attributes.height), (&many, 3));
    assert_eq!(found.modified(), changed.modified());
    let (refused, _) = shelves.change("one", advances, |_| Err(ShelfError::Held)).await;
    assert!(matches!(refused, Err(ShelfError::Held)));
    let (missing, _) = shelves.change("two", advances, |_| Ok(())).await;
    assert!(matches!(missing, Err(ShelfError::NotFound)));
    assert_eq!(shelves.read("one").await.unwrap().modified(), changed.modified());
}

async fn only_modifications_advance_the_last_one(fixture: Fixture) {
    let shelves = Shelves::new(&fixture);
    let created = shelves.make("one", of_height(1)).await.modified();
    let hold = |entry: &mut Entry<Shelf>| {
        entry.attributes.holder = Some("me".to_owned());
        Ok(())
    };
    for _ in 0..2 {
        let held = shelves.change("one", LastModified::Stays, hold).await.0.unwrap();
        assert_eq!(held.modified(), created);
        assert_eq!(shelves.read("one").await.unwrap().modified(), created);
    }
    let changed = shelves.change("one", LastModified::Advances, |_| Ok(())).await.0.unwrap();
    assert!(changed.modified() > created);
    let read = shelves.read("one").await.unwrap();
    assert_eq!(read.modified(), changed.modified());
    assert_eq!(read.attributes.holder.as_deref(), Some("me"));
}

async fn deletion_asks_first_and_frees_the_name(fixture: Fixture) {
    let shelves = Shelves::new(&fixture);
    let held = ShelfAttributes { holder: Some("me".to_owned()), ..of_height(1) };
    let first = shelves.make("one", held).await;
    for other in [None, Some("you")] {
        assert!(matches!(shelves.delete("one", other).await.0, Err(ShelfError::Held)));
    }
    assert!(shelves.find("one").await.is_some());
    match shelves.delete("one", Some("me")).await {
        (Ok(deleted), _) => assert_eq!(deleted.id(), first.id()),
        (Err(ShelfError::NotFound), unknown) if unknown > 0 => {}
        (other, _) => panic!("{other:?}"),
    }
    assert!(shelves.find("one").await.is_none());
    assert!(matches!(shelves.delete("one", None).await.0, Err(ShelfError::NotFound)));
    let second = shelves.make("one", of_height(2)).await;
    assert!(second.id() > first.id(), "an id is never used again");
}

async fn renewal_keeps_everything_but_the_content(fixture: Fixture) {
    let shelves = Shelves::new(&fixture);
    let noted = ShelfAttributes { metadata: metadata(&[("a", "1")]), ..of_height(7) };
    let before = shelves.make("one", noted.clone()).await;
    let renewed = shelves.renew("one").await.0.unwrap();
    let found = shelves.find("one").await.unwrap();
    assert_eq!(found.id(), renewed.id());
    assert!(found.id() > before.id());
    assert_eq!(found.modified(), before.modified());
    assert_eq!((found.attributes.height, &found.attributes.metadata), (7, &noted.metadata));
    assert!(dropped(&fixture).await.contains(&before.id()));
    assert!(!dropped(&fixture).await.contains(&found.id()));
    assert!(matches!(shelves.renew("two").await.0, Err(ShelfError::NotFound)));
}

async fn equal_names_of_different_kinds_do_not_meet(fixture: Fixture) {
    let shelves = Shelves::new(&fixture);
    fixture.create("same").await.unwrap();
    fixture.insert("same", "p/r", 1).await.unwrap();
    let made = shelves.make("same", of_height(1)).await;
    assert_eq!(fixture.tables("", None, None).await.0, ["same"]);
    assert_eq!(shelves.names("", None, 9).await.0, ["same"]);
    fixture.drop_table("same").await.unwrap();
    assert_eq!(shelves.find("same").await.unwrap().id(), made.id());
    fixture.create("same").await.unwrap();
    fixture.insert("same", "p/r", 2).await.unwrap();
    shelves.remove("same").await;
    assert!(shelves.find("same").await.is_none());
    assert_eq!(fixture.get("same", "p/r").await.unwrap().0, 2);
}

/// Both by the deletion of a resource and by its renewal, and by the one reclaimer of all services.
async fn what_any_kind_dropped_is_reclaimed(fixture: Fixture) {
    let shelves = Shelves::new(&fixture);
    let (one, two) =
        (shelves.make("one", of_height(1)).await, shelves.make("two", of_height(1)).await);
    fixture.create("table").await.unwrap();
    for id in [one.id(), two.id()] {
        fill(&fixture, id).await;
    }
    shelves.remove("one").await;
    shelves.renew("two").await.0.unwrap();
    fixture.drop_table("table").await.unwrap();
    let all_dropped = dropped(&fixture).await.len();
    assert!(all_dropped >= 3, "a renewal of unknown outcome drops one more");
    let mut reclaimer = fixture.service.reclaimer();
    assert_eq!(pass(&mut reclaimer).await, all_dropped);
    fixture.clock.advance_seconds(61);
    assert_eq!(pass(&mut reclaimer).await, 0);
    for id in [one.id(), two.id()] {
        assert_eq!(fixture.rows_of(id).await, 0);
    }
    assert!(dropped(&fixture).await.is_empty());
    assert_eq!(fixture.rows_of(TableId::CATALOG).await, 1, "the second shelf");
}

async fn of_many_creations_one_succeeds(fixture: Fixture) {
    let shelves = Shelves::new(&fixture);
    let creations: Vec<_> = (0..8)
        .map(|height| {
            let shelves = shelves.clone();
            tokio::spawn(async move { shelves.create("one", of_height(height)).await })
        })
        .collect();
    let (mut created, mut unknown) = (Vec::new(), 0);
    for creation in creations {
        match creation.await.unwrap() {
            (Ok(entry), _) => created.push(entry.id()),
            (Err(ShelfError::AlreadyExists), repeated) => unknown += repeated,
            (other, _) => panic!("{other:?}"),
        }
    }
    let stands = shelves.find("one").await.unwrap().id();
    assert!(created == [stands] || (created.is_empty() && unknown > 0), "{created:?}");
}

async fn no_change_is_lost(fixture: Fixture) {
    let shelves = Shelves::new(&fixture);
    shelves.make("one", of_height(0)).await;
    let changes: Vec<_> = (0..6)
        .map(|_| {
            let shelves = shelves.clone();
            tokio::spawn(async move {
                let raise = |entry: &mut Entry<Shelf>| {
                    entry.attributes.height += 1;
                    Ok(())
                };
                let mut unknown_all = 0;
                for _ in 0..5 {
                    let (raised, unknown) =
                        shelves.change("one", LastModified::Advances, raise).await;
                    raised.unwrap();
                    unknown_all += unknown;
                }
                unknown_all
            })
        })
        .collect();
    let mut unknown = 0;
    for change in changes {
        unknown += change.await.unwrap();
    }
    let height = shelves.find("one").await.unwrap().attributes.height;
    assert!((30..=30 + unknown as i64).contains(&height), "{height}, {unknown} unknown");
}

async fn a_change_never_brings_back_what_was_deleted(fixture: Fixture) {
    let shelves = Shelves::new(&fixture);
    let made = shelves.make("one", of_height(0)).await;
    let changing = tokio::spawn({
        let shelves = shelves.clone();
        async move {
            loop {
                match shelves.change("one", LastModified::Advances, |_| Ok(())).await.0 {
                    Ok(_) => tokio::task::yield_now().await,
                    Err(ShelfError::NotFound) => return,
                    Err(other) => panic!("{other:?}"),
                }
            }
        }
    });
    tokio::task::yield_now().await;
    shelves.remove("one").await;
    changing.await.unwrap();
    assert!(shelves.read("one").await.is_none());
    assert_eq!(dropped(&fixture).await, [made.id()]);
}

/// A deletion that was permitted before somebody took hold must not be carried out after it.
async fn what_is_held_is_not_deleted_by_another(fixture: Fixture) {
    let shelves = Shelves::new(&fixture);
    for round in 0..6 {
        let name = format!("shelf-{round}");
        shelves.make(&name, of_height(0)).await;
        let hold = |entry: &mut Entry<Shelf>| {
            entry.attributes.holder = Some("me".to_owned());
            Ok(())
        };
        let (held, deleted) = if round % 2 == 0 {
            let holding = shelves.change(&name, LastModified::Stays, hold);
            tokio::join!(holding, shelves.delete(&name, None))
        } else {
            let holding = shelves.change(&name, LastModified::Stays, hold);
            let (deleted, held) = tokio::join!(shelves.delete(&name, None), holding);
            (held, deleted)
        };
        match (held.0, deleted.0) {
            (Ok(_), Err(ShelfError::Held)) => {
                let found = shelves.find(&name).await.unwrap();
                assert_eq!(found.attributes.holder.as_deref(), Some("me"));
            }
            (Err(ShelfError::NotFound), Ok(_) | Err(ShelfError::NotFound)) => {
                assert!(shelves.find(&name).await.is_none());
            }
            other => panic!("{other:?}"),
        }
    }
}

async fn no_find_after_a_renewal_has_the_old_table(fixture: Fixture) {
    let shelves = Shelves::new(&fixture);
    shelves.make("one", of_height(0)).await;
    let finding = tokio::spawn({
        let shelves = shelves.clone();
        async move {
            let mut last = TableId::new(0);
            for _ in 0..200 {
                let found = shelves.find("one").await.unwrap().id();
                assert!(found >= last, "a table that was dropped is not found again");
                last = found;
                tokio::task::yield_now().await;
            }
        }
    });
    for _ in 0..10 {
        let renewed = shelves.renew("one").await.0.unwrap();
        assert_eq!(shelves.find("one").await.unwrap().id(), renewed.id());
    }
    finding.await.unwrap();
}

async fn an_audit_understands_every_kind(fixture: Fixture) {
    let shelves = Shelves::new(&fixture);
    fixture.create("same").await.unwrap();
    let noted = ShelfAttributes { metadata: metadata(&[("a", "1")]), ..of_height(7) };
    let made = shelves.make("same", noted).await;
    shelves.change("same", LastModified::Stays, |_| Ok(())).await.0.unwrap();
    shelves.make("gone", of_height(1)).await;
    shelves.remove("gone").await;
    let findings = async |mut audit: Audit| {
        for table in [TableId::CATALOG, TableId::SEQUENCES] {
            let rows = fixture.all_rows(table).await;
            rows.iter().for_each(|row| audit.offer(table, &row.as_row_ref()));
        }
        audit.finish(std::iter::once(made.id()))
    };
    let audited = findings(Audit::default().with_kind::<Shelf>()).await;
    assert_eq!(audited.findings, Vec::<String>::new());
    let known = &audited.tables[&made.id()];
    assert_eq!((known.noun, known.name.as_deref()), ("shelf", Some("same")));
    let unknown = findings(Audit::default()).await.findings;
    let expected = "the catalogue's row \"s:same\" of acct: neither a living nor a dropped table";
    assert!(unknown.iter().any(|finding| finding == expected), "{unknown:?}");
}

/// The rows of tables are what they have always been.
#[tokio::test]
async fn a_table_has_no_properties_of_other_kinds() {
    let fixture = Fixture::on_memory();
    fixture.create("Orders").await.unwrap();
    let at = |date| Some(tavola_core::DateTime::parse(date).unwrap());
    let policies = vec![AccessPolicy {
        id: "p".to_owned(),
        start: at("2026-01-01T00:00:00Z"),
        expiry: at("2027-01-01T00:00:00Z"),
        permission: Some("r".to_owned()),
    }];
    for expected in [
        vec!["Name", "Id"],
        vec!["Name", "Id", "Policy0", "Policy0Start", "Policy0Expiry", "Policy0Permission"],
    ] {
        let rows = fixture.all_rows(TableId::CATALOG).await;
        let [row] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!(row.row_key().as_str(), "t:orders");
        let mut names = Vec::new();
        row.visit(&mut |name, _| names.push(name.to_string()));
        assert_eq!(names, expected);
        fixture.ask(TableRequest::SetPolicies(name("orders"), policies.clone())).await.unwrap();
    }
}

/// A writer that found the old table in another process has been answered before the renewal is.
#[tokio::test(start_paused = true)]
async fn another_process_sees_a_renewal_when_it_is_answered() {
    const LEASE: Duration = Duration::from_secs(2);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let process = || {
        let base = CatalogBase::shared(Arc::clone(&store), TestClock::new(), LEASE);
        Catalog::<Shelf>::new(base)
    };
    let (here, there) = (process(), process());
    let (account, one) = (AccountName::parse("acct").unwrap(), shelf("one"));
    let made = here.create(&account, &one, of_height(1)).await.unwrap();
    assert_eq!(there.find(&account, &one).await.unwrap().unwrap().id(), made.id());
    let begun = tokio::time::Instant::now();
    let renewed = here.renew(&account, &one, |_| Ok(())).await.unwrap();
    assert!(begun.elapsed() >= LEASE);
    assert_eq!(there.find(&account, &one).await.unwrap().unwrap().id(), renewed.id());
    here.delete(&account, &one, |_| Ok(())).await.unwrap();
    assert!(there.find(&account, &one).await.unwrap().is_none());
}

/// Tables can be listed as every kind can, whatever the case of the prefix.
#[tokio::test]
async fn tables_are_listed_by_folded_names() {
    let fixture = Fixture::on_memory();
    for table in ["Alpha", "alpine", "Beta"] {
        fixture.create(table).await.unwrap();
    }
    let tables = Catalog::<Tables>::new(Arc::clone(&fixture.base));
    let stop = StopToken::default();
    let listed = tables.list(&fixture.account, "ALP", None, 1, (&stop).into()).await.unwrap();
    let names: Vec<_> = listed.entries.iter().map(|entry| entry.name().as_str()).collect();
    assert_eq!((names, listed.next.as_deref()), (vec!["Alpha"], Some("alpine")));
}

/// The tables of the store that wait to be reclaimed.
async fn dropped(fixture: &Fixture) -> Vec<TableId> {
    let id = |row: &dyn EntityView| TableId::new(require(row, "Id", int64).unwrap() as u64);
    let rows = fixture.all_rows(TableId::CATALOG).await;
    rows.iter().filter(|row| row.row_key().as_str().starts_with("d:")).map(|row| id(row)).collect()
}

/// Puts a row into a table of the store.
async fn fill(fixture: &Fixture, table: TableId) {
    let (partition_key, new) = new_entity("p/r", 1);
    let insert = EntityGroupTransaction::single(partition_key, EntityOperation::Insert(new));
    while fixture.rows_of(table).await == 0 {
        let _answer = fixture.store.commit(table, &insert, Timestamp::MIN).await;
    }
}
