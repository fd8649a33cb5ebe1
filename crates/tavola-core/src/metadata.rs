//! What an owner notes on a queue, a container or a blob: `x-ms-meta-{name}: {value}`.

use crate::limits::METADATA_BYTES_MAX;

/// Names and values in the order and the case in which they were given.
///
/// Names compare without case and their order does not count, as headers do.
#[derive(Debug, Clone, Default)]
pub struct Metadata(Vec<(String, String)>);

/// Why names and values are no metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataError {
    /// A name is empty.
    NameEmpty,
    /// A name is not an identifier or is given twice, or a value has a line break.
    Invalid,
    /// Names and values are beyond 8 KiB.
    TooLarge,
}

impl Metadata {
    /// Checks every rule.
    ///
    /// # Errors
    /// The first broken rule.
    pub fn new(pairs: Vec<(String, String)>) -> Result<Self, MetadataError> {
        if pairs.iter().any(|(name, _)| name.is_empty()) {
            return Err(MetadataError::NameEmpty);
        }
        let bytes: usize = pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > METADATA_BYTES_MAX {
            return Err(MetadataError::TooLarge);
        }
        if !pairs.iter().all(|(name, value)| is_name(name) && !value.contains(['\n', '\r', '\0'])) {
            return Err(MetadataError::Invalid);
        }
        let mut names: Vec<_> = pairs.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        names.sort_unstable();
        let is_repeated = names.windows(2).any(|pair| pair[0] == pair[1]);
        if is_repeated { Err(MetadataError::Invalid) } else { Ok(Self(pairs)) }
    }

    /// Names and values in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a name, in whatever case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Names in lower case, in their order.
    fn folded(&self) -> Vec<(String, &str)> {
        let mut pairs: Vec<_> =
            self.iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        pairs.sort_unstable();
        pairs
    }
}

impl PartialEq for Metadata {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.folded() == other.folded()
    }
}

impl Eq for Metadata {}

/// Names of headers are ASCII.
fn is_name(name: &str) -> bool {
    name.is_ascii() && crate::entity::is_identifier(name)
}

#[cfg(test)]
mod tests {
    use super::{Metadata, MetadataError};

    fn metadata(pairs: &[(&str, &str)]) -> Result<Metadata, MetadataError> {
        Metadata::new(pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn rules() {
        assert!(metadata(&[]).unwrap().is_empty());
        assert_eq!(metadata(&[("", "x")]), Err(MetadataError::NameEmpty));
        for bad in ["1a", "a-b", "a b", "é"] {
            assert_eq!(metadata(&[(bad, "x")]), Err(MetadataError::Invalid), "{bad}");
        }
        assert_eq!(metadata(&[("a", "x\ny")]), Err(MetadataError::Invalid));
        assert_eq!(metadata(&[("a", "1"), ("b", "2"), ("A", "1")]), Err(MetadataError::Invalid));
        assert!(metadata(&[("a", &"x".repeat(8191))]).is_ok());
        assert_eq!(metadata(&[("ab", &"x".repeat(8191))]), Err(MetadataError::TooLarge));
    }

    #[test]
    fn equality_is_that_of_headers() {
        let one = metadata(&[("LogType", "write"), ("b", "2")]).unwrap();
        assert_eq!(one, metadata(&[("B", "2"), ("logtype", "write")]).unwrap());
        assert_ne!(one, metadata(&[("B", "2"), ("logtype", "Write")]).unwrap());
        assert_ne!(one, metadata(&[("b", "2")]).unwrap());
        assert_eq!(one.get("logTYPE"), Some("write"));
        assert_eq!(one.iter().next(), Some(("LogType", "write")), "the case is kept");
    }
}
