//! What a case expects of an answer. Every check gives the answer back, so that checks can be
//! chained with `?`.

use serde_json::Value;

use super::Failure;
use super::http::Response;

pub(super) type Checked<'r> = Result<&'r Response, Failure>;

impl Response {
    pub(super) fn ensure(&self, holds: bool, expected: &str) -> Checked<'_> {
        if holds { Ok(self) } else { Err(self.mismatch(expected)) }
    }

    pub(super) fn expect_status(&self, status: u16) -> Checked<'_> {
        self.ensure(
            self.status == status,
            &format!("expected status {status}, got {}", self.status),
        )
    }

    pub(super) fn expect_status_in(&self, statuses: &[u16]) -> Checked<'_> {
        self.ensure(
            statuses.contains(&self.status),
            &format!("expected one of {statuses:?}, got {}", self.status),
        )
    }

    /// Any 4xx: the client's fault, and not the endpoint's.
    pub(super) fn expect_refusal(&self) -> Checked<'_> {
        self.ensure(
            (400..500).contains(&self.status),
            &format!("expected a 4xx, got {}", self.status),
        )
    }

    pub(super) fn expect_header(&self, name: &str, value: &str) -> Checked<'_> {
        self.ensure(
            self.header(name) == Some(value),
            &format!("expected {name}: {value:?}, got {:?}", self.header(name)),
        )
    }

    pub(super) fn expect_no_header(&self, name: &str) -> Checked<'_> {
        self.ensure(
            self.header(name).is_none(),
            &format!("expected no {name}, got {:?}", self.header(name)),
        )
    }

    pub(super) fn require_header(&self, name: &str) -> Result<&str, Failure> {
        self.header(name).ok_or_else(|| self.mismatch(format!("expected a header {name}")))
    }

    pub(super) fn text(&self) -> Result<&str, Failure> {
        std::str::from_utf8(&self.body).map_err(|_| self.mismatch("the body is not UTF-8"))
    }

    pub(super) fn expect_body(&self, body: &str) -> Checked<'_> {
        self.ensure(self.body == body.as_bytes(), &format!("expected exactly this body:\n{body}"))
    }

    pub(super) fn expect_in_body(&self, text: &str) -> Checked<'_> {
        self.ensure(self.text()?.contains(text), &format!("expected the body to contain {text}"))
    }

    pub(super) fn expect_not_in_body(&self, text: &str) -> Checked<'_> {
        self.ensure(
            !self.text()?.contains(text),
            &format!("expected the body not to contain {text}"),
        )
    }

    pub(super) fn json(&self) -> Result<Value, Failure> {
        serde_json::from_slice(&self.body)
            .map_err(|error| self.mismatch(format!("the body is not JSON: {error}")))
    }

    /// `pointer` as in RFC 6901: `/value/0/RowKey`.
    pub(super) fn expect_json(&self, pointer: &str, value: impl Into<Value>) -> Checked<'_> {
        let (json, value) = (self.json()?, value.into());
        let found = json.pointer(pointer);
        self.ensure(
            found == Some(&value),
            &format!("expected {value} at {pointer}, found {found:?}"),
        )
    }

    pub(super) fn expect_no_json(&self, pointer: &str) -> Checked<'_> {
        let json = self.json()?;
        self.ensure(json.pointer(pointer).is_none(), &format!("expected nothing at {pointer}"))
    }

    /// The members of an entity beside its metadata, keys and Timestamp: in their order, byte for
    /// byte.
    pub(super) fn expect_own_members(&self, expected: &str) -> Checked<'_> {
        let system = ["\"odata.", "\"PartitionKey\":", "\"RowKey\":", "\"Timestamp\":"];
        let own: Vec<_> = members(self.text()?)
            .into_iter()
            .filter(|member| !system.iter().any(|name| member.starts_with(name)))
            .collect();
        self.ensure(own.join(",") == expected, &format!("expected the own members {expected}"))
    }

    /// The `value` array of a set.
    pub(super) fn rows(&self) -> Result<Vec<Value>, Failure> {
        self.json()?
            .get("value")
            .and_then(Value::as_array)
            .cloned()
            .ok_or_else(|| self.mismatch("the body has no array `value`"))
    }

    pub(super) fn expect_row_count(&self, count: usize) -> Checked<'_> {
        let found = self.rows()?.len();
        self.ensure(found == count, &format!("expected {count} rows, got {found}"))
    }

    pub(super) fn etag(&self) -> Result<&str, Failure> {
        self.require_header("ETag")
    }

    /// The JSON error of OData operations: status and code.
    pub(super) fn expect_error(&self, status: u16, code: &str) -> Checked<'_> {
        self.expect_status(status)?;
        self.expect_json("/odata.error/code", code)
    }

    /// The JSON error with its text, which the tail of request id and time follows.
    pub(super) fn expect_error_text(&self, status: u16, code: &str, text: &str) -> Checked<'_> {
        self.expect_error(status, code)?;
        let found = self.error_text()?;
        self.ensure(found == text, &format!("expected the text {text:?}, got {found:?}"))
    }

    /// The text of a JSON error without its tail, and without what a server adds about the property
    /// that is wrong.
    pub(super) fn error_text(&self) -> Result<String, Failure> {
        let json = self.json()?;
        let value = json
            .pointer("/odata.error/message/value")
            .and_then(Value::as_str)
            .ok_or_else(|| self.mismatch("expected an OData error with a message"))?;
        Ok(value.lines().next().unwrap_or_default().to_owned())
    }

    /// The XML error of ACL, service properties and stats.
    pub(super) fn expect_xml_error(&self, status: u16, code: &str) -> Checked<'_> {
        self.expect_status(status)?;
        self.expect_header("x-ms-error-code", code)?;
        self.expect_in_body(&format!("<m:code>{code}</m:code>"))
    }

    /// An error in whichever form the operation answers in, JSON or XML.
    pub(super) fn expect_code(&self, status: u16, code: &str) -> Checked<'_> {
        self.expect_status(status)?;
        let body = self.text()?;
        let told = body.contains(&format!("\"code\":\"{code}\""))
            || body.contains(&format!("ode>{code}</"));
        self.ensure(told, &format!("expected the code {code}"))
    }

    /// Refused before anything is known about the caller.
    pub(super) fn expect_unauthenticated(&self) -> Checked<'_> {
        self.expect_code(403, "AuthenticationFailed")
    }

    /// The caller is known and may not do this: code and text.
    pub(super) fn expect_denied(&self, denial: DenialKind) -> Checked<'_> {
        let (code, text) = denial.told();
        self.expect_code(403, code)?.expect_in_body(&format!("{NOT_AUTHORIZED}{text}"))
    }

    /// The body as XML text, without the byte-order mark that an endpoint may send.
    pub(super) fn xml(&self) -> Result<&str, Failure> {
        let text = self.text()?;
        Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
    }
}

const NOT_AUTHORIZED: &str = "This request is not authorized to perform this operation";

/// Why a shared access signature that is valid does not allow a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DenialKind {
    /// Another table, keys outside the range, or an operation that no such signature allows.
    Operation,
    Permission,
    ResourceType,
    Service,
    Protocol,
    SourceAddress,
}

impl DenialKind {
    /// The code, and how its text goes on.
    pub(super) fn told(self) -> (&'static str, &'static str) {
        match self {
            DenialKind::Operation => ("AuthorizationFailure", "."),
            DenialKind::Permission => {
                ("AuthorizationPermissionMismatch", " using this permission.")
            }
            DenialKind::ResourceType => {
                ("AuthorizationResourceTypeMismatch", " using this resource type.")
            }
            DenialKind::Service => ("AuthorizationServiceMismatch", " using this service."),
            DenialKind::Protocol => ("AuthorizationProtocolMismatch", " using this protocol."),
            DenialKind::SourceAddress => {
                ("AuthorizationSourceIPMismatch", " using this source IP ")
            }
        }
    }
}

/// The members of a JSON object without nested ones, as they stand in the text.
fn members(object: &str) -> Vec<&str> {
    let inner =
        object.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
    let (mut quoted, mut escaped) = (false, false);
    inner
        .split(|character| {
            let ends = character == ',' && !quoted;
            quoted ^= character == '"' && !escaped;
            escaped = character == '\\' && !escaped;
            ends
        })
        .collect()
}

/// A timestamp with its fraction filled up to seven digits, so that text order is time order.
pub(super) fn filled(timestamp: &str) -> String {
    let (seconds, fraction) = match timestamp.trim_end_matches('Z').split_once('.') {
        Some((seconds, fraction)) => (seconds.to_owned(), fraction.to_owned()),
        None => (timestamp.trim_end_matches('Z').to_owned(), String::new()),
    };
    format!("{seconds}.{fraction:0<7}Z")
}

/// The ETag that belongs to a Timestamp.
pub(super) fn etag_of(timestamp: &str) -> String {
    format!("W/\"datetime'{}'\"", timestamp.replace(':', "%3A"))
}

/// Whether a text has the shape of `pattern`: `0` stands for a digit, `x` for a lower-case
/// hexadecimal digit, anything else for itself.
pub(super) fn has_shape(text: &str, pattern: &str) -> bool {
    text.len() == pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(byte, wanted)| match wanted {
            b'0' => byte.is_ascii_digit(),
            b'x' => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
            _ => byte == wanted,
        })
}

/// The shape of a GUID in lower case.
pub(super) const GUID_SHAPE: &str = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
/// The shape of a time with seven fraction digits.
pub(super) const TIME_SHAPE: &str = "0000-00-00T00:00:00.0000000Z";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_flat_object() {
        assert_eq!(
            members(r#"{"a":1,"b":"x,\",y\\","c":""}"#),
            [r#""a":1"#, r#""b":"x,\",y\\""#, r#""c":"""#]
        );
    }

    #[test]
    fn fractions_are_filled() {
        assert_eq!(filled("2024-01-02T03:04:05Z"), "2024-01-02T03:04:05.0000000Z");
        assert_eq!(filled("2024-01-02T03:04:05.12Z"), "2024-01-02T03:04:05.1200000Z");
    }

    #[test]
    fn shapes() {
        assert!(has_shape("2024-01-02T03:04:05.1200000Z", TIME_SHAPE));
        assert!(!has_shape("2024-01-02T03:04:05.120Z", TIME_SHAPE));
        assert!(has_shape("aceccc68-b002-006e-7110-617748000000", GUID_SHAPE));
    }
}
