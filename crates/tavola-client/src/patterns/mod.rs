//! Table design patterns: several rows that agree, whatever is lost and however many write.
//!
//! | pattern | for |
//! | --- | --- |
//! | [`Indexed`] | point reads and orders by other properties, in one partition |
//! | [`LogTail`] | the newest entries first |
//! | [`Rekey`] | entities under other keys, while programs go on |
//! | [`Rolling`] | rows that die together, in a table for each day or month |
//! | [`Series`] | many values of one thing in one row |
//! | [`Spread`] | one partition in several of the service, against keys that grow |
//! | [`View`] | rows that are computed from others |
//! | [`Wide`] | more properties than a row has |

mod drift;
mod housekeeping;
mod indexed;
mod log_tail;
mod merged;
mod rekey;
mod rolling;
mod series;
mod spread;
mod view;
mod wide;

pub use drift::DriftReport;
pub use indexed::{IndexRange, IndexRow, Indexed};
pub use log_tail::{LogEntry, LogPlace, LogStream, LogTail, Trimmed};
pub use merged::Merged;
pub use rekey::{Rekey, RekeyPhase, RekeyStep};
pub use rolling::{DropReport, Rolling};
pub use series::Series;
pub use spread::Spread;
pub use view::{Applied, Project, View};
pub use wide::{Wide, WideStored};
