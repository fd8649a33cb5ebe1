//! The query string of a request.
