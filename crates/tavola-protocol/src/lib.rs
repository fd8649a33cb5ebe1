//! Wire formats on byte slices, in both directions, shared by server and client.
//!
//! Deliberately absent: sockets, clocks, randomness, storage. No function here panics on any input.
//!
//! The way of a request: [`address::locate`], [`auth::authenticate`], [`table::parse_request`]; the
//! way of its answer: [`table::render_reply`] or [`table::render_error`], then
//! [`cors::add_cors_headers`].

pub mod address;
pub mod api_error;
pub mod auth;
pub mod connection_string;
pub mod cors;
pub mod deny_reason;
pub mod error_body;
pub(crate) mod headers;
mod metadata_headers;
mod query_string;
pub mod queue;
pub mod response;
pub mod table;
pub mod version;
pub mod xml;

pub use address::{Address, AddressRules, locate};
pub use api_error::{ApiError, ServiceApiError};
pub use auth::{
    AccountKey, AccountKeys, AuthContext, Caller, Credential, Precedence, authenticate,
};
pub use connection_string::ConnectionString;
pub use deny_reason::DenyReason;
pub use response::{ResponseContext, ResponseHead};
pub use version::Version;
