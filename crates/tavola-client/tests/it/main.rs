//! The library from outside: derived entities, and the clients that send them.

#![cfg(feature = "derive")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod advise;
mod blocking;
mod common;
mod compile_errors;
mod copies;
mod cursors;
mod entities;
mod harness;
mod http;
mod index_list;
mod indexed;
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
mod relations;
mod rolling;
mod samples;
mod series;
mod spread;
mod tables;
mod unknown;
mod view;
mod wide;
mod writes;
