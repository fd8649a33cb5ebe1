//! The integration tests of the crate, in one binary so that they link the engine once.
//!
//! `kill.rs` is a binary of its own: it starts itself as the process that it kills.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod check;
mod common;
mod conformance;
mod damaged_block;
mod durability;
mod model;
mod reads;
mod reclaim;
mod rescue;
