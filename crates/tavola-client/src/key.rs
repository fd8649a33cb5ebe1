//! Keys: their texts, the parts that templates put together, and ranges.
//!
//! The service orders keys as texts. A [`KeyPart`] is a type whose values are written so that the
//! order of the texts is the order of the values, also of several parts in a row, and so that every
//! text is a legal key.
//!
//! | part | text | width |
//! | --- | --- | --- |
//! | `u8` `u16` `u32` `u64` | decimal, 3, 5, 10, 20 digits; `{id:06}` has 6, and a wider value is refused | fixed |
//! | the same, `desc` | 10^W - 1 - n | fixed |
//! | `i8` to `i64` | n + 10^19, 20 digits; `desc`: 10^19 - 1 - n | fixed |
//! | `f64` | the bits with the sign turned, those of negative numbers all turned: 16 hexadecimal digits; no NaN | fixed |
//! | `OffsetDateTime` | ticks of 100 ns since the year 1, 19 digits; `desc`: 3155378975999999999 - ticks | fixed |
//! | `Date`, `bool`, `Uuid` | `yyyymmdd`; `0` or `1`; 32 hexadecimal digits | fixed |
//! | `String` | escaped; `lower`: in lower case first | variable |
//!
//! **The escape**, byte by byte: `00`–`2C` become `$xx`, `/ ? \` become the byte before them and `~`,
//! `7D`–`FF` become `}xx`, others stay. A text that something follows ends with `!`. A space costs three
//! characters of 512, `é` six, a Chinese character nine. These texts are stored, so that they never
//! change.

mod codecs;
mod cursor;
mod entity_key;
mod escape;
mod part;
mod range;
#[cfg(test)]
mod tests;

pub use codecs::TicksDesc;
pub use entity_key::{EntityKey, PointKey};
pub use part::{
    Dec, DecDesc, Desc, Descending, KeyPart, KeyPartError, KeyReader, KeyText, Lower, Plain,
};
pub use range::{IndexOf, KeyRange};

#[doc(hidden)]
pub use cursor::Cursor;
#[doc(hidden)]
pub use part::PartMeta;

pub(crate) use part::Fault;
pub(crate) use range::{Span, Spans};

/// A text as a legal part of a key, in the order of its bytes; `!`, `,` and `"` are not in it.
pub(crate) fn escape_text(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    escape::push(&mut code, text);
    code
}

/// The text whose code begins `code`, up to `!` or the end, and what follows. `None` if that is no
/// such code.
pub(crate) fn unescape_text(code: &str) -> Option<(String, &str)> {
    escape::read(code)
}

/// The least key above all that begin with `text`; `None` if there is none.
pub(crate) fn after_text(text: &str) -> Option<String> {
    escape::successor(text)
}
