//! Wire formats on byte slices, in both directions, shared by server and client.
//!
//! Deliberately absent: sockets, clocks, randomness, storage. No function here panics on any input.

pub mod table;
pub mod xml;
