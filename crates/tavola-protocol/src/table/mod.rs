//! The Table service on the wire.

pub mod batch;
pub mod continuation;
pub mod entity_json;
pub mod metadata;
pub(crate) mod query;
pub mod reply;
pub mod request;
pub mod tables_json;
pub mod uri;

pub use reply::{render_rejection, render_reply};
pub use request::parse_request;
