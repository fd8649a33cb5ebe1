//! A client for Azure Tables, for Tavola, Azure and Cosmos endpoints alike.
//!
//! ```no_run
//! # async fn f() -> Result<(), tavola_client::Error> {
//! use futures_util::TryStreamExt as _;
//! use tavola_client::{Account, DynEntity, prop};
//!
//! let table = Account::from_env()?.tables()?.table_client("people");
//! table.create_table_if_missing().await?;
//!
//! let mut ann = DynEntity::new("Smith", "1");
//! ann.set("Age", 42);
//! table.insert(&ann).await?;
//!
//! // Read, change, write back; begun anew if somebody else was faster.
//! table.modify::<DynEntity>(("Smith", "1"), |ann| drop(ann.set("Age", 43))).await?;
//!
//! let mut rows = table.filter::<DynEntity>(prop("PartitionKey").eq("Smith")).stream();
//! while let Some(row) = rows.try_next().await? {
//!     println!("{} {}", row.row(), row.get::<i32>("Age")?);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A write whose reply was lost is never repeated blindly: a read decides what became of it.
//! [`Written::proof`] says how the call knows, [`Error::outcome`] what is known after a failure.
//!
//! Keys, filters and what a query would read need no service:
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

#![warn(missing_docs)]
#![cfg_attr(
    not(feature = "http"),
    allow(dead_code, unused_imports, reason = "credentials and options are for the network")
)]

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
pub use error::{Context, EncryptionFault, Error, ErrorKind, Observed, Outcome, Rule};
pub use etag::ETag;
pub use explain::{Access, Advice, Explain};
pub use filter::{AnyFilter, Column, Filter, prop};
pub use key::{EntityKey, KeyPart, KeyRange, PointKey};
pub use value::{EdmType, InPlace, PropertyType, Value, ValueRef};

#[cfg(feature = "derive")]
pub use tavola_derive::{Entity, KeyPart, Projection, Properties};

// What sends: accounts, credentials, attempts, retries, clients.
#[cfg(feature = "http")]
#[doc(hidden)]
#[path = "http/mod.rs"]
pub mod __http;
mod account;
mod advise;
#[cfg(feature = "blocking")]
mod blocking;
mod bulk;
mod call;
mod client;
mod continuation;
mod credential;
mod crypt;
mod delete_where;
mod engine;
#[cfg(feature = "entra")]
mod entra;
mod options;
pub mod patterns;
mod prepare;
mod query;
#[cfg(feature = "http")]
mod renewal;
mod retry;
mod runtime;
mod sas;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
#[doc(hidden)]
pub mod unknown;
mod written;

pub use account::Account;
#[cfg(feature = "blocking")]
pub use blocking::Blocking;
pub use bulk::{Bulk, BulkFailure, BulkReport, Checkpoint};
pub use call::Call;
pub use client::{
    AccessPolicy, CorsRule, Logging, Metrics, Modified, ServiceProperties, ServiceStats,
    TableClient, TableServiceClient, Transaction,
};
pub use continuation::Continuation;
pub use credential::{Credential, SasSource, Secret, SourceError, TokenSource};
#[cfg(feature = "encrypt")]
pub use crypt::{
    Encryption, KeyWrap, LocalKeys, RewrapFailure, RewrapReport, RsaKeys, WrapAlgorithm, Wrapped,
    fresh_key,
};
pub use delete_where::{DeleteReport, DeleteWhere};
pub use options::{ClientOptions, ConnectionOptions, OnUnknown, Options};
pub use query::{Items, Page, Pages, Query};
#[cfg(feature = "http")]
pub use renewal::CachedSas;
pub use retry::Retry;
pub use runtime::BoxFuture;
pub use sas::{Permissions, SasIssuer, SasScope, TableSasBuilder};
pub use store::{AttemptResult, Failure, Flavour, Reply, Request, StoreTraits, TableStore};
pub use unknown::Proof;
pub use written::{Created, IfMatch, Mode, Written};

/// What the service in the process and our own tests need. No part of the promise of this crate.
#[doc(hidden)]
pub mod __store {
    pub use crate::runtime::Runtime;
    pub use crate::unknown;
}
