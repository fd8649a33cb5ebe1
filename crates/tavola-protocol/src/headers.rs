//! Names and values of headers.

use std::time::{Duration, SystemTime};

use http::HeaderValue;
use tavola_core::DateTime;

/// Names of headers that HTTP does not know, ready to be looked up.
pub(crate) mod name {
    use http::HeaderName;

    pub(crate) static CLIENT_REQUEST_ID: HeaderName =
        HeaderName::from_static("x-ms-client-request-id");
    pub(crate) static APPROXIMATE_COUNT: HeaderName =
        HeaderName::from_static("x-ms-approximate-messages-count");
    pub(crate) static POP_RECEIPT: HeaderName = HeaderName::from_static("x-ms-popreceipt");
    pub(crate) static TIME_NEXT_VISIBLE: HeaderName =
        HeaderName::from_static("x-ms-time-next-visible");
    pub(crate) static CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
    pub(crate) static DATE: HeaderName = HeaderName::from_static("x-ms-date");
    pub(crate) static ERROR_CODE: HeaderName = HeaderName::from_static("x-ms-error-code");
    pub(crate) static METHOD: HeaderName = HeaderName::from_static("x-http-method");
    pub(crate) static PREFER: HeaderName = HeaderName::from_static("prefer");
    pub(crate) static REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");
    pub(crate) static VERSION: HeaderName = HeaderName::from_static("x-ms-version");
}

/// A text as a header; one that cannot be is left empty rather than failing the answer.
pub(crate) fn text_value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// A date as HTTP writes it; `None` if the text is none.
pub(crate) fn read_http_date(text: &str) -> Option<DateTime> {
    let since =
        httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(DateTime::from_unix(since))
}

pub(crate) fn http_date(at: DateTime) -> String {
    // httpdate knows only 1970 to 9999; a clock before that is wrong anyway.
    let seconds = u64::try_from(at.unix_seconds()).unwrap_or_default();
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}
