//! One error type for a program that can only stop and say why.

use std::error::Error;
use std::fmt;

use memchr::memmem;

use crate::reply::Reply;

/// Of a body that is shown.
const BODY_CHARS_SHOWN: usize = 500;

/// What went wrong, in words for the person at the terminal.
#[derive(Debug)]
pub struct Failure {
    message: String,
    status: Option<u16>,
}

pub type Result<T = ()> = std::result::Result<T, Failure>;

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: None }
    }

    /// Another status than the right reply would have.
    pub fn wrong_status(reply: Reply<'_>, expected: u16) -> Self {
        let status = reply.head.status;
        let said: String = match status {
            // Some servers repeat the signature when they refuse it: only the code is shown.
            401 | 403 => error_code(reply.body).unwrap_or("without a code").to_owned(),
            _ => String::from_utf8_lossy(reply.body).chars().take(BODY_CHARS_SHOWN).collect(),
        };
        Self {
            message: format!("status {status} instead of {expected}: {said}"),
            status: Some(status),
        }
    }

    /// The status of the reply that was wrong, if it was that and nobody has added words since.
    pub fn status(&self) -> Option<u16> {
        self.status
    }
}

/// `"code":"AuthenticationFailed"`
fn error_code(body: &[u8]) -> Option<&str> {
    const NAME: &[u8] = b"\"code\":\"";
    let rest = &body[memmem::find(body, NAME)? + NAME.len()..];
    let code = &rest[..memchr::memchr(b'"', rest)?];
    std::str::from_utf8(code)
        .ok()
        .filter(|code| code.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

/// Says what was being done when something failed.
pub trait Context<T> {
    fn context(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Failure::new(format!("{}: {error}", doing())))
    }
}

impl Error for Failure {}

#[cfg(test)]
mod tests {
    use super::Failure;
    use crate::reply::ReplyReader;

    fn refused(status: u16, body: &str) -> Failure {
        let mut reader = ReplyReader::default();
        let text = format!("HTTP/1.1 {status} No\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        assert!(reader.feed(text.as_bytes()).unwrap());
        Failure::wrong_status(reader.reply().unwrap(), 204)
    }

    #[test]
    fn a_refused_key_shows_no_signature() {
        let failure = refused(
            403,
            r#"{"odata.error":{"code":"AuthenticationFailed","message":{"value":"'c2ln' is wrong"}}}"#,
        );
        assert_eq!(failure.to_string(), "status 403 instead of 204: AuthenticationFailed");
        assert_eq!(failure.status(), Some(403));
        assert_eq!(refused(401, "c2ln").to_string(), "status 401 instead of 204: without a code");
        assert_eq!(
            refused(403, r#"{"code":"c2ln=+"}"#).to_string(),
            "status 403 instead of 204: without a code"
        );
    }

    #[test]
    fn other_refusals_are_shown_as_they_are() {
        assert_eq!(refused(409, "there").to_string(), "status 409 instead of 204: there");
        assert_eq!(
            refused(500, &"x".repeat(2_000)).to_string().len(),
            "status 500 instead of 204: ".len() + 500
        );
    }
}
