//! The reference against a map.

use proptest::prelude::*;
use tavola_store::MemoryStore;
use tavola_testkit::store_conformance::model;

proptest! {
    #[test]
    fn the_reference_is_a_map(steps in model::steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(model::check(MemoryStore::new(), steps, |store| store));
    }
}
