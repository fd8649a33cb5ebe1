//! A client for Azure Tables, for Tavola, Azure and Cosmos endpoints alike.

// What an entity is: values, keys, entities, filters. Nothing here sends anything.
pub mod entity;
mod error;
mod etag;
mod explain;
pub mod key;
mod value;

pub use entity::{DynEntity, Entity, Projected, Stored};
pub use error::{Context, Error, ErrorKind, Observed, Outcome, Rule};
pub use etag::ETag;
pub use explain::Access;
pub use key::{EntityKey, KeyPart, KeyRange, PointKey};
pub use value::{EdmType, InPlace, PropertyType, Value, ValueRef};

// What sends: accounts, credentials, attempts, retries, clients.
