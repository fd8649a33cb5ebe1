//! The lines of the audit log. Each is one JSON object on one line, whatever a client sends.

use std::fmt::{Display, Write as _};
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::StatusCode;
use tavola_core::{AccountName, DateTime, ServiceKind};
use tavola_protocol::auth::{KeyNumber, Presented, PresentedSas, Signer};

use super::super::RequestEvent;
use super::super::access_log::quoted;
use super::{Principal, Target};

/// Of a text that anybody can make as long as a request's head.
const FOREIGN_CHARS_MAX: usize = 1024;

/// An act on the server itself.
#[derive(Debug, Clone, Copy)]
pub struct AdminEvent<'a> {
    /// When it was asked for.
    pub time: SystemTime,
    /// `reload`, `rotate-key`, `start`, `stop`.
    pub act: &'static str,
    /// The account that it is about.
    pub account: Option<&'a AccountName>,
    /// Which key of it.
    pub key: Option<KeyNumber>,
    /// Where it was asked for; `None`: on the host, by who controls the process.
    pub address: Option<IpAddr>,
    /// Who asked, if somebody had to say so.
    pub principal: Option<&'a Principal>,
    /// What was answered; `None`: nobody waits for an answer.
    pub status: Option<StatusCode>,
    /// What became of it, in words.
    pub result: &'a str,
}

/// An object that is being written.
struct Line(String);

impl Line {
    fn begin(time: SystemTime, event: &str) -> Self {
        let time = DateTime::from_unix(time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO));
        Self(format!("{{\"time\":\"{time}\",\"event\":\"{event}\""))
    }

    /// A number, a truth value, or what is already JSON.
    fn raw(&mut self, name: &str, value: impl Display) {
        let _infallible = write!(self.0, ",\"{name}\":{value}");
    }

    fn text(&mut self, name: &str, value: &str) {
        self.raw(name, quoted(value));
    }

    /// Nothing, if there is no value.
    fn text_if(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    fn foreign(&mut self, name: &str, value: &str) {
        match value.char_indices().nth(FOREIGN_CHARS_MAX) {
            None => self.text(name, value),
            Some((end, _)) => self.text(name, &format!("{}…", &value[..end])),
        }
    }

    fn end(mut self) -> String {
        self.0.push_str("}\n");
        self.0
    }
}

pub(super) fn request(event: &RequestEvent) -> String {
    let subject = &event.subject;
    let mut line = Line::begin(event.arrived, "request");
    line.text("request_id", &event.request_id);
    if let Some(id) = &event.client_request_id {
        line.foreign("client_request_id", id);
    }
    line.text("address", &event.client.ip.to_string());
    let peer = event.peer.ip().to_canonical();
    if peer != event.client.ip {
        line.text("forwarded_by", &peer.to_string());
    }
    line.text("scheme", event.client.scheme.name());
    if let Some(certificate) = event.client_certificate {
        line.raw("client_certificate_sha256", format_args!("\"{certificate}\""));
    }
    line.text_if("account", event.account.as_ref().map(AccountName::as_str));
    credential(&mut line, event);
    line.text("method", event.method.as_str());
    line.foreign("path", event.uri.path());
    if !subject.operation.is_empty() {
        line.text("operation", subject.operation);
    }
    if let Some(target) = &subject.target {
        about(&mut line, event.service, target);
    }
    line.raw("status", event.status.as_u16());
    line.text_if("error", subject.error_code);
    line.text_if("reason", subject.deny_reason.map(|reason| reason.name()));
    line.end()
}

/// Of a request that was let in, what let it in; of any other, what it showed.
fn credential(line: &mut Line, event: &RequestEvent) {
    let shown = event.presented.as_deref();
    match (&event.subject.principal, shown.map_or(&Presented::Nothing, |shown| &shown.kind)) {
        (Some(principal), _) => principal_fields(line, principal),
        (None, Presented::Nothing) => line.text("credential", "none"),
        (None, Presented::Unreadable) => line.text("credential", "unreadable"),
        (None, Presented::Signature(kind)) => line.text("credential", kind.name()),
        (None, Presented::Token) => line.text("credential", "token"),
    }
    let is_sas = event.subject.principal.as_ref().is_none_or(Principal::is_sas);
    let signature = shown.and_then(|shown| shown.signature.as_ref());
    if let Some(PresentedSas { sha256, policy, .. }) = signature.filter(|_| is_sas) {
        line.text("sas_sha256", sha256);
        if let Some(policy) = policy {
            line.foreign("policy", policy);
        }
    }
    line.raw("authenticated", event.subject.principal.is_some());
}

fn principal_fields(line: &mut Line, principal: &Principal) {
    match principal {
        Principal::Signer(Signer { key, kind }) => {
            line.text("credential", kind.name());
            line.raw("key", key.number());
        }
        Principal::Token(subject) => {
            line.text("credential", "token");
            line.foreign("issuer", &subject.issuer);
            if let Some(subject) = &subject.subject {
                line.foreign("subject", subject);
            }
        }
    }
}

fn about(line: &mut Line, service: ServiceKind, target: &Target) {
    line.text_if(service.container(), target.container.as_deref());
    line.text_if("partition_key", target.partition_key.as_deref());
    line.text_if("row_key", target.row_key.as_deref());
    if !target.operations.is_empty() {
        let one = |(name, key): &(_, String)| {
            format!("{{\"operation\":\"{name}\",\"row_key\":{}}}", quoted(key))
        };
        let operations = target.operations.iter().map(one).collect::<Vec<_>>().join(",");
        line.raw("operations", format_args!("[{operations}]"));
    }
}

pub(super) fn admin(event: &AdminEvent<'_>) -> String {
    let mut line = Line::begin(event.time, "admin");
    line.text("act", event.act);
    match event.address {
        Some(address) => line.text("address", &address.to_canonical().to_string()),
        None => line.text("by", "host"),
    }
    line.text_if("account", event.account.map(AccountName::as_str));
    line.text_if("rotated", event.key.map(KeyNumber::field));
    if let Some(principal) = event.principal {
        principal_fields(&mut line, principal);
    }
    if event.address.is_some() {
        line.raw("authenticated", event.principal.is_some());
    }
    if let Some(status) = event.status {
        line.raw("status", status.as_u16());
    }
    line.foreign("result", event.result);
    line.end()
}

pub(super) fn handshake(time: SystemTime, peer: IpAddr, reason: &rustls::Error) -> String {
    let mut line = Line::begin(time, "handshake");
    line.text("address", &peer.to_canonical().to_string());
    line.text("reason", "certificate");
    line.foreign("result", &reason.to_string());
    line.end()
}

/// Says where lines are missing, and how many.
pub(super) fn lost(time: SystemTime, count: u64) -> String {
    let mut line = Line::begin(time, "lines-lost");
    line.raw("count", count);
    line.end()
}
