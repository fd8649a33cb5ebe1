//! Names and values of a query string, and escapes in URLs, for any service.

use std::borrow::Cow;
use std::time::Duration;

use memchr::memchr;
use percent_encoding::percent_decode_str;

use crate::api_error::ApiError;

/// A service waits at most so long, whatever a client asks.
pub(crate) const TIMEOUT_SECONDS_MAX: u64 = 30;

/// The parameters of a request, decoded. Names that a service does not know mean nothing to it.
#[derive(Debug)]
pub(crate) struct QueryString<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> QueryString<'a> {
    /// Takes a query string apart.
    pub(crate) fn parse(query: Option<&'a str>) -> Result<Self, ApiError> {
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode_form(name).ok_or(ApiError::UrlUnparsable)?;
            let value = decode_form(value).ok_or(ApiError::UrlUnparsable)?;
            Ok::<_, ApiError>((name, value))
        });
        Ok(Self(decoded.collect::<Result<_, _>>()?))
    }

    /// The value of a parameter; names compare without case.
    ///
    /// # Errors
    /// If it is given twice: which one applies would be anybody's guess.
    pub(crate) fn get(&self, name: &'static str) -> Result<Option<&str>, ApiError> {
        let mut found = self.0.iter().filter(|(given, _)| given.eq_ignore_ascii_case(name));
        let first = found.next().map(|(_, value)| value.as_ref());
        match found.next() {
            None => Ok(first),
            Some((_, value)) => {
                Err(ApiError::InvalidQueryParameter { name, value: value.clone().into_owned() })
            }
        }
    }

    /// The value of a parameter that the operation needs.
    pub(crate) fn required(&self, name: &'static str) -> Result<&str, ApiError> {
        self.get(name)?.ok_or(ApiError::MissingQueryParameter(name))
    }

    /// A number within bounds.
    pub(crate) fn number(
        &self,
        name: &'static str,
        (min, max): (u32, u32),
    ) -> Result<Option<u32>, ApiError> {
        let Some(text) = self.get(name)? else { return Ok(None) };
        let value = || text.to_owned();
        let number: i64 =
            text.parse().map_err(|_| ApiError::InvalidQueryParameter { name, value: value() })?;
        match u32::try_from(number) {
            Ok(number) if (min..=max).contains(&number) => Ok(Some(number)),
            _ => Err(ApiError::OutOfRangeQueryParameter { name, value: value(), min, max }),
        }
    }

    /// How long the client is willing to wait.
    pub(crate) fn timeout(&self) -> Result<Option<Duration>, ApiError> {
        let name = "timeout";
        let Some(text) = self.get(name)? else { return Ok(None) };
        let seconds: u64 = text
            .parse()
            .map_err(|_| ApiError::InvalidQueryParameter { name, value: text.to_owned() })?;
        Ok(Some(Duration::from_secs(seconds.clamp(1, TIMEOUT_SECONDS_MAX))))
    }
}

/// Percent-decodes a name or value; `+` is a space here, unlike in a path.
pub(crate) fn decode_form(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('+') {
        return decode(text);
    }
    let spaced = text.replace('+', " ");
    decode(&spaced).map(|decoded| Cow::Owned(decoded.into_owned()))
}

/// Percent-decodes once, as UTF-8; `None` if an escape is broken or the bytes are not UTF-8.
#[must_use]
pub(crate) fn decode(text: &str) -> Option<Cow<'_, str>> {
    if memchr(b'%', text.as_bytes()).is_none() {
        return Some(Cow::Borrowed(text));
    }
    let mut after_percent = text.split('%').skip(1);
    let is_escape = |rest: &str| matches!(rest.as_bytes(), [a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit());
    if !after_percent.all(is_escape) {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok()
}

#[cfg(test)]
mod tests {
    use super::QueryString;
    use crate::api_error::ApiError;

    #[test]
    fn parameters() {
        let query =
            QueryString::parse(Some("a=1&B=x%20y+z&c&d=1&D=2&e=-1&f=9&timeout=90")).unwrap();
        assert_eq!(query.get("b"), Ok(Some("x y z")));
        assert_eq!(query.get("c"), Ok(Some("")));
        assert_eq!(query.get("nothing"), Ok(None));
        assert!(query.get("d").is_err(), "given twice");
        assert_eq!(query.number("a", (1, 5)), Ok(Some(1)));
        assert_eq!(query.number("nothing", (1, 5)), Ok(None));
        assert!(matches!(query.number("b", (1, 5)), Err(ApiError::InvalidQueryParameter { .. })));
        for name in ["e", "f"] {
            let refused = query.number(name, (1, 5));
            assert!(matches!(refused, Err(ApiError::OutOfRangeQueryParameter { .. })), "{name}");
        }
        assert_eq!(query.timeout().unwrap().map(|time| time.as_secs()), Some(30));
        assert_eq!(query.required("z"), Err(ApiError::MissingQueryParameter("z")));
        for broken in ["a=%", "%4=1", "a=%ff"] {
            assert!(QueryString::parse(Some(broken)).is_err(), "{broken}");
        }
    }
}
