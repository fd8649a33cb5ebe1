//! The library from outside: derived entities, and the clients that send them.

#![cfg(feature = "derive")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod child_moves;
mod common;
mod compile_errors;
mod copies;
mod cursors;
mod entities;
mod harness;
mod http;
mod index_list;
mod index_list_elsewhere;
mod indexed;
mod indexes;
mod join_cache;
mod kinds;
mod log_tail;
mod losses;
mod outbox;
mod projections;
mod relations;
mod series;
mod tables;
mod unknown;
