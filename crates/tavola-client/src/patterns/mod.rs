//! Table design patterns: several rows that agree, whatever is lost and however many write.
//!
//! | pattern | for |
//! | --- | --- |
//! | [`Copies`] | properties of one entity repeated in others |
//! | [`IndexList`] | all entities that share a value, in one partition |
//! | [`Indexed`] | point reads and orders by other properties, in one partition |
//! | [`JoinCache`] | small tables that are joined in the program |
//! | [`Link`] | the keys of another entity, by convention or stored |
//! | [`LogTail`] | the newest entries first |
//! | [`OneToMany`] | children, and their number and sums in the parent |
//! | [`Outbox`] | changes beyond one partition, done in the end |
//! | [`Series`] | many values of one thing in one row |

mod copies;
mod drift;
mod housekeeping;
mod index_list;
mod indexed;
mod log_tail;
#[cfg(feature = "json")]
mod outbox;
mod relations;
mod series;
mod stamped;

#[cfg(feature = "json")]
pub use copies::ChunkedCopies;
pub use copies::{Copies, Sourced};
pub use drift::DriftReport;
#[cfg(feature = "json")]
pub use index_list::IndexListElsewhere;
pub use index_list::{IndexList, Listed, Place};
pub use indexed::{IndexRange, IndexRow, Indexed};
pub use log_tail::{LogEntry, LogPlace, LogStream, LogTail, Trimmed};
#[cfg(feature = "json")]
pub use outbox::{
    FnStep, Notifier, Outbox, OutboxStatus, Poisoned, Progress, Step, StepError, SweepReport, Work,
    WorkReport, Worker, step,
};
#[cfg(feature = "json")]
pub use relations::Moves;
pub use relations::{JoinCache, Link, LinksTo, OneToMany};
pub use series::Series;
