//! Requests to the admin port, signed as it wants them.

use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use tavola_core::AccountName;
use tavola_protocol::auth::{AccountKey, sign_admin_request};

use super::client::{Client, now};

/// A signed request that changes something; no two are the same.
pub(crate) fn signed_post(account: &str, key: &str, path: &str) -> Request<Bytes> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let id = NUMBER.fetch_add(1, Ordering::Relaxed).to_string();
    let mut request =
        Request::post(path).header("x-ms-client-request-id", id).body(Bytes::new()).unwrap();
    let (account, key) = (AccountName::parse(account).unwrap(), AccountKey::parse(key).unwrap());
    sign_admin_request(&mut request, &account, &key, now());
    request
}

/// Sends one, on a connection of its own.
pub(crate) fn post(admin: &str, account: &str, key: &str, path: &str) -> Response<Bytes> {
    Client::connect(admin).unwrap().exchange(&signed_post(account, key, path)).unwrap()
}
