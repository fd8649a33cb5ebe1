//! Section 16.2: headers that every answer has, and headers that every request may have.

use std::time::{Duration, SystemTime};

use super::check::{GUID_SHAPE, has_shape};
use super::http::Response;
use super::multipart::Operation;
use super::request::{Client, NO_METADATA, Request, VERSION};
use super::signer::{Scheme, signature};
use super::table::{Table, keys};
use super::{Case, Endpoint, Outcome, ensure};

pub(super) const CASES: &[Case] = &[
    Case::shared("every_answer_has_the_common_headers", &["22", "23", "26"], common_headers),
    Case::shared("json_answers_forbid_caching_and_sniffing", &["27"], json_headers),
    Case::shared("empty_answers_have_length_zero", &["28"], empty_answers),
    Case::shared("version_is_echoed", &["23"], version_echo),
    Case::shared("missing_version_is_taken", &["22"], missing_version),
    Case::shared("malformed_version_is_refused", &["29"], malformed_version),
    Case::shared("client_request_id_is_echoed", &["24"], client_request_id),
    Case::shared("long_client_request_id_is_not_echoed", &["25"], long_client_request_id),
    Case::shared("data_service_versions", &["30", "31"], data_service_versions),
    Case::shared("request_id_stands_in_the_error_text", &["32"], request_id_in_error),
    Case::shared("header_names_ignore_case", &["33"], header_name_case),
];

/// One request of every kind, with what kind of answer it gets.
fn one_of_each<'c>(
    client: &'c Client<'c>,
    table: &'c Table<'c>,
) -> Vec<(&'static str, Request<'c>)> {
    let entity = table.entity("p", "r");
    let missing = table.entity("p", "none");
    let operation = Operation::insert(&table.path(), &keys("b", "r"));
    vec![
        ("json", client.create_table(table.name())),
        ("json", client.get("/Tables?$top=1")),
        ("json", client.get(&format!("/Tables('{}')", table.name()))),
        ("json", table.insert(&keys("p", "r").to_string())),
        ("json", table.insert(&keys("p", "r").to_string())),
        ("empty", table.insert(&keys("p", "s").to_string()).header("Prefer", "return-no-content")),
        ("json", client.get(&entity)),
        ("json", client.get(&missing)),
        ("empty", client.put(&entity).json("{}")),
        ("empty", client.patch(&entity).json("{}")),
        ("json", client.put(&missing).json("{}").header("If-Match", "*")),
        ("json", client.get(&format!("{}()", table.path()))),
        ("json", table.query("").accept(NO_METADATA)),
        ("json", client.get(&format!("{}()?$filter=a%20b", table.path()))),
        ("multipart", client.batch(&[operation])),
        ("empty", client.put(&format!("{}?comp=acl", table.path()))),
        ("xml", client.get(&format!("{}?comp=acl", table.path()))),
        ("xml", client.get("/?restype=service&comp=properties")),
        ("xml", client.put(&format!("{}?comp=acl", table.path())).xml("<a")),
        ("json", client.get(&entity).authorization("SharedKey a:b")),
        ("empty", client.delete(&entity).header("If-Match", "*")),
    ]
}

fn common_headers(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for (_, request) in one_of_each(&client, &table) {
        let response = request.send()?;
        response.expect_header("x-ms-version", VERSION)?;
        response.ensure(
            has_shape(response.require_header("x-ms-request-id")?, GUID_SHAPE),
            "x-ms-request-id is not a GUID",
        )?;
        response.ensure(!response.require_header("Server")?.is_empty(), "Server is empty")?;
        expect_current_date(&response)?;
    }
    Ok(())
}

/// Clocks of two machines may differ by as much as signatures allow.
fn expect_current_date(response: &Response) -> Outcome {
    let date = response.require_header("Date")?;
    let minutes = 15;
    let current = httpdate::parse_http_date(date).ok().is_some_and(|date| {
        let now = SystemTime::now();
        let distance = now.duration_since(date).or_else(|_| date.duration_since(now));
        distance.is_ok_and(|distance| distance < Duration::from_secs(minutes * 60))
    });
    response
        .ensure(current && date.ends_with(" GMT"), "Date is not the current time in RFC 1123")?;
    Ok(())
}

fn json_headers(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for (kind, request) in one_of_each(&client, &table) {
        let response = request.send()?;
        let begins_json = response
            .header("Content-Type")
            .is_some_and(|value| value.starts_with("application/json"));
        response.ensure(
            begins_json == (kind == "json"),
            &format!("expected an answer of kind {kind}"),
        )?;
        // A bad `$filter` was recorded without Cache-Control, and a refused signature precedes the
        // operation.
        if begins_json && !matches!(response.status, 400 | 403) {
            response
                .expect_header("Cache-Control", "no-cache")?
                .expect_header("X-Content-Type-Options", "nosniff")?;
        }
    }
    Ok(())
}

fn empty_answers(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let mut seen = 0;
    for (kind, request) in one_of_each(&client, &table) {
        let response = request.send()?;
        if kind == "empty" {
            response
                .expect_header("Content-Length", "0")?
                .expect_no_header("Transfer-Encoding")?
                .expect_body("")?;
            seen += 1;
        }
    }
    ensure!(seen == 5, "{seen} empty answers");
    client
        .delete_table(table.name())
        .send()?
        .expect_status(204)?
        .expect_header("Content-Length", "0")?;
    Ok(())
}

fn version_echo(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for version in
        ["2015-12-11", "2017-07-29", "2019-02-02", "2019-07-07", "2020-12-06", "2024-11-04"]
    {
        for path in ["/Tables?$top=1".to_owned(), table.entity("p", "none")] {
            client
                .get(&path)
                .header("x-ms-version", version)
                .send()?
                .expect_header("x-ms-version", version)?;
        }
    }
    Ok(())
}

fn missing_version(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let response = client.get("/Tables?$top=1").without("x-ms-version").send()?;
    response.ensure(
        has_shape(response.require_header("x-ms-version")?, "0000-00-00"),
        "x-ms-version is not a date",
    )?;
    Ok(())
}

fn malformed_version(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    for version in ["abc", "2019-02", "20190202", "2019-02-02x", "19-02-02", "2019/02/02"] {
        client.get("/Tables?$top=1").header("x-ms-version", version).send()?.expect_error_text(
            400,
            "InvalidHeaderValue",
            "The value for one of the HTTP headers is not in the correct format.",
        )?;
    }
    Ok(())
}

fn client_request_id(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let longest = "x".repeat(1024);
    for id in ["6d80e966-e151-11f1-9cd5-02fc00000001", "!\"#$%&'()*+,-./~", &longest] {
        for (_, request) in one_of_each(&client, &table) {
            request
                .header("x-ms-client-request-id", id)
                .send()?
                .expect_header("x-ms-client-request-id", id)?;
        }
    }
    for (_, request) in one_of_each(&client, &table) {
        request.send()?.expect_no_header("x-ms-client-request-id")?;
    }
    Ok(())
}

fn long_client_request_id(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    for id in ["x".repeat(1025), "x".repeat(4000), "not visible: é".to_owned()] {
        client
            .get("/Tables?$top=1")
            .header("x-ms-client-request-id", &id)
            .send()?
            .expect_status(200)?
            .expect_no_header("x-ms-client-request-id")?;
    }
    Ok(())
}

fn data_service_versions(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let headers = ["DataServiceVersion", "MaxDataServiceVersion"];
    for (index, version) in ["3.0", "3.0;", "3.0;NetFx"].iter().enumerate() {
        for header in headers {
            let row_key = format!("{index}{header}");
            table
                .insert(&keys("p", &row_key).to_string())
                .header(header, version)
                .send()?
                .expect_status(201)?;
            client
                .get(&table.entity("p", &row_key))
                .header(header, version)
                .send()?
                .expect_status(200)?;
        }
    }
    table
        .insert(&keys("p", "none").to_string())
        .without("DataServiceVersion")
        .send()?
        .expect_status(201)?;
    table
        .query("")
        .without("DataServiceVersion")
        .send()?
        .expect_status(200)?
        .expect_row_count(7)?;
    Ok(())
}

fn request_id_in_error(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let mut ids = Vec::new();
    for (_, request) in one_of_each(&client, &table) {
        let response = request.send()?;
        let id = response.require_header("x-ms-request-id")?;
        if response.status >= 400 {
            response.expect_in_body(&format!("RequestId:{id}"))?;
            ids.push(id.to_owned());
        }
    }
    ensure!(ids.len() >= 6, "only {} refusals", ids.len());
    ids.sort_unstable();
    ids.dedup();
    ensure!(ids.len() >= 6, "request ids repeat");
    Ok(())
}

fn header_name_case(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let insert = |row_key: &str, recase: fn(&str) -> String| {
        let request =
            table.insert(&keys("p", row_key).to_string()).header("Prefer", "return-no-content");
        let text = request.signed_parts().string_to_sign(Scheme::SharedKey);
        let value =
            format!("SharedKey {}:{}", endpoint.account(), signature(endpoint.key(), &text));
        let request = request.authorization(&value).render();
        let text = String::from_utf8(request).expect("requests of this case are text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head ends somewhere");
        let lines: Vec<_> = head
            .split("\r\n")
            .enumerate()
            .map(|(index, line)| match line.split_once(": ") {
                Some((name, value)) if index > 0 => format!("{}: {value}", recase(name)),
                _ => line.to_owned(),
            })
            .collect();
        client.send_bytes(format!("{}\r\n\r\n{body}", lines.join("\r\n")).as_bytes())
    };
    insert("lower", str::to_lowercase)?.expect_status(204)?;
    insert("upper", str::to_uppercase)?
        .expect_status(204)?
        .expect_header("Preference-Applied", "return-no-content")?;
    client
        .delete(&table.entity("p", "lower"))
        .header("iF-mATCH", "*")
        .send()?
        .expect_status(204)?;
    Ok(())
}
