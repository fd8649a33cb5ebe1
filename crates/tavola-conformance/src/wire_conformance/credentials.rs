//! Section 16.5: requests without credentials, and requests with two kinds of them.

use super::http::Response;
use super::multipart::Operation;
use super::request::Request;
use super::sas::minutes_ahead;
use super::signer::Scheme;
use super::table::keys;
use super::{Case, Endpoint, Outcome};

pub(super) const CASES: &[Case] = &[
    Case::shared("no_credentials_at_a_newer_version", &["56"], challenged),
    Case::shared("challenge_is_unquoted", &["58"], challenge_text),
    Case::shared("challenge_begins_with_its_version", &["56", "57"], challenge_version),
    Case::shared("wrong_credentials_are_not_challenged", &[], not_challenged),
    Case::shared("bearer_token_that_is_none", &[], no_token),
    Case::shared("authorization_header_wins_over_sas", &[], header_wins),
];

const CHALLENGING: [&str; 3] = ["2020-12-06", "2021-12-02", "2025-01-05"];

fn expect_challenge(response: &Response) -> Outcome {
    response
        .expect_status(401)?
        .expect_header("x-ms-error-code", "InvalidAuthenticationInfo")?
        .expect_in_body("InvalidAuthenticationInfo")?
        .expect_in_body(
            "Server failed to authenticate the request. Please refer to the information in the www-authenticate \
             header.",
        )?;
    response.require_header("WWW-Authenticate")?;
    Ok(())
}

fn challenged(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let requests = || -> Vec<Request<'_>> {
        vec![
            client.get("/Tables"),
            client.create_table(&endpoint.fresh_name()),
            client.delete_table(table.name()),
            table.query(""),
            table.point("p", "r"),
            table.point("p", "none"),
            client.get("/nosuchtable1()"),
            table.insert(&keys("p", "new").to_string()),
            client.put(&table.entity("p", "r")).json(r#"{"changed":true}"#),
            client.delete(&table.entity("p", "r")).header("If-Match", "*"),
            client.batch(&[Operation::delete(&table.entity("p", "r"))]),
            client.get(&format!("{}?comp=acl", table.path())),
            client.get("/?restype=service&comp=properties"),
        ]
    };
    for version in CHALLENGING {
        for request in requests() {
            expect_challenge(&request.header("x-ms-version", version).anonymous().send()?)?;
        }
    }
    table.get("p", "r")?.expect_no_json("/changed")?;
    table.expect_missing("p", "new")?;
    client.expect_usable_connection()
}

fn challenge_text(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let response = client.get("/Tables").header("x-ms-version", "2020-12-06").anonymous().send()?;
    expect_challenge(&response)?;
    let challenge = response.require_header("WWW-Authenticate")?;
    let words: Vec<_> = challenge.split(' ').collect();
    response.ensure(words.len() == 3, "expected a challenge of three words")?;
    response.ensure(words[0] == "Bearer", "expected the challenge to begin with Bearer")?;
    let authority = words[1].strip_prefix("authorization_uri=").unwrap_or_default();
    response.ensure(
        authority.starts_with("https://") || authority.starts_with("http://"),
        "expected authorization_uri to be a URL",
    )?;
    response.ensure(
        words[2] == "resource_id=https://storage.azure.com",
        "expected the resource of storage",
    )?;
    response.ensure(!challenge.contains(['"', ',', '\'']), "expected neither quotes nor commas")?;
    let challenges =
        response.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("WWW-Authenticate"));
    response.ensure(challenges.count() == 1, "expected one challenge")?;
    Ok(())
}

fn challenge_version(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    for version in ["2015-12-11", "2019-02-02", "2020-10-02"] {
        client
            .get("/Tables")
            .header("x-ms-version", version)
            .anonymous()
            .send()?
            .expect_error(403, "AuthenticationFailed")?
            .expect_no_header("WWW-Authenticate")?;
    }
    expect_challenge(
        &client.get("/Tables").header("x-ms-version", "2020-12-06").anonymous().send()?,
    )
}

/// A challenge answers a request without a credential; a wrong signature of either kind is wrong at any
/// version.
fn not_challenged(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    for version in CHALLENGING {
        let read = || table.point("p", "r").header("x-ms-version", version);
        read().sas(&table.sas("r")).send()?.expect_status(200)?;
        let text = read().signed_parts().string_to_sign(Scheme::SharedKey);
        let signed = read().signing(Scheme::SharedKey, &[7; 64], &text);
        let expired = table.sas("r").with("se", &minutes_ahead(-5));
        for request in [
            signed,
            read().sas_query(&table.sas("r").sign(&[7; 64])),
            read().sas(&expired),
            read().sas_query(&client.account_sas("o", "r").sign(&[7; 64])),
        ] {
            request.send()?.expect_unauthenticated()?.expect_no_header("WWW-Authenticate")?;
        }
    }
    Ok(())
}

fn no_token(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let long = format!("Bearer {}", "a".repeat(8_000));
    for version in ["2019-02-02", "2020-12-06"] {
        for value in [
            "Bearer",
            "Bearer ",
            "Bearer nonsense",
            "Bearer a.b.c",
            "Bearer ..",
            "bearer eyJhbGciOiJub25lIn0.e30.",
            // No algorithm, and claims that would do.
            "Bearer eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.\
             eyJhdWQiOiJodHRwczovL3N0b3JhZ2UuYXp1cmUuY29tIiwiZXhwIjo0MTAyNDQ0ODAwfQ.",
            &long,
        ] {
            let request =
                table.point("p", "r").header("x-ms-version", version).authorization(value);
            request.send()?.expect_status_in(&[400, 401, 403])?.expect_not_in_body("RowKey")?;
        }
    }
    client.expect_usable_connection()
}

fn header_wins(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let good = table.sas("raud").sign(endpoint.key());
    let rubbish = good.clone().set("sig", "rubbish");
    let expired = table.sas("r").with("se", &minutes_ahead(-5)).sign(endpoint.key());
    let narrow = table.sas("a").sign(endpoint.key());
    for query in [&rubbish, &expired, &narrow, &good, &good.clone().and("sp", "r")] {
        for scheme in Scheme::BOTH {
            table
                .point("p", "r")
                .with_query(&query.to_string())
                .scheme(scheme)
                .send()?
                .expect_status(200)?;
        }
        client.get("/Tables?$top=1").with_query(&query.to_string()).send()?.expect_status(200)?;
    }
    let read = || table.point("p", "r").with_query(&good.to_string());
    let text = read().signed_parts().string_to_sign(Scheme::SharedKey);
    read().signing(Scheme::SharedKey, &[7; 64], &text).send()?.expect_unauthenticated()?;
    for value in ["SharedKey", "Unknown a:b", "Bearer nonsense"] {
        read()
            .authorization(value)
            .send()?
            .expect_status_in(&[400, 401, 403])?
            .expect_not_in_body("RowKey")?;
    }
    Ok(())
}
