//! Multipart as clients of the Table service write it: line ends of either kind, delimiters with or without empty lines
//! around them, and a closing delimiter that may be missing.

use bytes::Bytes;

use super::BatchError;

/// Header fields of one part. Ours: clients send about ten.
const FIELDS_MAX: usize = 64;

/// The boundary in a content type, if that is `multipart/mixed`.
pub(super) fn boundary(content_type: &str) -> Option<&str> {
    let (media_type, mut rest) = content_type.split_once(';')?;
    if !media_type.trim().eq_ignore_ascii_case("multipart/mixed") {
        return None;
    }
    loop {
        let (name, value) = rest.split_once('=')?;
        let (value, after) = match value.trim_start().strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => value.split_once(';').unwrap_or((value, "")),
        };
        if name.trim_matches([' ', ';', '\t']).eq_ignore_ascii_case("boundary") {
            return Some(value.trim()).filter(|boundary| !boundary.is_empty());
        }
        rest = after;
    }
}

/// What stands between two delimiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Section<'a> {
    pub(super) text: &'a str,
    /// A delimiter follows; otherwise the text ended first.
    pub(super) ended: bool,
}

/// The sections of a text, at most `max` of them. Only a whole line can be a delimiter, so content may hold its text.
pub(super) fn sections<'a>(text: &'a str, boundary: &str, max: usize) -> Vec<Section<'a>> {
    let mut sections = Vec::new();
    let (mut at, mut start) = (0, None);
    for line in text.split_inclusive('\n') {
        let delimiter = Delimiter::of(line, boundary);
        if let (Some(start), Some(_)) = (start, delimiter) {
            sections.push(Section { text: without_line_end(&text[start..at]), ended: true });
        }
        at += line.len();
        match delimiter {
            Some(Delimiter::Last) => return sections,
            Some(Delimiter::Next) if sections.len() == max => return sections,
            Some(Delimiter::Next) => start = Some(at),
            None => {}
        }
    }
    // The documentation's own samples end with a delimiter that does not close: nothing follows it.
    let tail = start.map(|start| &text[start..]).filter(|tail| !tail.trim_ascii().is_empty());
    sections.extend(tail.map(|text| Section { text, ended: false }));
    sections
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delimiter {
    Next,
    Last,
}

impl Delimiter {
    fn of(line: &str, boundary: &str) -> Option<Self> {
        match line.strip_prefix("--")?.strip_prefix(boundary)?.trim_ascii_end() {
            "" => Some(Self::Next),
            "--" => Some(Self::Last),
            _ => None,
        }
    }
}

/// The line end before a delimiter belongs to the delimiter.
fn without_line_end(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

/// Header fields and what follows the empty line behind them.
#[derive(Debug)]
pub(super) struct Head<'a> {
    pub(super) fields: Vec<(&'a str, &'a str)>,
    pub(super) rest: &'a str,
}

impl<'a> Head<'a> {
    /// Reads fields up to an empty line or the end of the text: a request without a body may have no empty line left.
    pub(super) fn parse(text: &'a str) -> Result<Self, BatchError> {
        let (mut fields, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
            let line = line.trim_ascii_end();
            rest = after;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or(BatchError)?;
            if fields.len() == FIELDS_MAX {
                return Err(BatchError);
            }
            fields.push((name, value.trim_ascii()));
        }
        Ok(Self { fields, rest })
    }

    /// The value of a field.
    pub(super) fn value(&self, name: &str) -> Option<&'a str> {
        self.fields.iter().find(|(candidate, _)| candidate.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }
}

/// Writes a batch around its parts, which `push_parts` writes between the boundary that it is given. Returns the content
/// type and the body.
pub(super) fn push_envelope(
    outer: &str,
    changeset: Option<&str>,
    push_parts: impl FnOnce(&mut Vec<u8>, &str),
) -> (String, Bytes) {
    let mut out = Vec::new();
    match changeset {
        None => push_parts(&mut out, outer),
        Some(inner) => {
            push_all(&mut out, &["--", outer, "\r\nContent-Type: multipart/mixed; boundary=", inner, "\r\n\r\n"]);
            push_parts(&mut out, inner);
            push_all(&mut out, &["--", inner, "--\r\n"]);
        }
    }
    push_all(&mut out, &["--", outer, "--\r\n"]);
    (format!("multipart/mixed; boundary={outer}"), out.into())
}

/// Writes one HTTP message as a part, up to the line end that belongs to the next delimiter.
pub(super) fn push_message<'a>(
    out: &mut Vec<u8>,
    boundary: &str,
    first_line: &str,
    headers: impl Iterator<Item = (&'a str, &'a [u8])>,
    body: &[u8],
) {
    const PART: &str = "\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n";
    push_all(out, &["--", boundary, PART, first_line, "\r\n"]);
    for (name, value) in headers {
        push_all(out, &[name, ": "]);
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    out.extend_from_slice(b"\r\n");
}

fn push_all(out: &mut Vec<u8>, pieces: &[&str]) {
    for piece in pieces {
        out.extend_from_slice(piece.as_bytes());
    }
}
