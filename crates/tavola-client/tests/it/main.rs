//! The library from outside: derived entities, and the clients that send them.

#![cfg(feature = "derive")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod compile_errors;
mod cursors;
#[cfg(feature = "encrypt")]
mod encryption;
#[cfg(feature = "encrypt")]
mod encryption_keys;
#[cfg(feature = "encrypt")]
mod encryption_limits;
mod entities;
mod harness;
mod http;
mod indexed;
mod indexes;
mod kinds;
mod log_tail;
mod losses;
mod projections;
#[cfg(feature = "http")]
mod sas;
mod series;
mod tables;
mod unknown;
