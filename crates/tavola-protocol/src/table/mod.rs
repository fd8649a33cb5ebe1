//! The Table service on the wire.

pub mod batch;
pub mod continuation;
pub mod entity_json;
pub mod metadata;
pub mod tables_json;
