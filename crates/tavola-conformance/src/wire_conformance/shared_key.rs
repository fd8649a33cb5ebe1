//! Sections 16.4 and 16.5: shared key signatures, dates, and requests without credentials. The
//! vectors of the reference are unit tests of the signer; their dates are past, so over the wire
//! the same shapes are sent with today's date.

use serde_json::json;

use super::multipart::Operation;
use super::request::{Client, Request, minutes_from_now};
use super::signer::Scheme;
use super::table::{Table, keys};
use super::{Case, Endpoint, Outcome, ensure};

pub(super) const CASES: &[Case] = &[
    Case::shared("shared_key_signs_every_shape_of_request", &["41"], shared_key_shapes),
    Case::shared("shared_key_lite_signs_every_shape_of_request", &["42"], shared_key_lite_shapes),
    Case::shared("shared_key_covers_verb_type_and_md5", &["41"], covered_by_shared_key),
    Case::shared("shared_key_lite_covers_date_and_path_only", &["42"], covered_by_lite),
    Case::shared("query_parameters_are_not_signed", &["43"], parameters_unsigned),
    Case::shared("comp_is_signed", &["44"], comp_signed),
    Case::shared("x_ms_date_wins_over_date", &["45"], x_ms_date_wins),
    Case::shared("date_alone_is_enough", &["46"], date_alone),
    Case::shared("old_dates_are_refused", &["47"], old_dates),
    Case::shared("future_dates_are_refused", &["48"], future_dates),
    Case::shared("no_date_is_refused", &["49"], no_date),
    Case::shared("wrong_signature_is_refused_in_json", &["50"], wrong_signature),
    Case::shared("signature_of_another_account_is_refused", &["51"], other_account),
    Case::shared("malformed_authorization_is_refused", &["53"], malformed_authorization),
    Case::shared("both_account_keys_are_accepted", &["54"], both_keys),
    Case::shared("tunnelled_verbs_are_signed_as_post", &["55"], tunnelled_verb),
    Case::shared("no_credentials_at_an_older_version", &["57"], no_credentials),
];

/// The shapes of the ten vectors and some more: each succeeds only with a signature over exactly
/// the path as sent.
fn shapes<'c>(client: &'c Client<'c>, table: &'c Table<'c>) -> Vec<Request<'c>> {
    let path = table.path();
    let at = |row_key: &str| format!("{path}(PartitionKey='p',RowKey='{row_key}')");
    let operation = Operation::insert(&path, &keys("b", "r")).header("Prefer", "return-no-content");
    vec![
        client.get("/Tables"),
        client.get("/Tables()?$top=1"),
        client
            .put(&at("r1"))
            .header("Content-Type", "application/json;odata=nometadata")
            .body(b"{}"),
        client.get(&at("r1")),
        client.patch(&at("r2%20%27%27%C3%A9%2B%26%25")).json("{}"),
        client.get(&at("r2%20%27%27%C3%A9%2B%26%25")),
        client.get(&at("r2%20''%c3%a9+%26%25")),
        client.get(&format!("{path}()?$select=v&$filter=v%20ge%201")),
        client.get("/?restype=service&comp=properties"),
        client.get("/?comp=properties&restype=service"),
        client.put(&format!("{path}?comp=acl")).xml("<SignedIdentifiers />"),
        client.get(&format!("{path}?timeout=20&comp=acl")),
        client.batch(&[operation]),
        client.delete(&at("r1")).header("If-Match", "*"),
        client.put(&at("r''2%20%C3%A9")).json("{}"),
        client.get(&at("r''2%20%C3%A9")),
        client.get(&at("r%27%272%20%C3%A9")),
        client.put(&at("%F0%9F%98%80")).json("{}"),
        client.get(&at("%F0%9F%98%80")),
        client.delete(&at("%F0%9F%98%80")).header("If-Match", "*"),
        client.delete(&table.entity("b", "r")).header("If-Match", "*"),
    ]
}

fn check_shapes(endpoint: &Endpoint, scheme: Scheme) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for request in shapes(&client, &table) {
        let wrong = request.signed_parts().string_to_sign(scheme) + "x";
        request
            .clone()
            .signing(scheme, endpoint.key(), &wrong)
            .send()?
            .expect_status(403)?
            .expect_in_body("AuthenticationFailed")?;
        let response = request.scheme(scheme).send()?;
        response.ensure(
            (200..300).contains(&response.status),
            "a correctly signed request was refused",
        )?;
    }
    Ok(())
}

fn shared_key_shapes(endpoint: &Endpoint) -> Outcome {
    check_shapes(endpoint, Scheme::SharedKey)
}

fn shared_key_lite_shapes(endpoint: &Endpoint) -> Outcome {
    check_shapes(endpoint, Scheme::SharedKeyLite)
}

/// A correct signature, then the same signature after each signed piece was changed.
fn covered_by_shared_key(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let request = || {
        client
            .put(&table.entity("p", "r"))
            .json("{}")
            .header("Content-MD5", "mZFLkyvTelC5g8XnyQrpOw==")
    };
    request().send()?.expect_status(204)?;
    let parts = request().signed_parts();
    let mut variants = vec![parts.clone(); 4];
    variants[0].method = "POST".to_owned();
    variants[1].content_md5 = String::new();
    variants[2].content_type = "application/xml".to_owned();
    variants[3].resource = parts.resource.replace("RowKey='r'", "RowKey='s'");
    for variant in variants {
        let text = variant.string_to_sign(Scheme::SharedKey);
        request()
            .signing(Scheme::SharedKey, endpoint.key(), &text)
            .send()?
            .expect_error(403, "AuthenticationFailed")?;
    }
    Ok(())
}

fn covered_by_lite(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let request = client.put(&table.entity("p", "r")).json("{}");
    let parts = request.signed_parts();
    let text = parts.string_to_sign(Scheme::SharedKeyLite);
    ensure!(text == format!("{}\n{}", parts.date, parts.resource), "{text:?}");
    // Verb and content type change after signing; Lite does not cover them.
    client
        .patch(&table.entity("p", "r"))
        .header("x-ms-date", &parts.date)
        .header("Content-Type", "application/json; odata=nometadata")
        .body(b"{}")
        .signing(Scheme::SharedKeyLite, endpoint.key(), &text)
        .send()?
        .expect_status(204)?;
    for other in [
        format!("{}\n{}", minutes_from_now(1), parts.resource),
        format!("{}\n{}x", parts.date, parts.resource),
        parts.string_to_sign(Scheme::SharedKey),
    ] {
        request
            .clone()
            .signing(Scheme::SharedKeyLite, endpoint.key(), &other)
            .send()?
            .expect_error(403, "AuthenticationFailed")?;
    }
    Ok(())
}

fn parameters_unsigned(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("p", "r"))?;
    let path = format!("{}()", table.path());
    let query = "$filter=RowKey%20eq%20'r'&$top=5&$select=RowKey&timeout=20&x=y";
    for scheme in Scheme::BOTH {
        let request = client.get(&format!("{path}?{query}"));
        let parts = request.signed_parts();
        ensure!(parts.resource.ends_with("()"), "{} has a query", parts.resource);
        let text = parts.string_to_sign(scheme);
        request
            .clone()
            .signing(scheme, endpoint.key(), &text)
            .send()?
            .expect_status(200)?
            .expect_row_count(1)?;
        let text = format!("{text}?{query}");
        request
            .signing(scheme, endpoint.key(), &text)
            .send()?
            .expect_error(403, "AuthenticationFailed")?;
    }
    Ok(())
}

fn comp_signed(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for scheme in Scheme::BOTH {
        for path in
            [format!("{}?comp=acl", table.path()), "/?restype=service&comp=properties".to_owned()]
        {
            let request = client.get(&path);
            request.clone().scheme(scheme).send()?.expect_status(200)?;
            let mut parts = request.signed_parts();
            let end = parts.resource.find('?').unwrap_or(parts.resource.len());
            parts.resource.truncate(end);
            let text = parts.string_to_sign(scheme);
            request
                .signing(scheme, endpoint.key(), &text)
                .send()?
                .expect_status(403)?
                .expect_in_body("AuthenticationFailed")?;
        }
    }
    Ok(())
}

fn x_ms_date_wins(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let old = minutes_from_now(-60);
    for scheme in Scheme::BOTH {
        let request = client.get("/Tables?$top=1").header("Date", &old);
        request.clone().scheme(scheme).send()?.expect_status(200)?;
        let mut parts = request.signed_parts();
        parts.date = old.clone();
        let text = parts.string_to_sign(scheme);
        request
            .signing(scheme, endpoint.key(), &text)
            .send()?
            .expect_error(403, "AuthenticationFailed")?;
        // The other way round: a fresh Date does not help an old x-ms-date.
        client
            .get("/Tables?$top=1")
            .header("Date", &minutes_from_now(0))
            .header("x-ms-date", &old)
            .scheme(scheme)
            .send()?
            .expect_error(403, "AuthenticationFailed")?;
    }
    Ok(())
}

fn date_alone(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    for scheme in Scheme::BOTH {
        client
            .get("/Tables?$top=1")
            .without("x-ms-date")
            .header("Date", &minutes_from_now(0))
            .scheme(scheme)
            .send()?
            .expect_status(200)?;
    }
    Ok(())
}

/// Correctly signed requests with this distance to now, in either date header and both schemes.
fn check_date(endpoint: &Endpoint, minutes: i64, accepted: bool) -> Outcome {
    let client = endpoint.client();
    for scheme in Scheme::BOTH {
        for header in ["x-ms-date", "Date"] {
            let response = client
                .get("/Tables?$top=1")
                .without("x-ms-date")
                .header(header, &minutes_from_now(minutes))
                .scheme(scheme)
                .send()?;
            if accepted {
                response.expect_status(200)?;
            } else {
                response.expect_error(403, "AuthenticationFailed")?;
            }
        }
    }
    Ok(())
}

fn old_dates(endpoint: &Endpoint) -> Outcome {
    check_date(endpoint, -14, true)?;
    check_date(endpoint, -16, false)?;
    check_date(endpoint, -60 * 24 * 365, false)
}

fn future_dates(endpoint: &Endpoint) -> Outcome {
    check_date(endpoint, 14, true)?;
    check_date(endpoint, 16, false)?;
    check_date(endpoint, 60 * 24 * 365, false)
}

fn no_date(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    for scheme in Scheme::BOTH {
        client
            .get("/Tables?$top=1")
            .without("x-ms-date")
            .scheme(scheme)
            .send()?
            .expect_error(403, "AuthenticationFailed")?;
        client
            .get("/Tables?$top=1")
            .header("x-ms-date", "yesterday")
            .scheme(scheme)
            .send()?
            .expect_status_in(&[400, 403])?;
    }
    Ok(())
}

fn wrong_signature(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("p", "r"))?;
    let entity = table.entity("p", "r");
    let other_key = [7; 64];
    for scheme in Scheme::BOTH {
        for request in [
            client.get(&entity),
            client.get(&format!("{}()", table.path())),
            client.put(&entity).json(&json!({ "a": 1 }).to_string()),
            table.insert(&keys("p", "new").to_string()),
            client.delete(&entity).header("If-Match", "*"),
        ] {
            let text = request.signed_parts().string_to_sign(scheme);
            request
                .signing(scheme, &other_key, &text)
                .send()?
                .expect_error(403, "AuthenticationFailed")?;
        }
    }
    table.expect_missing("p", "new")?;
    table.get("p", "r")?.expect_no_json("/a")?;
    Ok(())
}

fn other_account(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let request = client.get("/Tables?$top=1");
    let signed = request.clone().render();
    let signed = String::from_utf8_lossy(&signed).into_owned();
    let signature = signed
        .split("Authorization: SharedKey ")
        .nth(1)
        .and_then(|rest| rest.split("\r\n").next())
        .and_then(|value| value.split_once(':'))
        .map(|(_, signature)| signature.to_owned())
        .unwrap_or_default();
    ensure!(!signature.is_empty(), "the suite did not sign");
    for account in ["otheraccount", &endpoint.account().to_uppercase()] {
        request
            .clone()
            .authorization(&format!("SharedKey {account}:{signature}"))
            .send()?
            .expect_error(403, "AuthenticationFailed")?;
    }
    Ok(())
}

fn malformed_authorization(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let account = endpoint.account();
    for value in [
        "Basic ZGV2OmRldg==".to_owned(),
        "Unknown a:b".to_owned(),
        "SharedKey".to_owned(),
        "SharedKey ".to_owned(),
        "SharedKey :".to_owned(),
        format!("SharedKey {account}"),
        format!("SharedKey {account}:"),
        format!("SharedKey {account}:not base64!"),
        format!("SharedKey {account}:AAAA"),
        format!("SharedKey {account}:{}", "A".repeat(4096)),
        format!("SharedKeyLite{account}:AAAA"),
        "SharedKeyLite".to_owned(),
        ":::::".to_owned(),
        String::new(),
    ] {
        client.get("/Tables?$top=1").authorization(&value).send()?.expect_status_in(&[400, 403])?;
    }
    client.expect_usable_connection()
}

fn both_keys(endpoint: &Endpoint) -> Outcome {
    let second_key = endpoint.second_key()?;
    let client = endpoint.client();
    for scheme in Scheme::BOTH {
        for (key, status) in [(endpoint.key(), 200), (second_key, 200), (&[7; 64][..], 403)] {
            let request = client.get("/Tables?$top=1");
            let text = request.signed_parts().string_to_sign(scheme);
            request.signing(scheme, key, &text).send()?.expect_status(status)?;
        }
    }
    Ok(())
}

fn tunnelled_verb(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for verb in ["MERGE", "PATCH", "PUT"] {
        let request =
            client.post(&table.entity("p", verb)).header("X-HTTP-Method", verb).json("{}");
        let mut parts = request.signed_parts();
        ensure!(parts.method == "POST", "the suite signs {}", parts.method);
        request.clone().send()?.expect_status(204)?;
        parts.method = verb.to_owned();
        let text = parts.string_to_sign(Scheme::SharedKey);
        request
            .signing(Scheme::SharedKey, endpoint.key(), &text)
            .send()?
            .expect_error(403, "AuthenticationFailed")?;
    }
    Ok(())
}

fn no_credentials(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for version in ["2019-02-02", "2019-07-07"] {
        for path in ["/Tables".to_owned(), format!("{}()", table.path())] {
            client
                .get(&path)
                .header("x-ms-version", version)
                .anonymous()
                .send()?
                .expect_error_text(
                    403,
                    "AuthenticationFailed",
                    "Server failed to authenticate the request. Make sure the value of Authorization header is \
                     formed correctly including the signature.",
                )?
                .expect_no_header("WWW-Authenticate")?;
        }
    }
    Ok(())
}
