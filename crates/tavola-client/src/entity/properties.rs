//! Types whose fields become properties of the entity around them.

use super::{Name, PropertySink, sealed};
use crate::error::Error;
use crate::value::ValueRef;

/// A group of properties that entities contain with `#[entity(flatten)]`. `#[derive(Properties)]`
/// implements it.
///
/// ```
/// # #[cfg(feature = "derive")] {
/// use tavola_client::{Entity, Properties};
///
/// #[derive(Properties)]
/// struct Address {
///     street: String,
///     city: String,
/// }
///
/// #[derive(Entity)]
/// #[entity(partition = "{country}", row = "{name}")]
/// struct Customer {
///     country: String,
///     name: String,
///     #[entity(flatten, prefix = "home_")]
///     home: Address,
/// }
///
/// assert_eq!(Customer::HOME.column(Address::CITY).name(), "home_city");
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "the fields of `{Self}` cannot be flattened into an entity",
    note = "write `#[derive(Properties)]` on it"
)]
pub trait Properties: Sized + Send + Sync + 'static + sealed::Derived {
    #[doc(hidden)]
    const NAMES: &'static [Name];

    /// The names of those that are stored encrypted.
    #[doc(hidden)]
    const ENCRYPTED: &'static [Name] = &[];

    #[doc(hidden)]
    type Decoder: PropertiesDecoder<Out = Self>;

    #[doc(hidden)]
    fn encode(&self, sink: &mut dyn PropertySink) -> Result<(), Error>;

    #[doc(hidden)]
    fn decoder() -> Self::Decoder;

    #[doc(hidden)]
    fn owns(name: &str) -> bool;
}

/// What reads the properties of a group.
#[doc(hidden)]
pub trait PropertiesDecoder: Sized + Send {
    type Out;

    /// Takes one property; false if it is none of the group's.
    fn property(&mut self, name: &str, value: ValueRef<'_>) -> bool;

    fn finish(self) -> Result<Self::Out, Error>;
}

/// Passes properties on with a prefix.
#[doc(hidden)]
pub struct Prefixed<'s> {
    prefix: &'static str,
    sink: &'s mut dyn PropertySink,
}

impl<'s> Prefixed<'s> {
    pub fn new(prefix: &'static str, sink: &'s mut dyn PropertySink) -> Self {
        Self { prefix, sink }
    }
}

impl std::fmt::Debug for Prefixed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Prefixed({})", self.prefix)
    }
}

impl PropertySink for Prefixed<'_> {
    fn property(&mut self, name: &str, value: ValueRef<'_>) -> Result<(), Error> {
        if self.prefix.is_empty() {
            return self.sink.property(name, value);
        }
        self.sink.property(&[self.prefix, name].concat(), value)
    }

    fn encrypted(&mut self, name: &str, value: ValueRef<'_>) -> Result<(), Error> {
        self.sink.encrypted(&[self.prefix, name].concat(), value)
    }
}
