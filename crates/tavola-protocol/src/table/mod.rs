//! The Table service on the wire.

pub mod batch;
pub mod continuation;
pub mod decode;
pub mod encode;
pub mod entity_json;
pub mod error;
mod fields;
pub mod format;
pub mod metadata;
pub(crate) mod query;
pub mod receive;
pub mod reply;
pub mod request;
pub mod tables_json;
pub mod uri;

pub use decode::decode_reply;
pub use encode::{encode_request, encode_request_with};
pub use error::TableError;
pub use format::{Prefer, ResponseFormat, TableContext};
pub use receive::receive_reply;
pub use reply::{render_error, render_reply};
pub use request::parse_request;
