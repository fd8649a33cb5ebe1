//! What bad input gets: the service's own answer, nothing half done, and a connection that still
//! serves.

use super::multipart::Operation;
use super::request::{Client, NO_METADATA, Request, minutes_from_now, percent_encode};
use super::signer::{Scheme, base64, signature};
use super::table::{continuation, keys};
use super::{Case, Endpoint, Outcome, ensure};

pub(super) const CASES: &[Case] = &[
    Case::shared("bad_bodies_leave_the_connection_usable", &["20", "138"], bad_bodies),
    Case::shared("bad_sizes_leave_the_connection_usable", &["20"], bad_sizes),
    Case::shared("bad_addresses_leave_the_connection_usable", &["20"], bad_addresses),
    Case::shared("unterminated_strings", &["193"], unterminated_strings),
    Case::shared("filter_depth_has_a_limit", &["193"], deep_filters),
    Case::shared("json_depth_has_a_limit", &["137"], deep_json),
    Case::shared("long_filters_are_taken", &[], long_filter),
    Case::shared("top_beyond_the_page", &["200"], top_beyond_page),
    Case::shared("broken_continuation_is_refused", &[], broken_continuation),
    Case::shared("empty_row_token", &[], empty_row_token),
    Case::shared("invalid_utf8_in_bodies", &["138"], invalid_utf8_in_bodies),
    Case::shared("invalid_utf8_in_addresses", &["11"], invalid_utf8_in_addresses),
    Case::shared("unpaired_surrogates", &[], unpaired_surrogates),
    Case::shared("wrong_signature_shows_the_string_to_sign", &["50"], string_to_sign_shown),
    Case::shared("wrong_date_is_told", &["47"], wrong_date),
    Case::shared("bad_batches_leave_the_connection_usable", &["20"], bad_batches),
];

/// Sends each request, expects this answer, and asks one more thing on the same connection.
fn expect_all(client: &Client<'_>, requests: Vec<(u16, &str, Request<'_>)>) -> Outcome {
    for (status, code, request) in requests {
        request.send()?.expect_error(status, code)?;
        client.expect_usable_connection()?;
    }
    Ok(())
}

fn bad_bodies(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let with = |members: &str| {
        table.insert(&format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"r\",{members}}}"))
    };
    expect_all(
        &client,
        vec![
            (400, "InvalidInput", table.insert("{")),
            (400, "InvalidInput", table.insert("[]")),
            (400, "InvalidInput", table.insert("\u{0}\u{1}\u{2}")),
            (400, "InvalidInput", with(r#""a":[1,2]"#)),
            (400, "InvalidInput", with(r#""a":{"b":1}"#)),
            (400, "InvalidInput", with(r#""a@odata.type":"Edm.Int32","a":"abc""#)),
            (400, "InvalidInput", with(r#""a@odata.type":"Edm.Int32","a":4000000000"#)),
            (400, "InvalidInput", with(r#""a@odata.type":"Edm.Guid","a":"abc""#)),
            (400, "InvalidInput", with(r#""a@odata.type":"Edm.Nonsense","a":"abc""#)),
            (400, "InvalidInput", with(r#""a@odata.type":5,"a":"abc""#)),
            (400, "DuplicatePropertiesSpecified", with(r#""a":1,"a":1"#)),
            (400, "PropertyNameInvalid", with(r#""a-b":1"#)),
            (400, "PropertiesNeedValue", table.insert("{}")),
            (400, "OutOfRangeInput", table.insert(&keys("a/b", "r").to_string())),
        ],
    )?;
    table.query("").send()?.expect_body(r#"{"value":[]}"#)?;
    Ok(())
}

fn bad_sizes(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let with = |members: &str| {
        table.insert(&format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"r\",{members}}}"))
    };
    let many: Vec<_> = (0..253).map(|number| format!("\"p{number}\":1")).collect();
    let large: Vec<_> =
        (0..17).map(|number| format!("\"s{number}\":\"{}\"", "s".repeat(32 * 1024))).collect();
    expect_all(
        &client,
        vec![
            (400, "TooManyProperties", with(&many.join(","))),
            (400, "EntityTooLarge", with(&large.join(","))),
            (400, "PropertyNameTooLong", with(&format!("\"{}\":1", "n".repeat(256)))),
            (
                400,
                "PropertyValueTooLarge",
                with(&format!("\"s\":\"{}\"", "s".repeat(32 * 1024 + 1))),
            ),
            (400, "OutOfRangeInput", client.create_table("ab")),
            (400, "OutOfRangeInput", client.create_table(&"a".repeat(64))),
        ],
    )?;
    for entity in [keys(&"k".repeat(513), "r"), keys("p", &"k".repeat(513))] {
        table.insert(&entity.to_string()).send()?.expect_status(400)?;
        client.expect_usable_connection()?;
    }
    table.query("").send()?.expect_body(r#"{"value":[]}"#)?;
    Ok(())
}

fn bad_addresses(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for path in [
        "/a/b/c".to_owned(),
        "//".to_owned(),
        "/Tables('x".to_owned(),
        "/Tables(x)".to_owned(),
        "/Tables()()".to_owned(),
        "/$unknown".to_owned(),
        "/%zz".to_owned(),
        "/%".to_owned(),
        format!("{}(", table.path()),
        format!("{})", table.path()),
        format!("{}(%)", table.path()),
        format!("{}?comp=nonsense", table.path()),
        "/?restype=service&comp=nonsense".to_owned(),
        "/?restype=nonsense&comp=properties".to_owned(),
    ] {
        client.get(&path).send()?.expect_refusal()?;
        client.expect_usable_connection()?;
    }
    // The schema document is served or missing; SDKs never ask for it.
    client.get("/$metadata").send()?.expect_status_in(&[200, 404])?;
    client.expect_usable_connection()
}

fn unterminated_strings(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for filter in
        ["a eq 'x", "a eq '", "a eq 'it''", "a eq X'01", "a eq guid'", "a eq datetime'2020-01-01"]
    {
        table.filter(filter).send()?.expect_error(400, "InvalidInput")?;
        client.expect_usable_connection()?;
    }
    for predicate in [
        "(PartitionKey='p',RowKey='r)",
        "(PartitionKey='p,RowKey=r)",
        "(PartitionKey='p',RowKey='r'')",
    ] {
        client
            .get(&format!("{}{predicate}", table.path()))
            .send()?
            .expect_error(400, "InvalidInput")?;
        client.expect_usable_connection()?;
    }
    Ok(())
}

fn deep_filters(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("p", "r"))?;
    let parentheses =
        |depth: usize| format!("{}RowKey eq 'r'{}", "(".repeat(depth), ")".repeat(depth));
    let negations =
        |depth: usize| format!("{}RowKey eq 'r'{}", "not (".repeat(depth), ")".repeat(depth));
    table.expect_found(&parentheses(15), "r")?;
    table.expect_found(&negations(14), "r")?;
    for filter in [
        parentheses(100),
        negations(100),
        parentheses(3_000),
        "(".repeat(5_000),
        "not ".repeat(2_000),
    ] {
        table.filter(&filter).send()?.expect_error(400, "InvalidInput")?;
        client.expect_usable_connection()?;
    }
    Ok(())
}

fn deep_json(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for depth in [10, 200, 100_000] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let value = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            table
                .insert(&format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"a\":{value}}}"))
                .send()?
                .expect_error(400, "InvalidInput")?;
            client.expect_usable_connection()?;
        }
    }
    table.expect_missing("p", "r")
}

/// Request lines of 32 KiB are to be supported.
fn long_filter(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let value = "v".repeat(30_000);
    table.add(&serde_json::json!({ "PartitionKey": "p", "RowKey": "r", "s": value }))?;
    table.expect_found(&format!("s eq '{value}'"), "r")
}

fn top_beyond_page(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.query("$top=1000").send()?.expect_status(200)?;
    for top in ["1001", "5000", "2147483647", "2147483648"] {
        table.query(&format!("$top={top}")).send()?.expect_status(400)?;
        client.expect_usable_connection()?;
    }
    Ok(())
}

fn broken_continuation(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for row_key in ["1", "2", "3"] {
        table.add(&keys("p", row_key))?;
    }
    let page = table.query("$top=1").send()?;
    let partition = page.require_header("x-ms-continuation-NextPartitionKey")?.to_owned();
    let cut = &partition[..partition.len() - 1];
    for token in [
        "NextPartitionKey=garbage&NextRowKey=garbage".to_owned(),
        "NextPartitionKey=1!4!".to_owned(),
        "NextPartitionKey=1!99999999999999999999!YQ--".to_owned(),
        "NextPartitionKey=%C3%A9".to_owned(),
        // Well-formed tokens of texts that no key can be: "/", and a control character.
        "NextPartitionKey=1!4!Lw--".to_owned(),
        "NextPartitionKey=1!4!AQ--".to_owned(),
        format!("NextPartitionKey={}&NextRowKey=1!4!Lw--", percent_encode(&partition)),
        format!("NextPartitionKey={}", percent_encode(cut)),
        format!("NextPartitionKey={}", "A".repeat(5_000)),
        format!("NextPartitionKey={}&NextRowKey=garbage", percent_encode(&partition)),
    ] {
        table.query(&format!("$top=1&{token}")).send()?.expect_error(400, "InvalidInput")?;
        client.expect_usable_connection()?;
    }
    // The last four are well-formed tokens of "/", "", a control character and a name that is too
    // long for a key.
    let long = format!("1!1368!{}", "YWFh".repeat(342));
    for token in ["garbage!", "1!4!", "%C3%A9", "1!4!Lw--", "1!0!", "1!8!YWJjAQ--", &long] {
        client
            .get(&format!("/Tables?NextTableName={token}"))
            .send()?
            .expect_error(400, "InvalidInput")?;
        client.expect_usable_connection()?;
    }
    let token = continuation(&page).unwrap_or_default();
    table.query(&token).send()?.expect_status(200)?.expect_row_count(2)?;
    Ok(())
}

/// The service refuses an empty row token; a server may be lenient and take it for none.
fn empty_row_token(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for row_key in ["1", "2", "3"] {
        table.add(&keys("p", row_key))?;
    }
    let page = table.query("$top=1").send()?;
    let partition = page.require_header("x-ms-continuation-NextPartitionKey")?;
    let response = table
        .query(&format!("NextPartitionKey={}&NextRowKey=", percent_encode(partition)))
        .send()?;
    match response.status {
        200 => response.expect_row_count(3)?,
        _ => response.expect_error_text(
            400,
            "InvalidInput",
            "One of the request inputs is not valid.",
        )?,
    };
    Ok(())
}

fn invalid_utf8_in_bodies(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for bytes in [&b"\xff"[..], b"\xc3", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80"] {
        for template in [
            &br#"{"PartitionKey":"p","RowKey":"r","a":"@"}"#[..],
            br#"{"PartitionKey":"p","RowKey":"r@"}"#,
            br#"{"PartitionKey":"p","RowKey":"r","a@":1}"#,
        ] {
            let at = template.iter().position(|byte| *byte == b'@').unwrap_or_default();
            let body = [&template[..at], bytes, &template[at + 1..]].concat();
            table.insert("").body(&body).send()?.expect_error(400, "InvalidInput")?;
            client.expect_usable_connection()?;
        }
    }
    table.query("").send()?.expect_body(r#"{"value":[]}"#)?;
    Ok(())
}

fn invalid_utf8_in_addresses(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for escape in ["%FF", "%C3", "%C0%AF", "%ED%A0%80"] {
        for path in [
            format!("{}(PartitionKey='{escape}',RowKey='r')", table.path()),
            format!("{}()?$filter=a%20eq%20'{escape}'", table.path()),
            format!("{}()?NextPartitionKey={escape}", table.path()),
            format!("/{escape}()"),
        ] {
            client.get(&path).send()?.expect_refusal()?;
            client.expect_usable_connection()?;
        }
        client
            .put(&format!("{}(PartitionKey='{escape}',RowKey='r')", table.path()))
            .json("{}")
            .send()?
            .expect_status(400)?;
    }
    table.query("").send()?.expect_body(r#"{"value":[]}"#)?;
    Ok(())
}

/// Refused or replaced, but never a failure of the server, and never answered with broken UTF-8.
fn unpaired_surrogates(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for (row_key, escape) in [("high", r"\ud800"), ("low", r"\udc00"), ("swapped", r"\udc00\ud800")]
    {
        let response = table
            .insert(&format!(
                "{{\"PartitionKey\":\"p\",\"RowKey\":\"{row_key}\",\"a\":\"{escape}\"}}"
            ))
            .send()?;
        if response.expect_status_in(&[201, 400])?.status == 201 {
            table.get("p", row_key)?.text()?;
        } else {
            table.expect_missing("p", row_key)?;
        }
    }
    let pair = r#"{"PartitionKey":"p","RowKey":"pair","a":"\ud83d\ude00"}"#;
    table.insert(pair).send()?.expect_status(201)?;
    table.get("p", "pair")?.expect_json("/a", "😀")?;
    client.expect_usable_connection()
}

/// The detail helps the author of a client, and discloses nothing: it is made of the request
/// alone.
fn string_to_sign_shown(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let key = base64(endpoint.key());
    let wrong = "d3Jvbmcgc2lnbmF0dXJlIG9mIHRoaXJ0eS10d28gYnk=";
    for accept in [NO_METADATA, "application/xml"] {
        for scheme in Scheme::BOTH {
            let request = client.get("/Tables?$top=1").accept(accept).authorization(&format!(
                "{} {}:{wrong}",
                scheme.name(),
                endpoint.account()
            ));
            let text = request.signed_parts().string_to_sign(scheme);
            let response = request.send()?;
            response.expect_status(403)?.expect_in_body("AuthenticationFailed")?;
            let body =
                response.text()?.replace("\\n", "\n").replace("&apos;", "'").replace("&#39;", "'");
            let detail = format!(
                "' is not the same as any computed signature. \
                 Server used following string to sign: '{text}'."
            );
            response.ensure(body.contains(&detail), &format!("expected the detail {detail:?}"))?;
            ensure!(!body.contains(&key), "the answer contains the account key");
            let right = signature(endpoint.key(), &text);
            ensure!(!body.contains(&right), "the answer contains the right signature");
            client.expect_usable_connection()?;
        }
    }
    Ok(())
}

fn wrong_date(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    for minutes in [-16, 16] {
        client
            .get("/Tables?$top=1")
            .header("x-ms-date", &minutes_from_now(minutes))
            .send()?
            .expect_error(403, "AuthenticationFailed")?
            .expect_in_body(
                "Server failed to authenticate the request. Make sure the value of Authorization header is formed \
                 correctly including the signature.",
            )?;
        client.expect_usable_connection()?;
    }
    for date in ["yesterday", "2020-07-23T16:43:13Z", "Thu, 99 Jul 2020 16:43:13 GMT", "0"] {
        client
            .get("/Tables?$top=1")
            .header("x-ms-date", date)
            .send()?
            .expect_status_in(&[400, 403])?;
        client.expect_usable_connection()?;
    }
    Ok(())
}

fn bad_batches(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let insert = |partition_key: &str, row_key: &str| {
        Operation::insert(&table.path(), &keys(partition_key, row_key))
    };
    let hundred_and_one: Vec<_> = (0..101).map(|number| insert("p", &number.to_string())).collect();
    for (code, operations) in [
        ("InvalidInput", hundred_and_one),
        ("CommandsInBatchActOnDifferentPartitions", vec![insert("p", "1"), insert("q", "1")]),
        ("InvalidDuplicateRow", vec![insert("p", "1"), insert("p", "1")]),
    ] {
        client.batch(&operations).send()?.expect_failed_part(400, code, "")?;
        client.expect_usable_connection()?;
    }
    table.query("").send()?.expect_body(r#"{"value":[]}"#)?;
    Ok(())
}
