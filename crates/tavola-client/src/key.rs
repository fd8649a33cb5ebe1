//! Keys: their texts, the parts that templates put together, and ranges.
//!
//! The service orders keys as texts. A [`KeyPart`] is a type whose values are written so that the
//! order of the texts is the order of the values, also of several parts in a row, and so that every
//! text is a legal key.

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
pub(crate) use range::Span;
