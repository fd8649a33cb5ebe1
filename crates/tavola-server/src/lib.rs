//! Sockets, timeouts, limits, shutdown and telemetry; joins the protocol and the service.
//!
//! Deliberately absent: what a request means (the service) and how it is written (the protocol).
//!
//! The way of a request: [`listener`] accepts, [`handler`] is the line itself, [`telemetry`] hears
//! of it once.

pub mod admin;
mod admission;
mod auth_failures;
mod body;
mod body_memory;
pub mod budget;
pub mod config;
pub mod connection;
pub mod handler;
pub mod listener;
pub mod node;
pub mod proxy;
mod public_key;
mod query_pool;
pub mod serve;
pub mod telemetry;
mod tenants;
pub mod tls;
pub mod tokens;

pub use config::{Config, ConfigError};
pub use node::Node;
pub use serve::{ReservedPorts, Server, ServerError};
pub use tokens::{TokenAuthority, TokenRefusal};
