//! Section 16.13, second part: cross-origin requests. The rules belong to the whole account, so
//! these cases run alone.

use super::check::Checked;
use super::http::Response;
use super::request::Client;
use super::service::{cors_rule, restoring_properties, set_properties};
use super::signer::{DEVELOPMENT_KEY, base64};
use super::table::keys;
use super::{Case, Endpoint, Failure, Outcome, ensure};

pub(super) const CASES: &[Case] = &[
    Case::exclusive("preflight_that_matches", &["60", "246"], preflight_match),
    Case::exclusive("preflight_that_does_not_match", &["60", "246"], preflight_mismatch),
    Case::exclusive("preflight_without_its_headers", &["246"], preflight_incomplete),
    Case::exclusive("preflight_without_rules", &["60", "246"], preflight_without_rules),
    Case::exclusive("first_rule_for_origin_and_method_decides", &["247"], first_rule_decides),
    Case::exclusive("origins_may_have_wildcards", &["247"], wildcard_origins),
    Case::exclusive("actual_request_with_an_origin", &["248"], actual_request),
    Case::exclusive("exposed_headers_with_wildcards", &["248"], exposed_wildcards),
    Case::exclusive("answers_vary_by_origin", &["249"], vary),
];

/// What a page of a site gets that no rule admits: what everybody gets. Only Tavola refuses it
/// where the key is public.
fn expect_without_rule<'a>(
    endpoint: &Endpoint,
    response: &'a Response,
    status: u16,
) -> Checked<'a> {
    let is_ours = response.header("server").is_some_and(|server| server.starts_with("Tavola"));
    let is_guarded = is_ours && base64(endpoint.key()) == DEVELOPMENT_KEY;
    if is_guarded {
        response.expect_code(403, "AuthorizationFailure")
    } else {
        response.expect_status(status)
    }
}

struct Rule {
    origins: &'static str,
    methods: &'static str,
    headers: &'static str,
    exposed: &'static str,
}

impl Rule {
    fn xml(&self) -> String {
        format!(
            "<CorsRule><AllowedOrigins>{}</AllowedOrigins><AllowedMethods>{}</AllowedMethods>\
             <AllowedHeaders>{}</AllowedHeaders><ExposedHeaders>{}</ExposedHeaders>\
             <MaxAgeInSeconds>77</MaxAgeInSeconds></CorsRule>",
            self.origins, self.methods, self.headers, self.exposed
        )
    }
}

/// Runs `check` while the account has these rules.
fn with_rules(
    endpoint: &Endpoint,
    rules: &[Rule],
    check: impl FnOnce(&Client<'_>) -> Outcome,
) -> Outcome {
    restoring_properties(endpoint, |client| {
        let rules: String = rules.iter().map(Rule::xml).collect();
        set_properties(client, &format!("<Cors>{rules}</Cors>"))?;
        check(client)
    })
}

/// A preflight request without credentials.
fn preflight(
    client: &Client<'_>,
    origin: &str,
    method: &str,
    headers: &str,
) -> Result<Response, Failure> {
    let request = client
        .request("OPTIONS", "/anytable()")
        .without("x-ms-date")
        .without("DataServiceVersion")
        .header("Origin", origin)
        .header("Access-Control-Request-Method", method)
        .anonymous();
    match headers {
        "" => request.send(),
        _ => request.header("Access-Control-Request-Headers", headers).send(),
    }
}

const RULES: [Rule; 1] = [Rule {
    origins: "http://one.example,http://two.example",
    methods: "GET,PUT,MERGE",
    headers: "x-ms-meta*,content-type",
    exposed: "x-ms-request-id,ETag",
}];

fn preflight_match(endpoint: &Endpoint) -> Outcome {
    with_rules(endpoint, &RULES, |client| {
        for (origin, method, headers) in [
            ("http://one.example", "GET", "x-ms-meta-a,Content-Type"),
            ("http://two.example", "MERGE", "X-MS-META-B"),
            ("http://two.example", "PUT", ""),
        ] {
            let response = preflight(client, origin, method, headers)?;
            response
                .expect_status(200)?
                .expect_header("Access-Control-Allow-Origin", origin)?
                .expect_header("Access-Control-Allow-Methods", method)?
                .expect_header("Access-Control-Max-Age", "77")?
                .expect_header("Access-Control-Allow-Credentials", "true")?
                .expect_body("")?;
            if !headers.is_empty() {
                response.expect_header("Access-Control-Allow-Headers", headers)?;
            }
        }
        // Credentials are not looked at, not even broken ones.
        client
            .request("OPTIONS", "/Tables")
            .header("Origin", "http://one.example")
            .header("Access-Control-Request-Method", "GET")
            .authorization("SharedKey nobody:nonsense")
            .send()?
            .expect_status(200)?;
        Ok(())
    })
}

fn preflight_mismatch(endpoint: &Endpoint) -> Outcome {
    with_rules(endpoint, &RULES, |client| {
        for (origin, method, headers) in [
            ("http://other.example", "GET", ""),
            ("http://ONE.example", "GET", ""),
            ("https://one.example", "GET", ""),
            ("http://one.example:8080", "GET", ""),
            ("http://one.example", "DELETE", ""),
            ("http://one.example", "GET", "x-ms-other"),
            ("http://one.example", "GET", "x-ms-meta-a,x-ms-other"),
        ] {
            let response = preflight(client, origin, method, headers)?;
            response
                .expect_status(403)?
                .expect_in_body("CorsPreflightFailure")?
                .expect_in_body("CORS not enabled or no matching rule found for this request.")?
                .expect_no_header("Access-Control-Allow-Origin")?;
        }
        Ok(())
    })
}

fn preflight_incomplete(endpoint: &Endpoint) -> Outcome {
    with_rules(endpoint, &RULES, |client| {
        let options = || client.request("OPTIONS", "/Tables").anonymous();
        for request in [
            options(),
            options().header("Origin", "http://one.example"),
            options().header("Access-Control-Request-Method", "GET"),
        ] {
            request
                .send()?
                .expect_status(400)?
                .expect_in_body("InvalidHeaderValue")?
                .expect_in_body("A required CORS header is not present.")?;
        }
        Ok(())
    })
}

fn preflight_without_rules(endpoint: &Endpoint) -> Outcome {
    with_rules(endpoint, &[], |client| {
        preflight(client, "http://one.example", "GET", "")?
            .expect_status(403)?
            .expect_in_body("CorsPreflightFailure")?;
        Ok(())
    })
}

fn first_rule_decides(endpoint: &Endpoint) -> Outcome {
    let rules = [
        Rule { origins: "http://a.example", methods: "GET", headers: "x-ms-first", exposed: "" },
        Rule { origins: "http://a.example", methods: "GET,PUT", headers: "*", exposed: "" },
        Rule { origins: "*", methods: "GET", headers: "x-ms-any", exposed: "" },
    ];
    with_rules(endpoint, &rules, |client| {
        for (origin, method, headers, status) in [
            ("http://a.example", "GET", "x-ms-first", 200),
            ("http://a.example", "GET", "x-ms-second", 403),
            ("http://a.example", "GET", "x-ms-any", 403),
            ("http://a.example", "PUT", "x-ms-second", 200),
            ("http://b.example", "GET", "x-ms-any", 200),
            ("http://b.example", "GET", "x-ms-first", 403),
            ("http://b.example", "PUT", "", 403),
        ] {
            preflight(client, origin, method, headers)?.expect_status(status)?;
        }
        Ok(())
    })
}

fn wildcard_origins(endpoint: &Endpoint) -> Outcome {
    let rules =
        [Rule { origins: "http://*.contoso.com", methods: "GET", headers: "*", exposed: "" }];
    with_rules(endpoint, &rules, |client| {
        for (origin, status) in [
            ("http://www.contoso.com", 200),
            ("http://a.b.contoso.com", 200),
            ("http://contoso.com.evil.example", 403),
            ("https://www.contoso.com", 403),
            ("http://evilcontoso.com", 403),
        ] {
            preflight(client, origin, "GET", "x-anything")?.expect_status(status)?;
        }
        Ok(())
    })
}

fn actual_request(endpoint: &Endpoint) -> Outcome {
    with_rules(endpoint, &RULES, |client| {
        let table = client.table()?;
        table.add(&keys("p", "r"))?;
        let get =
            |origin: &str| client.get(&table.entity("p", "r")).header("Origin", origin).send();
        let response = get("http://two.example")?;
        response
            .expect_status(200)?
            .expect_json("/RowKey", "r")?
            .expect_header("Access-Control-Allow-Origin", "http://two.example")?;
        let exposed = response.require_header("Access-Control-Expose-Headers")?;
        let names: Vec<_> = exposed.split(',').map(|name| name.trim().to_lowercase()).collect();
        response.ensure(
            names == ["x-ms-request-id", "etag"],
            "expected the exposed headers of the rule",
        )?;
        // No match: the request succeeds all the same.
        let other = get("http://other.example")?;
        expect_without_rule(endpoint, &other, 200)?;
        other
            .expect_no_header("Access-Control-Allow-Origin")?
            .expect_no_header("Access-Control-Expose-Headers")?;
        let deletion = client
            .delete(&table.entity("p", "r"))
            .header("If-Match", "*")
            .header("Origin", "http://one.example")
            .send()?;
        expect_without_rule(endpoint, &deletion, 204)?
            .expect_no_header("Access-Control-Allow-Origin")?;
        client
            .put(&table.entity("p", "r"))
            .json("{}")
            .header("Origin", "http://one.example")
            .send()?
            .expect_status(204)?
            .expect_header("Access-Control-Allow-Origin", "http://one.example")?;
        Ok(())
    })
}

fn exposed_wildcards(endpoint: &Endpoint) -> Outcome {
    let rules = [
        Rule { origins: "http://all.example", methods: "GET", headers: "*", exposed: "*" },
        Rule { origins: "*", methods: "GET", headers: "*", exposed: "x-ms-*" },
    ];
    with_rules(endpoint, &rules, |client| {
        let exposed = |origin: &str, allowed: &str| -> Result<Vec<String>, Failure> {
            let response = client
                .get("/Tables?$top=1")
                .header("Origin", origin)
                .header("x-ms-client-request-id", "me")
                .send()?;
            response.expect_status(200)?.expect_header("Access-Control-Allow-Origin", allowed)?;
            let value = response.require_header("Access-Control-Expose-Headers")?;
            Ok(value.split(',').map(|name| name.trim().to_lowercase()).collect())
        };
        let all = exposed("http://all.example", "http://all.example")?;
        for name in
            ["x-ms-request-id", "x-ms-client-request-id", "x-ms-version", "content-type", "date"]
        {
            ensure!(all.iter().any(|known| known == name), "{name} is not exposed: {all:?}");
        }
        let mut some = exposed("http://any.example", "*")?;
        some.sort_unstable();
        ensure!(
            some == ["x-ms-client-request-id", "x-ms-request-id", "x-ms-version"],
            "exposed are {some:?}"
        );
        Ok(())
    })
}

fn vary(endpoint: &Endpoint) -> Outcome {
    let get = |client: &Client<'_>, origin: Option<&str>| {
        let request = client.get("/Tables?$top=1");
        match origin {
            Some(origin) => request.header("Origin", origin).send(),
            None => request.send(),
        }
    };
    restoring_properties(endpoint, |client| {
        set_properties(client, &format!("<Cors>{}</Cors>", cors_rule("http://a.example")))?;
        for origin in [Some("http://a.example"), None] {
            get(client, origin)?.expect_status(200)?.expect_header("Vary", "Origin")?;
        }
        let other = get(client, Some("http://b.example"))?;
        expect_without_rule(endpoint, &other, 200)?;
        if other.status == 200 {
            other.expect_header("Vary", "Origin")?;
        }
        set_properties(client, &format!("<Cors>{}</Cors>", cors_rule("*")))?;
        get(client, Some("http://a.example"))?
            .expect_status(200)?
            .expect_header("Access-Control-Allow-Origin", "*")?
            .expect_no_header("Vary")?;
        get(client, None)?.expect_status(200)?.expect_no_header("Vary")?;
        set_properties(client, "<Cors />")?;
        expect_without_rule(endpoint, &get(client, Some("http://a.example"))?, 200)?
            .expect_no_header("Vary")?;
        get(client, None)?.expect_status(200)?.expect_no_header("Vary")?;
        Ok(())
    })
}
