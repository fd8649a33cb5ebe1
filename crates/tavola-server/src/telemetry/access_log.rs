//! The access log: one line per request, in the common log format with our own fields behind it, or
//! as JSON.
//!
//! Lines go to a thread of their own through a bounded queue, so that a slow terminal never slows a
//! request; lines that do not fit are counted.

use std::fmt::Write as _;
use std::io::{self, Stdout, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, UNIX_EPOCH};

use http::Uri;
use time::OffsetDateTime;

use super::{EventReader, LogFile, RequestEvent};

const LINES_MAX: usize = 16 * 1024;
/// Lines that are written at once.
const BATCH_BYTES: usize = 64 * 1024;
/// Nobody waits longer for a terminal that is held.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(2);
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The form of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessLogFormat {
    /// Common log format and `name=value` fields.
    Text,
    /// One JSON object.
    Json,
}

/// Writes a line per request to standard output, or into a file.
#[derive(Debug)]
pub struct AccessLog {
    format: AccessLogFormat,
    messages: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

/// What the writing thread is told.
enum Message {
    Line(String),
    /// Everything before it is written: say so.
    Flush(SyncSender<()>),
}

/// Where lines go.
enum Output {
    // Not locked: the start-up lines go to the same place.
    Standard(Stdout),
    File(Arc<LogFile>),
}

impl EventReader for AccessLog {
    fn record(&self, event: &RequestEvent) {
        let line = match self.format {
            AccessLogFormat::Text => text_line(event),
            AccessLogFormat::Json => json_line(event),
        };
        if self.messages.try_send(Message::Line(line)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl AccessLog {
    /// Starts the thread that writes to standard output.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn start(format: AccessLogFormat) -> io::Result<Self> {
        Self::spawn(format, Output::Standard(io::stdout()))
    }

    /// Starts the thread that writes into a file.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn start_in(format: AccessLogFormat, file: Arc<LogFile>) -> io::Result<Self> {
        Self::spawn(format, Output::File(file))
    }

    fn spawn(format: AccessLogFormat, output: Output) -> io::Result<Self> {
        let (messages, receiver) = sync_channel(LINES_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let lost = Arc::clone(&dropped);
        let write = move || write_lines(&receiver, output, &lost);
        std::thread::Builder::new().name("access-log".to_owned()).spawn(write)?;
        Ok(Self { format, messages, dropped })
    }

    /// Waits until every line is written, but not for somebody who does not read them.
    pub(super) fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.messages.try_send(Message::Flush(done)).is_ok() {
            let _slow_reader = written.recv_timeout(FLUSH_TIME_MAX);
        }
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Writes what has gathered; returns when the log is dropped or nobody reads standard output any
/// more.
fn write_lines(receiver: &Receiver<Message>, mut output: Output, lost: &AtomicU64) {
    let mut lines = Vec::with_capacity(BATCH_BYTES);
    while let Ok(message) = receiver.recv() {
        let (mut next, mut count) = (Some(message), 0);
        let mut waiting = Vec::new();
        while let Some(message) = next {
            match message {
                Message::Line(line) => {
                    lines.extend_from_slice(line.as_bytes());
                    count += 1;
                }
                Message::Flush(done) => waiting.push(done),
            }
            next = if lines.len() < BATCH_BYTES { receiver.try_recv().ok() } else { None };
        }
        match (output.write(&lines), &output) {
            (Ok(()), _) => {}
            (Err(_), Output::Standard(_)) => return,
            // A disk may be full for a while.
            (Err(_), Output::File(_)) => {
                lost.fetch_add(count, Ordering::Relaxed);
            }
        }
        lines.clear();
        for done in waiting {
            let _nobody_waits = done.try_send(());
        }
    }
}

impl Output {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Self::Standard(stdout) => stdout.write_all(lines).and_then(|()| stdout.flush()),
            Self::File(file) => (&**file).write_all(lines),
        }
    }
}

fn text_line(event: &RequestEvent) -> String {
    let subject = &event.subject;
    let mut line = format!(
        "{} - - [{}] \"{} {} {:?}\" {} {} id={} op={} ms={:.3} read={} returned={}",
        event.client.ip,
        common_log_time(event),
        event.method,
        escaped(&masked(&event.uri)),
        event.version,
        event.status.as_u16(),
        event.response_bytes,
        event.request_id,
        if subject.operation.is_empty() { "-" } else { subject.operation },
        event.duration.as_secs_f64() * 1e3,
        subject.cost.rows_read,
        subject.cost.rows_returned,
    );
    if let Some(class) = subject.cost.class {
        let _infallible = write!(line, " class=\"{}\"", class.name());
    }
    if let Some(code) = subject.error_code {
        let _infallible = write!(line, " error={code}");
    }
    if let Some(reason) = subject.deny_reason {
        let _infallible = write!(line, " reason={}", reason.name());
    }
    if let Some(client) = &event.client_request_id {
        let _infallible = write!(line, " client={}", quoted(client));
    }
    line.push('\n');
    line
}

fn json_line(event: &RequestEvent) -> String {
    let subject = &event.subject;
    let mut line = format!(
        "{{\"time\":\"{}\",\"peer\":\"{}\",\"method\":\"{}\",\"target\":{},\"status\":{},\"bytes\":{},\"request_id\":\"{}\",\
         \"operation\":\"{}\",\"milliseconds\":{:.3},\"rows_read\":{},\"rows_returned\":{}",
        date_time(event),
        event.client.ip,
        event.method,
        quoted(&masked(&event.uri)),
        event.status.as_u16(),
        event.response_bytes,
        event.request_id,
        subject.operation,
        event.duration.as_secs_f64() * 1e3,
        subject.cost.rows_read,
        subject.cost.rows_returned,
    );
    if let Some(class) = subject.cost.class {
        let _infallible = write!(line, ",\"class\":\"{}\"", class.name());
    }
    if let Some(code) = subject.error_code {
        let _infallible = write!(line, ",\"error\":\"{code}\"");
    }
    if let Some(reason) = subject.deny_reason {
        let _infallible = write!(line, ",\"reason\":\"{}\"", reason.name());
    }
    if let Some(client) = &event.client_request_id {
        let _infallible = write!(line, ",\"client_request_id\":{}", quoted(client));
    }
    line.push_str("}\n");
    line
}

fn date_time(event: &RequestEvent) -> tavola_core::DateTime {
    tavola_core::DateTime::from_unix(
        event.arrived.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO),
    )
}

/// `16/Nov/2026:06:00:00 +0000`
fn common_log_time(event: &RequestEvent) -> String {
    let seconds = event.arrived.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let at =
        OffsetDateTime::from_unix_timestamp(seconds as i64).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let month = MONTHS[usize::from(u8::from(at.month())) - 1];
    format!(
        "{:02}/{month}/{:04}:{:02}:{:02}:{:02} +0000",
        at.day(),
        at.year(),
        at.hour(),
        at.minute(),
        at.second()
    )
}

/// The target with the values of secret parameters replaced: a signature in a log would be a
/// credential in a log.
pub(super) fn masked(uri: &Uri) -> String {
    let Some(query) = uri.query() else { return uri.path().to_owned() };
    let fields = query.split('&').map(|field| match field.split_once('=') {
        Some((name, _)) if is_secret(name) => format!("{name}=***"),
        _ => field.to_owned(),
    });
    format!("{}?{}", uri.path(), fields.collect::<Vec<_>>().join("&"))
}

/// A percent-encoded name of a secret is one too: when in doubt, mask.
fn is_secret(name: &str) -> bool {
    name.eq_ignore_ascii_case("sig") || name.contains('%') && !name.starts_with("%24")
}

/// A JSON string; also what the text form needs, since both must keep a line on a line.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// What can stand between quotes: ASCII that is visible. Beyond it are characters that end a line
/// for some readers (U+0085, U+2028, U+2029) or turn its direction, and a target that needs them
/// should have escaped them.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\\' => escaped.extend(['\\', character]),
            ' '..='~' => escaped.push(character),
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    let _infallible = write!(escaped, "\\u{unit:04x}");
                }
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::time::{Duration, UNIX_EPOCH};

    use http::{Method, StatusCode, Uri, Version};
    use proptest::prelude::*;
    use tavola_core::ServiceKind;
    use tavola_core::filter::plan::AccessClass;
    use tavola_core::reply::Cost;

    use super::super::Subject;
    use super::{RequestEvent, json_line, text_line};
    use crate::connection::Scheme;
    use crate::proxy::Client;

    fn lines(target: &str) -> [String; 2] {
        lines_of(&target.parse().unwrap())
    }

    fn lines_of(uri: &Uri) -> [String; 2] {
        let subject = Subject {
            operation: "QueryEntities",
            cost: Cost { class: Some(AccessClass::TableScan), rows_read: 7, rows_returned: 2 },
            ..Subject::default()
        };
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 10_000));
        let event = RequestEvent {
            arrived: UNIX_EPOCH + Duration::from_secs(1_794_808_800),
            client: Client { ip: peer.ip(), scheme: Scheme::Http },
            service: ServiceKind::Table,
            peer,
            client_certificate: None,
            method: Method::GET,
            uri: uri.clone(),
            version: Version::HTTP_11,
            presented: None,
            account: None,
            request_id: "id".to_owned(),
            client_request_id: Some("a\"b".to_owned()),
            status: StatusCode::OK,
            response_bytes: 12,
            duration: Duration::from_micros(1500),
            end_to_end: Duration::from_micros(1700),
            is_cut: false,
            subject,
        };
        [text_line(&event), json_line(&event)]
    }

    #[test]
    fn one_line_with_everything() {
        let [text, json] = lines("/acct/T()?$top=1");
        assert_eq!(
            text,
            "127.0.0.1 - - [16/Nov/2026:06:00:00 +0000] \"GET /acct/T()?$top=1 HTTP/1.1\" 200 12 id=id op=QueryEntities \
             ms=1.500 read=7 returned=2 class=\"table scan\" client=\"a\\\"b\"\n"
        );
        assert_eq!(
            json,
            "{\"time\":\"2026-11-16T06:00:00Z\",\"peer\":\"127.0.0.1\",\"method\":\"GET\",\"target\":\"/acct/T()?$top=1\",\
             \"status\":200,\"bytes\":12,\"request_id\":\"id\",\"operation\":\"QueryEntities\",\"milliseconds\":1.500,\
             \"rows_read\":7,\"rows_returned\":2,\"class\":\"table scan\",\"client_request_id\":\"a\\\"b\"}\n"
        );
    }

    #[test]
    fn signatures_are_masked() {
        for target in ["/a/T?sv=1&sig=secret", "/a/T?SIG=secret&x=1", "/a/T?s%69g=secret"] {
            let [text, json] = lines(target);
            assert!(!text.contains("secret") && !json.contains("secret"), "{text}{json}");
        }
    }

    #[test]
    fn no_character_ends_a_line_or_turns_it() {
        for character in ['\u{85}', '\u{2028}', '\u{2029}', '\u{202e}', '\u{feff}', '😀'] {
            let uri = Uri::from_maybe_shared(bytes::Bytes::from(format!(
                "/acct/T{character}x?a={character}"
            )))
            .unwrap();
            let [text, json] = lines_of(&uri);
            assert!(!text.contains(character) && !json.contains(character), "{text}{json}");
            let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
            assert_eq!(parsed["target"], format!("/acct/T{character}x?a={character}"));
        }
    }

    proptest! {
        /// The HTTP library lets a quote pass in a path. In the text form it ended the target, so
        /// that a client could write the status and the rest of its own line.
        #[test]
        fn a_target_stays_inside_its_quotes(path in any::<String>(), query in "[!-~]{0,20}", signature in "x[0-9]{12}") {
            let target = format!("/{path}?{query}&sig={signature}");
            let Ok(uri) = Uri::from_maybe_shared(bytes::Bytes::from(target)) else { return Ok(()) };
            let [text, json] = lines_of(&uri);
            prop_assert!(!text.contains(&signature) && !json.contains(&signature));
            for line in [&text, &json] {
                let body = line.strip_suffix('\n').unwrap();
                prop_assert!(body.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{:?}", line);
            }
            let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(parsed["status"].as_u64(), Some(200));
            let (_, tail) = text.split_once("] \"").unwrap();
            let end = closing_quote(tail).unwrap();
            prop_assert!(tail[end..].starts_with("\" 200 12 id=id"), "{}", text);
        }
    }

    /// Where a text ends whose quotes and backslashes have a backslash before them.
    fn closing_quote(text: &str) -> Option<usize> {
        let mut escaped = false;
        text.find(|character| {
            let closes = character == '"' && !escaped;
            escaped = character == '\\' && !escaped;
            closes
        })
    }
}
