//! The path of a request.
