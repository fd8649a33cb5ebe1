//! What the programs share: the connection, the scratch server, workers that are killed, invariants
//! that are counted, and small tables and charts.

mod checks;
mod crew;
mod meter;
mod options;
mod server;
pub(crate) mod show;
mod stage;

use std::error::Error;

pub(crate) use crew::Crew;
pub(crate) use meter::Cost;
pub(crate) use options::Options;
pub(crate) use stage::Stage;

/// Why a program ends before its time.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// What a step of a program comes to.
pub(crate) type Checked<T = ()> = Result<T, Failure>;
