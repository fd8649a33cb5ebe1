//! The contract of stores and the protocol of the service, as suites that any implementation can
//! run.
//!
//! [`wire_conformance`] asks an endpoint over a socket and knows nothing of our other crates. The
//! feature `stores` adds `store_conformance`.

#[cfg(feature = "stores")]
pub mod store_conformance;
pub mod wire_conformance;
