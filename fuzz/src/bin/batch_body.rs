//! A `$batch`: the first line is its content type, the rest its body. The same bytes as a batch's
//! answer must not hurt a client.

#![no_main]

use bytes::Bytes;
use http::{HeaderValue, Method};
use libfuzzer_sys::fuzz_target;
use tavola_fuzz::{check_request, request};
use tavola_protocol::table::batch::{decode_batch_response, read_batch};

fuzz_target!(|data: &[u8]| {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (line, body) = data.split_at(end);
    let body = body.get(1..).unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else { return };
    let _ = decode_batch_response(line, &Bytes::copy_from_slice(body));
    // The reader alone: all that it refuses is refused in the same words, which would only cost
    // time.
    if read_batch(line, &Bytes::copy_from_slice(body)).is_err() {
        return;
    }
    if let Ok(content_type) = HeaderValue::from_str(line) {
        check_request(request(Method::POST, "/$batch", content_type, body));
    }
});
