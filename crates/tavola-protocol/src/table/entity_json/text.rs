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

/// Appends a text with its quotes.
pub(in crate::table) fn push_text(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    push_escaped(out, text);
    out.push(b'"');
}

/// Appends a text or a piece of one without quotes. Hardly any needs an escape, and to find that out takes a fraction of
/// the time that looking at each byte for itself does: the loop has no branch, so that the compiler makes it one of whole
/// registers.
pub(in crate::table) fn push_escaped(out: &mut Vec<u8>, text: &str) {
    let needs_escape = |byte: u8| (byte < 0x20) | (byte == b'"') | (byte == b'\\');
    if text.bytes().fold(false, |any, byte| any | needs_escape(byte)) {
        let start = out.len();
        push_json(out, text);
        // The quotes.
        out.pop();
        out.remove(start);
    } else {
        out.extend_from_slice(text.as_bytes());
    }
}

/// Appends a value as JSON: a text with its quotes, or a number.
pub(in crate::table) fn push_json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("texts and numbers are JSON, and a Vec takes every byte");
}

/// Appends `"name":text,` where the name needs no escape.
pub(in crate::table) fn push_text_member(out: &mut Vec<u8>, name: &str, text: &str) {
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    push_text(out, text);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{push_json, push_text};

    fn check(text: &str) {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        push_text(&mut ours, text);
        push_json(&mut theirs, text);
        assert_eq!(String::from_utf8(ours), String::from_utf8(theirs));
    }

    #[test]
    fn every_byte_of_ascii_at_both_ends() {
        for byte in 0..0x80_u8 {
            let sign = char::from(byte);
            check(&format!("{sign}{}", "x".repeat(40)));
            check(&format!("{}{sign}", "x".repeat(40)));
        }
        check("");
        check("é\u{7f}\u{2028}");
    }

    proptest! {
        #[test]
        fn texts_are_those_of_the_library(text in ".{0,80}") {
            check(&text);
        }
    }
}
