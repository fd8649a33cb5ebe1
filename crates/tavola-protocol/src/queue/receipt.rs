//! Pop receipts as texts: Base64 that needs no escaping in a URL.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tavola_core::queue::PopReceipt;

pub(crate) fn write(receipt: &PopReceipt) -> String {
    URL_SAFE_NO_PAD.encode(receipt.to_bytes())
}

/// The receipt that a text is; `None` if it is none of ours.
pub(crate) fn read(text: &str) -> Option<PopReceipt> {
    PopReceipt::from_bytes(&URL_SAFE_NO_PAD.decode(text).ok()?)
}
