//! A client for Azure Tables, for Tavola, Azure and Cosmos endpoints alike.

// The derived code names the crate, also in its own tests.
#[cfg(all(test, feature = "derive"))]
extern crate self as tavola_client;

// What an entity is: values, keys, entities, filters. Nothing here sends anything.
#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
pub mod entity;
mod error;
mod etag;
mod explain;
pub mod filter;
pub mod key;
mod value;

pub use entity::{DynEntity, Entity, Projected, Projection, Properties, Stored, only};
pub use error::{Context, Error, ErrorKind, Observed, Outcome, Rule};
pub use etag::ETag;
pub use explain::{Access, Advice, Explain};
pub use filter::{AnyFilter, Column, Filter, prop};
pub use key::{EntityKey, KeyPart, KeyRange, PointKey};
pub use value::{EdmType, InPlace, PropertyType, Value, ValueRef};

#[cfg(feature = "derive")]
pub use tavola_derive::{Entity, KeyPart, Projection, Properties};

// What sends: accounts, credentials, attempts, retries, clients.
