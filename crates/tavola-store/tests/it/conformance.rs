//! The contract of a store, on the reference and on the decorator that fails.

use tavola_store::MemoryStore;

tavola_conformance::store_conformance!(MemoryStore::new());
tavola_conformance::import_conformance!(MemoryStore::new());

/// The decorator itself keeps the contract as long as it only delays.
mod delayed {
    use std::time::Duration;

    use tavola_store::MemoryStore;
    use tavola_testkit::faulty_store::{Faults, FaultyStore};

    fn delayed() -> FaultyStore<MemoryStore> {
        let faults = Faults { delay_max: Duration::from_micros(50), ..Faults::default() };
        FaultyStore::new(MemoryStore::new(), faults, 7)
    }

    tavola_conformance::store_conformance!(delayed());
}
