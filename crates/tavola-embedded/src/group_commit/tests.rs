use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, ThreadId};

use rocksdb::{WriteBatch, WriteBatchIterator};
use tavola_conformance::store_conformance::fixture::{
    delete, group, insert, number, replace, version, written_at,
};
use tavola_core::{DomainError, Precondition, TableId, Timestamp};
use tavola_store::{CommitResult, StoreError};

use super::{Changed, GroupCommit, Journal, RangeDelete, WriteError};
use crate::disk_space::FreeSpace;
use crate::options::Options;
use crate::stats::Counters;

/// A disk in memory that can be made to wait, to fail and to panic.
struct TestDisk {
    rows: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    writes: AtomicUsize,
    /// Writes fail from this one on.
    writes_before_failure: AtomicUsize,
    panics: AtomicBool,
    /// Writes fail because this disk is full.
    is_full: AtomicBool,
    free_space: Mutex<FreeSpace>,
    background_errors: AtomicU64,
    /// The threads that have written.
    writers: Mutex<Vec<ThreadId>>,
    /// A write has begun.
    is_reached: AtomicBool,
    is_held: Mutex<bool>,
    released: Condvar,
}

impl TestDisk {
    /// Writes wait until `release`.
    fn hold(&self) {
        *self.is_held.lock().unwrap() = true;
    }

    fn release(&self) {
        *self.is_held.lock().unwrap() = false;
        self.released.notify_all();
    }
}

impl Journal for TestDisk {
    fn value<R>(&self, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, StoreError> {
        Ok(read(self.rows.lock().unwrap().get(key).map(|value| &value[..])))
    }

    fn absent(&self, keys: &[&[u8]]) -> Vec<bool> {
        let rows = self.rows.lock().unwrap();
        keys.iter().map(|key| !rows.contains_key(*key)).collect()
    }

    fn note_synced(&self) {}

    fn damage(&self) -> Option<String> {
        None
    }

    fn write(&self, batch: WriteBatch, _changed: &Changed) -> Result<(), WriteError> {
        self.is_reached.store(true, Ordering::SeqCst);
        self.writers.lock().unwrap().push(thread::current().id());
        drop(self.released.wait_while(self.is_held.lock().unwrap(), |held| *held).unwrap());
        assert!(!self.panics.load(Ordering::SeqCst), "this disk panics");
        let written = self.writes.fetch_add(1, Ordering::SeqCst);
        if written >= self.writes_before_failure.load(Ordering::SeqCst) {
            return Err(WriteError::Failed("it is lame".to_owned()));
        }
        if self.is_full.load(Ordering::SeqCst) {
            return Err(WriteError::NoSpace("no space left".to_owned()));
        }
        batch.iterate(&mut Apply(&mut self.rows.lock().unwrap()));
        Ok(())
    }

    fn free_space(&self) -> FreeSpace {
        *self.free_space.lock().unwrap()
    }

    fn describe_free_space(&self) -> String {
        "too little room".to_owned()
    }

    fn has_space_to_recover(&self) -> bool {
        self.free_space() == FreeSpace::Enough
    }

    fn background_errors(&self) -> u64 {
        self.background_errors.load(Ordering::SeqCst)
    }
}

struct Apply<'a>(&'a mut BTreeMap<Vec<u8>, Vec<u8>>);

impl WriteBatchIterator for Apply<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.0.insert(key.to_vec(), value.to_vec());
    }

    fn delete(&mut self, key: &[u8]) {
        self.0.remove(key);
    }
}

type Commits = Arc<GroupCommit<TestDisk>>;

fn start(options: &Options) -> (Arc<TestDisk>, Commits) {
    let disk = Arc::new(TestDisk {
        rows: Mutex::default(),
        writes: AtomicUsize::new(0),
        writes_before_failure: AtomicUsize::new(usize::MAX),
        panics: AtomicBool::new(false),
        is_full: AtomicBool::new(false),
        free_space: Mutex::new(FreeSpace::Enough),
        background_errors: AtomicU64::new(0),
        writers: Mutex::default(),
        is_reached: AtomicBool::new(false),
        is_held: Mutex::new(false),
        released: Condvar::new(),
    });
    let commits = GroupCommit::start(Arc::clone(&disk), Arc::default(), Timestamp::MIN, options);
    (disk, Arc::new(commits.unwrap()))
}

fn counters(commits: &Commits) -> &Counters {
    &commits.shared.counters
}

fn table() -> TableId {
    TableId::new(9)
}

async fn put(commits: Commits, row_key: String, value: i32) -> Result<CommitResult, StoreError> {
    let transaction = group("p", vec![replace(&row_key, number(value), Precondition::None)]);
    commits.commit(table(), transaction, Timestamp::MIN).await
}

async fn put_new(commits: Commits, row_key: &str) -> Result<CommitResult, StoreError> {
    commits.commit(table(), group("p", vec![insert(row_key, number(1))]), Timestamp::MIN).await
}

/// Lets the first commit reach the disk and waits there, so that all later ones wait in the queue.
async fn occupy(
    disk: &TestDisk,
    commits: &Commits,
) -> tokio::task::JoinHandle<Result<CommitResult, StoreError>> {
    disk.hold();
    // Earlier writes of the test reached it too. They are answered, so none of them is still on its
    // way there.
    disk.is_reached.store(false, Ordering::SeqCst);
    let first = tokio::spawn(put(Arc::clone(commits), "first".to_owned(), 0));
    while !disk.is_reached.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    first
}

async fn queued(commits: &Commits, count: usize) {
    while commits.shared.queue.len() < count {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_solo_commit_is_one_write() {
    let (disk, commits) = start(&Options::default());
    for round in 0..5 {
        put(Arc::clone(&commits), "r".to_owned(), round).await.unwrap().unwrap();
    }
    assert_eq!(disk.writes.load(Ordering::SeqCst), 5);
    assert_eq!(counters(&commits).read().group_sizes[0], 5);
}

/// The task that waits in `block_on` may step aside too, so that all of them write on the thread of
/// the test.
#[tokio::test(flavor = "multi_thread")]
async fn a_solo_commit_is_written_by_its_caller() {
    let (disk, commits) = start(&Options::default());
    for round in 0..5 {
        put(Arc::clone(&commits), "r".to_owned(), round).await.unwrap().unwrap();
    }
    assert_eq!(*disk.writers.lock().unwrap(), [thread::current().id(); 5]);
    assert_eq!(counters(&commits).read().group_sizes[0], 5);
}

/// Transactions that come during a solo commit wait for the threads of the group commit.
#[tokio::test(flavor = "multi_thread")]
async fn commits_during_a_solo_commit_are_written_by_others() {
    let (disk, commits) = start(&Options::default());
    check_sharing(&disk, &commits).await;
    let writers = disk.writers.lock().unwrap().clone();
    assert_ne!(writers[0], writers[1]);
    put(Arc::clone(&commits), "later".to_owned(), 0).await.unwrap().unwrap();
    assert_ne!(disk.writers.lock().unwrap()[2], thread::current().id(), "others came not long ago");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_solo_commit_is_like_any_other() {
    let (disk, commits) = start(&Options::default());
    disk.panics.store(true, Ordering::SeqCst);
    assert!(matches!(put_new(Arc::clone(&commits), "r").await, Err(StoreError::UnknownOutcome)));
    disk.panics.store(false, Ordering::SeqCst);
    assert!(
        matches!(put_new(commits, "r").await, Err(StoreError::Unavailable { .. })),
        "nothing more is acknowledged"
    );

    let (disk, commits) = start(&Options::default());
    disk.writes_before_failure.store(0, Ordering::SeqCst);
    assert!(matches!(put_new(Arc::clone(&commits), "r").await, Err(StoreError::UnknownOutcome)));
    assert!(matches!(put_new(commits, "r").await, Err(StoreError::Unavailable { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_waits_for_a_solo_commit() {
    let (disk, commits) = start(&Options::default());
    let first = occupy(&disk, &commits).await;
    let closing = thread::spawn({
        let (commits, disk) = (Arc::clone(&commits), Arc::clone(&disk));
        move || {
            commits.close();
            disk.writes.load(Ordering::SeqCst)
        }
    });
    while !commits.shared.queue.is_closed() {
        tokio::task::yield_now().await;
    }
    disk.release();
    assert!(closing.join().unwrap() >= 1, "what was being written is written when it returns");
    first.await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn waiting_commits_share_a_write() {
    let (disk, commits) = start(&Options::default());
    check_sharing(&disk, &commits).await;
}

/// The first is held up at the disk; all others come behind it.
async fn check_sharing(disk: &TestDisk, commits: &Commits) {
    let first = occupy(disk, commits).await;
    let others: Vec<_> =
        (0..100).map(|n| tokio::spawn(put(Arc::clone(commits), format!("{n}"), n))).collect();
    queued(commits, 100).await;
    disk.release();
    let mut versions = vec![first.await.unwrap().unwrap().unwrap()];
    for other in others {
        versions.push(other.await.unwrap().unwrap().unwrap());
    }
    assert_eq!(disk.writes.load(Ordering::SeqCst), 2);
    let mut ticks: Vec<_> = versions.iter().map(|outcomes| format!("{outcomes:?}")).collect();
    ticks.sort();
    ticks.dedup();
    assert_eq!(ticks.len(), 101, "each transaction of a group has a version of its own");
    let stats = counters(commits).read();
    assert_eq!((stats.syncs, stats.commits), (2, 101));
}

#[tokio::test]
async fn a_group_sees_its_own_earlier_changes() {
    let (disk, commits) = start(&Options::default());
    let first = occupy(&disk, &commits).await;
    let winner = tokio::spawn(put_new(Arc::clone(&commits), "same"));
    queued(&commits, 1).await;
    let loser = tokio::spawn(put_new(Arc::clone(&commits), "same"));
    queued(&commits, 2).await;
    disk.release();
    first.await.unwrap().unwrap().unwrap();
    let written = written_at(&winner.await.unwrap().unwrap());
    assert_eq!(
        loser.await.unwrap().unwrap().unwrap_err().domain_error,
        DomainError::EntityAlreadyExists
    );
    assert_eq!(disk.writes.load(Ordering::SeqCst), 2);
    let next = group("p", vec![replace("same", number(2), version(written))]);
    commits.commit(table(), next, Timestamp::MIN).await.unwrap().unwrap();
}

/// Rows of inserts are looked for before the group is decided; what the group itself does to them
/// comes after that.
#[tokio::test]
async fn a_probed_key_does_not_override_the_group() {
    let (disk, commits) = start(&Options::default());
    put_new(Arc::clone(&commits), "there").await.unwrap().unwrap();
    let occupied = occupy(&disk, &commits).await;
    let write = |operations| {
        let commits = Arc::clone(&commits);
        tokio::spawn(async move {
            commits.commit(table(), group("p", operations), Timestamp::MIN).await
        })
    };
    let rows = |number_of: std::ops::Range<usize>| {
        number_of.map(|row| insert(&format!("{row:03}"), number(1)))
    };
    let first = write(rows(0..70).collect());
    queued(&commits, 1).await;
    let overlapping = write(rows(69..100).collect());
    queued(&commits, 2).await;
    let gone = write(vec![delete("there", Precondition::Exists)]);
    queued(&commits, 3).await;
    let again = write(vec![insert("new", number(1)), insert("there", number(2))]);
    queued(&commits, 4).await;
    disk.release();
    occupied.await.unwrap().unwrap().unwrap();
    assert_eq!(first.await.unwrap().unwrap().unwrap().len(), 70);
    let refused = overlapping.await.unwrap().unwrap().unwrap_err();
    assert_eq!((refused.index, refused.domain_error), (0, DomainError::EntityAlreadyExists));
    gone.await.unwrap().unwrap().unwrap();
    assert_eq!(again.await.unwrap().unwrap().unwrap().len(), 2, "the row went before");
    let refused = write(vec![insert("x", number(1)), insert("there", number(3))])
        .await
        .unwrap()
        .unwrap()
        .unwrap_err();
    assert_eq!((refused.index, refused.domain_error), (1, DomainError::EntityAlreadyExists));
}

#[tokio::test]
async fn a_refusal_alone_needs_no_write() {
    let (disk, commits) = start(&Options::default());
    put_new(Arc::clone(&commits), "r").await.unwrap().unwrap();
    put_new(Arc::clone(&commits), "r").await.unwrap().unwrap_err();
    assert_eq!(disk.writes.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn after_a_failed_write_nothing_is_acknowledged() {
    let (disk, commits) = start(&Options::default());
    let first = occupy(&disk, &commits).await;
    disk.writes_before_failure.store(0, Ordering::SeqCst);
    let writer = tokio::spawn(put_new(Arc::clone(&commits), "r"));
    queued(&commits, 1).await;
    disk.release();
    assert!(matches!(first.await.unwrap(), Err(StoreError::UnknownOutcome)));
    assert!(
        matches!(writer.await.unwrap(), Err(StoreError::Unavailable { .. })),
        "it was in the next group"
    );
    // Even if the disk feels better.
    disk.writes_before_failure.store(usize::MAX, Ordering::SeqCst);
    let error = put_new(Arc::clone(&commits), "r").await.unwrap_err();
    assert!(error.to_string().contains("it is lame"), "{error}");
    assert!(commits.health().is_err());
    let erased = commits.delete_range(RangeDelete::Keys(vec![b"x".to_vec()]));
    assert!(matches!(erased, Err(StoreError::Unavailable { .. })));
    assert_eq!(disk.writes.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_read_of_a_failed_group_is_not_answered() {
    let (disk, commits) = start(&Options::default());
    let first = occupy(&disk, &commits).await;
    disk.writes_before_failure.store(1, Ordering::SeqCst);
    let writer = tokio::spawn(put_new(Arc::clone(&commits), "same"));
    queued(&commits, 1).await;
    let reader = tokio::spawn(put_new(Arc::clone(&commits), "same"));
    queued(&commits, 2).await;
    disk.release();
    first.await.unwrap().unwrap().unwrap();
    assert!(matches!(writer.await.unwrap(), Err(StoreError::UnknownOutcome)));
    // It was refused because of a row that is perhaps not there.
    assert!(matches!(reader.await.unwrap(), Err(StoreError::Unavailable { .. })));
}

#[tokio::test]
async fn a_panic_leaves_no_caller_waiting() {
    let (disk, commits) = start(&Options::default());
    disk.panics.store(true, Ordering::SeqCst);
    assert!(matches!(put_new(Arc::clone(&commits), "a").await, Err(StoreError::UnknownOutcome)));
    assert!(matches!(
        put_new(Arc::clone(&commits), "b").await,
        Err(StoreError::Unavailable { .. })
    ));
    assert!(commits.health().unwrap_err().contains("panicked"));
}

#[tokio::test]
async fn a_full_queue_says_so() {
    let (disk, commits) = start(&Options { queue_transactions_max: 2, ..Options::default() });
    let first = occupy(&disk, &commits).await;
    let waiting: Vec<_> =
        (0..2).map(|n| tokio::spawn(put(Arc::clone(&commits), format!("{n}"), n))).collect();
    queued(&commits, 2).await;
    assert!(matches!(put_new(Arc::clone(&commits), "x").await, Err(StoreError::Contended)));
    disk.release();
    for written in waiting.into_iter().chain([first]) {
        written.await.unwrap().unwrap().unwrap();
    }
    put_new(Arc::clone(&commits), "x").await.unwrap().unwrap();
    assert_eq!(counters(&commits).read().contended, 1);
}

#[tokio::test]
async fn closing_finishes_what_waits() {
    let (disk, commits) = start(&Options::default());
    let first = occupy(&disk, &commits).await;
    let waiting: Vec<_> =
        (0..10).map(|n| tokio::spawn(put(Arc::clone(&commits), format!("{n}"), n))).collect();
    queued(&commits, 10).await;
    let closing = {
        let commits = Arc::clone(&commits);
        tokio::task::spawn_blocking(move || commits.close())
    };
    disk.release();
    closing.await.unwrap();
    for written in waiting.into_iter().chain([first]) {
        written.await.unwrap().unwrap().unwrap();
    }
    let error = put_new(Arc::clone(&commits), "x").await.unwrap_err();
    assert!(error.to_string().contains("closed"), "{error}");
}

#[tokio::test]
async fn a_dropped_future_withdraws_nothing() {
    let (disk, commits) = start(&Options::default());
    let first = occupy(&disk, &commits).await;
    let dropped = tokio::spawn(put_new(Arc::clone(&commits), "dropped"));
    queued(&commits, 1).await;
    dropped.abort();
    let _ = dropped.await;
    disk.release();
    first.await.unwrap().unwrap().unwrap();
    put_new(Arc::clone(&commits), "dropped").await.unwrap().unwrap_err();
}

/// Asks until the answer has changed.
async fn health_becomes(commits: &Commits, healthy: bool) {
    while commits.health().is_ok() != healthy {
        tokio::task::yield_now().await;
    }
}

/// A full disk once broke the store until it was opened again, although the engine recovers from it
/// by itself.
#[tokio::test]
async fn a_full_disk_is_recovered_from() {
    let (disk, commits) = start(&Options::default());
    let before = written_at(&put_new(Arc::clone(&commits), "before").await.unwrap());
    disk.is_full.store(true, Ordering::SeqCst);
    assert!(matches!(
        put_new(Arc::clone(&commits), "in doubt").await,
        Err(StoreError::UnknownOutcome)
    ));
    for _ in 0..3 {
        let refused = put_new(Arc::clone(&commits), "refused").await.unwrap_err();
        assert!(
            matches!(&refused, StoreError::Full { reason } if reason.contains("no space left")),
            "{refused}"
        );
    }
    assert!(commits.health().unwrap_err().contains("the disk is full"));
    disk.is_full.store(false, Ordering::SeqCst);
    let after = written_at(&put_new(Arc::clone(&commits), "after").await.unwrap());
    assert!(
        after.ticks() >= before.ticks() + 2,
        "the version of the write in doubt may be on disk"
    );
    assert_eq!(commits.health(), Ok(()));
}

#[tokio::test]
async fn asking_for_health_is_enough_to_recover() {
    let (disk, commits) = start(&Options::default());
    disk.is_full.store(true, Ordering::SeqCst);
    put_new(Arc::clone(&commits), "in doubt").await.unwrap_err();
    disk.is_full.store(false, Ordering::SeqCst);
    health_becomes(&commits, true).await;
}

#[tokio::test]
async fn a_full_disk_that_then_fails_is_broken() {
    let (disk, commits) = start(&Options::default());
    disk.is_full.store(true, Ordering::SeqCst);
    put_new(Arc::clone(&commits), "in doubt").await.unwrap_err();
    disk.writes_before_failure.store(0, Ordering::SeqCst);
    let refused = put_new(Arc::clone(&commits), "refused").await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    disk.writes_before_failure.store(usize::MAX, Ordering::SeqCst);
    disk.is_full.store(false, Ordering::SeqCst);
    assert!(matches!(
        put_new(Arc::clone(&commits), "late").await,
        Err(StoreError::Unavailable { .. })
    ));
}

#[tokio::test]
async fn little_space_is_left_to_what_frees_space() {
    let (disk, commits) = start(&Options::default());
    put_new(Arc::clone(&commits), "r").await.unwrap().unwrap();
    let user_table = TableId::new(TableId::FIRST_USER);
    let write = |operations| commits.commit(user_table, group("p", operations), Timestamp::MIN);
    let any = || Precondition::Exists;
    write(vec![insert("a", number(1)), insert("b", number(1))]).await.unwrap().unwrap();
    commits
        .commit(TableId::CATALOG, group("p", vec![insert("t:old", number(1))]), Timestamp::MIN)
        .await
        .unwrap()
        .unwrap();
    *disk.free_space.lock().unwrap() = FreeSpace::OnlyToShrink;
    // Not every group asks the disk.
    tokio::time::sleep(super::leader::FREE_SPACE_INTERVAL).await;
    let full = write(vec![delete("a", any()), insert("c", number(1))]).await;
    assert!(matches!(full, Err(StoreError::Full { .. })), "{full:?}");
    assert_eq!(commits.health(), Err("too little room".to_owned()));
    write(vec![delete("a", any())]).await.unwrap().unwrap();
    // The drop of a table writes as well as it deletes; what only writes to a system table makes no
    // room.
    let system =
        |operations| commits.commit(TableId::CATALOG, group("p", operations), Timestamp::MIN);
    let created = system(vec![insert("t:new", number(1))]).await;
    assert!(matches!(created, Err(StoreError::Full { .. })), "{created:?}");
    system(vec![delete("t:old", any()), insert("d:1", number(1))]).await.unwrap().unwrap();
    *disk.free_space.lock().unwrap() = FreeSpace::Exhausted;
    assert!(matches!(write(vec![delete("b", any())]).await, Err(StoreError::Full { .. })));
    assert!(matches!(put_new(Arc::clone(&commits), "s").await, Err(StoreError::Full { .. })));
    *disk.free_space.lock().unwrap() = FreeSpace::Enough;
    write(vec![insert("c", number(1))]).await.unwrap().unwrap();
    assert_eq!(commits.health(), Ok(()));
}

/// A flush that failed in the background showed only when the next client's write met it.
#[tokio::test]
async fn an_engine_that_failed_by_itself_is_tried() {
    let (disk, commits) = start(&Options::default());
    disk.background_errors.store(1, Ordering::SeqCst);
    assert!(commits.health().is_err());
    health_becomes(&commits, true).await;
    disk.background_errors.store(2, Ordering::SeqCst);
    disk.writes_before_failure.store(0, Ordering::SeqCst);
    while !commits.health().unwrap_err().contains("it is lame") {
        tokio::task::yield_now().await;
    }
    let refused = put_new(Arc::clone(&commits), "r").await;
    assert!(
        matches!(refused, Err(StoreError::Unavailable { .. })),
        "no client's write was spent on finding out"
    );
}
