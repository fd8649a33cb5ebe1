//! The embedded store against a map, closed and opened again between.

use proptest::prelude::*;
use tavola_conformance::store_conformance::model;
use tavola_embedded::{EmbeddedStore, Options};

proptest! {
    // Every case opens a folder several times and syncs every commit; many short histories are
    // worth little here.
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn the_embedded_store_is_a_map(steps in model::steps(), clean in any::<bool>()) {
        let folder = tempfile::TempDir::new().unwrap();
        let open = || EmbeddedStore::open(folder.path(), Options::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(model::check(open(), steps, |store| {
            // With and without a clean close: from files, or from the log.
            if clean {
                store.close().unwrap();
            }
            drop(store);
            open()
        }));
    }
}
