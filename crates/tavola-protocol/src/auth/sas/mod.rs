//! Shared access signatures, for both ends of the wire: what is signed (`text`), what a URL says
//! (`fields`), what is a service's own in it (`part`), and what the server makes of it (`check`).
//!
//! The texts are signed exactly as they stand in the URL after decoding, so they are kept as texts
//! until the signature is known to be right.

mod check;
mod fields;
mod part;
mod text;

pub use check::PolicySignature;
pub(super) use check::check;
pub use fields::{FieldsError, SasFields};
pub use text::{AccountSas, QueueSas, TableSas};

#[cfg(test)]
mod tests;
