//! Ranges of keys as filters.

use tavola_core::filter::Comparison;

use super::{AnyFilter, Filter};
use crate::error::Error;
use crate::explain::Explain;
use crate::key::{KeyRange, Span};

impl<E> KeyRange<E> {
    /// The range as a condition.
    ///
    /// # Errors
    /// If a part of the key does not fit its template.
    pub fn to_filter(&self) -> Result<Filter<E>, Error> {
        let spans = self.spans()?;
        let of_key = |name: &str, span: &Span| -> Vec<AnyFilter> {
            let compare =
                |comparison, text: &str| AnyFilter::compare(name.into(), comparison, &text.into());
            match span {
                Span::One(text) => vec![compare(Comparison::Equal, text)],
                Span::Between(from, to) => {
                    let from = from.iter().map(|text| compare(Comparison::GreaterOrEqual, text));
                    from.chain(to.iter().map(|text| compare(Comparison::Less, text))).collect()
                }
            }
        };
        let mut terms = of_key("PartitionKey", &spans.partition);
        terms.extend(of_key("RowKey", &spans.row));
        let all = AnyFilter(Ok(tavola_core::Filter::Constant(true)));
        Ok(terms.into_iter().reduce(AnyFilter::and).unwrap_or(all).into())
    }

    /// What a query over the range would read.
    ///
    /// # Errors
    /// If a part of the key does not fit its template.
    pub fn explain(&self) -> Result<Explain, Error> {
        self.to_filter()?.explain()
    }
}
