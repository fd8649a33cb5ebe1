//! A key that grows part by part: what the derived cursors are made of.

use std::ops::Bound;

use super::entity_key::{EntityKey, PointKey, check};
use super::escape::{self, AFTER_TERMINATOR};
use super::part::{Fault, KeyPart, KeyText, PartMeta};
use super::range::{KeyRange, Span, Spans};
use crate::error::Rule;

/// The leading parts of a key. The first part that does not fit is remembered until the key is
/// used.
#[doc(hidden)]
#[derive(Debug, Clone, Default)]
pub struct Cursor {
    partition: KeyText,
    /// The row, once the partition is whole.
    row: Option<KeyText>,
    fault: Option<Fault>,
}

impl Cursor {
    fn text(&mut self) -> &mut KeyText {
        self.row.as_mut().unwrap_or(&mut self.partition)
    }

    /// Ends the partition.
    #[must_use]
    pub fn row(mut self) -> Self {
        self.row = Some(KeyText::default());
        self
    }

    /// Appends a literal of the template.
    #[must_use]
    pub fn literal(mut self, literal: &str) -> Self {
        self.text().push_literal(literal);
        self
    }

    /// Appends a part.
    #[must_use]
    pub fn part<F, T: KeyPart<F>>(mut self, value: &T, meta: &PartMeta) -> Self {
        let text = self.text();
        let written = value.write(text).map_err(|error| meta.fault(&error));
        let PartMeta { field, template } = meta;
        let written = written.and_then(|()| match text.as_str() {
            "" => Err(Fault {
                rule: Rule::KeyPart,
                sizes: None,
                text: format!(
                    "key part `{field}` is empty, and the template `{template}` begins with it; \
                     write something before it"
                ),
            }),
            _ => Ok(()),
        });
        self.fault = self.fault.or(written.err());
        self
    }

    /// The whole key.
    #[must_use]
    pub fn point<E>(self) -> PointKey<E> {
        let row = self.row.unwrap_or_default();
        PointKey::from_parts(match self.fault {
            Some(fault) => Err(fault),
            None => EntityKey::checked(self.partition.as_str().into(), row.as_str().into()),
        })
    }

    /// All keys that go on from here.
    #[must_use]
    pub fn range<E>(mut self) -> KeyRange<E> {
        let span = from_here(self.text().as_str());
        self.within(span)
    }

    /// The keys whose next part lies between two values.
    #[must_use]
    pub fn between<E, F, T: KeyPart<F>>(
        mut self,
        bounds: (Bound<&T>, Bound<&T>),
        meta: &PartMeta,
    ) -> KeyRange<E> {
        let (low, high) = if T::DESCENDING { (bounds.1, bounds.0) } else { bounds };
        let text = self.text().clone();
        let cut = |value: &T, above: bool| {
            let mut text = text.clone();
            value.write(&mut text).map_err(|error| meta.fault(&error))?;
            let text = text.as_str();
            Ok(match above {
                false => Some(text.to_owned()),
                true if T::FIXED => escape::successor(text),
                true => Some(format!("{text}{AFTER_TERMINATOR}")),
            })
        };
        let Span::Between(first, last) = from_here(text.as_str()) else {
            return self.within(Span::ALL);
        };
        let from = match low {
            Bound::Included(value) => cut(value, false),
            Bound::Excluded(value) => cut(value, true),
            Bound::Unbounded => Ok(first),
        };
        let to = match high {
            Bound::Included(value) => cut(value, true),
            Bound::Excluded(value) => cut(value, false),
            Bound::Unbounded => Ok(last),
        };
        let span = match (from, to) {
            (Ok(from), Ok(to)) => Span::Between(from, to),
            (Err(fault), _) | (_, Err(fault)) => {
                self.fault = self.fault.or(Some(fault));
                Span::ALL
            }
        };
        self.within(span)
    }

    /// The keys whose next part, a text, begins so.
    #[must_use]
    pub fn prefix<E>(mut self, prefix: &str) -> KeyRange<E> {
        if prefix.is_empty() {
            return self.range();
        }
        let mut text = self.text().clone();
        text.push_text(prefix);
        let to = escape::after_prefix(text.as_str());
        self.within(Span::Between(Some(text.as_str().to_owned()), to))
    }

    /// The keys whose next part, a text in lower case, begins so.
    #[must_use]
    pub fn lower_prefix<E>(self, prefix: &str) -> KeyRange<E> {
        self.prefix(&escape::lower(prefix))
    }

    /// The range in which the key that grows lies in `span`.
    fn within<E>(self, span: Span) -> KeyRange<E> {
        let spans = match self.row {
            Some(_) => {
                Spans { partition: Span::One(self.partition.as_str().to_owned()), row: span }
            }
            None => Spans { partition: span, row: Span::ALL },
        };
        let legal = [("PartitionKey", &spans.partition), ("RowKey", &spans.row)];
        let fault = self.fault.map_or(Ok(()), Err);
        let checked = legal
            .into_iter()
            .fold(fault, |fault, (which, span)| fault.and_then(|()| check(which, span.longest())));
        KeyRange::new(checked.map(|()| spans))
    }
}

/// The texts that go on from here. Keys that begin with `!` are those of helpers, and no entity's.
fn from_here(text: &str) -> Span {
    match text {
        "" => Span::Between(Some(AFTER_TERMINATOR.to_string()), None),
        _ => Span::Between(Some(text.to_owned()), escape::successor(text)),
    }
}
