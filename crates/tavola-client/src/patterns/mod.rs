//! Table design patterns: several rows that agree, whatever is lost and however many write.
//!
//! | pattern | for |
//! | --- | --- |
//! | [`Indexed`] | point reads and orders by other properties, in one partition |
//! | [`LogTail`] | the newest entries first |
//! | [`Outbox`] | changes beyond one partition, done in the end |
//! | [`Series`] | many values of one thing in one row |

mod drift;
mod housekeeping;
mod indexed;
mod log_tail;
#[cfg(feature = "json")]
mod outbox;
mod series;

pub use drift::DriftReport;
pub use indexed::{IndexRange, IndexRow, Indexed};
pub use log_tail::{LogEntry, LogPlace, LogStream, LogTail, Trimmed};
#[cfg(feature = "json")]
pub use outbox::{
    FnStep, Notifier, Outbox, OutboxStatus, Poisoned, Progress, Step, StepError, SweepReport, Work,
    WorkReport, Worker, step,
};
pub use series::Series;
