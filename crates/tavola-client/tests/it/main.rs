//! The library from outside: derived entities, and the clients that send them.

#![cfg(feature = "derive")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod compile_errors;
mod compound;
mod cursors;
mod entities;
mod harness;
mod http;
mod indexed;
mod indexes;
mod kinds;
mod log_tail;
mod losses;
mod projections;
mod rekey;
mod rolling;
mod series;
mod spread;
mod tables;
mod unknown;
mod view;
mod wide;
