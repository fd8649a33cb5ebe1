//! The wire format of the Queue service.

mod context;
mod error;
pub(crate) mod receipt;
mod reply;
mod request;

pub use context::QueueContext;
pub use error::QueueError;
pub use reply::{render_error, render_reply};
pub use request::parse_request;

#[cfg(test)]
mod tests;
