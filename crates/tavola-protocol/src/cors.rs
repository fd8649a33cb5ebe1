//! CORS: what a browser is told.

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use tavola_core::cors::{CorsRule, rule_for};

use crate::api_error::ApiError;
use crate::headers::text_value;
use crate::response::{ResponseContext, ResponseHead};

/// Answers a preflight. It is never authenticated, and the resource need not exist.
///
/// # Errors
/// If a header is missing, or no rule admits what it asks for.
pub fn preflight<C: AsRef<ResponseContext>>(
    parts: &Parts,
    rules: &[CorsRule],
    response_head: &ResponseHead<'_, C>,
) -> Result<Response<Bytes>, ApiError> {
    let headers = preflight_headers(&parts.headers, rules)?;
    Ok(response_head.respond(StatusCode::OK, headers, Bytes::new()))
}

fn preflight_headers(asked: &HeaderMap, rules: &[CorsRule]) -> Result<HeaderMap, ApiError> {
    let text = |name: HeaderName| asked.get(name).and_then(|value| value.to_str().ok());
    let origin = text(ORIGIN).ok_or(ApiError::CorsHeaderMissing)?;
    let method = text(ACCESS_CONTROL_REQUEST_METHOD).ok_or(ApiError::CorsHeaderMissing)?;
    let wanted = text(ACCESS_CONTROL_REQUEST_HEADERS).unwrap_or_default();
    let rule = rule_for(rules, origin, method).ok_or(ApiError::CorsNoRule)?;
    let mut names = wanted.split(',').map(str::trim).filter(|name| !name.is_empty());
    if !names.all(|name| rule.allows_header(name)) {
        return Err(ApiError::CorsNoRule);
    }
    let mut headers = HeaderMap::new();
    allow_origin(&mut headers, rule, origin);
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, text_value(method.to_owned()));
    if !wanted.is_empty() {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, text_value(wanted.to_owned()));
    }
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from(rule.max_age_seconds));
    Ok(headers)
}

/// Adds what a browser needs to the answer to an actual request; `origin` is the request's `Origin`
/// header.
///
/// A rule for every origin answers requests without an origin too, so that caches hold one answer
/// for all. Any other rule makes the answer depend on the origin, which caches must know.
pub fn add_cors_headers<B>(
    response: &mut Response<B>,
    origin: Option<&str>,
    method: &str,
    rules: &[CorsRule],
) {
    if rules.is_empty() {
        return;
    }
    // No rule but one for every origin takes the empty origin.
    let origin = origin.unwrap_or_default();
    let rule = rule_for(rules, origin, method);
    if let Some(rule) = rule {
        let exposed = exposed_headers(rule, response.headers());
        let headers = response.headers_mut();
        allow_origin(headers, rule, origin);
        if !exposed.is_empty() {
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, text_value(exposed));
        }
    }
    let is_read = matches!(method, "GET" | "HEAD");
    if is_read && !rule.is_some_and(CorsRule::allows_any_origin) {
        response.headers_mut().insert(VARY, HeaderValue::from_static("Origin"));
    }
}

fn allow_origin(headers: &mut HeaderMap, rule: &CorsRule, origin: &str) {
    if rule.allows_any_origin() {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        return;
    }
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, text_value(origin.to_owned()));
    headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
}

/// The names that a rule exposes: literal ones as they stand, prefixes as the headers of the answer
/// that they match.
fn exposed_headers(rule: &CorsRule, headers: &HeaderMap) -> String {
    let literal =
        rule.exposed_headers.iter().map(String::as_str).filter(|name| !name.ends_with('*'));
    let mut names: Vec<&str> = literal.collect();
    for name in headers.keys().map(HeaderName::as_str) {
        if rule.exposes(name) && !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            names.push(name);
        }
    }
    names.join(",")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{Request, Response};
    use tavola_core::DateTime;
    use tavola_core::cors::CorsRule;

    use super::{add_cors_headers, preflight};
    use crate::response::ResponseHead;
    use crate::table::TableContext;
    use crate::table::render_error;

    fn rule(origin: &str, methods: &str, headers: &str, exposed: &str) -> CorsRule {
        let list = |text: &str| {
            text.split(',').filter(|item| !item.is_empty()).map(str::to_owned).collect()
        };
        CorsRule {
            allowed_origins: list(origin),
            allowed_methods: list(methods),
            allowed_headers: list(headers),
            exposed_headers: list(exposed),
            max_age_seconds: 60,
        }
    }

    fn header<'a>(response: &'a Response<Bytes>, name: &str) -> &'a str {
        response.headers().get(name).map_or("-", |value| value.to_str().unwrap())
    }

    fn asked(rules: &[CorsRule], headers: &[(&str, &str)]) -> Response<Bytes> {
        let mut request = Request::builder().method("OPTIONS").uri("/acct/any/thing");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let context = TableContext::of(&parts, None);
        let response_head =
            ResponseHead { request_id: "id", now: DateTime::MIN, context: &context };
        preflight(&parts, rules, &response_head)
            .unwrap_or_else(|api_error| render_error(&api_error.into(), &response_head))
    }

    /// Statements 246 and 247.
    #[test]
    fn preflights() {
        let rules = [
            rule("http://a.com", "GET", "x-ms-date", ""),
            rule("http://a.com,http://b.com", "GET,PUT", "x-ms-*,accept", ""),
            rule("*", "DELETE", "*", ""),
        ];
        let status = |origin: &str, method: &str, headers: &str| {
            let asked_for = [
                ("origin", origin),
                ("access-control-request-method", method),
                ("access-control-request-headers", headers),
            ];
            asked(&rules, &asked_for).status().as_u16()
        };
        assert_eq!(status("http://a.com", "GET", "x-ms-date"), 200);
        assert_eq!(status("http://a.com", "GET", "accept"), 403);
        assert_eq!(status("http://a.com", "PUT", "X-MS-anything, Accept"), 200);
        assert_eq!(status("http://A.com", "PUT", ""), 403);
        assert_eq!(status("http://c.com", "DELETE", "whatever"), 200);
        assert_eq!(asked(&rules, &[("origin", "http://a.com")]).status(), 400);
        assert_eq!(asked(&rules, &[("access-control-request-method", "GET")]).status(), 400);
        assert_eq!(
            asked(&[], &[("origin", "x"), ("access-control-request-method", "GET")]).status(),
            403
        );

        let answer =
            asked(&rules, &[("origin", "http://b.com"), ("access-control-request-method", "PUT")]);
        assert_eq!(header(&answer, "access-control-allow-origin"), "http://b.com");
        assert_eq!(header(&answer, "access-control-allow-methods"), "PUT");
        assert_eq!(header(&answer, "access-control-allow-headers"), "-");
        assert_eq!(header(&answer, "access-control-max-age"), "60");
        assert_eq!(header(&answer, "access-control-allow-credentials"), "true");
    }

    /// Statements 248 and 249: rules, origin and method, then allow-origin, expose-headers and
    /// vary.
    #[test]
    fn actual_requests() {
        let named = rule("http://a.com", "GET", "", "x-ms-*,etag");
        let any = rule("*", "GET", "", "*");
        for (rules, origin, method, expected) in [
            (vec![], Some("http://a.com"), "GET", ["-", "-", "-"]),
            (
                vec![named.clone()],
                Some("http://a.com"),
                "GET",
                ["http://a.com", "etag,x-ms-version", "Origin"],
            ),
            (vec![named.clone()], Some("http://b.com"), "GET", ["-", "-", "Origin"]),
            (vec![named.clone()], None, "GET", ["-", "-", "Origin"]),
            (vec![named], Some("http://a.com"), "POST", ["-", "-", "-"]),
            (
                vec![any.clone()],
                Some("http://b.com"),
                "GET",
                ["*", "x-ms-version,content-type", "-"],
            ),
            (vec![any.clone()], None, "GET", ["*", "x-ms-version,content-type", "-"]),
            (vec![any], Some("http://b.com"), "POST", ["-", "-", "-"]),
        ] {
            let response =
                Response::builder().header("x-ms-version", "v").header("content-type", "t");
            let mut response = response.body(Bytes::new()).unwrap();
            add_cors_headers(&mut response, origin, method, &rules);
            let found = ["access-control-allow-origin", "access-control-expose-headers", "vary"];
            assert_eq!(
                found.map(|name| header(&response, name)),
                expected,
                "{rules:?} {origin:?} {method}"
            );
        }
    }
}
