//! Text that stays where it lies.

use std::fmt;

/// Unicode text by its bytes, which are UTF-8: whoever makes one has checked them.
///
/// Safe code cannot take that word for it, so reading the text as a `str` checks it again. Most
/// readers need no `str`: an answer is put together from bytes, and the order of texts is an order
/// of their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    /// Checks bytes; `None` if they are not UTF-8.
    #[must_use]
    pub fn from_utf8(bytes: &'a [u8]) -> Option<Self> {
        // Most texts are ASCII, which is found out by whole registers.
        (bytes.is_ascii() || std::str::from_utf8(bytes).is_ok()).then_some(Self(bytes))
    }

    /// Bytes that went through [`Text::from_utf8`] before, or came from a `str`.
    #[must_use]
    pub fn checked_before(bytes: &'a [u8]) -> Self {
        debug_assert!(std::str::from_utf8(bytes).is_ok());
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The text as Rust has it, checked once more.
    #[must_use]
    pub fn as_str(self) -> &'a str {
        std::str::from_utf8(self.0).expect("a text is checked when it is made")
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self(text.as_bytes())
    }
}

impl<'a> From<&'a String> for Text<'a> {
    fn from(text: &'a String) -> Self {
        text.as_str().into()
    }
}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::Text;

    #[test]
    fn only_utf8_is_text() {
        for text in ["", "plain", "é", "a 😀 behind more than sixteen bytes of ASCII"] {
            assert_eq!(Text::from_utf8(text.as_bytes()).map(Text::as_str), Some(text));
        }
        for bytes in [
            &[0xff][..],
            &[0xed, 0xa0, 0x80],
            &[b'a', 0xc3],
            b"more than sixteen bytes of ASCII\x80",
        ] {
            assert_eq!(Text::from_utf8(bytes), None, "{bytes:02x?}");
        }
    }
}
