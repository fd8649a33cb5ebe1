//! The domain of the services as pure values and functions.
//!
//! Deliberately absent: IO, async, clocks, randomness, wire formats and disk formats. The current
//! time is always an argument. What an operation means is decided here, once
//! ([`transaction::decide`]); stores and sockets carry it out.
//!
//! Reading order: names and keys, values, entities, operations, then the filter language, then
//! requests and replies.

pub mod account;
pub mod cors;
pub mod date_text;
pub mod domain_error;
pub mod edm;
pub mod entity;
pub mod etag;
pub mod filter;
pub mod grant;
pub mod key;
pub mod limits;
pub mod metadata;
pub mod operation;
pub mod policy;
pub mod properties;
pub mod queue;
pub mod range;
pub mod reply;
pub mod request;
pub mod service_kind;
pub mod table;
pub mod table_demands;
pub mod text;
pub mod time;
pub mod transaction;

pub use account::AccountName;
pub use domain_error::DomainError;
pub use edm::{EdmRef, EdmType, EdmValue, Guid};
pub use entity::{Entity, EntityView, Properties, PropertyName};
pub use etag::{ETag, Timestamp};
pub use filter::Filter;
pub use filter::compile::CompiledFilter;
pub use grant::{AccessDenied, AccessError, Grant};
pub use key::{EntityKey, PartitionKey, RowKey};
pub use metadata::{Metadata, MetadataError};
pub use operation::{EntityOperation, NewEntity, Precondition};
pub use policy::AccessPolicy;
pub use properties::ServiceProperties;
pub use range::{Cut, KeyRange};
pub use reply::TableReply;
pub use request::TableRequest;
pub use service_kind::ServiceKind;
pub use table::{EntityAddress, TableId, TableName};
pub use text::Text;
pub use time::DateTime;
pub use transaction::{Change, EntityGroupTransaction, FailedOperation, Outcome, decide};
