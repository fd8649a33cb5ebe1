//! The tests of this crate's public interface, linked once: a module for each subject.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod audit;
mod catalog;
mod common;
mod migration;
mod page_budget;
mod partition_budget;
mod service;
mod tenants;
