//! Every limit of the service, each with the rule that it comes from. Relations between them are
//! proved at compile time.

/// PartitionKey and RowKey: 1 KiB each, counted as UTF-16.
pub const KEY_UTF16_UNITS_MAX: usize = 512;

/// Keys as stores carry them: the names of blobs have 1,024 characters.
pub const STORED_KEY_UTF16_UNITS_MAX: usize = 1024;

/// Properties of an entity beside PartitionKey, RowKey and Timestamp.
pub const PROPERTIES_MAX: usize = 252;

/// Characters of a property name, counted as UTF-16.
pub const PROPERTY_NAME_UTF16_UNITS_MAX: usize = 255;

/// An `Edm.String` holds 64 KiB of UTF-16.
pub const STRING_UTF16_UNITS_MAX: usize = 32 * 1024;

/// An `Edm.Binary` holds 64 KiB.
pub const BINARY_BYTES_MAX: usize = 64 * 1024;

/// An entity, by the service's own formula (see [`crate::entity::entity_bytes`]).
pub const ENTITY_BYTES_MAX: usize = 1024 * 1024;

/// Operations of one entity group transaction.
pub const TRANSACTION_OPERATIONS_MAX: usize = 100;

/// The request that carries an entity group transaction.
pub const TRANSACTION_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Any request body.
pub const REQUEST_BODY_BYTES_MAX: usize = TRANSACTION_BYTES_MAX;

/// Entities, or tables, of one page.
pub const PAGE_ENTITIES_MAX: usize = 1000;

/// A query runs at most this long, then it returns what it has and a continuation.
pub const PAGE_SECONDS_MAX: u64 = 5;

/// Encoded bytes of the rows of one page. Ours: it bounds the memory of a reply (the service's own
/// figure is not published).
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Names in one `$select`.
pub const SELECT_NAMES_MAX: usize = 255;

/// Nesting of a `$filter`. Ours: the parser recurses, and a socket must not choose our stack's
/// depth.
pub const FILTER_DEPTH_MAX: usize = 96;

/// Comparisons in one `$filter`. The service documents 15 and is known to take more; this bounds
/// the work per row.
pub const FILTER_COMPARISONS_MAX: usize = 500;

/// Key ranges of one query plan. Beyond it a plan falls back to the range that covers them all.
pub const PLAN_RANGES_MAX: usize = 128;

/// Stored access policies of one table.
pub const POLICIES_MAX: usize = 5;

/// Characters of a stored access policy's id.
pub const POLICY_ID_CHARS_MAX: usize = 64;

/// Names and values of one queue's, container's or blob's metadata.
pub const METADATA_BYTES_MAX: usize = 8 * 1024;

/// CORS rules of one service.
pub const CORS_RULES_MAX: usize = 5;

/// Days of a retention policy.
pub const RETENTION_DAYS_MAX: u16 = 365;

/// Characters of a table name.
pub const TABLE_NAME_CHARS_MIN: usize = 3;
/// Characters of a table name.
pub const TABLE_NAME_CHARS_MAX: usize = 63;

const _: () = assert!(ENTITY_BYTES_MAX < TRANSACTION_BYTES_MAX);
const _: () = assert!(BINARY_BYTES_MAX < ENTITY_BYTES_MAX);
const _: () = assert!(2 * STRING_UTF16_UNITS_MAX < ENTITY_BYTES_MAX);
const _: () = assert!(ENTITY_BYTES_MAX < PAGE_BYTES_MAX);
const _: () = assert!(PLAN_RANGES_MAX >= TRANSACTION_OPERATIONS_MAX);
