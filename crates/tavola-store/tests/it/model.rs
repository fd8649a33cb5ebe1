//! The reference against a map.

use proptest::prelude::*;
use tavola_conformance::store_conformance::model;
use tavola_store::MemoryStore;

proptest! {
    #[test]
    fn the_reference_is_a_map(steps in model::steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(model::check(MemoryStore::new(), steps, |store| store));
    }
}
