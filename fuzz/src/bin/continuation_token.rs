//! Any two texts as the continuation tokens of a page, and as the keys that such tokens name.

#![no_main]

use http::{HeaderValue, Method};
use libfuzzer_sys::fuzz_target;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tavola_core::request::Continuation;
use tavola_core::{EntityKey, PartitionKey, RowKey, TableRequest};
use tavola_fuzz::{check_request, request};
use tavola_protocol::table::continuation::{decode, encode};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

fuzz_target!(|lines: &str| {
    let (first, second) = lines.split_once('\n').unwrap_or((lines, ""));
    for text in [first, second] {
        check_token_of(text);
        check_foreign(text);
    }
    // One in a few: a whole request costs as much as a hundred tokens.
    if lines.len().is_multiple_of(8) {
        check_page(first, second);
    }
});

fn check_token_of(text: &str) {
    let token = encode(text);
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"%&+=#?/".contains(&byte);
    assert!(token.bytes().all(plain), "{token} needs escaping");
    assert_eq!(decode(&token).as_deref(), Some(text));
    // A token that lost its end is none, rather than another key. Four characters are three whole
    // bytes.
    for cut in 1..=4 {
        let cut = &token[..token.len() - cut];
        assert!(decode(cut).is_none(), "{cut}");
    }
}

/// What is taken for a token is what we write for its text; only the length may be spelled
/// otherwise.
fn check_foreign(token: &str) {
    let Some(text) = decode(token) else { return };
    let written = encode(&text);
    assert_eq!(
        token.rsplit_once('!').map(|(_, end)| end),
        written.rsplit_once('!').map(|(_, end)| end)
    );
}

/// The keys' own tokens go on from these keys, if they are keys; the texts as tokens do whatever
/// they do.
fn check_page(first: &str, second: &str) {
    let key =
        PartitionKey::new(first).and_then(|first| Ok(EntityKey::new(first, RowKey::new(second)?)));
    let from = asked_to_go_on(&encode(first), &encode(second)).flatten();
    let expected = key
        .ok()
        .map(|key| Continuation { partition_key: key.partition_key, row_key: Some(key.row_key) });
    assert_eq!(from, expected);
    if decode(first).is_some() {
        asked_to_go_on(first, second);
    }
}

/// Where a query with these tokens goes on; `None` if it is refused.
fn asked_to_go_on(partition: &str, row: &str) -> Option<Option<Continuation>> {
    let escaped = |token: &str| utf8_percent_encode(token, NON_ALPHANUMERIC).to_string();
    let target =
        format!("/Tab()?NextPartitionKey={}&NextRowKey={}", escaped(partition), escaped(row));
    match check_request(request(Method::GET, &target, JSON, b""))? {
        TableRequest::QueryEntities(_, query) => Some(query.from),
        other => panic!("{other:?} instead of a query"),
    }
}
