//! What the server makes of a signature. The order is the service's: the fields, the signature, the
//! time, the address, the protocol, then what it opens. Nothing is read from the store for a
//! signature that is wrong.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tavola_core::grant::{Grant, Permissions, ResourceTypes, ServiceSignature};
use tavola_core::limits::POLICY_ID_CHARS_MAX;
use tavola_core::{AccessPolicy, AccountName, DateTime, ServiceKind};

use super::fields::{FieldsError, SasFields};
use super::part::{Frame, SignedPart};
use super::text::{ADDRESS_AND_PROTOCOL, AccountSas, ENCRYPTION_SCOPE};
use crate::address::Address;
use crate::api_error::ApiError;
use crate::auth::shared_key::AccountKeys;
use crate::auth::{AuthContext, Caller, Credential, KeyNumber, SignatureKind, Signer, failed};
use crate::deny_reason::DenyReason;
use crate::version::Version;

/// The first version with signatures for tables.
const OLDEST: &str = "2012-02-12";

/// A service's signature that is right and refers to a stored access policy.
#[derive(Debug)]
pub struct PolicySignature {
    account: AccountName,
    frame: Frame,
    part: SignedPart,
    caller: Caller,
    now: DateTime,
    key: KeyNumber,
}

/// Evaluates the signature in a query string.
pub(in crate::auth) fn check<'a>(
    query: &str,
    address: &Address,
    auth: &AuthContext<'_>,
) -> Result<Credential<'a>, ApiError> {
    let fields = SasFields::parse(query).map_err(|error| malformed(error.to_string()))?;
    if auth.service == ServiceKind::Table && fields.given("skoid").is_some() {
        return Err(malformed("User delegation signatures do not exist for tables."));
    }
    let version = fields.given("sv").ok_or_else(|| mandatory("sv"))?;
    if Version::parse_any(version).is_none() || version < OLDEST {
        return Err(malformed(format!("The signed version is not one: '{version}'")));
    }
    check_fields_of_version(&fields, version)?;
    if fields.given("ss").is_some() || fields.given("srt").is_some() {
        let (grant, key) = account_signature(&fields, &address.account, auth)?;
        return Ok(Credential::Complete(grant, Signer { key, kind: SignatureKind::AccountSas }));
    }
    service_signature(&fields, address, auth)
}

/// A restriction that the version does not sign could be taken away by anybody, so it must not look
/// as if it held.
fn check_fields_of_version(fields: &SasFields<'_>, version: &str) -> Result<(), ApiError> {
    for (name, since) in
        [("sip", ADDRESS_AND_PROTOCOL), ("spr", ADDRESS_AND_PROTOCOL), ("ses", ENCRYPTION_SCOPE)]
    {
        if fields.given(name).is_some() && version < since {
            return Err(malformed(format!("{name} needs a signed version of {since} or later")));
        }
    }
    Ok(())
}

fn account_signature(
    fields: &SasFields<'_>,
    account: &AccountName,
    auth: &AuthContext<'_>,
) -> Result<(Grant, KeyNumber), ApiError> {
    let sas = AccountSas::of(fields);
    if sas.version.as_str() < ADDRESS_AND_PROTOCOL {
        return Err(malformed(format!(
            "An account signature needs a signed version of {ADDRESS_AND_PROTOCOL} or later"
        )));
    }
    for name in ["ss", "srt", "sp", "se"] {
        fields.given(name).ok_or_else(|| mandatory(name))?;
    }
    if fields.given("si").is_some() {
        return Err(malformed("An account signature cannot refer to an access policy"));
    }
    let key = check_signature(fields, &sas.string_to_sign(account), auth.keys)?;
    check_time(&sas.start, &sas.expiry, date_time(auth.now))?;
    check_caller(&sas.ip, &sas.protocol, auth.caller)?;
    let legal_services = sas.services.chars().all(|letter| "bqtf".contains(letter));
    let types = ResourceTypes::parse(&sas.resource_types).filter(|_| legal_services);
    let permissions = Permissions::of_account(&sas.permissions);
    let (Some(types), Some(permissions)) = (types, permissions) else {
        return Err(malformed(
            "Signature fields are not well formed: ss, srt or sp has a letter that it cannot have",
        ));
    };
    if !sas.services.contains(auth.service.letter()) {
        return Err(ApiError::ServiceMismatch);
    }
    Ok((Grant::account_signature(account.clone(), types, permissions), key))
}

fn service_signature<'a>(
    fields: &SasFields<'_>,
    address: &Address,
    auth: &AuthContext<'_>,
) -> Result<Credential<'a>, ApiError> {
    let (part, frame) = SignedPart::read(auth.service, fields, address)?;
    let has_policy = !frame.policy.is_empty();
    for name in ["sp", "se"] {
        if fields.given(name).is_none() && !has_policy {
            return Err(mandatory(name));
        }
    }
    let key = check_signature(fields, &part.string_to_sign, auth.keys)?;
    let (account, now) = (address.account.clone(), date_time(auth.now));
    let signature = PolicySignature { account, frame, part, caller: auth.caller, now, key };
    if has_policy {
        return Ok(Credential::NeedsPolicies(signature));
    }
    let signer = signature.signer();
    signature.complete().map(|grant| Credential::Complete(grant, signer))
}

impl PolicySignature {
    /// The container whose policies are needed.
    #[must_use]
    pub fn container(&self) -> &str {
        &self.part.container
    }

    /// Who signed.
    #[must_use]
    pub fn signer(&self) -> Signer {
        Signer { key: self.key, kind: SignatureKind::ServiceSas(self.part.service) }
    }

    /// Takes what is missing from the policy that the signature names.
    ///
    /// # Errors
    /// If there is no such policy, a field stands in both places or in neither, or the whole does
    /// not hold now.
    pub fn with_policies(mut self, policies: &[AccessPolicy]) -> Result<Grant, ApiError> {
        if self.frame.policy.chars().count() > POLICY_ID_CHARS_MAX {
            return Err(malformed("si is longer than 64 characters"));
        }
        let policy = policies.iter().find(|policy| policy.id == self.frame.policy);
        let policy = policy.ok_or_else(|| {
            failed(DenyReason::Policy, "The signed identifier names no access policy of the table")
        })?;
        take(&mut self.frame.start, policy.start.map(DateTime::to_text_full))?;
        take(&mut self.frame.expiry, policy.expiry.map(DateTime::to_text_full))?;
        take(
            &mut self.frame.permissions,
            policy.permission.clone().filter(|letters| !letters.is_empty()),
        )?;
        for (name, text) in [("sp", &self.frame.permissions), ("se", &self.frame.expiry)] {
            if text.is_empty() {
                return Err(mandatory(name));
            }
        }
        self.complete()
    }

    fn complete(self) -> Result<Grant, ApiError> {
        check_time(&self.frame.start, &self.frame.expiry, self.now)?;
        check_caller(&self.frame.ip, &self.frame.protocol, self.caller)?;
        let permissions = self.part.permissions(&self.frame.permissions)?;
        let range = self.part.range()?;
        let SignedPart { service, container, .. } = self.part;
        let signature = ServiceSignature { service, container, permissions, range };
        Ok(Grant::service_signature(self.account, signature))
    }
}

/// A field stands in the signature or in the policy.
fn take(field: &mut String, policy: Option<String>) -> Result<(), ApiError> {
    match policy {
        Some(_) if !field.is_empty() => Err(failed(
            DenyReason::Policy,
            "Access policy fields can be associated with signature or SAS identifier but not both",
        )),
        Some(text) => {
            *field = text;
            Ok(())
        }
        None => Ok(()),
    }
}

fn check_signature(
    fields: &SasFields<'_>,
    string_to_sign: &str,
    keys: &AccountKeys,
) -> Result<KeyNumber, ApiError> {
    let text = fields.given("sig").ok_or_else(|| mandatory("sig"))?;
    let signature = STANDARD.decode(text).unwrap_or_default();
    if let Some(key) = keys.verify(string_to_sign, &signature) {
        return Ok(key);
    }
    // The usual mistakes leave a trace.
    let hint = match text {
        _ if text.contains('%') => " The signature is percent-encoded twice.",
        _ if text.contains(' ') => " The signature has a plus that is not percent-encoded.",
        _ => "",
    };
    Err(failed(
        DenyReason::Signature,
        format!("Signature did not match. String to sign used was {string_to_sign}{hint}"),
    ))
}

fn check_time(start: &str, expiry: &str, now: DateTime) -> Result<(), ApiError> {
    let start = Some(start)
        .filter(|text| !text.is_empty())
        .map(|text| parse_time("st", text))
        .transpose()?;
    let expiry = parse_time("se", expiry)?;
    if let Some(start) = start.filter(|start| *start >= expiry) {
        let (start, expiry) = (Rfc1123(start), Rfc1123(expiry));
        return Err(malformed(format!(
            "Signed expiry time [{expiry}] must be after signed start time [{start}]"
        )));
    }
    let reason = match start {
        _ if now >= expiry => DenyReason::Expired,
        Some(start) if now < start => DenyReason::NotYet,
        _ => return Ok(()),
    };
    let (start, expiry, now) = (Rfc1123(start.unwrap_or(now)), Rfc1123(expiry), Rfc1123(now));
    let frame = format!("Start [{start}] - Expiry [{expiry}] - Current [{now}]");
    Err(failed(reason, format!("Signature not valid in the specified time frame: {frame}")))
}

fn parse_time(name: &str, text: &str) -> Result<DateTime, ApiError> {
    let time = DateTime::parse(text).ok().filter(|_| is_time_of_a_signature(text));
    time.ok_or_else(|| malformed(format!("{name} is not a time: '{text}'")))
}

/// Stricter than the times in entities: a date alone, or with a time, its zone, and at most seven
/// digits of a fraction.
fn is_time_of_a_signature(text: &str) -> bool {
    let Some((_, time)) = text.split_once('T') else { return true };
    let Some(zone) = time.find(['Z', '+', '-']) else { return false };
    time[..zone].split_once('.').is_none_or(|(_, fraction)| (1..=7).contains(&fraction.len()))
}

fn check_caller(ip: &str, protocol: &str, caller: Caller) -> Result<(), ApiError> {
    if !ip.is_empty() {
        let (first, last) = parse_ips(ip)
            .ok_or_else(|| malformed(format!("sip is not an address or a range: '{ip}'")))?;
        let inside =
            matches!(caller.ip.to_canonical(), IpAddr::V4(ip) if (first..=last).contains(&ip));
        if !inside {
            return Err(ApiError::SourceIpMismatch(caller.ip.to_canonical()));
        }
    }
    match protocol {
        "" | "https,http" => Ok(()),
        "https" if caller.https => Ok(()),
        "https" => Err(ApiError::ProtocolMismatch),
        other => Err(malformed(format!("spr is neither https nor https,http: '{other}'"))),
    }
}

fn parse_ips(text: &str) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last))
}

/// A signature that nobody could have meant.
pub(super) fn malformed(detail: impl Into<String>) -> ApiError {
    failed(DenyReason::Malformed, detail)
}

pub(super) fn mandatory(name: &str) -> ApiError {
    malformed(format!("{name} is mandatory. Cannot be empty"))
}

fn date_time(at: SystemTime) -> DateTime {
    DateTime::from_unix(at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO))
}

/// A time as headers write it, which is how the service words its details.
struct Rfc1123(DateTime);

impl fmt::Display for Rfc1123 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::headers::http_date(self.0))
    }
}

impl fmt::Display for FieldsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice(name) => write!(f, "{name} stands more than once"),
            Self::Malformed(name) => write!(f, "{name} is not percent-encoded text"),
        }
    }
}
