//! What proves the rest of Tavola and ships to nobody.

#[cfg(feature = "stores")]
pub mod faulty_store;
#[cfg(feature = "oidc")]
pub mod oidc_issuer;
pub mod record;
#[cfg(feature = "stores")]
pub mod store_conformance;
#[cfg(feature = "tokens")]
pub mod tokens;
#[cfg(feature = "stores")]
pub mod watched_store;
pub mod wire_conformance;
