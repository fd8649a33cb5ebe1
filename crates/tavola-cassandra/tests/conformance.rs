//! The contract of stores, on a real cluster. `cargo xtask cassandra up` starts one, and `cargo xtask test` runs these.
//!
//! ```sh
//! TAVOLA_CASSANDRA=127.0.0.1:9042 cargo test -p tavola-cassandra -- --ignored
//! ```

mod common;

use common::Isolated;

tavola_testkit::store_conformance!(ignore = "needs a cluster"; Isolated::open().await);
