//! The contract of stores, on a real cluster. `cargo xtask test` starts one and runs these; by
//! hand:
//!
//! ```sh
//! cargo xtask cassandra up
//! cargo test -p tavola-cassandra --test cluster_conformance
//! ```

mod common;

use common::Isolated;

tavola_conformance::store_conformance!(Isolated::open().await);
tavola_conformance::import_conformance!(Isolated::open().await);
