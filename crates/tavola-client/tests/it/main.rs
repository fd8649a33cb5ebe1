//! The library from outside: derived entities.

#![cfg(feature = "derive")]

mod compile_errors;
mod cursors;
mod entities;
mod indexes;
mod kinds;
mod projections;
