//! What a test run said and heard, kept so that it can be searched for secrets afterwards.
//!
//! With `TAVOLA_TEST_RECORD` set to a folder, clients of the tests write there the signatures and
//! tokens that they sent, and every error answer and metrics page that they got; servers log there,
//! as much as they can. `cargo xtask test` sets it and searches in the end. Without it nothing is
//! written.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

#[cfg(feature = "client")]
use bytes::Bytes;

/// What is shorter, or made of fewer different bytes, is a test of bad input, and would be found
/// everywhere.
const SECRET_CHARS_MIN: usize = 20;
const SECRET_ALPHABET_MIN: usize = 8;

/// The folder, if this run is recorded.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    std::env::var_os("TAVOLA_TEST_RECORD").filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// A file of this process in the folder.
#[must_use]
pub fn file(name: &str) -> Option<PathBuf> {
    folder().map(|folder| folder.join(format!("{name}-{}", std::process::id())))
}

/// Notes something that must appear nowhere.
pub fn secret(text: &str) {
    let different = text.bytes().collect::<HashSet<_>>().len();
    if text.len() >= SECRET_CHARS_MIN && different >= SECRET_ALPHABET_MIN {
        static SECRETS: OnceLock<Option<Mutex<File>>> = OnceLock::new();
        append(&SECRETS, "secrets", &format!("{text}\n"));
    }
}

/// Notes an exchange: what it was signed with, and what came back if that was a refusal or a page
/// of metrics.
pub fn exchange(request: &[u8], status: u16, answer: &[u8]) {
    if folder().is_none() {
        return;
    }
    let head_end =
        request.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(request.len());
    let head = String::from_utf8_lossy(&request[..head_end]);
    secrets_of(&head).for_each(secret);
    if status >= 400 || head.starts_with("GET /metrics") {
        static ANSWERS: OnceLock<Option<Mutex<File>>> = OnceLock::new();
        append(&ANSWERS, "answers", &format!("{status} {}\n", String::from_utf8_lossy(answer)));
    }
}

/// Notes an exchange of a client.
#[cfg(feature = "client")]
pub(crate) fn http_exchange(request: &http::Request<Bytes>, response: &http::Response<Bytes>) {
    if folder().is_none() {
        return;
    }
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let mut head = format!("{} {target} HTTP/1.1\r\n", request.method());
    for (name, value) in request.headers() {
        head.push_str(&format!("{name}: {}\r\n", String::from_utf8_lossy(value.as_bytes())));
    }
    raw_exchange(head.as_bytes(), response);
}

/// The same of a request as it was sent.
#[cfg(feature = "client")]
pub(crate) fn raw_exchange(request: &[u8], response: &http::Response<Bytes>) {
    if folder().is_some() {
        let answer =
            format!("{:?} {}", response.headers(), String::from_utf8_lossy(response.body()));
        exchange(request, response.status().as_u16(), answer.as_bytes());
    }
}

/// The signature or token of a request's head, wherever it is.
fn secrets_of(head: &str) -> impl Iterator<Item = &str> {
    let header = head.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_authorization = name.eq_ignore_ascii_case("authorization");
        is_authorization.then(|| value.trim().rsplit([':', ' ']).next().unwrap_or_default())
    });
    let target = head.lines().next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let signatures = query.split('&').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.eq_ignore_ascii_case("sig").then_some(value)
    });
    header.chain(signatures)
}

fn append(cell: &OnceLock<Option<Mutex<File>>>, name: &str, text: &str) {
    let open =
        || OpenOptions::new().create(true).append(true).open(file(name)?).ok().map(Mutex::new);
    if let Some(file) = cell.get_or_init(open) {
        let mut file = file.lock().expect("no writer panics");
        file.write_all(text.as_bytes()).expect("the record can be written");
    }
}

#[cfg(test)]
mod tests {
    use super::secrets_of;

    #[test]
    fn signatures_and_tokens_are_found() {
        for (head, expected) in [
            ("GET /a/T?sv=1&sig=abc%3D HTTP/1.1\r\nHost: x", vec!["abc%3D"]),
            ("GET /a/T?SIG=abc HTTP/1.1\r\nauthorization: SharedKey a:def=", vec!["def=", "abc"]),
            ("GET / HTTP/1.1\r\nAuthorization: Bearer e.y.J", vec!["e.y.J"]),
            ("GET / HTTP/1.1\r\nHost: sig=x", vec![]),
        ] {
            assert_eq!(secrets_of(head).collect::<Vec<_>>(), expected, "{head}");
        }
    }
}
