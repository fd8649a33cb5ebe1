//! The library from outside: derived entities, and the clients that send them.

#![cfg(feature = "derive")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod compile_errors;
mod cursors;
mod entities;
mod harness;
mod http;
mod indexed;
mod indexes;
mod kinds;
mod ladder;
mod log_tail;
mod losses;
mod outbox;
mod projections;
mod samples;
mod series;
mod tables;
mod unknown;
