//! Asking a server: whether it is there, what time it has, and what it says to a credential. Only
//! reads are ever sent.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use bytes::Bytes;
use http::header::DATE;
use http::{Request, Response, StatusCode, Uri};
use tavola_core::request::Select;
use tavola_core::{AccessPolicy, AccountName, DateTime, TableName, TableRequest};
use tavola_protocol::auth::{AccountKey, Scheme, sign_request};
use tavola_protocol::connection_string::Endpoint;
use tavola_protocol::table::ResponseFormat;
use tavola_protocol::table::decode::{DecodeError, Decoded, ServiceError};
use tavola_protocol::table::encode::Style;
use tavola_protocol::table::entity_json::MetadataLevel;
use tavola_protocol::table::{decode_reply, encode_request};

use super::report::Report;
use crate::http_client::{HttpClient, HttpError};
use crate::human_time;

/// Beyond it times are noticeably different.
const SKEW_SECONDS_NOTICED: u64 = 60;
/// Beyond it requests that are signed with a key are refused.
const SKEW_SECONDS_MAX: u64 = 15 * 60;

/// A server that answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reached {
    /// Its time, if its response had a date.
    pub(super) clock: Option<DateTime>,
}

/// Checks whether a server responds, and its clock.
pub(super) async fn reach(
    endpoint: &Endpoint,
    client: &HttpClient,
    report: &mut Report,
) -> Option<Reached> {
    let scheme = if endpoint.is_https() { "https" } else { "http" };
    let at = format!("{scheme}://{}:{}", endpoint.host(), endpoint.port());
    match get(client, &format!("{at}/-/ready")).await {
        Err(error) => {
            report.fail("server", error.to_string(), advice_on(&error));
            None
        }
        Ok(response) => {
            match readiness(&response) {
                Readiness::Ready(warning) => {
                    report.ok("server", format!("a Tavola at {at} is ready"));
                    warn(warning, report);
                }
                Readiness::NotReady(reason) => report.fail(
                    "server",
                    format!("a Tavola at {at} is not ready: {reason}"),
                    "see its log",
                ),
                Readiness::Other(status) => {
                    report.ok("server", format!("{at} answers with {status}"))
                }
            }
            let clock = check_clock(&response, report);
            Some(Reached { clock })
        }
    }
}

/// What an answer to the question for readiness says.
pub(super) enum Readiness {
    /// With what it says is wrong all the same.
    Ready(Option<String>),
    NotReady(String),
    /// No Tavola.
    Other(StatusCode),
}

pub(super) fn readiness(response: &Response<Bytes>) -> Readiness {
    let body = String::from_utf8_lossy(response.body());
    match body.strip_prefix("not ready: ") {
        _ if response.status() == StatusCode::OK && body.starts_with("ready\n") => {
            Readiness::Ready(
                body.lines().find_map(|line| line.strip_prefix("warning: ")).map(str::to_owned),
            )
        }
        Some(reason) => Readiness::NotReady(reason.trim().to_owned()),
        None => Readiness::Other(response.status()),
    }
}

/// What a server says is wrong although it serves; its words have the way out.
pub(super) fn warn(warning: Option<String>, report: &mut Report) {
    if let Some(warning) = warning {
        report.warn("server", warning, "follow its advice");
    }
}

/// A `GET` without credentials.
pub(super) async fn get(client: &HttpClient, url: &str) -> Result<Response<Bytes>, HttpError> {
    let request =
        Request::get(url).body(Bytes::new()).map_err(|_| HttpError::Url("it is not one"))?;
    client.send(request).await
}

/// Compares the server's clock with ours, and returns it.
pub(super) fn check_clock(response: &Response<Bytes>, report: &mut Report) -> Option<DateTime> {
    let date = response.headers().get(DATE)?.to_str().ok()?;
    let (theirs, ours) =
        (human_time::date_time(httpdate::parse_http_date(date).ok()?), human_time::now());
    let difference = human_time::between(theirs, ours);
    let words = || {
        let side = if theirs < ours { "behind" } else { "ahead of" };
        format!(
            "the server's clock is {} {side} ours; there it is {theirs}",
            human_time::words(difference)
        )
    };
    let advice = "set both clocks by the network (NTP)";
    match difference.as_secs() {
        0..SKEW_SECONDS_NOTICED => report.ok("clock", "the same here and on the server"),
        SKEW_SECONDS_NOTICED..=SKEW_SECONDS_MAX => report.warn("clock", words(), advice),
        _ => report.fail(
            "clock",
            format!("{}: requests signed with a key are refused", words()),
            advice,
        ),
    }
    Some(theirs)
}

pub(in crate::commands) fn advice_on(error: &HttpError) -> &'static str {
    match error {
        HttpError::Refused(_) => "start it with `tavola serve`, or check host and port",
        HttpError::NoSuchHost(..) | HttpError::Url(_) => "check the host name",
        HttpError::TimedOut(_) | HttpError::Unreachable(..) => {
            "check the port, and firewalls in between"
        }
        HttpError::NotTls(_) => {
            "write http:// instead of https://, or give the server a certificate"
        }
        HttpError::IsTls(_) => "write https:// instead of http://",
        HttpError::Certificate(..) => {
            "check it with `tavola doctor --cert`; trust an issuer of your own with --ca-file"
        }
        HttpError::ClientCertificateNeeded(_) => {
            "this command cannot present one; check health on the admin port, and test with a \
             client that has a certificate"
        }
        HttpError::Tls(..) | HttpError::NotHttp(..) | HttpError::TooLarge(_) => {
            "check that this is the port of a Table service"
        }
        HttpError::Proxy(..) | HttpError::Roots(_) => "",
    }
}

/// The address that a server at `endpoint` sees, unless something in between has another.
pub(super) fn own_address(endpoint: &Endpoint) -> IpAddr {
    use std::net::ToSocketAddrs as _;
    let host = endpoint.host().trim_start_matches('[').trim_end_matches(']');
    let address =
        (host, endpoint.port()).to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    let own = address.and_then(|address| {
        let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        // Nothing is sent: the system only chooses the way.
        let socket = UdpSocket::bind(any).ok()?;
        socket.connect(address).ok()?;
        socket.local_addr().ok()
    });
    own.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |own| own.ip().to_canonical())
}

/// Writes a request for this endpoint, unsigned.
fn encoded(request: &TableRequest, endpoint: &Endpoint) -> Result<Request<Bytes>, HttpError> {
    let format = ResponseFormat { level: MetadataLevel::None, prefer: None, select: Select::All };
    let style =
        Style { base: endpoint.as_str(), format: &format, page: None, boundary_ids: ["", ""] };
    encode_request(request, &style).map_err(|_| HttpError::Url("the keys do not fit into one"))
}

/// Asks with a key.
pub(in crate::commands) async fn ask_with_key(
    request: &TableRequest,
    endpoint: &Endpoint,
    account: &AccountName,
    key: &AccountKey,
    client: &HttpClient,
) -> Result<Result<Decoded, DecodeError>, HttpError> {
    let mut http = encoded(request, endpoint)?;
    sign_request(&mut http, Scheme::SharedKey, account, key, std::time::SystemTime::now());
    Ok(decode_reply(request, &client.send(http).await?))
}

/// Asks with a signature, whose query string goes along exactly as it is.
pub(super) async fn ask_with_signature(
    request: &TableRequest,
    endpoint: &Endpoint,
    query: &str,
    client: &HttpClient,
) -> Result<Result<Decoded, DecodeError>, HttpError> {
    let mut http = encoded(request, endpoint)?;
    let separator = if http.uri().query().is_some() { '&' } else { '?' };
    let url = format!("{}{separator}{query}", http.uri());
    *http.uri_mut() = url
        .parse::<Uri>()
        .map_err(|_| HttpError::Url("it has characters that must be percent-encoded"))?;
    Ok(decode_reply(request, &client.send(http).await?))
}

/// The access policies of a table.
pub(super) async fn policies(
    table: &TableName,
    endpoint: &Endpoint,
    account: &AccountName,
    key: &AccountKey,
    client: &HttpClient,
) -> Result<Vec<AccessPolicy>, String> {
    let request = TableRequest::GetPolicies(table.clone());
    match ask_with_key(&request, endpoint, account, key, client).await {
        Ok(Ok(Decoded::Policies(policies))) => Ok(policies),
        Ok(Err(DecodeError::Service(error))) => Err(short(&error)),
        Ok(_) => Err("the response is not one of a Table service".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// `403 AuthenticationFailed`
pub(in crate::commands) fn short(error: &ServiceError) -> String {
    let code = if error.code.is_empty() { "without a code" } else { &error.code };
    format!("{} {code}", error.status.as_u16())
}

/// What the server says beyond its standard sentence, without request id and time.
pub(super) fn detail(error: &ServiceError) -> String {
    let lines = error.message.lines().skip(1);
    let told = lines.filter(|line| !line.starts_with("RequestId:") && !line.starts_with("Time:"));
    told.collect::<Vec<_>>().join("\n")
}
