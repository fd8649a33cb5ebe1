//! Entity tags.

use std::fmt;

use time::OffsetDateTime;

use crate::value::date_time_from;

/// The tag of one version of an entity, as the service gave it. Opaque: it is only compared.
///
/// ```
/// use tavola_client::ETag;
///
/// let tag = ETag::new(r#"W/"datetime'2020-11-07T01%3A23%3A13.377335Z'""#);
/// assert_eq!(tag.timestamp().map(|at| at.year()), Some(2020));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ETag(String);

impl ETag {
    /// A tag by its text, `W/"…"`.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text as a header has it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The Timestamp of the version, which the tags of the service contain; `None` if this one does
    /// not.
    #[must_use]
    pub fn timestamp(&self) -> Option<OffsetDateTime> {
        let version = tavola_core::ETag::parse(&self.0)?.version()?;
        Some(date_time_from(version.date_time()))
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
