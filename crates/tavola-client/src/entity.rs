//! Entities: Rust types that are rows of a table.

#[doc(hidden)]
pub mod checks;
mod codec;
mod dynamic;
mod json;
mod kind;
#[doc(hidden)]
pub mod names;
mod projection;
mod properties;
mod stored;
#[cfg(all(test, feature = "derive"))]
mod tests;

pub use dynamic::{DynDecoder, DynEntity};
pub use projection::{Only, Projection, Selection, TupleDecoder, only};
pub use properties::{Prefixed, Properties, PropertiesDecoder};
pub use stored::{Projected, Stored};

#[allow(unused_imports, reason = "the half of the library that sends uses them")]
pub(crate) use codec::{decode_view, encode_properties};

use time::OffsetDateTime;

use crate::error::Error;
use crate::etag::ETag;
use crate::key::EntityKey;
use crate::value::{Value, ValueRef};

pub use kind::{Kind, split_kind};
pub use names::Name;

/// A type whose values are entities of a table. `#[derive(Entity)]` is the only way to implement
/// it; [`DynEntity`] is the entity without a type.
///
/// ```
/// # fn main() -> Result<(), tavola_client::Error> {
/// # #[cfg(feature = "derive")] {
/// use tavola_client::Entity;
///
/// #[derive(Entity)]
/// #[entity(partition = "{dept}", row = "empid_{id:06}")]
/// struct Employee {
///     dept: String,
///     id: u32,
///     last: String,
/// }
///
/// let jones = Employee { dept: "Sales".to_owned(), id: 212, last: "Jones".to_owned() };
/// assert_eq!(jones.entity_key()?.to_string(), "('Sales', 'empid_000212')");
/// # }
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an entity",
    note = "write `#[derive(Entity)]` on it, or use `DynEntity`"
)]
pub trait Entity: Sized + Send + Sync + 'static + sealed::Derived {
    /// The kind that is stored with it, if one is.
    #[doc(hidden)]
    const KIND: Option<Kind>;

    /// The names of its properties, for `$select`; `None` if they are known only at run time.
    #[doc(hidden)]
    const NAMES: Option<&'static [Name]>;

    /// How its keys begin, if all begin alike.
    #[doc(hidden)]
    const KEYS: Option<KeyBeginning>;

    /// The property that holds the id of the last write, if it has one.
    #[doc(hidden)]
    const WRITE_ID: Option<&'static str>;

    /// The names of the properties that are stored encrypted, if its type fixes them.
    #[doc(hidden)]
    const ENCRYPTED: &'static [Name] = &[];

    /// The other keys by which it is found.
    #[doc(hidden)]
    const INDEXES: &'static [Index] = &[];

    /// Both templates of its key.
    #[doc(hidden)]
    const TEMPLATES: (&'static str, &'static str) = ("", "");

    /// Rows of other kinds are in the ranges of its keys.
    #[doc(hidden)]
    const FAMILY: bool = false;

    /// The RowKey ends with a part of fixed width, or a literal.
    #[doc(hidden)]
    const ROW_IS_FIXED: bool = true;

    /// What reads a row.
    #[doc(hidden)]
    type Decoder: Decoder<Out = Self>;

    /// The entity's key.
    ///
    /// # Errors
    /// If a part does not fit its place in the template, or a key breaks a rule.
    fn entity_key(&self) -> Result<EntityKey, Error>;

    /// The key of its row in an index; `None` if a part is absent, so that it has none.
    ///
    /// # Errors
    /// If a part does not fit its place in the template, or a key breaks a rule.
    #[doc(hidden)]
    fn index_key(&self, _at: usize) -> Result<Option<EntityKey>, Error> {
        Ok(None)
    }

    /// Pushes the properties to write, system properties excluded.
    #[doc(hidden)]
    fn encode(&self, sink: &mut dyn PropertySink) -> Result<(), Error>;

    /// The names of the properties that are stored encrypted, present or not.
    #[doc(hidden)]
    fn encrypted(&self) -> Vec<String> {
        names::expand(Self::ENCRYPTED)
    }

    /// Begins to read a row.
    #[doc(hidden)]
    fn decoder() -> Self::Decoder;

    /// True if the type has a property of this name, present or not.
    #[doc(hidden)]
    fn owns(&self, name: &str) -> bool;

    /// True if a row with this kind is read as this type.
    #[doc(hidden)]
    fn accepts_kind(name: &str, version: u32) -> bool;

    /// Copies the version into fields that mirror it.
    #[doc(hidden)]
    fn mirror(&mut self, etag: &ETag, timestamp: OffsetDateTime);
}

/// An entity with more properties than a row has: [`crate::patterns::Wide`] writes it as several
/// rows. `#[entity(wide)]` on the struct, or `#[entity(part = 1)]` on a field, makes it one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a wide entity",
    note = "write `#[entity(wide)]` on it"
)]
pub trait WideEntity: Entity {
    /// The part of each entry of its names; `None` if their order decides.
    #[doc(hidden)]
    const PARTS: Option<&'static [u8]>;
}

/// What a type says about one of its indexes.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Index {
    pub name: &'static str,
    /// Its rows are in the entity's partition, so that one transaction changes both.
    pub same_partition: bool,
    /// No two entities have one row.
    pub unique: bool,
    /// Its rows have all properties.
    pub full: bool,
    /// The properties that its rows have otherwise.
    pub copy: &'static [&'static str],
    /// How its rows begin.
    pub row: &'static str,
}

/// How the keys of a type begin, and whether its rows are recognised by that.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct KeyBeginning {
    pub partition: &'static str,
    pub row: &'static str,
    pub is_kind: bool,
    /// It shares its ranges with other kinds, by declaration.
    pub is_family: bool,
}

impl KeyBeginning {
    /// True if the beginning of a row's key says that it is of this kind.
    #[must_use]
    pub fn names(&self, head: &RowHead<'_>) -> bool {
        self.is_kind && head.partition.starts_with(self.partition) && head.row.starts_with(self.row)
    }
}

/// What takes the properties of an entity to be written.
#[doc(hidden)]
pub trait PropertySink {
    fn property(&mut self, name: &str, value: ValueRef<'_>) -> Result<(), Error>;

    /// Takes a property that is stored encrypted. A sink that does not know how refuses it: nothing
    /// is written plain by oversight.
    fn encrypted(&mut self, name: &str, _value: ValueRef<'_>) -> Result<(), Error> {
        Err(crate::crypt::not_supported(name))
    }
}

impl<F: FnMut(&str, ValueRef<'_>) -> Result<(), Error>> PropertySink for F {
    fn property(&mut self, name: &str, value: ValueRef<'_>) -> Result<(), Error> {
        self(name, value)
    }
}

/// What reads a row: properties in any order, then the rest of the row. The first error is kept
/// until the end, because a property may come before the kind that explains it.
#[doc(hidden)]
pub trait Decoder: Sized + Send {
    type Out;

    /// Takes one property; never a system property.
    fn property(&mut self, name: &str, value: ValueRef<'_>);

    /// Ends the row.
    fn finish(self, head: &RowHead<'_>) -> Result<Decoded<Self::Out>, Error>;
}

/// The system properties of a row.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct RowHead<'a> {
    pub partition: &'a str,
    pub row: &'a str,
    pub etag: &'a ETag,
    pub timestamp: OffsetDateTime,
}

/// Properties that a type does not know.
#[doc(hidden)]
pub type Rest = Vec<(String, Value)>;

/// A value that was read, and the properties that it has no place for.
#[doc(hidden)]
#[derive(Debug)]
pub struct Decoded<T> {
    pub value: T,
    pub rest: Rest,
}

pub(crate) mod sealed {
    /// What only the derive implements.
    #[doc(hidden)]
    pub trait Derived {}
}
