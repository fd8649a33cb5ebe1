//! Entity group transactions as multipart bodies.

use bytes::Bytes;

/// A body that is not a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a well-formed batch")]
pub struct BatchError;

/// What a batch holds.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one per request, and taken apart at once")]
pub enum BatchRequest {
    /// The requests of its one changeset.
    Changeset(Vec<http::Request<Bytes>>),
    /// One query, outside any changeset.
    Query(http::Request<Bytes>),
}

/// One answer in a batch's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchPart {
    /// Its status.
    pub status: http::StatusCode,
    /// Its headers, spelled and ordered as they are to be written.
    pub headers: Vec<(&'static str, String)>,
    /// Its body.
    pub body: Option<Bytes>,
}

/// Takes a batch apart.
///
/// # Errors
/// If the body is not one changeset or one query.
pub fn read_batch(_content_type: &str, _body: &Bytes) -> Result<BatchRequest, BatchError> {
    Err(BatchError)
}

/// Writes the answer to a batch: its content type and its body. `ids` make the two boundaries.
#[must_use]
pub fn write_batch(_parts: &[BatchPart], _in_changeset: bool, _ids: [&str; 2]) -> (String, Bytes) {
    (String::new(), Bytes::new())
}

/// Writes a batch with one changeset: its content type and its body. `ids` make the two boundaries.
#[must_use]
pub fn encode_batch(_requests: &[http::Request<Bytes>], _ids: [&str; 2]) -> (String, Bytes) {
    (String::new(), Bytes::new())
}

/// Takes the answer to a batch apart.
///
/// # Errors
/// If the body is not the answer to a batch.
pub fn decode_batch_response(_content_type: &str, _body: &Bytes) -> Result<Vec<http::Response<Bytes>>, BatchError> {
    Err(BatchError)
}
