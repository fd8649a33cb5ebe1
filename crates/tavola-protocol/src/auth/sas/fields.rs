//! The fields of a signature as a query string has them.

use std::borrow::Cow;
use std::fmt;

use crate::query_string::decode_form;
use crate::version::Version;

/// Every field of a signature that means something here. Names are compared without case, as the
/// service does.
const NAMES: [&str; 18] = [
    "sv",
    "st",
    "se",
    "sp",
    "sip",
    "spr",
    "sig",
    "si",
    "tn",
    "spk",
    "srk",
    "epk",
    "erk",
    "ss",
    "srt",
    "ses",
    "skoid",
    "api-version",
];

/// Why fields cannot be read. The texts are for the client that sent them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldsError {
    /// Which of two values was signed cannot be told.
    Twice(&'static str),
    /// Broken escapes, not UTF-8, or a control character, which could move the border between two
    /// signed lines.
    Malformed(&'static str),
}

/// The fields of a signature, decoded. An empty field is as good as none: both are signed alike.
#[derive(Clone, Default)]
pub struct SasFields<'a> {
    values: [Option<Cow<'a, str>>; NAMES.len()],
}

/// Which fields there are, not what they say: the signature is among them.
impl fmt::Debug for SasFields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = NAMES.iter().zip(&self.values).filter(|(_, value)| value.is_some());
        f.debug_set().entries(given.map(|(name, _)| name)).finish()
    }
}

impl<'a> SasFields<'a> {
    /// True if the query carries a signature at all.
    #[must_use]
    pub fn are_in(query: Option<&str>) -> bool {
        pairs(query.unwrap_or_default()).any(|(name, _)| known(name) == Some("sig"))
    }

    /// The protocol's version that a signature asks for: `api-version`, or else the one that it was
    /// made with.
    pub(crate) fn version(query: Option<&'a str>) -> Option<Version> {
        let query = query.filter(|query| Self::are_in(Some(query)))?;
        let fields = Self::parse(query).ok()?;
        fields.given("api-version").or_else(|| fields.given("sv")).and_then(Version::parse)
    }

    /// Reads the fields; other parameters are not looked at.
    pub(in crate::auth) fn parse(query: &'a str) -> Result<Self, FieldsError> {
        let mut fields = Self::default();
        for (name, value) in pairs(query) {
            let Some(name) = known(name) else { continue };
            let slot = &mut fields.values[index(name)];
            if slot.is_some() {
                return Err(FieldsError::Twice(name));
            }
            let decoded = decode_form(value).filter(|value| !value.chars().any(char::is_control));
            *slot = Some(decoded.ok_or(FieldsError::Malformed(name))?);
        }
        Ok(fields)
    }

    /// The text of a field; empty if it is missing.
    pub(in crate::auth) fn text(&self, name: &str) -> &str {
        self.values[index(name)].as_deref().unwrap_or_default()
    }

    /// The text of a field, unless it is missing or empty.
    pub(in crate::auth) fn given(&self, name: &str) -> Option<&str> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }
}

fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

fn known(name: &str) -> Option<&'static str> {
    let name = decode_form(name)?;
    NAMES.into_iter().find(|known| known.eq_ignore_ascii_case(&name))
}

fn index(name: &str) -> usize {
    NAMES.iter().position(|known| *known == name).expect("only known fields are asked for")
}
