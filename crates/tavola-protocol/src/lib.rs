//! Wire formats on byte slices, in both directions, shared by server and client.
//!
//! Deliberately absent: sockets, clocks, randomness, storage. No function here panics on any input.
//!
//! The way of a request: [`address::locate`], [`auth::authenticate`], [`table::parse_request`]; the
//! way of its answer: [`table::render_reply`] or [`table::render_rejection`], then
//! [`cors::add_cors_headers`].

pub mod address;
pub mod auth;
pub mod connection_string;
pub mod cors;
pub mod deny_reason;
pub mod error_body;
pub mod headers;
pub mod rejection;
pub mod table;
pub mod version;
pub mod xml;

pub use address::{Address, AddressRules, locate};
pub use auth::{AccountKey, AccountKeys, Caller, Credential, Gate, Precedence, authenticate};
pub use connection_string::ConnectionString;
pub use deny_reason::DenyReason;
pub use headers::{Exchange, Presentation};
pub use rejection::Rejection;
pub use version::Version;
