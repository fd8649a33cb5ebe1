//! The decorator that fails tells the truth in the ways that the contract allows.

use tavola_conformance::store_conformance::fixture::{TABLE, group, key, now, number, replace};
use tavola_core::{EntityAddress, Precondition};
use tavola_store::{Blocking, MemoryStore, Store, StoreError};
use tavola_testkit::faulty_store::{Faults, FaultyStore};

async fn write(store: &impl Store) -> Result<(), StoreError> {
    let transaction = group("p", vec![replace("r", number(1), Precondition::None)]);
    store.commit(TABLE, &transaction, now()).await.map(|_| ())
}

async fn is_written(store: &impl Store) -> bool {
    let address = EntityAddress { table: TABLE, key: key("p", "r") };
    store.get(&address, Blocking::Forbidden).await.expect("reads do not fail here").is_some()
}

#[tokio::test]
async fn each_fault_alone() {
    let faulty = |faults| FaultyStore::new(MemoryStore::new(), faults, 1);

    let store = faulty(Faults { contended: 100, ..Faults::default() });
    assert!(matches!(write(&store).await, Err(StoreError::Contended)));
    assert!(!is_written(&store).await);

    let store = faulty(Faults { unknown_written: 100, ..Faults::default() });
    assert!(matches!(write(&store).await, Err(StoreError::UnknownOutcome)));
    assert!(is_written(&store).await);

    let store = faulty(Faults { unknown_not_written: 100, ..Faults::default() });
    assert!(matches!(write(&store).await, Err(StoreError::UnknownOutcome)));
    assert!(!is_written(&store).await);

    let store = faulty(Faults { unavailable: 100, ..Faults::default() });
    assert!(matches!(write(&store).await, Err(StoreError::Unavailable { .. })));
    assert_eq!(store.injected(), 1);
}

#[tokio::test]
async fn a_seed_repeats_itself() {
    async fn history(seed: u64) -> Vec<bool> {
        let faults =
            Faults { contended: 20, unknown_written: 10, unavailable: 10, ..Faults::default() };
        let store = FaultyStore::new(MemoryStore::new(), faults, seed);
        let mut history = Vec::new();
        for _ in 0..100 {
            history.push(write(&store).await.is_ok());
        }
        history
    }
    assert_eq!(history(5).await, history(5).await);
    assert_ne!(history(5).await, history(6).await);
    let failed = history(5).await.iter().filter(|fine| !**fine).count();
    assert!((20..60).contains(&failed), "about 40 of 100 fail, not {failed}");
}
