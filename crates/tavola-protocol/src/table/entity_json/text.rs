//! JSON's small pieces, appended to the bytes of an answer without a temporary.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

/// What a URL's text keeps as it is; the rest is escaped as UTF-8. These are the marks that .NET leaves alone, the raw
/// quote among them.
const URL_ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'!')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// Appends a value as JSON: a text with its quotes, or a number.
pub(in crate::table) fn push_json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("texts and numbers are JSON, and a Vec takes every byte");
}

/// Appends `"name":text,` where the name needs no escape.
pub(in crate::table) fn push_text_member(out: &mut Vec<u8>, name: &str, text: &str) {
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    push_json(out, text);
    out.push(b',');
}

/// Ends an object or array whose members each left a comma behind.
pub(in crate::table) fn close(out: &mut Vec<u8>, bracket: u8) {
    match out.last_mut() {
        Some(last) if *last == b',' => *last = bracket,
        _ => out.push(bracket),
    }
}

/// Appends a text as part of a URL.
pub(in crate::table) fn push_url_text(out: &mut String, text: &str) {
    out.extend(utf8_percent_encode(text, URL_ESCAPED));
}
