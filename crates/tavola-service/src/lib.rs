//! What each request of the Table service means, in terms of a [`tavola_store::Store`].
//!
//! Speaks only core types: no wire format and no engine is known here. Tables and what else has a
//! name ([`catalog`]), access policies and service properties are entities of system tables, so
//! that every store carries them without knowing.

pub mod audit;
pub mod catalog;
pub mod clock;
pub mod error;
pub mod migration;
mod planned;
mod properties;
mod query;
pub mod reclaim;
pub mod record;
mod system_rows;
pub mod table;
mod tables_query;

pub use audit::{Audit, Audited, AuditedTable};
pub use clock::{Clock, JUMP_MAX, SystemClock};
pub use error::ServiceError;
pub use planned::PlannedRequest;
pub use query::ReadContext;
pub use reclaim::Reclaimer;
pub use table::{Answer, TableService};
