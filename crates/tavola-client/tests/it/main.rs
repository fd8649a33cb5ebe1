//! The client library as its users see it.

mod common;
mod http;
mod losses;
mod tables;
mod unknown;
