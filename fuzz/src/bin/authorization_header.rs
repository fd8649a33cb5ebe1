//! Any request head against `locate` and `authenticate`: nothing is granted without the key,
//! everything with it.

#![no_main]

use std::time::{Duration, SystemTime};

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderValue, Request};
use libfuzzer_sys::fuzz_target;
use tavola_fuzz::{
    NOW, NOW_TEXT, Opened, account_key, authenticate, check_refused, check_refused_in_words,
    led_to_account, read_request,
};
use tavola_protocol::auth::{Scheme, sign_request};
use tavola_protocol::{Address, Version};

/// 32 bytes in base64.
const SIGNATURE_CHARS: usize = 44;

fuzz_target!(|data: &[u8]| {
    let Ok((request, address)) = led_to_account(read_request(data)) else { return };
    let (mut parts, _) = request.into_parts();
    check_refused_in_words(&parts, &address);
    // What else is wrong must not hide that a wrong signature counts.
    parts.headers.insert("x-ms-date", HeaderValue::from_static(NOW_TEXT));
    if Version::of(&parts).is_err() {
        parts.headers.remove("x-ms-version");
    }
    // One scheme an input: the time of the other is better spent on another input.
    let scheme =
        if data.len().is_multiple_of(2) { Scheme::SharedKey } else { Scheme::SharedKeyLite };
    check_forged(parts.clone(), &address, scheme);
    check_signed(Request::from_parts(parts, ()), &address, scheme, data.len() % SIGNATURE_CHARS);
});

/// The header's value as the signature in a header that is otherwise right.
fn check_forged(mut parts: Parts, address: &Address, scheme: Scheme) {
    let given = parts.headers.get(AUTHORIZATION).map_or(&b""[..], HeaderValue::as_bytes);
    let forged =
        [scheme.name().as_bytes(), b" ", address.account.as_str().as_bytes(), b":", given].concat();
    if let Ok(forged) = HeaderValue::from_bytes(&forged) {
        parts.headers.insert(AUTHORIZATION, forged);
        check_refused(&parts, address);
    }
}

fn check_signed(mut request: Request<()>, address: &Address, scheme: Scheme, kept: usize) {
    let now = SystemTime::UNIX_EPOCH + NOW;
    sign_request(&mut request, scheme, &address.account, account_key(), now);
    let (mut parts, ()) = request.clone().into_parts();
    let opened = authenticate(&parts, address);
    let is_granted =
        matches!(&opened, Ok(Some(Opened::Grant(grant))) if *grant.account() == address.account);
    assert!(is_granted, "{opened:?}, signed with the key");
    // The date is signed in both schemes, so the signature of one second does not count in the
    // next.
    sign_request(
        &mut request,
        scheme,
        &address.account,
        account_key(),
        now + Duration::from_secs(1),
    );
    parts.headers.insert("x-ms-date", request.headers()["x-ms-date"].clone());
    check_refused(&parts, address);
    // Nor does the beginning of a signature.
    let (mut parts, ()) = request.into_parts();
    let whole = parts.headers[AUTHORIZATION].as_bytes();
    let begun = &whole[..whole.len() - SIGNATURE_CHARS + kept];
    let begun = HeaderValue::from_bytes(begun).expect("a part of what a header can hold");
    parts.headers.insert(AUTHORIZATION, begun);
    check_refused(&parts, address);
}
