//! Error bodies, as JSON and as XML.
