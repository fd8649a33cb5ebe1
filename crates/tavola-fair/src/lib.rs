//! Bounded resources shared out between tenants that do not trust each other.
//!
//! Two kinds of shared resource, one idea: a tenant may take what nobody needs, and never so much
//! that another finds nothing.
//!
//! - [`Pool`]: an amount that is taken or refused at once (memory, requests in flight). How much a
//!   tenant may hold depends on what is left, so a newcomer always finds room.
//! - [`Turns`]: places that are waited for (queries, writes). A tenant that holds none is never
//!   kept waiting; a place that becomes free goes to the tenant that holds the fewest for its
//!   weight. Long work passes its place on between two steps ([`InTurns`]), so that nobody waits
//!   for the end of somebody else's work.
//!
//! Beside them budgets, which do not depend on others: so much in a second ([`Rate`]), of one thing
//! ([`Bucket`]) or of any number of keys ([`KeyBudgets`]).
//!
//! This crate knows nothing of what is done with the resources, nor of the names of tenants: every
//! service shares it.

mod in_turns;
mod key_budgets;
mod pool;
mod rate;
mod stats;
mod turns;

pub use in_turns::InTurns;
pub use key_budgets::{KeyBudget, KeyBudgets, OverBudget};
pub use pool::{Member, Pool, Share};
pub use rate::{Bucket, Rate};
pub use stats::Stats;
pub use turns::{Line, Refused, Turn, Turns};
