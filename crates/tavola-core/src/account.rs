//! The name of a storage account.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// A storage account's name: letters, digits and inner hyphens. A leading hyphen is impossible,
/// which is what keeps `/-/ready` apart from every account. Copies share the text: every request
/// makes several.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountName(Arc<str>);

impl AccountName {
    /// The longest label that fits a host name.
    const CHARS_MAX: usize = 63;

    /// Checks `name`; `None` if it cannot be an account.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let inner_hyphens_only = !name.starts_with('-') && !name.ends_with('-');
        let fits = (1..=Self::CHARS_MAX).contains(&name.len());
        (fits && inner_hyphens_only && name.bytes().all(legal)).then(|| Self(name.into()))
    }

    /// The name as configured.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A map by name is asked with a text that nobody has checked: it finds no account under one that
/// cannot be a name.
impl Borrow<str> for AccountName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::AccountName;

    #[test]
    fn names() {
        for good in ["devstoreaccount1", "a", "my-account"] {
            assert!(AccountName::parse(good).is_some(), "{good}");
        }
        for bad in ["", "-", "-a", "a-", "a/b", "a.b", "é"] {
            assert!(AccountName::parse(bad).is_none(), "{bad}");
        }
    }
}
