//! The library from outside: derived entities, and the clients that send them.

#![cfg(feature = "derive")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod blocking;
mod bulk;
mod common;
mod compile_errors;
mod cursors;
mod entities;
mod harness;
mod http;
mod indexed;
mod indexes;
mod kinds;
mod log_tail;
mod losses;
mod messages;
mod observability;
mod projections;
mod queries;
mod series;
mod tables;
mod unknown;
mod writes;
