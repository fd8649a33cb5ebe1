//! Conditions on entities: typed by columns, or by names at run time. Constants get the exact type
//! that the property has, so that nothing is quoted or guessed by hand.

mod column;
mod keys;
mod operand;
mod parse;

use std::fmt;
use std::marker::PhantomData;

use tavola_core::Filter as CoreFilter;
use tavola_core::filter::Comparison;

pub use column::{Column, Comparable, Encrypted, Filterable, Flattened, Json};
pub use operand::Operand;

use crate::error::{Error, Rule};
use crate::explain::Explain;
use crate::key::Fault;
use crate::value::{Value, value_to_edm};

/// A condition on entities of type `E`, made of its columns or of names.
///
/// ```
/// use tavola_client::{DynEntity, Filter, prop};
///
/// let sales = prop("PartitionKey").eq("Sales");
/// let filter: Filter<DynEntity> = sales.and(prop("Age").gt(30).or(prop("Last").eq("O'Brien"))).into();
/// assert_eq!(filter.to_string(), "PartitionKey eq 'Sales' and (Age gt 30 or Last eq 'O''Brien')");
/// ```
#[must_use = "a filter does nothing until a query takes it"]
pub struct Filter<E> {
    any: AnyFilter,
    of: PhantomData<fn() -> E>,
}

/// A condition on entities of any type, made of names.
#[must_use = "a filter does nothing until a query takes it"]
#[derive(Debug, Clone)]
pub struct AnyFilter(Result<CoreFilter, Fault>);

impl AnyFilter {
    fn compare(name: String, comparison: Comparison, value: &Value) -> Self {
        if !tavola_core::entity::is_identifier(&name) {
            let text = format!("`{name}` is not the name of a property");
            return Self(Err(Fault { rule: Rule::PropertyName, sizes: None, text }));
        }
        let too_early = |_| Fault {
            rule: Rule::DateRange,
            sizes: None,
            text: format!("`{name}` is compared with a time before 1601, which no property holds"),
        };
        Self(
            value_to_edm(&name, value.as_ref()).map_err(too_early).map(|constant| {
                CoreFilter::Compare { property: name.clone(), comparison, constant }
            }),
        )
    }

    fn starts_with(name: String, prefix: &str) -> Self {
        let from = Self::compare(name.clone(), Comparison::GreaterOrEqual, &prefix.into());
        match operand::after_prefix(prefix) {
            Some(end) => from.and(Self::compare(name, Comparison::Less, &end.into())),
            None => from,
        }
    }

    /// Both conditions.
    pub fn and(self, other: Self) -> Self {
        self.join(
            other,
            |terms| match terms {
                CoreFilter::And(terms) => Ok(terms),
                other => Err(other),
            },
            CoreFilter::And,
        )
    }

    /// One of the conditions, or both.
    pub fn or(self, other: Self) -> Self {
        self.join(
            other,
            |terms| match terms {
                CoreFilter::Or(terms) => Ok(terms),
                other => Err(other),
            },
            CoreFilter::Or,
        )
    }

    /// Not this condition.
    #[expect(clippy::should_implement_trait, reason = "it stands beside `and` and `or`")]
    pub fn not(self) -> Self {
        Self(self.0.map(|filter| CoreFilter::Not(Box::new(filter))))
    }

    /// Joins two filters into one flat list: a chain needs no parentheses.
    fn join(
        self,
        other: Self,
        terms: fn(CoreFilter) -> Result<Vec<CoreFilter>, CoreFilter>,
        joined: fn(Vec<CoreFilter>) -> CoreFilter,
    ) -> Self {
        let both = self.0.and_then(|left| other.0.map(|right| [left, right]));
        Self(both.map(|both| {
            let lists = both.into_iter().map(|side| terms(side).unwrap_or_else(|one| vec![one]));
            joined(lists.flatten().collect())
        }))
    }

    /// What a query with this filter would read.
    ///
    /// # Errors
    /// If the filter has a name or a constant that the service cannot hold.
    pub fn explain(&self) -> Result<Explain, Error> {
        Ok(Explain::of(Some(self.as_core()?), None))
    }

    pub(crate) fn as_core(&self) -> Result<&CoreFilter, Error> {
        self.0.as_ref().map_err(|fault| fault.clone().into())
    }
}

impl fmt::Display for AnyFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(filter) => fmt::Display::fmt(filter, f),
            Err(fault) => write!(f, "invalid: {}", fault.text),
        }
    }
}

impl<E> Filter<E> {
    /// Both conditions.
    pub fn and(self, other: impl Into<Self>) -> Self {
        self.any.and(other.into().any).into()
    }

    /// One of the conditions, or both.
    pub fn or(self, other: impl Into<Self>) -> Self {
        self.any.or(other.into().any).into()
    }

    /// Not this condition.
    #[expect(clippy::should_implement_trait, reason = "it stands beside `and` and `or`")]
    pub fn not(self) -> Self {
        self.any.not().into()
    }

    /// What a query with this filter would read.
    ///
    /// # Errors
    /// If the filter has a name or a constant that the service cannot hold.
    pub fn explain(&self) -> Result<Explain, Error> {
        self.any.explain()
    }

    #[allow(dead_code, reason = "the half of the library that sends uses it")]
    pub(crate) fn as_core(&self) -> Result<&CoreFilter, Error> {
        self.any.as_core()
    }

    pub(crate) fn into_any(self) -> AnyFilter {
        self.any
    }
}

impl<E> From<AnyFilter> for Filter<E> {
    fn from(any: AnyFilter) -> Self {
        Self { any, of: PhantomData }
    }
}

impl<E> Clone for Filter<E> {
    fn clone(&self) -> Self {
        self.any.clone().into()
    }
}

impl<E> fmt::Debug for Filter<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Filter({self})")
    }
}

impl<E> fmt::Display for Filter<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.any, f)
    }
}

/// A property by its name, for conditions on entities whose type is not known.
///
/// ```
/// use tavola_client::prop;
///
/// assert_eq!(prop("Visits").ge(7_i64).to_string(), "Visits ge 7L");
/// ```
pub fn prop(name: impl Into<String>) -> Prop {
    Prop(name.into())
}

/// A property by its name; see [`prop`].
#[derive(Debug, Clone)]
pub struct Prop(String);

macro_rules! comparisons {
    ($($(#[$doc:meta])* $method:ident => $comparison:ident;)+) => {
        impl Prop {
            $(
                $(#[$doc])*
                pub fn $method(self, value: impl Into<Value>) -> AnyFilter {
                    AnyFilter::compare(self.0, Comparison::$comparison, &value.into())
                }
            )+

            /// Text that begins so.
            pub fn starts_with(self, prefix: &str) -> AnyFilter {
                AnyFilter::starts_with(self.0, prefix)
            }
        }

        // The bound is on the methods, because there its message is shown.
        impl<E, T, K> Column<E, T, K> {
            $(
                $(#[$doc])*
                pub fn $method<V: Operand<T>>(self, value: V) -> Filter<E>
                where
                    K: Filterable,
                {
                    AnyFilter::compare(self.name(), Comparison::$comparison, &value.into_value())
                        .into()
                }
            )+
        }
    };
}

comparisons! {
    /// Equal to the value.
    eq => Equal;
    /// Another value, also of another type. An absent property is not among them.
    ne => NotEqual;
    /// Greater.
    gt => Greater;
    /// Greater or equal.
    ge => GreaterOrEqual;
    /// Less.
    lt => Less;
    /// Less or equal.
    le => LessOrEqual;
}

impl<E, K: Filterable> Column<E, String, K> {
    /// Text that begins so.
    pub fn starts_with(self, prefix: &str) -> Filter<E> {
        AnyFilter::starts_with(self.name(), prefix).into()
    }
}

impl<E, K: Filterable> Column<E, Option<String>, K> {
    /// Text that begins so.
    pub fn starts_with(self, prefix: &str) -> Filter<E> {
        AnyFilter::starts_with(self.name(), prefix).into()
    }
}

#[cfg(test)]
mod tests;
