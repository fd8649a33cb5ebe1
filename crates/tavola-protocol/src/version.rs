//! The version of the protocol that a request speaks: `x-ms-version`.

use std::fmt;

use http::request::Parts;

use crate::api_error::ApiError;
use crate::auth::SasFields;
use crate::headers::name;

/// A version, a date. Versions compare as their texts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version([u8; 10]);

impl Version {
    /// The newest published version; what a request without a version speaks.
    pub const NEWEST: Self = Self(*b"2026-10-06");
    /// The first version with JSON, which is all that we write.
    pub const OLDEST: Self = Self(*b"2013-08-15");

    /// A version that the protocol's own rules name.
    pub(crate) const fn literal(text: &[u8; 10]) -> Self {
        Self(*text)
    }

    /// Reads `YYYY-MM-DD`. Versions newer than we know are taken, or every update of a client
    /// library would break us.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::parse_any(text).filter(|version| *version >= Self::OLDEST)
    }

    /// Reads `YYYY-MM-DD`, however old: signatures outlive the protocol that they were made for.
    #[must_use]
    pub(crate) fn parse_any(text: &str) -> Option<Self> {
        let digits: [u8; 10] = text.as_bytes().try_into().ok()?;
        let shaped = digits.iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
        let number = |from: usize| (digits[from] - b'0') * 10 + (digits[from + 1] - b'0');
        let legal = shaped && (1..=12).contains(&number(5)) && (1..=31).contains(&number(8));
        Some(Self(digits)).filter(|_| legal)
    }

    /// The version of a request: its header's, or with a signature in the URL what that says.
    ///
    /// # Errors
    /// If the header is there and is not a version.
    pub fn of(parts: &Parts) -> Result<Self, ApiError> {
        let Some(value) = parts.headers.get(&name::VERSION) else {
            return Ok(SasFields::version(parts.uri.query()).unwrap_or(Self::NEWEST));
        };
        let text = value.to_str().unwrap_or_default();
        Self::parse(text).ok_or_else(|| ApiError::InvalidHeaderValue {
            name: "x-ms-version",
            value: text.to_owned(),
        })
    }

    /// The version's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("a version is made of ASCII digits and hyphens")
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn well_formed_dates_from_the_first_with_json_on() {
        for good in ["2013-08-15", "2019-02-02", "2026-10-06", "2031-12-31"] {
            assert_eq!(
                Version::parse(good).map(|version| version.as_str().to_owned()).as_deref(),
                Some(good)
            );
        }
        for bad in [
            "",
            "2009-09-19",
            "latest",
            "2019-2-2",
            "2019-02-02 ",
            "2019/02/02",
            "2019-13-01",
            "2019-01-32",
            "２019-0",
        ] {
            assert_eq!(Version::parse(bad), None, "{bad}");
        }
    }
}
