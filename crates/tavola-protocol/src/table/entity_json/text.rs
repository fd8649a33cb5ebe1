//! JSON's small pieces, appended to the bytes of an answer without a temporary.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use tavola_core::Text;

/// What a URL's text keeps as it is; the rest is escaped as UTF-8. These are the marks that .NET
/// leaves alone, the raw quote among them.
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
pub(in crate::table) fn push_text<'a>(out: &mut Vec<u8>, text: impl Into<Text<'a>>) {
    out.push(b'"');
    push_escaped(out, text);
    out.push(b'"');
}

/// Appends a text or a piece of one without quotes. Hardly any needs an escape, and to find that
/// out takes a fraction of the time that looking at each byte for itself does.
pub(in crate::table) fn push_escaped<'a>(out: &mut Vec<u8>, text: impl Into<Text<'a>>) {
    let text = text.into();
    if is_plain(text.as_bytes()) {
        return out.extend_from_slice(text.as_bytes());
    }
    let start = out.len();
    push_json(out, text.as_str());
    // The quotes.
    out.pop();
    out.remove(start);
}

/// Bytes that are looked at together. The loops over them have no branch, so that the compiler
/// makes them a few instructions on whole registers.
const BLOCK: usize = 32;
const WORD: usize = size_of::<u64>();

/// True if JSON has the text as it is. What is left behind the last whole block is looked at
/// together with bytes before it, once more.
fn is_plain(bytes: &[u8]) -> bool {
    if let Some(last) = bytes.last_chunk::<BLOCK>() {
        let mut escapes = [false; BLOCK];
        for block in bytes.as_chunks::<BLOCK>().0.iter().chain([last]) {
            for (escape, byte) in escapes.iter_mut().zip(block) {
                *escape |= needs_escape(*byte);
            }
        }
        return !escapes.iter().fold(false, |any, escape| any | escape);
    }
    match bytes.last_chunk::<WORD>() {
        Some(last) => !bytes.as_chunks::<WORD>().0.iter().chain([last]).any(has_escape),
        None => !bytes.iter().copied().any(needs_escape),
    }
}

const fn needs_escape(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

/// The same for the bytes of a word: in each byte of which something is subtracted, the highest bit
/// tells whether it was less and not negative itself. A borrow reaches only bytes above one that
/// counts already.
const fn has_escape(word: &[u8; WORD]) -> bool {
    const EACH: u64 = u64::MAX / 0xff;
    const fn below(word: u64, bound: u8) -> u64 {
        word.wrapping_sub(EACH * bound as u64) & !word
    }
    let word = u64::from_le_bytes(*word);
    let quote = below(word ^ (EACH * b'"' as u64), 1);
    let backslash = below(word ^ (EACH * b'\\' as u64), 1);
    (below(word, 0x20) | quote | backslash) & (EACH << 7) != 0
}

/// Appends a value as JSON: a text with its quotes, or a number.
pub(in crate::table) fn push_json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value)
        .expect("texts and numbers are JSON, and a Vec takes every byte");
}

/// Appends `"name":text,` where the name needs no escape.
pub(in crate::table) fn push_text_member<'a>(
    out: &mut Vec<u8>,
    name: &str,
    text: impl Into<Text<'a>>,
) {
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

    /// Looked at in blocks, in words and one by one.
    #[test]
    fn every_byte_of_ascii_at_every_place() {
        for byte in 0..0x80_u8 {
            let sign = char::from(byte);
            for length in [1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 100] {
                for at in [0, 1, length / 2, length - 1] {
                    check(&format!(
                        "{}{sign}{}",
                        "x".repeat(at.min(length - 1)),
                        "é".repeat(length - 1 - at.min(length - 1))
                    ));
                }
            }
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
