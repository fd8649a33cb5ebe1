//! What proves the rest of Tavola and ships to nobody.

#[cfg(feature = "stores")]
pub mod faulty_store;
#[cfg(feature = "stores")]
pub mod record;
pub mod store_conformance;
pub mod wire_conformance;
