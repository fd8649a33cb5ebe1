//! The load generator of `tavola bench` and of `cargo xtask bench`: many connections, one thread,
//! requests signed beforehand, every reply checked.
//!
//! Deliberately absent: starting servers, and what becomes of the figures. In reading order: whom
//! to ask (`site`), what (`entity`, `request`, `source`), and how (`generator`, `connection`,
//! `reply`).

mod client;
mod connection;
mod entity;
mod failure;
mod generator;
mod random;
mod reply;
mod request;
mod site;
pub mod source;
mod stats;
pub mod text;

pub use client::{Client, create_table, drop_table, list_tables, metric, pages};
pub use entity::{
    BATCH_ENTITIES, ENTITY_BYTES, EntityTemplate, Family, Key, MATCHES_ONE_OF,
    ROWS_PER_LOADED_PARTITION, WIDE_PARTITION,
};
pub use failure::{Context, Failure, Result};
pub use generator::{Load, Outcome, Pace, run};
pub use random::Random;
pub use reply::{Head, Reply, ReplyReader};
pub use request::{Content, Signer};
pub use site::Site;
pub use stats::Spread;
