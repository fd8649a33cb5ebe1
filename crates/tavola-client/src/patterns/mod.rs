//! Table design patterns: several rows that agree, whatever is lost and whoever else writes.
//!
//! | pattern | for |
//! | --- | --- |
//! | [`LogTail`] | the newest entries first |

mod log_tail;

pub use log_tail::{LogEntry, LogPlace, LogStream, LogTail, Trimmed};
