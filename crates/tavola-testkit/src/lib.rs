//! What the tests of several crates share: stores that fail or are watched, a server
//! process and its client, tokens and their issuer.

#[cfg(feature = "client")]
pub mod blocking;
#[cfg(feature = "client")]
pub mod client;
pub mod endless_store;
pub mod faulty_store;
#[cfg(feature = "oidc")]
pub mod oidc_issuer;
#[cfg(feature = "client")]
pub mod raw;
pub mod record;
#[cfg(feature = "client")]
pub mod server_process;
#[cfg(feature = "tokens")]
pub mod tokens;
pub mod watched_store;
pub mod wide;
