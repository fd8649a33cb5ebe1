//! Entity group transactions as multipart bodies: `$batch` in both directions.
//!
//! A batch holds one changeset of writes, or one query outside any changeset. What its requests
//! mean, and whether they may stand together, is decided elsewhere; here they are only taken out of
//! their envelopes (`multipart.rs`) or put into them, to the byte as the clients expect it.

mod multipart;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use tavola_core::limits::TRANSACTION_OPERATIONS_MAX;

pub use multipart::Field;
use multipart::{Head, boundary, push_envelope, push_message, sections, split_line};

/// A body that is not a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a well-formed batch")]
pub struct BatchError;

/// What a batch holds.
#[derive(Debug)]
pub enum BatchRequest<'a> {
    /// The requests of its one changeset. There may be none, and one more than a transaction can
    /// have, but no more than that: the rest is not read.
    Changeset(Vec<BatchedRequest<'a>>),
    /// One query, outside any changeset.
    Query(BatchedRequest<'a>),
}

/// A request in a batch. It lies where the batch's body lies: a hundred of them are read at once,
/// and each would need a dozen allocations to stand for itself.
#[derive(Debug)]
pub struct BatchedRequest<'a> {
    /// Its verb.
    pub method: Method,
    /// Its target, with or without a host.
    pub uri: Uri,
    /// Its header fields in their order; HTTP allows all of them.
    pub fields: Vec<Field<'a>>,
    /// Its body, without the white space before it.
    pub body: &'a str,
    target: &'a str,
}

/// Enough to see that a changeset is too long.
const PARTS_MAX: usize = TRANSACTION_OPERATIONS_MAX + 1;

/// Takes a batch apart.
///
/// # Errors
/// If the body is not one changeset or one query.
pub fn read_batch<'a>(content_type: &str, body: &'a Bytes) -> Result<BatchRequest<'a>, BatchError> {
    match parts(content_type, body)? {
        Parts::Changeset { texts, .. } => {
            let mut requests: Vec<BatchedRequest<'a>> = Vec::with_capacity(texts.len());
            for text in texts {
                requests.push(request(body, text, requests.last())?);
            }
            Ok(BatchRequest::Changeset(requests))
        }
        Parts::Single { text, .. } => {
            let query = request(body, text, None)?;
            if query.method == Method::GET {
                Ok(BatchRequest::Query(query))
            } else {
                Err(BatchError)
            }
        }
    }
}

/// Writes the answer to a batch, whose parts `write_parts` writes: its content type and its body.
/// `ids` make the two boundaries.
#[must_use]
pub fn write_batch(
    in_changeset: bool,
    ids: [&str; 2],
    write_parts: impl FnOnce(&mut PartsWriter<'_>),
) -> (String, Bytes) {
    let outer = format!("batchresponse_{}", ids[0]);
    let inner = in_changeset.then(|| format!("changesetresponse_{}", ids[1]));
    push_envelope(&outer, inner.as_deref(), |out, boundary| {
        write_parts(&mut PartsWriter { out, boundary })
    })
}

/// Takes the parts of a batch's answer, one after the other.
#[derive(Debug)]
pub struct PartsWriter<'a> {
    out: &'a mut Vec<u8>,
    boundary: &'a str,
}

impl PartsWriter<'_> {
    /// Writes one part. Headers are spelled and ordered as they are to be written.
    pub fn push<'h>(
        &mut self,
        status: StatusCode,
        headers: impl IntoIterator<Item = (&'static str, &'h str)>,
        body: &[u8],
    ) {
        let line =
            ["HTTP/1.1 ", status.as_str(), " ", status.canonical_reason().unwrap_or("Unknown")];
        let headers = headers.into_iter().map(|(name, value)| (name, value.as_bytes()));
        push_message(self.out, self.boundary, &line, headers, body);
    }

    /// Makes room for so many more parts like those that were written, so that they are not copied
    /// while the answer grows.
    pub fn reserve_parts(&mut self, written: usize, more: usize) {
        let part = self.out.len() / written.max(1);
        self.out.reserve((part + part / 16) * more);
    }
}

/// Writes a batch with one changeset, or with one query if that is all there is: its content type
/// and its body. `ids` make the two boundaries.
#[must_use]
pub fn encode_batch(requests: &[Request<Bytes>], ids: [&str; 2]) -> (String, Bytes) {
    let outer = format!("batch_{}", ids[0]);
    let is_query = matches!(requests, [only] if only.method() == Method::GET);
    let inner = (!is_query).then(|| format!("changeset_{}", ids[1]));
    push_envelope(&outer, inner.as_deref(), |out, boundary| {
        for request in requests {
            let (method, target) = (request.method().as_str(), request.uri().to_string());
            let headers =
                request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
            push_message(
                out,
                boundary,
                &[method, " ", &target, " HTTP/1.1"],
                headers,
                request.body(),
            );
        }
    })
}

/// Takes the answer to a batch apart.
///
/// # Errors
/// If the body is not the answer to a batch, or was cut short.
pub fn decode_batch_response(
    content_type: &str,
    body: &Bytes,
) -> Result<Vec<Response<Bytes>>, BatchError> {
    let (texts, ended) = match parts(content_type, body)? {
        Parts::Changeset { texts, ended } => (texts, ended),
        Parts::Single { text, ended } => (vec![text], ended),
    };
    if !ended {
        return Err(BatchError);
    }
    texts.into_iter().map(|text| response(body, text)).collect()
}

/// The HTTP messages of a batch, each as text.
enum Parts<'a> {
    Changeset {
        texts: Vec<&'a str>,
        /// The batch goes on to its own next delimiter.
        ended: bool,
    },
    Single {
        text: &'a str,
        ended: bool,
    },
}

fn parts<'a>(content_type: &str, body: &'a Bytes) -> Result<Parts<'a>, BatchError> {
    let outer = boundary(content_type).ok_or(BatchError)?;
    let text = std::str::from_utf8(body).map_err(|_| BatchError)?;
    // A second changeset, or a query beside one, is refused as a whole: half of a batch is never
    // what was meant.
    let [section] = sections(text, outer, 2)[..] else { return Err(BatchError) };
    let head = Head::parse(section.text, &[])?;
    let ended = section.ended;
    let Some(inner) = head.value("content-type").and_then(boundary) else {
        return Ok(Parts::Single { text: head.rest, ended });
    };
    let sections = sections(head.rest, inner, PARTS_MAX);
    // A part that neither delimiter ends was cut short; what is missing cannot be known.
    if sections.iter().any(|part| !part.ended && !ended) {
        return Err(BatchError);
    }
    let (mut texts, mut fields) = (Vec::with_capacity(sections.len()), Vec::new());
    for part in sections {
        let head = Head::parse(part.text, &fields)?;
        texts.push(head.rest);
        fields = head.fields;
    }
    Ok(Parts::Changeset { texts, ended })
}

/// The request in a part, probably much like the one before it. Its length is not asked for: some
/// clients leave it out, and the delimiter tells it.
fn request<'a>(
    batch: &Bytes,
    text: &'a str,
    before: Option<&BatchedRequest<'a>>,
) -> Result<BatchedRequest<'a>, BatchError> {
    let (line, rest) = first_line(text)?;
    let (method, rest_of_line) = line.split_once(' ').ok_or(BatchError)?;
    let (target, version) = rest_of_line.trim().rsplit_once(' ').ok_or(BatchError)?;
    let target = target.trim();
    if !version.starts_with("HTTP/") {
        return Err(BatchError);
    }
    let uri = match before.filter(|before| before.target == target) {
        Some(before) => before.uri.clone(),
        None if target.starts_with('/') || target.contains("://") => {
            Uri::from_maybe_shared(batch.slice_ref(target.as_bytes())).map_err(|_| BatchError)?
        }
        None => return Err(BatchError),
    };
    let head = Head::parse(rest, before.map_or(&[], |before| &before.fields))?;
    // Clients leave empty lines between headers and body, which no JSON minds losing.
    let body = head.rest.trim_ascii_start();
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| BatchError)?;
    Ok(BatchedRequest { method, uri, fields: head.legal_fields()?, body, target })
}

fn response(batch: &Bytes, text: &str) -> Result<Response<Bytes>, BatchError> {
    let (line, rest) = first_line(text)?;
    let (version, status) = line.split_once(' ').ok_or(BatchError)?;
    let code = status.get(..3).filter(|_| version.starts_with("HTTP/")).ok_or(BatchError)?;
    let head = Head::parse(rest, &[])?;
    let mut response = Response::new(batch.slice_ref(head.rest.as_bytes()));
    *response.status_mut() = StatusCode::from_bytes(code.as_bytes()).map_err(|_| BatchError)?;
    *response.headers_mut() = header_map(&head)?;
    Ok(response)
}

/// The first line that is not empty, and what follows it.
fn first_line(text: &str) -> Result<(&str, &str), BatchError> {
    let text = text.trim_ascii_start();
    if text.is_empty() {
        return Err(BatchError);
    }
    let (line, rest) = split_line(text);
    Ok((line.trim_ascii_end(), rest))
}

fn header_map(head: &Head<'_>) -> Result<HeaderMap, BatchError> {
    let mut map = HeaderMap::with_capacity(head.fields.len());
    for field in &head.fields {
        let name = http::HeaderName::from_bytes(field.name().as_bytes()).map_err(|_| BatchError)?;
        let value =
            http::HeaderValue::from_bytes(field.value().as_bytes()).map_err(|_| BatchError)?;
        map.append(name, value);
    }
    Ok(map)
}
