//! Ranges of keys.

use std::fmt;
use std::marker::PhantomData;

use super::entity_key::{PointKey, check};
use super::part::Fault;
use crate::error::Error;

/// The keys of type `E` that begin alike, or lie between two values: what a cursor gives. A query
/// over it reads nothing outside.
///
/// ```
/// # fn main() -> Result<(), tavola_client::Error> {
/// # #[cfg(feature = "derive")] {
/// use tavola_client::{Entity, KeyRange};
///
/// #[derive(Entity)]
/// #[entity(partition = "{dept}", row = "empid_{id:06}")]
/// struct Employee {
///     dept: String,
///     id: u32,
///     last: String,
/// }
///
/// let range: KeyRange<Employee> = Employee::key().dept("Sales").id_in(100..200).into();
/// let filter = range.to_filter()?.to_string();
/// assert!(filter.starts_with("PartitionKey eq 'Sales' and RowKey ge 'empid_000100'"), "{filter}");
/// # }
/// # Ok(())
/// # }
/// ```
pub struct KeyRange<E> {
    spans: Result<Spans, Fault>,
    of: PhantomData<fn() -> E>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spans {
    pub(crate) partition: Span,
    pub(crate) row: Span,
}

/// Some texts of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Span {
    /// This one.
    One(String),
    /// From the first on, up to but not including the second.
    Between(Option<String>, Option<String>),
}

impl Span {
    /// All texts.
    pub(crate) const ALL: Self = Self::Between(None, None);

    /// True if the text is one of them. Texts of templates are ASCII, so that every order is one.
    #[cfg(test)]
    pub(crate) fn contains(&self, text: &str) -> bool {
        match self {
            Self::One(one) => one == text,
            Self::Between(from, to) => {
                from.as_deref().is_none_or(|from| from <= text)
                    && to.as_deref().is_none_or(|to| text < to)
            }
        }
    }

    /// The longest text.
    pub(super) fn longest(&self) -> &str {
        match self {
            Self::One(one) => one,
            Self::Between(from, to) => {
                let (from, to) = (from.as_deref().unwrap_or(""), to.as_deref().unwrap_or(""));
                if from.len() > to.len() { from } else { to }
            }
        }
    }
}

/// The rows of an index of `E`, where a key or a range is one of those.
#[derive(Debug)]
pub struct IndexOf<E>(PhantomData<fn() -> E>);

impl<E> KeyRange<E> {
    pub(crate) fn new(spans: Result<Spans, Fault>) -> Self {
        Self { spans, of: PhantomData }
    }

    /// All keys of one partition.
    ///
    /// ```
    /// use tavola_client::{DynEntity, KeyRange};
    ///
    /// let sales = KeyRange::<DynEntity>::partition("Sales");
    /// assert_eq!(sales.to_filter()?.to_string(), "PartitionKey eq 'Sales'");
    /// # Ok::<(), tavola_client::Error>(())
    /// ```
    #[must_use]
    pub fn partition(partition: impl Into<String>) -> Self {
        let partition = partition.into();
        let checked = check("PartitionKey", &partition);
        Self::new(checked.map(|()| Spans { partition: Span::One(partition), row: Span::ALL }))
    }

    /// All keys of a table.
    #[must_use]
    pub fn all() -> Self {
        Self::new(Ok(Spans { partition: Span::ALL, row: Span::ALL }))
    }

    /// True if it is one key.
    pub(crate) fn is_point(&self) -> bool {
        let is_one = |span: &Span| matches!(span, Span::One(_));
        self.spans.as_ref().is_ok_and(|spans| is_one(&spans.partition) && is_one(&spans.row))
    }

    pub(crate) fn spans(&self) -> Result<&Spans, Error> {
        self.spans.as_ref().map_err(|fault| fault.clone().into())
    }
}

impl<E> Clone for KeyRange<E> {
    fn clone(&self) -> Self {
        Self::new(self.spans.clone())
    }
}

impl<E> fmt::Debug for KeyRange<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.spans, f)
    }
}

impl<E> From<PointKey<E>> for KeyRange<E> {
    fn from(point: PointKey<E>) -> Self {
        Self::new(point.into_parts().map(|key| Spans {
            partition: Span::One(key.partition().to_owned()),
            row: Span::One(key.row().to_owned()),
        }))
    }
}
