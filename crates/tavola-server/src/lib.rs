//! Sockets, timeouts, limits, shutdown and telemetry; joins the protocol and the service.
//!
//! Deliberately absent: what a request means (the service) and how it is written (the protocol).
//!
//! The way of a request: [`listener`] accepts, [`pipeline`] is the line itself, [`service`] says what
//! a service adds to it, [`throttle`] holds it up, [`telemetry`] hears of it once.

pub mod admin;
mod auth_failures;
pub mod body;
mod completion;
pub mod config;
pub mod connection;
pub mod listener;
pub mod node;
pub mod pipeline;
pub mod proxy;
mod public_key;
mod query_pool;
pub mod response_body;
pub mod serve;
pub mod service;
mod tables;
pub mod telemetry;
pub mod throttle;
pub mod tls;
pub mod tokens;

pub use config::{Config, ConfigError};
pub use node::Node;
pub use serve::{ReservedPorts, Server, ServerError};
pub use tokens::{TokenAuthority, TokenRefusal};
