//! The derive macros of `tavola-client`, which re-exports them.
