//! The commands, one file each.

pub(crate) mod account;
pub(crate) mod cert;
pub(crate) mod config;
pub(crate) mod serve;
