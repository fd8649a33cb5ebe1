//! Tests of programs that write several entities: each request cut in each way, writers that race
//! in every order, and requests counted.
//!
//! All of it runs on any store in the process, with a clock of its own that never waits.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tavola_client::DynEntity;
//! use tavola_client::testing::{Sim, every_cut};
//!
//! // Two rows that must agree, in one transaction.
//! async fn write(sim: Sim) -> tavola_client::testing::Checked {
//!     let table = sim.table("pairs");
//!     let mut both = table.transaction("p");
//!     both.insert(&DynEntity::new("p", "left"))?.insert(&DynEntity::new("p", "right"))?;
//!     both.commit().await?;
//!     Ok(())
//! }
//!
//! async fn agree(sim: Sim) -> tavola_client::testing::Checked {
//!     let table = sim.table("pairs");
//!     let left = table.get::<DynEntity>(("p", "left")).await?;
//!     let right = table.get::<DynEntity>(("p", "right")).await?;
//!     if left.is_some() == right.is_some() { Ok(()) } else { Err("one without the other".into()) }
//! }
//!
//! let report = every_cut(|| tavola_local::in_memory(), write)
//!     .seed(|sim| async move { Ok(sim.table("pairs").create().await?) })
//!     .always(agree)
//!     .run()
//!     .await?;
//! assert_eq!((report.requests, report.runs), (1, 5));
//! # Ok(())
//! # }
//! ```

mod counted;
mod cuts;
mod races;
mod sim;

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

pub use counted::{Counted, counting};
pub use cuts::{Cut, CutReport, EveryCut, every_cut};
pub use races::{Race, RaceReport, race};
pub use sim::Sim;

use crate::runtime::BoxFuture;
use crate::store::TableStore;

/// What a scenario or a check comes to; a text is an error too: `Err("two of them".into())`.
pub type Checked = Result<(), Box<dyn StdError + Send + Sync>>;

/// One part of a test: a scenario, a writer, a check.
type Part = Arc<dyn Fn(Sim) -> BoxFuture<'static, Checked> + Send + Sync>;
type MakeStore = Box<dyn Fn() -> Arc<dyn TableStore>>;

fn part<F>(run: impl Fn(Sim) -> F + Send + Sync + 'static) -> Part
where
    F: Future<Output = Checked> + Send + 'static,
{
    Arc::new(move |sim| Box::pin(run(sim)))
}

fn make<S: TableStore>(store: impl Fn() -> Arc<S> + 'static) -> MakeStore {
    Box::new(move || store())
}

/// An execution in which something was wrong.
pub struct Broken {
    path: String,
    reason: String,
}

impl Broken {
    fn new(path: impl Into<String>, reason: impl fmt::Display) -> Self {
        Self { path: path.into(), reason: reason.to_string() }
    }

    /// What was done in this execution: cuts, or who was let go in which order.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What was wrong.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

/// For `unwrap` in tests.
impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl StdError for Broken {}
