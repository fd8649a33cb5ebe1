//! One JSON object as its members, before anything is known about their types.
//!
//! A visitor of our own, because a map would forget what the service's rules are about: a name
//! given twice, the order of properties, and whether a number had a decimal point. Of arrays and
//! objects nothing is kept, so nothing here recurses.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr2;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use tavola_core::EdmType;
use tavola_core::entity::is_system_property;

use super::seed::{Scalar, ScalarSeed, TextSeed};

/// Members that are kept: each of 255 properties with its annotation, several times over for nulls
/// and annotations without a property. It bounds the memory and the time that a hostile body costs.
const MEMBERS_MAX: usize = 2048;

/// Room for the members of most entities, so that they are not copied while their lists grow.
const PROPERTIES_USUAL: usize = 16;
const TYPES_USUAL: usize = 8;

/// Who sent the object. A client's word about the Timestamp and the version is ignored, whatever it
/// is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sender {
    Client,
    Service,
}

/// The members of one entity, sorted by what they are.
#[derive(Debug, Default)]
pub(super) struct Members<'a> {
    pub(super) partition_key: Option<Scalar<'a>>,
    pub(super) row_key: Option<Scalar<'a>>,
    pub(super) timestamp: Option<Scalar<'a>>,
    pub(super) etag: Option<Scalar<'a>>,
    /// In the order of the object; names may repeat.
    pub(super) properties: Vec<(Cow<'a, str>, Scalar<'a>)>,
    /// What the `@odata.type` of each property says.
    pub(super) types: Vec<(Cow<'a, str>, Scalar<'a>)>,
    /// The key that an annotation of the client's declares to be something else than a text.
    pub(super) key_of_other_type: Option<&'static str>,
    /// One of the system's members was given twice.
    pub(super) repeated: bool,
    /// There were more members than are kept.
    pub(super) too_many: bool,
}

/// Reads the members of one object.
#[derive(Debug, Clone, Copy)]
pub(super) struct MembersSeed(pub(super) Sender);

impl<'de> DeserializeSeed<'de> for MembersSeed {
    type Value = Members<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MembersSeed {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entity")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Members {
            properties: Vec::with_capacity(PROPERTIES_USUAL),
            types: Vec::with_capacity(TYPES_USUAL),
            ..Members::default()
        };
        while let Some(name) = map.next_key_seed(TextSeed)? {
            let kind = Kind::of(&name, self.0);
            members.too_many |= members.properties.len() + members.types.len() >= MEMBERS_MAX;
            if members.too_many || kind == Kind::Ignored {
                map.next_value::<IgnoredAny>()?;
            } else {
                members.add(kind, name, map.next_value_seed(ScalarSeed)?);
            }
        }
        Ok(members)
    }
}

impl<'a> Members<'a> {
    fn add(&mut self, kind: Kind, name: Cow<'a, str>, value: Scalar<'a>) {
        let place = match kind {
            Kind::PartitionKey => &mut self.partition_key,
            Kind::RowKey => &mut self.row_key,
            Kind::Timestamp => &mut self.timestamp,
            Kind::ETag => &mut self.etag,
            Kind::Property => return self.properties.push((name, value)),
            Kind::TypeOfKey(key) => {
                let is_string = matches!(value, Scalar::Text(edm) if edm == EdmType::String.name());
                return self.key_of_other_type =
                    self.key_of_other_type.or((!is_string).then_some(key));
            }
            Kind::TypeOf { name_bytes } => {
                return self.types.push((prefix(name, name_bytes), value));
            }
            Kind::Ignored => return,
        };
        self.repeated |= place.is_some();
        *place = Some(value);
    }
}

fn prefix(text: Cow<'_, str>, bytes: usize) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[..bytes]),
        Cow::Owned(mut text) => {
            text.truncate(bytes);
            Cow::Owned(text)
        }
    }
}

/// What a member is, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    PartitionKey,
    RowKey,
    Timestamp,
    ETag,
    Property,
    /// The type of the property whose name is so many bytes long.
    TypeOf {
        name_bytes: usize,
    },
    /// The type of the key of this name.
    TypeOfKey(&'static str),
    /// Annotations that mean nothing here: they have an `@` or a dot, which no property's name can
    /// have.
    Ignored,
}

impl Kind {
    fn of(name: &str, sender: Sender) -> Self {
        match (name, sender) {
            ("PartitionKey", _) => Self::PartitionKey,
            ("RowKey", _) => Self::RowKey,
            ("Timestamp", Sender::Service) => Self::Timestamp,
            ("odata.etag", Sender::Service) => Self::ETag,
            ("Timestamp", Sender::Client) => Self::Ignored,
            _ if memchr2(b'@', b'.', name.as_bytes()).is_none() => Self::Property,
            _ => match name.split_once('@') {
                // What the service says of its keys is nobody's concern.
                Some(("PartitionKey", "odata.type")) if sender == Sender::Client => {
                    Self::TypeOfKey("PartitionKey")
                }
                Some(("RowKey", "odata.type")) if sender == Sender::Client => {
                    Self::TypeOfKey("RowKey")
                }
                Some((property, "odata.type")) if !is_system_property(property) => {
                    Self::TypeOf { name_bytes: property.len() }
                }
                _ => Self::Ignored,
            },
        }
    }
}
