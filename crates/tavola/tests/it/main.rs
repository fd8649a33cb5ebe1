//! Our binary as its users meet it, linked once: a module for each subject.
//!
//! The tests are threads of one process. Each has folders and servers of its own; environment,
//! umask and limits are set for the processes that a test starts, never for this one. A port that
//! must be free comes from [`common::free_port`]. `tests/access_matrix` has a process of its own,
//! because it keeps every core busy for its whole time, which tests with deadlines would feel.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod accounts;
mod admin_port;
mod audit;
mod auth_failures;
mod bench;
mod cert;
mod certificate_v1;
mod check;
mod cli;
mod client_certificates;
mod client_library;
mod client_transport;
mod common;
mod conn;
mod data_commands;
mod development_account;
mod doctor;
mod doctor_machine;
mod durability;
mod file_modes;
mod hostile;
mod mishaps;
mod old_data;
mod old_data_content;
mod operation;
mod peer_keys;
mod refusals_log;
mod refused_start;
mod repair;
mod sas;
mod store_copy;
mod store_init;
mod tls;
mod tokens;
