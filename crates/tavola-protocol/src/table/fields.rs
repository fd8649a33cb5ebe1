//! The header fields of a request, alone or inside a batch.

use http::{HeaderMap, HeaderName};

use super::batch::Field;

/// The header fields of a request, or of one inside a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fields<'a> {
    Whole(&'a HeaderMap),
    Batched(&'a [Field<'a>]),
}

impl<'a> Fields<'a> {
    /// The value of each field of this name; `None` for one that is not visible ASCII.
    pub(crate) fn all(self, name: &HeaderName) -> impl Iterator<Item = Option<&'a str>> {
        let (map, list) = match self {
            Self::Whole(map) => (Some(map.get_all(name)), [].as_slice()),
            Self::Batched(list) => (None, list),
        };
        let whole = map.into_iter().flatten().map(|value| value.to_str().ok());
        whole.chain(list.iter().filter(|field| field.is_named(name.as_str())).map(Field::visible))
    }

    /// The value of the first field of this name, if it is visible ASCII.
    pub(crate) fn text(self, name: &HeaderName) -> Option<&'a str> {
        match self {
            Self::Whole(map) => map.get(name)?.to_str().ok(),
            Self::Batched(list) => {
                list.iter().find(|field| field.is_named(name.as_str()))?.visible()
            }
        }
    }

    /// True if there is a field of this name.
    pub(crate) fn has(self, name: &HeaderName) -> bool {
        match self {
            Self::Whole(map) => map.contains_key(name),
            Self::Batched(list) => list.iter().any(|field| field.is_named(name.as_str())),
        }
    }
}
