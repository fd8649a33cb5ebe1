//! The library from outside: derived entities.

#![cfg(feature = "derive")]

mod cursors;
mod entities;
mod kinds;
mod projections;
