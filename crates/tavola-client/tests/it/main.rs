//! The library from outside: derived entities, and the clients that send them.

#![cfg(feature = "derive")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod advise;
mod blocking;
mod bulk;
mod child_moves;
mod common;
mod compile_errors;
mod compound;
mod copies;
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
mod index_list;
mod index_list_elsewhere;
mod indexed;
mod indexed_eventually;
mod indexes;
mod join_cache;
mod kinds;
mod ladder;
mod log_tail;
mod losses;
mod messages;
mod moves;
mod observability;
mod outbox;
mod projections;
mod queries;
mod rekey;
mod relations;
mod rolling;
mod samples;
#[cfg(feature = "http")]
mod sas;
mod series;
mod spread;
mod tables;
mod unknown;
mod view;
mod wide;
mod writes;
