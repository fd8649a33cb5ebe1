//! Columns: the properties of a type, by name and type.

use std::fmt;
use std::marker::PhantomData;

/// How deep types can be flattened into each other.
const FLATTENED_MAX: usize = 4;

/// Types that are only named, so that neither `Send` nor `Clone` depends on them.
type Marker<T> = PhantomData<fn() -> T>;

/// A property of the entity type `E`, compared with values of type `T`. The derive makes one for
/// each stored field: `Employee::LAST`. `K` says whether the service can compare it.
///
/// ```
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
/// let filter = Employee::LAST.ge("J").and(Employee::LAST.lt("K"));
/// assert_eq!(filter.to_string(), "last ge 'J' and last lt 'K'");
/// # }
/// ```
pub struct Column<E, T, K = Comparable> {
    prefixes: [&'static str; FLATTENED_MAX],
    name: &'static str,
    of: Marker<(E, T, K)>,
}

impl<E, T, K> Column<E, T, K> {
    #[doc(hidden)]
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { prefixes: [""; FLATTENED_MAX], name, of: PhantomData }
    }

    /// The name without the prefixes of flattened types.
    #[doc(hidden)]
    #[must_use]
    pub const fn own_name(&self) -> &'static str {
        self.name
    }

    /// The property's name in the table.
    #[must_use]
    pub fn name(&self) -> String {
        [&self.prefixes.concat(), self.name].concat()
    }
}

impl<E, T, K> Clone for Column<E, T, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E, T, K> Copy for Column<E, T, K> {}

impl<E, T, K> fmt::Debug for Column<E, T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Column({})", self.name())
    }
}

/// The properties of a flattened field: `Employee::HOME.column(Address::CITY)`.
pub struct Flattened<E, P> {
    prefix: &'static str,
    of: Marker<(E, P)>,
}

impl<E, P> Flattened<E, P> {
    #[doc(hidden)]
    #[must_use]
    pub const fn new(prefix: &'static str) -> Self {
        Self { prefix, of: PhantomData }
    }

    /// A column of the flattened type as one of the entity.
    ///
    /// # Panics
    /// If types are flattened into each other more than four deep; a `const` does not compile then.
    #[must_use]
    pub const fn column<T, K>(self, column: Column<P, T, K>) -> Column<E, T, K> {
        let [first, second, third, last] = column.prefixes;
        assert!(last.is_empty(), "types are flattened more than four deep");
        let prefixes = [self.prefix, first, second, third];
        Column { prefixes, name: column.name, of: PhantomData }
    }
}

impl<E, P> Clone for Flattened<E, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E, P> Copy for Flattened<E, P> {}

impl<E, P> fmt::Debug for Flattened<E, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flattened({}..)", self.prefix)
    }
}

/// A property that the service can compare.
#[derive(Debug)]
pub struct Comparable;

/// A property whose value is a JSON text: the service would compare texts.
#[derive(Debug)]
pub struct Json;

/// A property that is stored encrypted.
#[derive(Debug)]
pub struct Encrypted;

/// What can stand in a filter.
#[diagnostic::on_unimplemented(
    message = "a property that is `{Self}` cannot stand in a filter",
    note = "the service sees only the text of JSON and the ciphertext of what is encrypted, not the value; \
            store what you search for as a property of its own"
)]
pub trait Filterable {}

impl Filterable for Comparable {}
