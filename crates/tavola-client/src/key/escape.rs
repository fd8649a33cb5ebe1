//! Text in keys: legal, reversible, and in the order of its bytes.
//!
//! Byte by byte: `00`–`2C` become `$xx`; `/`, `?` and `\` become the byte before them and `~`; `7D`–
//! `FF` become `}xx`; the others stay. A part that something follows ends with `!`. The order of what
//! is written is `!` < `$` < `-` .. `|` < `}` < `~`.
//!
//! Codes ascend with bytes. The only code that begins another one is `b` of `b~`, and `~` is above
//! every first symbol, above `!` and above the end; so at the first byte that differs the texts
//! compare as the bytes. A proper prefix is followed by the end or by `!`, both below every code.

/// What ends a text that is not the last part.
pub(super) const TERMINATOR: u8 = b'!';
/// What follows [`TERMINATOR`] in the order, and is in no key that a template writes.
pub(super) const AFTER_TERMINATOR: char = '"';
/// Above everything that a template writes at the beginning of a byte.
pub(super) const ABOVE_CODES: char = '~';

/// Appends the code of a text.
pub(super) fn push(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            0x00..=0x2c => push_hex(out, '$', byte),
            b'/' | b'?' | b'\\' => {
                out.push(char::from(byte - 1));
                out.push(ABOVE_CODES);
            }
            0x7d.. => push_hex(out, '}', byte),
            _ => out.push(char::from(byte)),
        }
    }
}

fn push_hex(out: &mut String, mark: char, byte: u8) {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    out.extend([mark, digit(byte >> 4), digit(byte & 0xf)]);
}

/// Reads a code up to `!` or the end, and returns the text and what follows. `None` if it is not
/// exactly what [`push`] writes: another way to write a text would be the key of another row.
pub(super) fn read(code: &str) -> Option<(String, &str)> {
    let end = code.bytes().position(|byte| byte == TERMINATOR).unwrap_or(code.len());
    let (own, rest) = code.split_at_checked(end)?;
    let mut bytes = own.bytes().peekable();
    let mut text = Vec::with_capacity(own.len());
    while let Some(byte) = bytes.next() {
        text.push(match byte {
            b'$' => read_hex(&mut bytes).filter(|byte| *byte <= 0x2c)?,
            b'}' => read_hex(&mut bytes).filter(|byte| *byte >= 0x7d)?,
            b'.' | b'>' | b'[' if bytes.next_if_eq(&b'~').is_some() => byte + 1,
            0x00..=0x2c | b'/' | b'?' | b'\\' | 0x7d.. => return None,
            _ => byte,
        });
    }
    Some((String::from_utf8(text).ok()?, rest))
}

fn read_hex(bytes: &mut impl Iterator<Item = u8>) -> Option<u8> {
    let mut digit = || match bytes.next()? {
        digit @ b'0'..=b'9' => Some(digit - b'0'),
        digit @ b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    Some(digit()? << 4 | digit()?)
}

/// The least legal key text above every one that begins with `text`, which is ASCII; `None` if
/// there is none.
pub(super) fn successor(text: &str) -> Option<String> {
    let mut text = text.to_owned();
    while let Some(last) = text.pop() {
        let mut next = char::from_u32(u32::from(last) + 1)?;
        while matches!(next, '/' | '\\' | '#' | '?') {
            // These are in no key, so that nothing lies between.
            next = char::from_u32(u32::from(next) + 1)?;
        }
        if next <= '~' {
            text.push(next);
            return Some(text);
        }
    }
    None
}

/// The least legal key text above the codes of every text that begins with the one whose code this
/// is.
pub(super) fn after_prefix(code: &str) -> Option<String> {
    match code.as_bytes().last() {
        // `a.` begins the code of `a/` too.
        Some(b'.' | b'>' | b'[') => Some(format!("{code}{ABOVE_CODES}")),
        _ => successor(code),
    }
}

/// Lower case, character by character: `str::to_lowercase` looks at what follows a sigma, so that
/// the lower case of a prefix would not be a prefix.
pub(super) fn lower(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}
