//! Table design patterns: several rows that agree, whatever is lost and however many write.
//!
//! | pattern | for |
//! | --- | --- |
//! | [`IndexList`] | all entities that share a value, in one partition |
//! | [`Indexed`] | point reads and orders by other properties, in one partition |
//! | [`IndexedEventually`] | the same over partitions, in the end |
//! | [`LogTail`] | the newest entries first |
//! | [`Move`] | entities that go to another partition, table, account or file |
//! | [`Outbox`] | changes beyond one partition, done in the end |
//! | [`Series`] | many values of one thing in one row |

mod drift;
mod housekeeping;
mod index_list;
mod indexed;
mod log_tail;
#[cfg(feature = "json")]
mod moves;
#[cfg(feature = "json")]
mod outbox;
mod series;
mod stamped;

pub use drift::DriftReport;
pub use index_list::{IndexList, Listed, Place};
#[cfg(feature = "json")]
pub use indexed::IndexedEventually;
pub use indexed::{IndexRange, IndexRow, Indexed};
pub use log_tail::{LogEntry, LogPlace, LogStream, LogTail, Trimmed};
#[cfg(feature = "json")]
pub use moves::{Copied, FileTarget, Located, Move, TableTarget, Target, Version};
#[cfg(feature = "json")]
pub use outbox::{
    FnStep, Notifier, Outbox, OutboxStatus, Poisoned, Progress, Step, StepError, SweepReport, Work,
    WorkReport, Worker, step,
};
pub use series::Series;
