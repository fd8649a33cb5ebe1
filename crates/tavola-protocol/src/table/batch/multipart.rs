//! Multipart as clients of the Table service write it: line ends of either kind, delimiters with or
//! without empty lines around them, and a closing delimiter that may be missing.

use bytes::Bytes;
use memchr::{memchr, memmem};

use super::BatchError;

/// Header fields of one part. Ours: clients send about ten.
const FIELDS_MAX: usize = 64;
/// The longest name of a header field, as everywhere in this program.
const NAME_BYTES_MAX: usize = 65_535;

/// Of a delimiter, so many bytes are searched for and the rest is compared: up to here the search
/// goes by whole registers.
const SEARCHED_BYTES_MAX: usize = 32;

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

/// The sections of a text, at most `max` of them. Only a whole line can be a delimiter, so content
/// may hold its text.
pub(super) fn sections<'a>(text: &'a str, boundary: &str, max: usize) -> Vec<Section<'a>> {
    let mut sections = Vec::new();
    // No line can begin with it, and what follows relies on that.
    if boundary.contains('\n') {
        return sections;
    }
    let (bytes, delimiter) = (text.as_bytes(), ["--", boundary].concat());
    let searched = &delimiter.as_bytes()[..delimiter.len().min(SEARCHED_BYTES_MAX)];
    let mut start = None;
    for at in memmem::find_iter(bytes, searched) {
        if (at > 0 && bytes[at - 1] != b'\n') || !bytes[at..].starts_with(delimiter.as_bytes()) {
            continue;
        }
        let (line, after) = split_line(&text[at + delimiter.len()..]);
        let Some(kind) = Delimiter::of(line) else { continue };
        if let Some(start) = start {
            sections.push(Section { text: without_line_end(&text[start..at]), ended: true });
        }
        match kind {
            Delimiter::Last => return sections,
            Delimiter::Next if sections.len() == max => return sections,
            Delimiter::Next => start = Some(text.len() - after.len()),
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
    /// By what follows the boundary on its line.
    fn of(rest_of_line: &str) -> Option<Self> {
        match rest_of_line.trim_ascii_end() {
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

/// The first line without its line feed, and what follows.
pub(super) fn split_line(text: &str) -> (&str, &str) {
    match memchr(b'\n', text.as_bytes()) {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, ""),
    }
}

/// One header field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its line with the line feed; empty if the text ends without one.
    line: &'a str,
    name: &'a str,
    value: &'a str,
    /// HTTP allows this name and this value.
    is_legal: bool,
}

impl<'a> Field<'a> {
    fn parse(line: &'a str) -> Result<Self, BatchError> {
        let colon = memchr(b':', line.as_bytes()).ok_or(BatchError)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        Ok(Self { line: "", name, value, is_legal: is_legal_name(name) && is_legal_value(value) })
    }

    /// True if this is its name, in whatever case.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// Its name as it is written.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Its value.
    #[must_use]
    pub fn value(&self) -> &'a str {
        self.value
    }

    /// Its value, if it is visible ASCII; of a legal field.
    pub(crate) fn visible(&self) -> Option<&'a str> {
        self.value.is_ascii().then_some(self.value)
    }
}

fn is_legal_name(name: &str) -> bool {
    let is_legal = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'!' | b'#'
                    | b'$'
                    | b'%'
                    | b'&'
                    | b'\''
                    | b'*'
                    | b'+'
                    | b'-'
                    | b'.'
                    | b'^'
                    | b'_'
                    | b'`'
                    | b'|'
                    | b'~'
            )
    };
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_legal)
}

fn is_legal_value(value: &str) -> bool {
    // Without a branch, so that it goes by whole registers.
    value
        .bytes()
        .fold(true, |all, byte| all & (((byte >= 0x20) & (byte != 0x7f)) | (byte == b'\t')))
}

/// Header fields and what follows the empty line behind them.
#[derive(Debug)]
pub(super) struct Head<'a> {
    pub(super) fields: Vec<Field<'a>>,
    pub(super) rest: &'a str,
}

impl<'a> Head<'a> {
    /// Reads fields up to an empty line or the end of the text: a request without a body may have
    /// no empty line left.
    ///
    /// `alike` are those of a head that this one probably resembles, as the parts of a batch
    /// resemble each other: to find the same line again is cheaper than to read it.
    pub(super) fn parse(text: &'a str, alike: &[Field<'a>]) -> Result<Self, BatchError> {
        let (mut fields, mut rest) = (Vec::with_capacity(alike.len()), text);
        while !rest.is_empty() {
            let known = alike.get(fields.len()).filter(|known| !known.line.is_empty());
            if let Some((known, after)) =
                known.and_then(|known| Some((known, rest.strip_prefix(known.line)?)))
            {
                fields.push(*known);
                rest = after;
                continue;
            }
            let (line, after) = split_line(rest);
            let whole = &rest[..rest.len() - after.len()];
            rest = after;
            let line = line.trim_ascii_end();
            if line.is_empty() {
                break;
            }
            if fields.len() == FIELDS_MAX {
                return Err(BatchError);
            }
            let field = Field::parse(line)?;
            fields.push(Field { line: if whole.ends_with('\n') { whole } else { "" }, ..field });
        }
        Ok(Self { fields, rest })
    }

    /// The fields, if HTTP allows each.
    pub(super) fn legal_fields(self) -> Result<Vec<Field<'a>>, BatchError> {
        if self.fields.iter().all(|field| field.is_legal) {
            Ok(self.fields)
        } else {
            Err(BatchError)
        }
    }

    /// The value of a field.
    pub(super) fn value(&self, name: &str) -> Option<&'a str> {
        self.fields.iter().find(|field| field.is_named(name)).map(Field::value)
    }
}

/// Writes a batch around its parts, which `push_parts` writes between the boundary that it is
/// given. Returns the content type and the body.
pub(super) fn push_envelope(
    outer: &str,
    changeset: Option<&str>,
    push_parts: impl FnOnce(&mut Vec<u8>, &str),
) -> (String, Bytes) {
    let mut out = Vec::new();
    match changeset {
        None => push_parts(&mut out, outer),
        Some(inner) => {
            push_all(
                &mut out,
                &["--", outer, "\r\nContent-Type: multipart/mixed; boundary=", inner, "\r\n\r\n"],
            );
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
    first_line: &[&str],
    headers: impl Iterator<Item = (&'a str, &'a [u8])>,
    body: &[u8],
) {
    const PART: &str =
        "\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n";
    push_all(out, &["--", boundary, PART]);
    push_all(out, first_line);
    out.extend_from_slice(b"\r\n");
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
