//! Section 16.12, first part: what a batch does and what its answer looks like.

use serde_json::json;

use super::check::etag_of;
use super::multipart::{Operation, Part};
use super::request::{FULL_METADATA, MINIMAL_METADATA};
use super::table::{Table, keys};
use super::{Case, Endpoint, Outcome, ensure};

pub(super) const CASES: &[Case] = &[
    Case::shared("batch_answer_keeps_the_byte_rules", &["210", "211"], byte_rules),
    Case::shared("batch_answer_as_clients_read_it", &["210", "211"], client_readers),
    Case::shared("batch_of_all_operations", &["212", "G29", "G37"], all_operations),
    Case::shared("batch_insert_without_content", &["213"], insert_without_content),
    Case::shared("batch_insert_with_content", &["214"], insert_with_content),
    Case::shared("batch_delete_has_no_etag", &["215"], delete_part),
    Case::shared("batch_update_parts", &["210"], update_parts),
    Case::shared("batch_failure_is_one_part", &["216", "G29", "G34"], failure),
    Case::shared("batch_failure_keeps_the_byte_rules", &["210", "216"], failure_bytes),
    Case::shared("batch_on_a_missing_table", &["221"], missing_table),
    Case::shared("batch_with_a_stale_etag", &["222", "G34"], stale_etag),
    Case::shared("batch_deletes_a_missing_entity", &["223", "G34"], missing_entity),
    Case::shared("batch_with_a_single_query", &["224"], single_query),
    Case::shared("batch_query_of_a_missing_entity", &["224"], single_query_missing),
    Case::shared("batch_becomes_visible_at_once", &["231", "G29"], visible_at_once),
];

fn header_names(part: &Part) -> Vec<&str> {
    let mut names: Vec<_> = part.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names
}

/// The sample of section 10.3: insert without content, delete, merge.
fn byte_rules(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("003", "old"))?;
    table.add(&keys("003", "merged"))?;
    let response = client
        .batch(&[
            Operation::insert(&table.path(), &keys("003", "r"))
                .header("Prefer", "return-no-content"),
            Operation::delete(&table.entity("003", "old")),
            Operation::new("PATCH", &table.entity("003", "merged"))
                .header("If-Match", "*")
                .json(&json!({ "a": 1 })),
        ])
        .send()?;
    response
        .expect_header("Cache-Control", "no-cache")?
        .expect_header("X-Content-Type-Options", "nosniff")?;
    let parts = response.strict_parts()?;
    ensure!(parts.len() == 3, "{} parts", parts.len());
    let always = ["Cache-Control", "DataServiceVersion", "X-Content-Type-Options"];
    let with = |more: &[&'static str]| {
        let mut names: Vec<_> = always.iter().chain(more).copied().collect();
        names.sort_unstable();
        names
    };
    for (part, names) in parts.iter().zip([
        with(&["DataServiceId", "ETag", "Location", "Preference-Applied"]),
        with(&[]),
        with(&["ETag"]),
    ]) {
        response.ensure(part.status == 204 && part.body.is_empty(), "expected 204 parts")?;
        // The reference's samples echo Content-ID, which the recordings do not.
        let mut found = header_names(part);
        found.retain(|name| *name != "Content-ID");
        response
            .ensure(found == names, &format!("expected the headers {names:?}, got {found:?}"))?;
        response.ensure(
            part.header("Cache-Control") == Some("no-cache")
                && part.header("X-Content-Type-Options") == Some("nosniff"),
            "expected no-cache and nosniff in every part",
        )?;
    }
    let versions: Vec<_> = parts.iter().map(|part| part.header("DataServiceVersion")).collect();
    response.ensure(
        versions == [Some("3.0;"), Some("1.0;"), Some("1.0;")],
        &format!("expected DataServiceVersion 3.0; 1.0; 1.0; got {versions:?}"),
    )?;
    response.expect_in_body("HTTP/1.1 204 No Content\r\n")?;
    Ok(())
}

/// The readers of the SDKs, as section 13.2 describes them, on a batch whose parts have no content.
fn client_readers(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let operations: Vec<_> = (0..3)
        .map(|number| {
            Operation::insert(&table.path(), &keys("p", &number.to_string()))
                .header("Prefer", "return-no-content")
        })
        .collect();
    let response = client.batch(&operations).send()?;
    let text = response.expect_status(202)?.text()?;
    // JavaScript splits the text, drops the first and the last piece, and throws at any brace.
    let pieces: Vec<_> = text.split("--changesetresponse_").collect();
    response.ensure(pieces.len() == 5, "JavaScript does not see three parts")?;
    for (number, piece) in pieces[1..4].iter().enumerate() {
        response.ensure(
            piece.contains("HTTP/1.1 204")
                && piece.contains("\r\nETag: W/\"")
                && piece.contains(&format!("RowKey='{number}'"))
                && !piece.contains('{'),
            "JavaScript cannot read a part",
        )?;
        // .NET needs an empty line between the part's own header and the status line.
        response.ensure(
            piece.contains("Content-Transfer-Encoding: binary\r\n\r\nHTTP/1.1 "),
            ".NET cannot read a part",
        )?;
    }
    // Go takes the boundary from the first line, and everything else from Content-Type.
    let first_line = text.split("\r\n").next().unwrap_or_default();
    let boundary = response
        .require_header("Content-Type")?
        .strip_prefix("multipart/mixed; boundary=")
        .unwrap_or_default();
    response.ensure(
        first_line.strip_prefix("--") == Some(boundary) && boundary.starts_with("batchresponse_"),
        "the boundary of the header is not that of the first line",
    )?;
    response
        .ensure(!text.replace("\r\n", "").contains(['\r', '\n']), "a line does not end in CRLF")?;
    Ok(())
}

/// Entities `a`, `b`, `c` in partition `p`, each with `n` = 1.
fn three_entities(table: &Table<'_>) -> Outcome {
    for row_key in ["a", "b", "c"] {
        table.add(&json!({ "PartitionKey": "p", "RowKey": row_key, "n": 1, "kind": row_key }))?;
    }
    Ok(())
}

fn all_operations(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    three_entities(&table)?;
    let at = |row_key: &str| table.entity("p", row_key);
    let body = json!({ "m": 2 });
    client
        .batch(&[
            Operation::insert(
                &table.path(),
                &json!({ "PartitionKey": "p", "RowKey": "i", "s": "text" }),
            ),
            Operation::new("PATCH", &at("a")).header("If-Match", "*").json(&body),
            Operation::new("PUT", &at("b")).header("If-Match", "*").json(&body),
            Operation::delete(&at("c")),
            Operation::new("MERGE", &at("new1")).json(&body),
            Operation::new("PUT", &at("new2")).json(&body),
            Operation::new("POST", &at("new3")).header("X-HTTP-Method", "MERGE").json(&body),
        ])
        .send()?
        .expect_parts(&[201, 204, 204, 204, 204, 204, 204])?;
    table.get("p", "i")?.expect_json("/s", "text")?;
    table.get("p", "a")?.expect_json("/n", 1)?.expect_json("/m", 2)?;
    table.get("p", "b")?.expect_no_json("/n")?.expect_json("/m", 2)?;
    table.expect_missing("p", "c")?;
    for row_key in ["new1", "new2", "new3"] {
        table.get("p", row_key)?.expect_json("/m", 2)?;
    }
    Ok(())
}

fn insert_without_content(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let response = client
        .batch(&[Operation::insert(&table.path(), &keys("it's", "r é"))
            .header("Prefer", "return-no-content")])
        .send()?;
    let part = response.expect_parts(&[204])?.remove(0);
    let location = format!(
        "{}/{}(PartitionKey='it''s',RowKey='r%20%C3%A9')",
        endpoint.base_url(),
        table.name()
    );
    response.ensure(
        part.header("Location") == Some(&location)
            && part.header("DataServiceId") == Some(&location),
        &format!("expected Location and DataServiceId {location}"),
    )?;
    response.ensure(
        part.header("Preference-Applied") == Some("return-no-content") && part.body.is_empty(),
        "expected Preference-Applied and no body",
    )?;
    let etag = part.header("ETag").unwrap_or_default();
    table.get("it's", "r é")?.expect_header("ETag", etag)?;
    Ok(())
}

fn insert_with_content(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let response = client
        .batch(&[
            Operation::insert(
                &table.path(),
                &json!({ "PartitionKey": "p", "RowKey": "a", "n": 1 }),
            ),
            Operation::insert(&table.path(), &keys("p", "b")).header("Prefer", "return-content"),
        ])
        .send()?;
    let parts = response.expect_parts(&[201, 201])?;
    for (row_key, part) in ["a", "b"].iter().zip(&parts) {
        let read = table.get("p", row_key)?;
        response.ensure(part.body == read.text()?, "the part's body is not the entity")?;
        response.ensure(
            part.header("ETag") == Some(read.etag()?),
            "the part's ETag is not the entity's",
        )?;
        response.ensure(
            part.header("Content-Type")
                == Some(&format!("{MINIMAL_METADATA};streaming=true;charset=utf-8")),
            "the part's content type is not that of minimal metadata",
        )?;
        response.ensure(part.header("Location").is_some(), "the part has no Location")?;
    }
    response.expect_in_body("HTTP/1.1 201 Created\r\n")?;
    response.ensure(
        parts[0].header("Preference-Applied").is_none()
            && parts[1].header("Preference-Applied") == Some("return-content"),
        "Preference-Applied does not follow Prefer",
    )?;
    Ok(())
}

fn delete_part(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    three_entities(&table)?;
    let etag = table.get("p", "b")?.etag()?.to_owned();
    let response = client
        .batch(&[
            Operation::delete(&table.entity("p", "a")),
            Operation::new("DELETE", &table.entity("p", "b")).header("If-Match", &etag),
        ])
        .send()?;
    for part in response.expect_parts(&[204, 204])? {
        response.ensure(
            part.header("ETag").is_none() && part.body.is_empty(),
            "expected neither ETag nor body",
        )?;
    }
    table.expect_missing("p", "a")?;
    table.expect_missing("p", "b")
}

fn update_parts(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    three_entities(&table)?;
    let response = client
        .batch(&[
            Operation::new("PUT", &table.entity("p", "a")).json(&json!({ "n": 2 })),
            Operation::new("PATCH", &table.entity("p", "b"))
                .header("If-Match", "*")
                .json(&json!({})),
        ])
        .send()?;
    for (row_key, part) in ["a", "b"].iter().zip(response.expect_parts(&[204, 204])?) {
        let read = table.get("p", row_key)?;
        let timestamp = read.json()?["Timestamp"].as_str().unwrap_or_default().to_owned();
        response.ensure(
            part.header("ETag") == Some(&etag_of(&timestamp)) && part.body.is_empty(),
            "expected the ETag of the written entity and no body",
        )?;
    }
    Ok(())
}

/// The second of three operations fails; the first and the third leave no trace.
fn failure(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    three_entities(&table)?;
    let before = table.query("").send()?;
    let patch = |row_key: &str| {
        Operation::new("PATCH", &table.entity("p", row_key))
            .header("If-Match", "*")
            .json(&json!({ "n": 9 }))
    };
    let insert =
        |entity| Operation::insert(&table.path(), &entity).header("Prefer", "return-no-content");
    for (failing, status, code, text) in [
        (
            insert(keys("p", "b")),
            409,
            "EntityAlreadyExists",
            "1:The specified entity already exists.",
        ),
        (patch("none"), 404, "ResourceNotFound", "1:The specified resource does not exist."),
        (
            insert(json!({ "PartitionKey": "p", "RowKey": "x", "a-b": 1 })),
            400,
            "PropertyNameInvalid",
            "",
        ),
    ] {
        client
            .batch(&[patch("a"), failing, Operation::delete(&table.entity("p", "c"))])
            .send()?
            .expect_failed_part(status, code, text)?;
        table.query("").send()?.expect_body(before.text()?)?;
    }
    client
        .batch(&[
            insert(keys("p", "new")),
            Operation::delete(&table.entity("p", "c")),
            insert(keys("p", "a")),
        ])
        .send()?
        .expect_failed_part(
            409,
            "EntityAlreadyExists",
            "2:The specified entity already exists.\nRequestId:",
        )?;
    table.query("").send()?.expect_body(before.text()?)?;
    Ok(())
}

fn failure_bytes(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    three_entities(&table)?;
    let mut operations: Vec<_> = ["x", "y", "z", "a"]
        .iter()
        .map(|row_key| {
            Operation::insert(&table.path(), &keys("p", row_key))
                .header("Prefer", "return-no-content")
        })
        .collect();
    operations.push(Operation::delete(&table.entity("p", "b")));
    let response = client.batch(&operations).send()?;
    let parts = response.strict_parts()?;
    response.ensure(parts.len() == 1, "expected exactly one part")?;
    let part = &parts[0];
    response.ensure(part.status == 409, "expected the status of the operation")?;
    for (name, value) in [
        ("X-Content-Type-Options", "nosniff"),
        ("Cache-Control", "no-cache"),
        ("DataServiceVersion", "3.0;"),
        ("Content-Type", "application/json;odata=minimalmetadata;streaming=true;charset=utf-8"),
    ] {
        response.ensure(part.header(name) == Some(value), &format!("expected {name}: {value}"))?;
    }
    // Older .NET clients find the index by this very text.
    let start = r#"{"odata.error":{"code":"EntityAlreadyExists","message":{"lang":"en-US","value":"3:The specified entity already exists.\nRequestId:"#;
    response
        .ensure(part.body.starts_with(start), &format!("expected a body that begins {start}"))?;
    response.expect_in_body("HTTP/1.1 409 Conflict\r\n")?;
    Ok(())
}

fn missing_table(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    for operation in [
        Operation::insert("/nosuchtable1", &keys("p", "r")),
        Operation::new("PUT", "/nosuchtable1(PartitionKey='p',RowKey='r')").json(&json!({})),
        Operation::delete("/nosuchtable1(PartitionKey='p',RowKey='r')"),
    ] {
        client.batch(&[operation]).send()?.expect_failed_part(
            404,
            "TableNotFound",
            "0:The table specified does not exist.\n",
        )?;
    }
    Ok(())
}

fn stale_etag(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    three_entities(&table)?;
    let stale = table.get("p", "b")?.etag()?.to_owned();
    client.patch(&table.entity("p", "b")).json("{}").send()?.expect_status(204)?;
    let before = table.query("").send()?;
    for method in ["PUT", "PATCH", "DELETE"] {
        client
            .batch(&[
                Operation::delete(&table.entity("p", "a")),
                Operation::new(method, &table.entity("p", "b"))
                    .header("If-Match", &stale)
                    .json(&json!({ "n": 5 })),
            ])
            .send()?
            .expect_failed_part(
                412,
                "UpdateConditionNotSatisfied",
                "1:The update condition specified in the request was not satisfied.\n",
            )?;
        table.query("").send()?.expect_body(before.text()?)?;
    }
    Ok(())
}

fn missing_entity(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    three_entities(&table)?;
    client
        .batch(&[
            Operation::delete(&table.entity("p", "a")),
            Operation::delete(&table.entity("p", "b")),
            Operation::delete(&table.entity("p", "none")),
        ])
        .send()?
        .expect_failed_part(
            404,
            "ResourceNotFound",
            "2:The specified resource does not exist.\n",
        )?;
    table.get("p", "a")?;
    table.get("p", "b")?;
    Ok(())
}

/// The answer of section 10.4, rebuilt from the entity read alone.
fn single_query(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    three_entities(&table)?;
    let read = table.get("p", "a")?;
    let response = client.bare_batch(&[Operation::new("GET", &table.entity("p", "a"))]).send()?;
    let text = response.expect_status(202)?.text()?.to_owned();
    let boundary = response
        .require_header("Content-Type")?
        .strip_prefix("multipart/mixed; boundary=")
        .unwrap_or_default();
    response
        .ensure(boundary.starts_with("batchresponse_"), "expected a batchresponse_ boundary")?;
    let head = format!(
        "--{boundary}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nHTTP/1.1 200 OK\r\n"
    );
    let tail = format!("\r\n\r\n{}\r\n--{boundary}--\r\n", read.text()?);
    response.ensure(text.starts_with(&head), &format!("expected the body to begin {head:?}"))?;
    response.ensure(text.ends_with(&tail), &format!("expected the body to end {tail:?}"))?;
    let part = response.expect_parts(&[200])?.remove(0);
    response.ensure(
        part.header("ETag") == Some(read.etag()?)
            && part.header("DataServiceVersion") == Some("3.0;")
            && part.header("Content-Type") == read.header("Content-Type"),
        "expected ETag, DataServiceVersion and Content-Type in the part",
    )?;
    let query = format!("{}()?$filter=RowKey%20ge%20'b'", table.path());
    let response = client.bare_batch(&[Operation::new("GET", &query)]).send()?;
    let set = client.get(&query).send()?;
    let part = response.expect_parts(&[200])?.remove(0);
    response.ensure(part.body == set.text()?, "expected the set as it is read alone")?;
    Ok(())
}

fn single_query_missing(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let response = client
        .bare_batch(&[Operation::new("GET", &table.entity("p", "none"))])
        .accept(FULL_METADATA)
        .send()?;
    let part = response.expect_parts(&[404])?.remove(0);
    response.ensure(
        part.body.contains("\"code\":\"ResourceNotFound\""),
        "expected ResourceNotFound in the part",
    )?;
    Ok(())
}

/// While one client rewrites ten entities by batches, no query of another may see two generations.
fn visible_at_once(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let generation = |number: i32| -> Vec<_> {
        (0..10)
            .map(|row| {
                Operation::new("PUT", &table.entity("p", &row.to_string()))
                    .json(&json!({ "generation": number }))
            })
            .collect()
    };
    client.batch(&generation(0)).send()?.expect_parts(&[204; 10])?;
    std::thread::scope(|scope| {
        let operations: Vec<_> = (1..=40).map(generation).collect();
        let writer = scope.spawn(move || -> Outcome {
            let client = endpoint.client();
            for operations in &operations {
                client.batch(operations).send()?.expect_parts(&[204; 10])?;
            }
            Ok(())
        });
        let mut last = 0;
        while !writer.is_finished() {
            let page = table.filter("PartitionKey eq 'p'").send()?;
            let rows = page.expect_status(200)?.rows()?;
            let seen = rows[0]["generation"].as_i64().unwrap_or(-1);
            page.ensure(
                rows.len() == 10
                    && rows.iter().all(|row| row["generation"] == seen)
                    && seen >= last,
                "a query saw part of a batch",
            )?;
            last = seen;
        }
        writer.join().expect("the writer returns its failures")
    })
}
