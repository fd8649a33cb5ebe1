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
//! | [`Move`] | entities that go to another partition, table, account or file |
//! | [`OneToMany`] | children, and their number and sums in the parent |
//! | [`Outbox`] | changes beyond one partition, done in the end |
//! | [`Rekey`] | entities under other keys, while programs go on |
//! | [`Rolling`] | rows that die together, in a table for each day or month |
//! | [`Series`] | many values of one thing in one row |
//! | [`Spread`] | one partition in several of the service, against keys that grow |
//! | [`View`] | rows that are computed from others |
//! | [`Wide`] | more properties than a row has |

mod copies;
mod drift;
mod housekeeping;
mod index_list;
mod indexed;
mod log_tail;
mod merged;
#[cfg(feature = "json")]
mod moves;
#[cfg(feature = "json")]
mod outbox;
mod rekey;
mod relations;
mod rolling;
mod series;
mod spread;
mod stamped;
mod view;
mod wide;

#[cfg(feature = "json")]
pub use copies::ChunkedCopies;
pub use copies::{Copies, Sourced};
pub use drift::DriftReport;
#[cfg(feature = "json")]
pub use index_list::IndexListElsewhere;
pub use index_list::{IndexList, Listed, Place};
pub use indexed::{IndexRange, IndexRow, Indexed};
pub use log_tail::{LogEntry, LogPlace, LogStream, LogTail, Trimmed};
pub use merged::Merged;
#[cfg(feature = "json")]
pub use moves::{Copied, FileTarget, Located, Move, TableTarget, Target, Version};
#[cfg(feature = "json")]
pub use outbox::{
    FnStep, Notifier, Outbox, OutboxStatus, Poisoned, Progress, Step, StepError, SweepReport, Work,
    WorkReport, Worker, step,
};
pub use rekey::{Rekey, RekeyPhase, RekeyStep};
#[cfg(feature = "json")]
pub use relations::Moves;
pub use relations::{JoinCache, Link, LinksTo, OneToMany};
pub use rolling::{DropReport, Rolling};
pub use series::Series;
pub use spread::Spread;
pub use view::{Applied, Project, View};
pub use wide::{Wide, WideStored};
