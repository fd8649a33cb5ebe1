//! Section 16.1: hosts, paths, key predicates, bodies, connections.

use serde_json::json;

use super::request::{Client, NO_METADATA, percent_encode};
use super::signer::{DEVELOPMENT_KEY, Scheme, base64, canonicalized_resource};
use super::table::{Table, keys};
use super::{Case, Endpoint, Failure, Outcome, ensure};

pub(super) const CASES: &[Case] = &[
    Case::shared("path_style_takes_the_account_from_the_path", &["1"], path_style),
    Case::shared("host_style_takes_the_account_from_the_host", &["1"], host_style),
    Case::shared("secondary_reads_the_same_account", &["2", "52"], secondary_reads),
    Case::shared("secondary_refuses_writes", &["2"], secondary_refuses_writes),
    Case::shared("development_account_has_its_known_key", &["3"], development_account),
    Case::shared("tables_with_and_without_parentheses", &["4"], tables_parentheses),
    Case::shared("entity_set_with_and_without_parentheses", &["5"], set_parentheses),
    Case::shared("table_names_in_urls_ignore_case", &["6"], table_name_case),
    Case::shared("key_predicate_spellings", &["7", "8", "9"], predicate_spellings),
    Case::shared("key_predicate_in_reverse_order", &["10"], reversed_predicate),
    Case::shared("keys_in_paths_are_decoded_once", &["11", "12", "13", "15"], key_decoding),
    Case::shared("empty_keys_address_an_entity", &["14"], empty_keys),
    Case::shared("parameter_names_may_be_encoded", &["16"], encoded_parameter_names),
    Case::shared("unknown_account_is_not_found", &["17"], unknown_account),
    Case::shared("body_of_four_mebibytes_at_most", &["18"], body_limit),
    Case::shared("chunked_bodies_are_taken", &["19"], chunked_bodies),
    Case::shared("connection_survives_refusals", &["20"], connection_survives),
    Case::shared("broken_key_predicates_are_refused", &["21"], broken_predicates),
];

fn path_style(endpoint: &Endpoint) -> Outcome {
    endpoint.require_path_style()?;
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("p", "r"))?;
    let port = endpoint.port();
    // An IP address and a bare name: both put the account into the path.
    for host in [format!("127.0.0.1:{port}"), format!("localhost:{port}")] {
        client
            .get(&table.entity("p", "r"))
            .header("Host", &host)
            .send()?
            .expect_status(200)?
            .expect_json("/RowKey", "r")?;
    }
    Ok(())
}

/// The request target in host style, asked under a host name whose first label is the account.
fn host_style(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("p", "r"))?;
    let port = endpoint.port();
    let host = if endpoint.base_path().is_empty() {
        endpoint.authority().to_owned()
    } else {
        format!("{}.table.localhost:{port}", endpoint.account())
    };
    client
        .get("")
        .target(&table.entity("p", "r"))
        .header("Host", &host)
        .send()?
        .expect_status(200)?
        .expect_json("/RowKey", "r")?
        .expect_json(
            "/odata.metadata",
            format!("http://{host}/$metadata#{}/@Element", table.name()),
        )?;
    Ok(())
}

fn secondary_target(endpoint: &Endpoint, path: &str) -> String {
    format!("/{}-secondary{path}", endpoint.account())
}

fn secondary_reads(endpoint: &Endpoint) -> Outcome {
    endpoint.require_path_style()?;
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("p", "r"))?;
    let target = secondary_target(endpoint, &table.entity("p", "r"));
    for scheme in Scheme::BOTH {
        client
            .get("")
            .target(&target)
            .scheme(scheme)
            .send()?
            .expect_status(200)?
            .expect_json("/RowKey", "r")?;
    }
    let port = endpoint.port();
    client
        .get("")
        .target(&table.entity("p", "r"))
        .header("Host", &format!("{}-secondary.table.localhost:{port}", endpoint.account()))
        .send()?
        .expect_status(200)?
        .expect_json("/RowKey", "r")?;
    // The resource begins with the primary's name; with the secondary's name the signature is
    // another.
    let request = client.get("").target(&target);
    let mut parts = request.signed_parts();
    parts.resource = canonicalized_resource(&format!("{}-secondary", endpoint.account()), &target);
    let text = parts.string_to_sign(Scheme::SharedKey);
    request
        .signing(Scheme::SharedKey, endpoint.key(), &text)
        .send()?
        .expect_error(403, "AuthenticationFailed")?;
    Ok(())
}

fn secondary_refuses_writes(endpoint: &Endpoint) -> Outcome {
    endpoint.require_path_style()?;
    let client = endpoint.client();
    let table = client.table()?;
    let etag = table.add(&keys("p", "r"))?.etag()?.to_owned();
    let set = secondary_target(endpoint, &table.path());
    let entity = secondary_target(endpoint, &table.entity("p", "r"));
    let writes = [
        client.post("").target(&set).json(&keys("p", "new").to_string()),
        client.put("").target(&entity).json(r#"{"a":1}"#),
        client.patch("").target(&entity).json(r#"{"a":1}"#),
        client.delete("").target(&entity).header("If-Match", "*"),
    ];
    for write in writes {
        write.send()?.expect_error(403, "InsufficientAccountPermissions")?;
    }
    table.get("p", "r")?.expect_header("ETag", &etag)?;
    table.expect_missing("p", "new")
}

/// The account and the key that `UseDevelopmentStorage=true` stands for. That a server without
/// configuration listens on port 10002 is seen by starting one, not by asking an endpoint whose
/// port was given.
fn development_account(endpoint: &Endpoint) -> Outcome {
    if endpoint.account() != "devstoreaccount1" {
        return Err(Failure::skipped("the endpoint's account is not the development account"));
    }
    let client = Endpoint::new(&endpoint.base_url(), "devstoreaccount1", DEVELOPMENT_KEY)
        .map_err(Failure::mismatch)?;
    let client = client.client();
    let table = client.table()?;
    for scheme in Scheme::BOTH {
        client
            .get(&format!("/Tables('{}')", table.name()))
            .scheme(scheme)
            .send()?
            .expect_status(200)?;
    }
    Ok(())
}

fn tables_parentheses(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let query = format!("$filter=TableName%20eq%20'{}'", table.name());
    let plain = client.get(&format!("/Tables?{query}")).send()?;
    plain.expect_status(200)?.expect_json("/value/0/TableName", table.name())?;
    client
        .get(&format!("/Tables()?{query}"))
        .send()?
        .expect_status(200)?
        .expect_body(plain.text()?)?;
    let name = endpoint.fresh_name();
    client
        .post("/Tables()")
        .json(&json!({ "TableName": name }).to_string())
        .send()?
        .expect_status(201)?;
    client.existing_table(&name);
    Ok(())
}

fn set_parentheses(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("p", "1"))?;
    table.add(&keys("p", "2"))?;
    for query in ["", "?$top=1", "?$filter=RowKey%20eq%20'2'"] {
        let plain = client.get(&format!("{}{query}", table.path())).send()?;
        plain.expect_status(200)?;
        ensure!(!plain.rows()?.is_empty(), "{query}: no rows without parentheses");
        client
            .get(&format!("{}(){query}", table.path()))
            .send()?
            .expect_status(200)?
            .expect_body(plain.text()?)?;
    }
    Ok(())
}

fn table_name_case(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("p", "r"))?;
    let others = [table.name().to_uppercase(), table.name().replace("wc", "wC")];
    for (index, name) in others.iter().enumerate() {
        // Only the address is written in another case; the table stays in the care of its first
        // name.
        let entity = table.entity("p", "r").replace(table.name(), name);
        client.get(&entity).send()?.expect_status(200)?;
        client
            .get(&format!("/{name}()"))
            .send()?
            .expect_status(200)?
            .expect_row_count(1 + index)?;
        client
            .post(&format!("/{name}"))
            .json(&keys("p", &format!("r{index}")).to_string())
            .send()?
            .expect_status(201)?;
        client.put(&entity).json("{}").send()?.expect_status(204)?;
        client.get(&format!("/{name}?comp=acl")).send()?.expect_status(200)?;
        client.get(&format!("/Tables('{name}')")).send()?.expect_status(200)?;
    }
    client.delete_table(&others[0]).send()?.expect_status(204)?;
    client.get(&table.entity("p", "r")).send()?.expect_status_in(&[404, 409])?;
    Ok(())
}

fn predicate_spellings(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&json!({ "PartitionKey": "p", "RowKey": "it's", "n": 1 }))?;
    table.add(&json!({ "PartitionKey": "p", "RowKey": "it''s", "n": 2 }))?;
    for (predicate, n) in [
        ("(PartitionKey='p',RowKey='it''s')", 1),
        ("(PartitionKey=%27p%27,RowKey=%27it%27%27s%27)", 1),
        ("(PartitionKey='p',RowKey='it%27%27s')", 1),
        ("(PartitionKey='p',RowKey='it'%27s')", 1),
        ("(PartitionKey='p',RowKey='it''''s')", 2),
        ("(PartitionKey='p',%20RowKey='it''s')", 1),
        ("(PartitionKey=%27p%27%2C%20RowKey=%27it%27%27s%27)", 1),
    ] {
        client
            .get(&format!("{}{predicate}", table.path()))
            .send()?
            .expect_status(200)?
            .expect_json("/n", n)?;
    }
    Ok(())
}

/// Not verified on the service: the other order may also be refused, but never cause a failure of
/// the server.
fn reversed_predicate(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("a", "b"))?;
    table.add(&keys("b", "a"))?;
    let response = client.get(&format!("{}(RowKey='b',PartitionKey='a')", table.path())).send()?;
    if response.status == 200 {
        response.expect_json("/PartitionKey", "a")?;
    } else {
        response.expect_refusal()?;
    }
    Ok(())
}

/// Each key is written in a body, then addressed by the spelling in a path; and the other way
/// round.
fn key_decoding(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for (key, spellings) in [
        ("a b", &["a%20b"][..]),
        ("é", &["%C3%A9", "%c3%a9"]),
        ("a+b", &["a+b", "a%2Bb"]),
        ("100%", &["100%25"]),
        ("%41", &["%2541"]),
        ("%2541", &["%252541"]),
        ("😀", &["%F0%9F%98%80"]),
        ("\u{10FFFD}x", &["%F4%8F%BF%BDx"]),
        ("a:b@c&d=e;f,g", &["a:b@c&d=e;f,g", "a%3Ab%40c%26d%3De%3Bf%2Cg"]),
        ("(x)", &["(x)", "%28x%29"]),
        ("\"<>{}|^`", &["%22%3C%3E%7B%7D%7C%5E%60"]),
        (" r ", &["%20r%20"]),
    ] {
        for spelling in spellings {
            check_spelling(&client, &table, key, spelling)?;
        }
    }
    Ok(())
}

fn check_spelling(client: &Client<'_>, table: &Table<'_>, key: &str, spelling: &str) -> Outcome {
    let path = format!("{}(PartitionKey='{spelling}',RowKey='{spelling}')", table.path());
    client.put(&path).json("{}").send()?.expect_status(204)?;
    let filter = format!("PartitionKey eq '{key}' and RowKey eq '{key}'");
    let rows = table.walk(&format!("$filter={}", percent_encode(&filter)))?;
    ensure!(
        rows.len() == 1 && rows[0]["PartitionKey"] == key && rows[0]["RowKey"] == key,
        "PUT {path} did not make the key {key:?}: {rows:?}"
    );
    client.delete(&path).header("If-Match", "*").send()?.expect_status(204)?;
    table.add(&keys(key, key))?;
    client
        .get(&path)
        .send()?
        .expect_status(200)?
        .expect_json("/PartitionKey", key)?
        .expect_json("/RowKey", key)?;
    client.delete(&path).header("If-Match", "*").send()?.expect_status(204)?;
    Ok(())
}

fn empty_keys(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for (partition_key, row_key) in [("", ""), ("p", ""), ("", "r"), ("p", "r")] {
        let entity = json!({
            "PartitionKey": partition_key,
            "RowKey": row_key,
            "mark": format!("{partition_key}/{row_key}"),
        });
        table.add(&entity)?;
    }
    for (partition_key, row_key) in [("", ""), ("p", ""), ("", "r")] {
        table
            .get(partition_key, row_key)?
            .expect_json("/mark", format!("{partition_key}/{row_key}"))?
            .expect_no_json("/value")?;
    }
    client.delete(&table.entity("", "")).header("If-Match", "*").send()?.expect_status(204)?;
    table.expect_missing("", "")
}

fn encoded_parameter_names(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&json!({ "PartitionKey": "p", "RowKey": "1", "a": 1, "b": 2 }))?;
    table.add(&keys("p", "2"))?;
    table
        .query("%24filter=RowKey%20eq%20'1'&%24select=a")
        .send()?
        .expect_status(200)?
        .expect_body(r#"{"value":[{"a":1}]}"#)?;
    table.query("%24top=1").send()?.expect_status(200)?.expect_row_count(1)?;
    client
        .get(&format!("{}()?%24format=application%2Fjson%3Bodata%3Dfullmetadata", table.path()))
        .accept(NO_METADATA)
        .send()?
        .expect_status(200)?
        .expect_in_body("odata.editLink")?;
    Ok(())
}

fn unknown_account(endpoint: &Endpoint) -> Outcome {
    endpoint.require_path_style()?;
    let key = base64(endpoint.key());
    let stranger = Endpoint::new(
        &format!("http://{}/nosuchaccount", endpoint.authority()),
        "nosuchaccount",
        &key,
    )
    .map_err(Failure::mismatch)?;
    let client = stranger.client();
    for path in ["/Tables", "/T(PartitionKey='p',RowKey='r')"] {
        client.get(path).send()?.expect_status(404)?;
    }
    Ok(())
}

const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

fn body_limit(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    // White space between tokens is not part of the entity, so only the size of the body decides.
    let padded = |row_key: &str, length: usize| {
        let mut body = keys("p", row_key).to_string();
        body.insert_str(1, &" ".repeat(length - body.len()));
        body
    };
    table.insert(&padded("fits", BODY_BYTES_MAX)).send()?.expect_status(201)?;
    table
        .insert(&padded("large", BODY_BYTES_MAX + 1))
        .send()?
        .expect_error(413, "RequestBodyTooLarge")?;
    table.expect_missing("p", "large")?;
    let body = padded("larger", BODY_BYTES_MAX + 100_000);
    let chunks: Vec<&[u8]> = body.as_bytes().chunks(64 * 1024).collect();
    table.insert("").chunked(&chunks).send()?.expect_error(413, "RequestBodyTooLarge")?;
    table.expect_missing("p", "larger")
}

fn chunked_bodies(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let body = keys("p", "chunked").to_string();
    for (row_key, size) in [("chunked", 5), ("chunkeD", 1), ("chunkED", 1000)] {
        let body = body.replace("chunked", row_key);
        let chunks: Vec<&[u8]> = body.as_bytes().chunks(size).collect();
        table.insert("").chunked(&chunks).send()?.expect_status(201)?;
        table.get("p", row_key)?;
    }
    // A chunk extension and a trailer are legal and mean nothing here.
    let request = table.insert("").header("Transfer-Encoding", "chunked");
    let mut bytes = request.render();
    bytes.extend(b"1;note=x\r\n{\r\n");
    let rest = &keys("p", "extended").to_string()[1..];
    bytes.extend(format!("{:X}\r\n{rest}\r\n0\r\nX-Trailer: 1\r\n\r\n", rest.len()).into_bytes());
    client.send_bytes(&bytes)?.expect_status(201)?;
    client.expect_usable_connection()
}

fn connection_survives(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("p", "r"))?;
    let entity = table.entity("p", "r");
    let wrong =
        format!("SharedKey {}:d3Jvbmcgc2lnbmF0dXJlIG9mIHRoaXJ0eS10d28gYnk=", endpoint.account());
    let stale = "W/\"datetime'2012-06-15T22%3A51%3A44.9662825Z'\"";
    let exchanges = [
        (200, client.get(&entity)),
        (404, client.get(&table.entity("p", "none"))),
        (409, table.insert(&keys("p", "r").to_string())),
        (400, table.insert("{")),
        (403, client.get(&entity).authorization(&wrong)),
        (412, client.delete(&entity).header("If-Match", stale)),
        (400, table.filter("aaa bbb ccc")),
        (404, client.get("/nosuchtable1()")),
        (204, client.put(&entity).json("{}")),
        (200, table.query("$top=1")),
    ];
    for (status, request) in exchanges {
        request.send()?.expect_status(status)?;
        client.expect_usable_connection()?;
    }
    Ok(())
}

/// The exact answer to the shorthand is not verified on the service; the rest is not an address at
/// all.
fn broken_predicates(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("x", "y"))?;
    for predicate in [
        "(PartitionKey='x')",
        "(RowKey='y')",
        "(PartitionKey='x',RowKey='y'",
        "(PartitionKey='x',RowKey='y)",
        "(PartitionKey=x,RowKey=y)",
        "(PartitionKey='x',RowKey='y',Other='z')",
        "(PartitionKey='x',PartitionKey='x')",
        "(partitionkey='x',rowkey='y')",
        "('x','y')",
        "(PartitionKey='x'RowKey='y')",
        "(PartitionKey='x',RowKey='y')/a",
    ] {
        for method in ["GET", "PUT", "DELETE"] {
            client
                .request(method, &format!("{}{predicate}", table.path()))
                .header("If-Match", "*")
                .json("{}")
                .send()?
                .expect_refusal()?;
        }
    }
    table.get("x", "y")?;
    Ok(())
}
