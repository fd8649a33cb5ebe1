//! What proves the rest of Tavola and ships to nobody.

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "stores")]
pub mod endless_store;
#[cfg(feature = "stores")]
pub mod faulty_store;
#[cfg(feature = "oidc")]
pub mod oidc_issuer;
pub mod record;
#[cfg(feature = "client")]
pub mod server_process;
#[cfg(feature = "stores")]
pub mod store_conformance;
#[cfg(feature = "tokens")]
pub mod tokens;
#[cfg(feature = "torture")]
pub mod torture;
#[cfg(feature = "stores")]
pub mod watched_store;
pub mod wide;
pub mod wire_conformance;
