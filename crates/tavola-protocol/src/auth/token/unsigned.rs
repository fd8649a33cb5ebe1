//! Azurite's `--oauth basic`: a token is read and its signature is not. For emulators and nothing
//! else.

use std::time::{Duration, SystemTime};

use super::STORAGE_AUDIENCES;
use super::claims::Claims;
use super::compact::Compact;
use super::error::TokenError;

/// How the issuers of the public and the national clouds begin.
const ISSUERS: [&str; 5] = [
    "https://sts.windows.net/",
    "https://sts.microsoftonline.de/",
    "https://sts.chinacloudapi.cn/",
    "https://sts.windows-ppe.net",
    "https://login.microsoftonline.com/",
];

/// What the emulator takes besides [`STORAGE_AUDIENCES`]: the accounts of the national clouds.
const NATIONAL_AUDIENCES: [&str; 6] = [
    "https://{account}.table.core.chinacloudapi.cn",
    "https://{account}.table.core.chinacloudapi.cn/",
    "https://{account}.table.core.usgovcloudapi.net",
    "https://{account}.table.core.usgovcloudapi.net/",
    "https://{account}.table.core.cloudapi.de",
    "https://{account}.table.core.cloudapi.de/",
];

/// Checks what a token says and not who says it: anybody can write such a token.
///
/// # Errors
/// Why it would not do even if it were signed.
pub fn check_unsigned(token: &str, account: &str, now: SystemTime) -> Result<Claims, TokenError> {
    let token = Compact::parse(token)?;
    let issuer = token.payload.text("iss")?.ok_or(TokenError::IssuerMissing)?;
    if !ISSUERS.iter().any(|known| issuer.starts_with(known)) {
        return Err(TokenError::IssuerMismatch);
    }
    let claims = Claims::read(token.payload)?;
    claims.check_audience(STORAGE_AUDIENCES.into_iter().chain(NATIONAL_AUDIENCES), account)?;
    claims.check_validity(now, Duration::ZERO)?;
    Ok(claims)
}
