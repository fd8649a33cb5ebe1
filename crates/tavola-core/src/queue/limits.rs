//! Limits of the Queue service.

/// The text of a message, in bytes of UTF-8.
pub const TEXT_BYTES_MAX: usize = 65_536;

/// The body of a request that carries a text: what XML adds at most, and some more.
pub const BODY_BYTES_MAX: usize = 131_584;

/// Messages of one Get or Peek.
pub const MESSAGES_MAX: u32 = 32;

/// How long a message can be hidden: seven days.
pub const VISIBILITY_SECONDS_MAX: u32 = 604_800;

/// How long a Get hides messages if it does not say.
pub const GET_VISIBILITY_SECONDS: u32 = 30;

/// Queues of one page of the list.
pub const LIST_PAGE_MAX: u32 = 5_000;

const _: () = assert!(TEXT_BYTES_MAX < BODY_BYTES_MAX);
const _: () = assert!(GET_VISIBILITY_SECONDS <= VISIBILITY_SECONDS_MAX);
// The transaction of a Get deletes and inserts a row for each message.
const _: () = assert!(2 * MESSAGES_MAX as usize <= crate::limits::TRANSACTION_OPERATIONS_MAX);
