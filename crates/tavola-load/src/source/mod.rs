//! What a round asks for: the next request, and whether its reply is right.

mod batch;
mod insert;
mod mixed;
mod pool;
mod scan;

use memchr::memmem;

pub use batch::BatchSource;
pub use insert::InsertSource;
pub use mixed::{MixedSource, QUERY_ENTITIES};
pub use pool::{PAGE_ENTITIES, PoolSource};
pub use scan::{ScanSource, next_page};

use crate::failure::{Failure, Result};
use crate::reply::Reply;

/// Requests for one server, one round, all connections.
pub trait Source {
    /// Appends the next request of a connection to `out`, after `previous` on the same one; false
    /// if there is none. `is_over` says that the round's time has passed: a source may finish what
    /// it began, and then ends.
    fn next(&mut self, previous: Option<Reply<'_>>, is_over: bool, out: &mut Vec<u8>) -> bool;

    /// Refuses a wrong reply; says how many entities the right one stands for.
    fn check(&self, reply: Reply<'_>) -> Result<u64>;
}

fn expect_status(reply: Reply<'_>, expected: u16) -> Result {
    if reply.head.status == expected { Ok(()) } else { Err(Failure::wrong_status(reply, expected)) }
}

fn count(needle: &str, body: &[u8]) -> u64 {
    memmem::find_iter(body, needle).count() as u64
}

fn count_entities(body: &[u8]) -> u64 {
    count("\"RowKey\":", body)
}
