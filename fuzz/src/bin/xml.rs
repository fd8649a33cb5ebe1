//! Any body as the access policies of a table and as the properties of the service.

#![no_main]

use http::{HeaderValue, Method};
use libfuzzer_sys::fuzz_target;
use tavola_core::ServiceKind;
use tavola_fuzz::{check_request, request};
use tavola_protocol::xml::{read_policies, read_service_properties};

const XML: HeaderValue = HeaderValue::from_static("application/xml");

fuzz_target!(|data: &[u8]| {
    // The readers first and alone: all that they refuse is refused in the same words, which would
    // only cost time.
    if read_policies(ServiceKind::Table, data).is_ok() {
        check_request(request(Method::PUT, "/Tab?comp=acl", XML, data));
    }
    if read_service_properties(data).is_ok() {
        check_request(request(Method::PUT, "/?restype=service&comp=properties", XML, data));
    }
});
