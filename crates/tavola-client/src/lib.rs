//! A client for Azure Tables, for Tavola, Azure and Cosmos endpoints alike.
//!
//! ```
//! # #[cfg(feature = "derive")] {
//! use tavola_client::{Access, Entity, KeyRange};
//!
//! #[derive(Entity)]
//! #[entity(partition = "{dept}", row = "empid_{id:06}")]
//! struct Employee {
//!     dept: String,
//!     id: u32,
//!     last: String,
//!     visits: i64,
//! }
//!
//! let key = Employee::key().dept("Sales").id(212).into_key()?;
//! assert_eq!(key.to_string(), "('Sales', 'empid_000212')");
//!
//! let some = KeyRange::from(Employee::key().dept("Sales").id_in(100..200)).to_filter()?;
//! let query = some.and(Employee::LAST.eq("O'Brien")).and(Employee::VISITS.gt(0));
//! assert_eq!(query.explain()?.azure, Access::RowRange);
//! assert!(query.to_string().ends_with("last eq 'O''Brien' and visits gt 0L"));
//! # }
//! # Ok::<(), tavola_client::Error>(())
//! ```

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
