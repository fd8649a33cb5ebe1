//! Entities that go elsewhere: G102 partitions, G139 copies, G140 never in neither, G141 readers, G142
//! late edits, G145 and G180 accounts and files; and what every pattern must show: G129 cuts, G130
//! races, G131 costs.

use std::sync::Arc;
use std::time::Duration;

use tavola_client::patterns::{
    Copied, FileTarget, Located, Move, Outbox, TableTarget, Target, Worker,
};
use tavola_client::testing::{Checked, Sim, counting, every_cut, race};
use tavola_client::{DynEntity, Entity, IfMatch, Mode, TableClient, TableServiceClient};

use crate::common::stall_everywhere;

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(kind = "order", partition = "{dept}", row = "{id:06}")]
struct Order {
    dept: String,
    id: u32,
    note: String,
}

fn new_order(note: &str) -> Order {
    Order { dept: "Sales".to_owned(), id: 456, note: note.to_owned() }
}

const KEY: (&str, &str) = ("Sales", "000456");

fn archive(sim: &Sim) -> Move<Order> {
    let outbox = Outbox::new(&sim.table("current"));
    Move::new(&outbox, "archive", TableTarget::new(&sim.table("archive")))
}

async fn drain_once(moves: &Move<Order>, current: &TableClient) -> Checked {
    Outbox::new(current).worker().step(moves.clone()).drain().await?;
    Ok(())
}

async fn drain(sim: Sim) -> Checked {
    drain_once(&archive(&sim), &sim.table("current")).await
}

async fn seed(sim: Sim) -> Checked {
    sim.table("current").create().await?;
    sim.table("archive").create().await?;
    sim.table("current").insert(&new_order("old")).await?;
    Ok(())
}

async fn start(sim: Sim) -> Checked {
    archive(&sim).start(KEY).await?;
    Ok(())
}

async fn seed_started(sim: Sim) -> Checked {
    seed(sim.clone()).await?;
    start(sim).await
}

/// The notes of the order in both tables.
async fn notes(sim: &Sim) -> Result<(Option<String>, Option<String>), tavola_client::Error> {
    let current = sim.table("current").get::<Order>(KEY).await?;
    let archive = sim.table("archive").get::<Order>(KEY).await?;
    Ok((current.map(|order| order.note.clone()), archive.map(|order| order.note.clone())))
}

async fn never_in_neither(sim: Sim) -> Checked {
    match notes(&sim).await? {
        (None, None) => Err("the order is in neither table".into()),
        _ => Ok(()),
    }
}

/// It is in one place, as it was last written.
async fn in_the_archive(sim: Sim) -> Checked {
    drain(sim.clone()).await?;
    let note = if sim.notes().is_empty() { "old" } else { "edited" };
    match notes(&sim).await? {
        (None, Some(found)) if found == note => Ok(()),
        found => Err(format!("{found:?} instead of {note}").into()),
    }
}

/// Changes the order where it is now, unless it is moved already.
async fn edit(sim: Sim) -> Checked {
    let change = |order: &mut Order| order.note = "edited".to_owned();
    match sim.table("current").modify(KEY, change).await {
        Ok(_) => sim.note("edited"),
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// The steps of the guide: get, insert or replace, delete if it exists.
async fn guide_worker(sim: Sim) -> Checked {
    let Some(order) = sim.table("current").get::<Order>(KEY).await? else { return Ok(()) };
    sim.table("archive").upsert(&*order, Mode::Replace).await?;
    sim.table("current").delete_if_exists::<Order>(KEY).await?;
    Ok(())
}

/// The gap of the guide, first half: an edit between the read and the delete is lost, and a stalled
/// worker puts an older copy over a newer one.
#[tokio::test]
async fn by_the_steps_of_the_guide_an_edit_is_lost() {
    let race = || race(tavola_local::in_memory).seed(seed).writer(guide_worker).writer(edit);
    let broken = race().finally(in_the_archive).run().await.unwrap_err();
    assert!(broken.reason().contains("instead of edited"), "{broken}");

    // Deleting by version keeps the edit, and yet the older copy of a stalled worker wins.
    let by_version = |sim: Sim| async move {
        let Some(order) = sim.table("current").get::<Order>(KEY).await? else { return Ok(()) };
        sim.table("archive").upsert(&*order, Mode::Replace).await?;
        match sim.table("current").delete(&order).await {
            Err(error) if !matches!(error.status(), Some(404 | 412)) => Err(error.into()),
            _ => Ok(()),
        }
    };
    let stalled = tavola_client::testing::race(tavola_local::in_memory).seed(seed);
    let stalled = stalled.writer(by_version).writer(by_version).writer(edit);
    let finally = |sim: Sim| async move {
        guide_worker(sim.clone()).await?;
        in_the_archive(sim).await
    };
    let broken = stalled.at_most(2000, 500).finally(finally).run().await.unwrap_err();
    assert!(broken.reason().contains("instead of edited"), "{broken}");
}

/// The gap of the guide, second half (G141): who reads the target first can miss it in both.
#[tokio::test]
async fn a_reader_in_the_other_order_misses_it() {
    let wrong = |sim: Sim| async move {
        let archived = sim.table("archive").get::<Order>(KEY).await?;
        let current = sim.table("current").get::<Order>(KEY).await?;
        if archived.is_none() && current.is_none() { Err("missed".into()) } else { Ok(()) }
    };
    let race = || race(tavola_local::in_memory).seed(seed_started).at_most(2000, 0);
    let broken = race().writer(drain).writer(wrong).run().await.unwrap_err();
    assert!(broken.reason().contains("missed"), "{broken}");
    let right = |sim: Sim| async move {
        archive(&sim).get(KEY).await?.map(drop).ok_or_else(|| "missed".into())
    };
    race().writer(drain).writer(right).run().await.unwrap();
}

/// G129, G140: each request of the start and of the worker, cut in each way, twice.
#[tokio::test]
async fn every_cut_ends_in_one_place() {
    let scenario = |sim: Sim| async move {
        start(sim.clone()).await?;
        sim.note("edited");
        edit(sim).await
    };
    let recover = |sim: Sim| async move {
        // A start that was cut is started again; if the entity is gone, it is moved already.
        match archive(&sim).start(KEY).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => drain(sim).await,
        }
    };
    let finally = |sim: Sim| async move {
        drain(sim.clone()).await?;
        match notes(&sim).await? {
            (None, Some(note)) if note == "old" || !sim.notes().is_empty() => Ok(()),
            found => Err(format!("{found:?}").into()),
        }
    };
    let cuts = every_cut(tavola_local::in_memory, scenario).seed(seed).recover(recover);
    let report = cuts.always(never_in_neither).finally(finally).run().await.unwrap();
    assert_eq!(report.requests, 1 + 2 + 2, "start: get, hint, transaction; modify: get, merge");

    let cuts = every_cut(tavola_local::in_memory, drain).seed(seed_started).recover(drain);
    cuts.always(never_in_neither).finally(in_the_archive).depth(2).run().await.unwrap();
}

/// G130, G139, G140, G142: two workers, of which one is stalled anywhere, and edits in between.
#[tokio::test]
async fn workers_and_edits_race() {
    let race = race(tavola_local::in_memory).seed(seed_started).writer(drain).writer(drain);
    let race = race.writer(edit).at_most(400, 300);
    race.always(never_in_neither).finally(in_the_archive).run().await.unwrap();
}

/// How long the work is a worker's alone, where it stalls.
const LEASE: Duration = Duration::from_millis(20);

fn archive_of(service: &TableServiceClient) -> (Move<Order>, Worker) {
    let (current, archive) = (service.table_client("current"), service.table_client("archive"));
    let outbox = Outbox::new(&current);
    let moves = Move::new(&outbox, "archive", TableTarget::new(&archive));
    let worker = outbox.worker().step(moves.clone()).lease(LEASE);
    (moves, worker)
}

/// G139, G142: a worker stalls before any of its requests for longer than its lease; meanwhile the
/// order is edited and another worker moves it.
#[tokio::test]
async fn a_worker_that_stalls_anywhere_brings_back_no_older_copy() {
    let seed = async |service: &TableServiceClient| {
        let current = service.table_client("current");
        current.create().await.unwrap();
        service.table_client("archive").create().await.unwrap();
        current.insert(&new_order("old")).await.unwrap();
        archive_of(service).0.start(KEY).await.unwrap();
    };
    let work = |service: TableServiceClient| async move {
        archive_of(&service).1.drain().await.unwrap();
    };
    let meanwhile = async |service: &TableServiceClient| {
        let change = |order: &mut Order| order.note = "edited".to_owned();
        match service.table_client("current").modify(KEY, change).await {
            Err(error) => assert!(error.is_not_found(), "{error}"),
            Ok(_) => {
                tokio::time::sleep(LEASE * 2).await;
                archive_of(service).1.drain().await.unwrap();
            }
        }
    };
    let check = async |service: &TableServiceClient, at: usize| {
        let current = service.table_client("current").get::<Order>(KEY).await.unwrap();
        let archived = service.table_client("archive").get::<Order>(KEY).await.unwrap().unwrap();
        // The first requests are hints, rows, claim, get, insert, delete.
        let note = if at < 6 { "edited" } else { "old" };
        assert_eq!((current.is_none(), archived.note.as_str()), (true, note), "stalled at {at}");
    };
    let requests = stall_everywhere(seed, work, meanwhile, check).await;
    assert!(requests >= 2 + 5, "{requests}");
}

/// Double delivery: the work was put twice.
#[tokio::test]
async fn started_twice_is_moved_once() {
    let race = race(tavola_local::in_memory).seed(seed_started).writer(start_again).writer(drain);
    race.at_most(400, 100).always(never_in_neither).finally(in_the_archive).run().await.unwrap();
}

async fn start_again(sim: Sim) -> Checked {
    match archive(&sim).start(KEY).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

/// An entity that is created again, under the key of one that was to be moved, stays.
#[tokio::test]
async fn what_is_created_again_stays() {
    let create_again = |sim: Sim| async move {
        sim.table("current").delete_if_exists::<Order>(KEY).await?;
        sim.table("current").insert(&new_order("new")).await?;
        Ok(())
    };
    let finally = |sim: Sim| async move {
        drain(sim.clone()).await?;
        match notes(&sim).await? {
            (Some(new), archived) if new == "new" && archived.as_deref() != Some("new") => Ok(()),
            found => Err(format!("{found:?}").into()),
        }
    };
    let new = || race(tavola_local::in_memory).seed(seed_started).at_most(400, 200);
    let race = new().writer(drain).writer(drain).writer(create_again);
    race.finally(finally).run().await.unwrap();

    // And it can be moved later, over the older one.
    let scenario = |sim: Sim| async move {
        drain(sim.clone()).await?;
        sim.table("current").insert(&new_order("new")).await?;
        start(sim.clone()).await?;
        drain(sim.clone()).await?;
        assert_eq!(notes(&sim).await?, (None, Some("new".to_owned())));
        Ok(())
    };
    new().writer(scenario).run().await.unwrap();
}

/// Absent in both: reported, not poison. A row that no move wrote is not overwritten: poison.
#[tokio::test]
async fn absent_is_reported_and_foreign_rows_are_kept() {
    let absent = |sim: Sim| async move {
        sim.table("current").delete_at::<Order>(KEY, IfMatch::Any).await?;
        let worker = Outbox::new(&sim.table("current")).worker().step(archive(&sim));
        let report = worker.drain().await?;
        assert_eq!((report.skipped, report.failed, report.poisoned), (1, 0, 0));
        assert!(archive(&sim).start(KEY).await.unwrap_err().is_not_found());
        Ok(())
    };
    let foreign = |sim: Sim| async move {
        sim.table("archive").insert(&new_order("foreign")).await?;
        let outbox = Outbox::new(&sim.table("current"));
        let worker = outbox.worker().step(archive(&sim)).poison_after(2);
        let report = worker.drain().await?;
        assert_eq!((report.failed, report.poisoned), (2, 1));
        let text = outbox.poisoned().await?[0].error.clone().unwrap_or_default();
        assert!(text.contains("that no move wrote"), "{text}");
        let both = (Some("old".to_owned()), Some("foreign".to_owned()));
        assert_eq!(notes(&sim).await?, both);
        Ok(())
    };
    let new = || race(tavola_local::in_memory).seed(seed_started);
    new().writer(absent).run().await.unwrap();
    new().writer(foreign).run().await.unwrap();
}

async fn table(name: &str) -> TableClient {
    let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client(name);
    table.create().await.unwrap();
    table
}

/// G102, G180: into another partition of the same table, and into the table of another account.
#[tokio::test]
async fn partitions_and_accounts() {
    let current = table("orders").await;
    current.insert(&new_order("old")).await.unwrap();
    let outbox = Outbox::new(&current);
    let transfer = Move::<Order>::new(&outbox, "transfer", TableTarget::new(&current));
    let to = Order::key().dept("Support").id(456).into_key().unwrap();
    transfer.start_to(KEY, &to).await.unwrap();
    outbox.worker().step(transfer.clone()).drain().await.unwrap();
    assert!(current.get::<Order>(KEY).await.unwrap().is_none());
    let moved = transfer.get_either(KEY, &to).await.unwrap().unwrap();
    assert_eq!(*moved, Order { dept: "Support".to_owned(), ..new_order("old") });

    let elsewhere = table("archive").await;
    let archive = Move::<Order>::new(&outbox, "archive", TableTarget::new(&elsewhere));
    archive.start(&to).await.unwrap();
    outbox.worker().step(archive.clone()).drain().await.unwrap();
    let moved = archive.get(&to).await.unwrap().unwrap();
    assert!(matches!(moved, Located::Target(_)) && moved.dept == "Support");
    let stored = elsewhere.get::<DynEntity>(&to).await.unwrap().unwrap();
    assert!(stored.value("tv_inc").is_none() && stored.value("tv_moved").is_some());
}

/// A folder of its own, deleted in the end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("tavola-moves-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// G145, G180: into files, under the same rules.
#[tokio::test]
async fn a_file_is_a_target() {
    let folder = Folder::new("file");
    let files = FileTarget::new(&folder.0);
    let current = table("orders").await;
    let outbox = Outbox::new(&current);
    let archive = Move::<Order>::new(&outbox, "archive", files.clone());
    current.insert(&new_order("old")).await.unwrap();
    assert!(archive.get(("Sales", "000457")).await.unwrap().is_none());
    archive.start(KEY).await.unwrap();
    let outdated = current.get::<DynEntity>(KEY).await.unwrap().unwrap();
    current.modify(KEY, |order: &mut Order| order.note = "it's new".to_owned()).await.unwrap();
    let report = outbox.worker().step(archive.clone()).drain().await.unwrap();
    assert_eq!(report.done, 1);
    assert!(current.get::<Order>(KEY).await.unwrap().is_none());
    assert_eq!(*archive.get(KEY).await.unwrap().unwrap(), new_order("it's new"));

    // A stalled worker comes with what it read before, and one with what is there.
    let key = outdated.key().clone();
    let held = files.get(&key).await.unwrap().unwrap();
    let old = held.version.to_string().replacen('6', "5", 1).parse().unwrap();
    let old = Copied::kept(outdated.clone().into_inner(), old);
    for copy in [&old, &held] {
        assert_eq!(files.put(copy).await.unwrap(), held.version);
        assert_eq!(files.get(&key).await.unwrap().unwrap(), held);
    }
    let new = held.version.to_string().replacen('6', "7", 1).parse().unwrap();
    let new = Copied::kept(DynEntity::new("Sales", "000456"), new);
    assert_eq!(files.put(&new).await.unwrap(), new.version);
    assert_eq!(files.get(&key).await.unwrap().unwrap(), new);
    let left = std::fs::read_dir(folder.0.join("k%53ales").join("k000456")).unwrap().count();
    assert_eq!(left, 1, "older versions are deleted");
}

/// What is encrypted stays so: no file shows it, and what is sealed for its key gets no other one.
#[cfg(feature = "encrypt")]
#[tokio::test]
async fn what_is_encrypted_is_not_shown() {
    let folder = Folder::new("encrypted");
    let mut open = DynEntity::new("Sales", "000456");
    open.set_encrypted("Ssn", "123").unwrap();
    let version = "0635442654320000000-0000000000000001-a".parse().unwrap();
    let copy = Copied::kept(open, version);
    let error = FileTarget::new(&folder.0).put(&copy).await.unwrap_err();
    assert!(error.to_string().contains("a file would show it"), "{error}");
    assert!(!folder.0.exists());

    let current = table("orders").await;
    let mut sealed = DynEntity::new("Sales", "000456");
    sealed.set("tv_enc", tavola_client::Value::Binary(vec![1].into()));
    current.insert(&sealed).await.unwrap();
    let outbox = Outbox::new(&current);
    let transfer = Move::<DynEntity>::new(&outbox, "transfer", TableTarget::new(&current));
    transfer.start_to(KEY, ("Support", "000456")).await.unwrap();
    let worker = outbox.worker().step(transfer.clone()).poison_after(1);
    assert_eq!(worker.drain().await.unwrap().poisoned, 1);
    assert!(current.get::<DynEntity>(("Support", "000456")).await.unwrap().is_none());
}

/// G145, G129: a worker that is cut anywhere, with files as the target.
#[tokio::test]
async fn every_cut_with_a_file() {
    let folder = Arc::new(Folder::new("cuts"));
    let moves = {
        let folder = Arc::clone(&folder);
        move |sim: &Sim| {
            let outbox = Outbox::new(&sim.table("current"));
            Move::<Order>::new(&outbox, "archive", FileTarget::new(&folder.0))
        }
    };
    let (moves_in_seed, moves_in_work, moves_in_check) = (moves.clone(), moves.clone(), moves);
    let begin = move |sim: Sim| {
        let (moves, folder) = (moves_in_seed(&sim), Arc::clone(&folder));
        async move {
            let _ = std::fs::remove_dir_all(&folder.0);
            seed(sim.clone()).await?;
            moves.start(KEY).await?;
            Ok(())
        }
    };
    let work = move |sim: Sim| {
        let moves = moves_in_work(&sim);
        async move { drain_once(&moves, &sim.table("current")).await }
    };
    let check = move |sim: Sim| {
        let moves = moves_in_check(&sim);
        async move {
            match moves.get(KEY).await? {
                Some(order) if order.note == "old" => Ok(()),
                found => Err(format!("{found:?}").into()),
            }
        }
    };
    let cuts = every_cut(tavola_local::in_memory, work.clone()).seed(begin).recover(work);
    cuts.always(check.clone()).finally(check).run().await.unwrap();
}

/// G131: requests of a start, of a worker and of a reader.
#[tokio::test]
async fn costs() {
    let counted = counting(tavola_local::in_memory());
    let service = TableServiceClient::on(counted.clone(), None);
    let (current, target) = (service.table_client("current"), service.table_client("archive"));
    current.create().await.unwrap();
    target.create().await.unwrap();
    current.insert(&new_order("old")).await.unwrap();
    let outbox = Outbox::new(&current);
    let moves = Move::<Order>::new(&outbox, "archive", TableTarget::new(&target));
    let cost = || counted.take().len();
    let _ = cost();
    moves.start(KEY).await.unwrap();
    assert_eq!(cost(), 2 + 1, "get and transaction, and the hint");
    assert!(matches!(moves.get(KEY).await.unwrap().unwrap(), Located::Source(_)));
    assert_eq!(cost(), 1);
    let worker = outbox.worker().step(moves.clone());
    assert_eq!(worker.run_once().await.unwrap().done, 1);
    assert_eq!(cost(), 2 + 5, "to look; claim, get, insert, delete, delete the work");
    assert!(matches!(moves.get(KEY).await.unwrap().unwrap(), Located::Target(_)));
    assert_eq!(cost(), 2);
}
