//! What the derived code calls. Not part of the API: it changes without notice.

use std::str::FromStr;

pub use crate::entity::{
    Decoded, Decoder, Index, KeyBeginning, Kind, Name, Prefixed, PropertiesDecoder, PropertySink,
    Rest, RowHead, checks, names, sealed::Derived, split_kind,
};
pub use crate::key::{Cursor, Dec, DecDesc, Desc, KeyReader, Lower, PartMeta, Plain};
pub use time::OffsetDateTime;

use crate::entity::DynEntity;
use crate::error::{Error, ErrorKind, Outcome, Rule};
use crate::value::{EdmType, PropertyType, Value, ValueRef};

/// Takes a property into the place of its field.
pub fn fill<T: PropertyType>(
    slot: &mut Option<T>,
    error: &mut Option<Error>,
    name: &str,
    value: ValueRef<'_>,
) {
    *slot = T::from_property(value);
    if slot.is_none() {
        error.get_or_insert_with(|| Error::property(name, T::EDM, Some(value.edm_type())));
    }
}

/// Takes a text into the place of its field.
pub fn fill_text<T>(
    slot: &mut Option<T>,
    error: &mut Option<Error>,
    name: &str,
    value: ValueRef<'_>,
    read: impl FnOnce(&str) -> Option<T>,
) {
    let ValueRef::String(text) = value else {
        let found = Some(value.edm_type());
        error.get_or_insert_with(|| Error::property(name, EdmType::String, found));
        return;
    };
    *slot = read(text);
    if slot.is_none() {
        error.get_or_insert_with(|| {
            let text = format!("property `{name}` is a text that its type cannot read");
            let kind = ErrorKind::Invalid { rule: Rule::PropertyText, limit: None, found: None };
            Error::new(kind, Outcome::NotApplied, text)
        });
    }
}

/// Reads what `as = "string"` wrote.
pub fn parse<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// The value of a field; an error if it must not be absent.
pub fn take<T: PropertyType>(slot: Option<T>, name: &str) -> Result<T, Error> {
    slot.or_else(T::from_absent).ok_or_else(|| Error::property(name, T::EDM, None))
}

/// The value of a field that is stored as text.
pub fn take_text<T>(slot: Option<T>, name: &str) -> Result<T, Error> {
    slot.ok_or_else(|| Error::property(name, EdmType::String, None))
}

/// Writes `#[entity(json)]`.
#[cfg(feature = "json")]
pub fn to_json<T: serde::Serialize>(value: &T, name: &str) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| {
        let text = format!("property `{name}` cannot be written as JSON");
        Error::invalid(Rule::PropertyText, text).with_source(error)
    })
}

/// Reads `#[entity(json)]`.
#[cfg(feature = "json")]
pub fn from_json<T: serde::de::DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}

/// The kind of a row that is being read.
#[derive(Debug, Default)]
pub struct KindSlot {
    seen: Option<Result<(), String>>,
}

impl KindSlot {
    /// Takes the property that holds the kind.
    pub fn see(&mut self, own: &Kind, value: ValueRef<'_>) {
        let ValueRef::String(text) = value else { return };
        let equal = split_kind(text) == (own.name, own.version);
        self.seen = Some(if equal { Ok(()) } else { Err(text.to_owned()) });
    }

    /// Refuses another kind, and none.
    pub fn check(&self, own: &Kind) -> Result<(), Error> {
        match &self.seen {
            Some(Ok(())) => Ok(()),
            Some(Err(found)) => Err(Error::wrong_kind(own.text, Some(found))),
            None => Err(Error::wrong_kind(own.text, None)),
        }
    }
}

/// The properties that were read before the kind was known.
#[derive(Debug, Default)]
pub struct Pending(pub Vec<(String, Value)>);

impl Pending {
    pub fn push(&mut self, name: &str, value: ValueRef<'_>) {
        self.0.push((name.to_owned(), value.to_value()));
    }

    /// Gives them to the decoder of the type that the kind names.
    pub fn replay<D: Decoder>(&self, mut decoder: D) -> D {
        for (name, value) in &self.0 {
            decoder.property(name, value.as_ref());
        }
        decoder
    }

    /// An entity of no kind that is known; nothing is lost.
    pub fn into_other(self, head: &RowHead<'_>) -> DynEntity {
        DynEntity::with_properties(head, self.0)
    }
}
