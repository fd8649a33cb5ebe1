//! Section 16.3: the shape of error bodies, and the table of codes.

use serde_json::json;

use super::check::{GUID_SHAPE, TIME_SHAPE, has_shape};
use super::http::Response;
use super::request::{Client, Request};
use super::table::{Table, keys};
use super::{Case, Endpoint, Outcome};

pub(super) const CASES: &[Case] = &[
    Case::shared("json_errors_have_exactly_one_shape", &["34", "35", "36", "37", "39"], json_shape),
    Case::shared("xml_errors_have_the_metadata_shape", &["38"], xml_shape),
    Case::shared("codes_of_tables", &["39", "40"], table_codes),
    Case::shared("codes_of_entities", &["39", "40"], entity_codes),
    Case::shared("codes_of_properties", &["39", "40"], property_codes),
    Case::shared("codes_of_headers_and_methods", &["39", "40"], header_codes),
    Case::shared("methods_that_a_resource_lacks", &["39", "40"], missing_methods),
];

fn json_shape(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("p", "r"))?;
    let refusals = [
        client.create_table(table.name()),
        client.get(&table.entity("p", "none")),
        client.get("/nosuchtable1()"),
        table.insert(&keys("p", "r").to_string()),
        table.insert("{"),
        table.insert("{\"PartitionKey\":\"\\\"quoted\\\"\\\\\",\"RowKey\":\"r\"}"),
        table.filter("aaa bbb 'quoted \" \\'"),
        client.delete_table("nosuchtable1"),
        client.get(&table.entity("p", "r")).authorization("SharedKey a:b"),
        client.put(&table.entity("p", "r")).json("{}").header("If-Match", "W/\"wrong\""),
    ];
    for refusal in refusals {
        expect_json_shape(&refusal.send()?)?;
    }
    Ok(())
}

/// Rebuilds the body from its three variable pieces and compares bytes.
fn expect_json_shape(response: &Response) -> Outcome {
    response.expect_refusal()?;
    response.ensure(
        response.require_header("Content-Type")?.starts_with("application/json"),
        "the error's content type does not begin with application/json",
    )?;
    let json = response.json()?;
    let code = json.pointer("/odata.error/code").cloned().unwrap_or_default();
    let value = json.pointer("/odata.error/message/value").cloned().unwrap_or_default();
    response.expect_body(&format!(
        "{{\"odata.error\":{{\"code\":{code},\"message\":{{\"lang\":\"en-US\",\"value\":{value}}}}}}}"
    ))?;
    let code = code.as_str().unwrap_or_default();
    response.ensure(!code.is_empty(), "the code is empty")?;
    let value = value.as_str().unwrap_or_default();
    let time = value.rsplit("\nTime:").next().unwrap_or_default();
    response
        .ensure(has_shape(time, TIME_SHAPE), "Time is not in UTC with seven fraction digits")?;
    let id = response.require_header("x-ms-request-id")?;
    let tail = format!("\nRequestId:{id}\nTime:{time}");
    response.ensure(
        value.ends_with(&tail) && value.len() > tail.len(),
        "the value is not a text with the tail of request id and time",
    )?;
    Ok(())
}

fn xml_shape(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let acl = format!("{}?comp=acl", table.path());
    let properties = "/?restype=service&comp=properties";
    for (code, refusal) in [
        ("InvalidXmlDocument", client.put(&acl).xml("<SignedIdentifiers>")),
        ("InvalidXmlDocument", client.put(&acl).xml("no xml at all")),
        ("InvalidXmlDocument", client.put(properties).xml("<Storage")),
    ] {
        let response = refusal.send()?;
        response.expect_xml_error(400, code)?;
        expect_xml_shape(&response, code, "XML specified is not syntactically valid.")?;
    }
    let response = client.get("/nosuchtable1?comp=acl").send()?;
    response.expect_status(404)?;
    let code = response.require_header("x-ms-error-code")?.to_owned();
    let text = match code.as_str() {
        "TableNotFound" => "The table specified does not exist.",
        _ => "The specified resource does not exist.",
    };
    expect_xml_shape(&response, &code, text)
}

fn expect_xml_shape(response: &Response, code: &str, text: &str) -> Outcome {
    response
        .expect_header("Content-Type", "application/xml")?
        .expect_header("x-ms-error-code", code)?;
    let id = response.require_header("x-ms-request-id")?;
    let head = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><m:error \
         xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\"><m:code>{code}</m:code>\
         <m:message xml:lang=\"en-US\">{text}\nRequestId:{id}\nTime:"
    );
    let time = response
        .text()?
        .strip_prefix(&head)
        .and_then(|rest| rest.strip_suffix("</m:message></m:error>"));
    response.ensure(has_shape(id, GUID_SHAPE), "the request id is not a GUID")?;
    response.ensure(
        time.is_some_and(|time| has_shape(time, TIME_SHAPE)),
        &format!("expected the body to be {head}…</m:message></m:error>"),
    )?;
    Ok(())
}

/// A refusal that the table of codes names: request, status, code, text.
type DomainError<'c> = (Request<'c>, u16, &'c str, &'c str);

fn expect_all(refusals: Vec<DomainError<'_>>) -> Outcome {
    for (request, status, code, text) in refusals {
        request.send()?.expect_error_text(status, code, text)?;
    }
    Ok(())
}

fn table_codes(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let long = "a".repeat(64);
    let length = "The specified resource name length is not within the permissible limits.";
    let characters = "The specifed resource name contains invalid characters.";
    let not_valid = "One of the request inputs is not valid.";
    let missing = "The specified resource does not exist.";
    let exists = "The table specified already exists.";
    expect_all(vec![
        (client.create_table(table.name()), 409, "TableAlreadyExists", exists),
        (client.create_table("ab"), 400, "OutOfRangeInput", length),
        (client.create_table(&long), 400, "OutOfRangeInput", length),
        (client.create_table("with_line"), 400, "InvalidResourceName", characters),
        (client.create_table("tables"), 400, "InvalidInput", not_valid),
        (client.delete_table("nosuchtable1"), 404, "ResourceNotFound", missing),
    ])
}

fn entity_codes(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("p", "r"))?;
    let entity = table.entity("p", "r");
    let missing = "The specified resource does not exist.";
    let no_table = "The table specified does not exist.";
    let exists = "The specified entity already exists.";
    let condition = "The update condition specified in the request was not satisfied.";
    let syntax = "Syntax error at position 7 in 'aaa bbb ccc'.";
    let address = "Bad Request - Error in query syntax.";
    let slash = format!("{}(PartitionKey='a%2Fb',RowKey='r')", table.path());
    let replace = |etag: &str| client.put(&entity).json("{}").header("If-Match", etag);
    expect_all(vec![
        (client.get(&table.entity("p", "none")), 404, "ResourceNotFound", missing),
        (client.get("/nosuchtable1()"), 404, "TableNotFound", no_table),
        (table.insert(&keys("p", "r").to_string()), 409, "EntityAlreadyExists", exists),
        (replace("W/\"wrong\""), 412, "UpdateConditionNotSatisfied", condition),
        (table.filter("aaa bbb ccc"), 400, "InvalidInput", syntax),
        (client.get(&slash), 400, "InvalidInput", address),
    ])?;
    replace("garbage").send()?.expect_error_text(
        400,
        "InvalidInput",
        "The etag value 'garbage' specified in one of the request headers is not valid. Please make sure only one \
         etag value is specified and is valid.",
    )?;
    for (method, verb) in [("PUT", "PUT"), ("DELETE", "DELETE")] {
        client
            .request(method, &entity)
            .json("{}")
            .header("If-None-Match", "*")
            .send()?
            .expect_error_text(
                400,
                "InvalidInput",
                &format!("If-None-Match HTTP header cannot be specified for {verb} operations."),
            )?;
    }
    Ok(())
}

fn property_codes(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let with = |member: &str| {
        table.insert(&format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"r\",{member}}}"))
    };
    let long_name = "n".repeat(256);
    let many: Vec<_> = (0..253).map(|n| format!("\"p{n}\":1")).collect();
    let value_size = "The property value exceeds the maximum allowed size (64KB). If the property value is a \
                      string, it is UTF-16 encoded and the maximum number of characters should be 32K or less.";
    let name_size = "The property name exceeds the maximum allowed length (255).";
    let count = "The entity contains more properties than allowed. Each entity can include up to 252 properties \
                 to store data. Each entity also has 3 system properties.";
    let twice = "A property is specified more than one time.";
    let no_keys = "The values are not specified for all properties in the entity.";
    let key_range = "The 'PartitionKey' parameter of value 'a/b' is out of range.";
    let date_range = "The 'd' parameter of value '01/01/0001 00:00:00' is out of range.";
    let date = r#""d@odata.type":"Edm.DateTime","d":"0001-01-01T00:00:00Z""#;
    let long_value = format!("\"s\":\"{}\"", "s".repeat(32 * 1024 + 1));
    expect_all(vec![
        (with(&long_value), 400, "PropertyValueTooLarge", value_size),
        (with(&format!("\"{long_name}\":1")), 400, "PropertyNameTooLong", name_size),
        (with(&many.join(",")), 400, "TooManyProperties", count),
        (with(r#""a-b":1"#), 400, "PropertyNameInvalid", "The property name is invalid."),
        (with(r#""a":1,"a":2"#), 400, "DuplicatePropertiesSpecified", twice),
        (table.insert(r#"{"RowKey":"r"}"#), 400, "PropertiesNeedValue", no_keys),
        (table.insert(&keys("a/b", "r").to_string()), 400, "OutOfRangeInput", key_range),
        (with(date), 400, "OutOfRangeInput", date_range),
    ])?;
    expect_entity_too_large(&table)
}

fn expect_entity_too_large(table: &Table<'_>) -> Outcome {
    let mut entity = keys("p", "r");
    for property in 0..17 {
        entity[format!("s{property}")] = json!("s".repeat(32 * 1024));
    }
    table.insert(&entity.to_string()).send()?.expect_error_text(
        400,
        "EntityTooLarge",
        "The entity is larger than the maximum allowed size (1MB).",
    )?;
    Ok(())
}

fn header_codes(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("p", "r"))?;
    let entity = table.entity("p", "r");
    let tunnel = |method: &str, verb: &str| {
        client.request(method, &entity).json("{}").header("X-HTTP-Method", verb)
    };
    for (code, request) in [
        ("XMethodNotUsingPost", tunnel("PUT", "MERGE")),
        ("XMethodIncorrectValue", tunnel("POST", "FETCH")),
        ("XMethodIncorrectCount", tunnel("POST", "MERGE").header_again("X-HTTP-Method", "PUT")),
        ("InvalidHeaderValue", client.get(&entity).header("x-ms-version", "abc")),
    ] {
        request.send()?.expect_error(400, code)?;
    }
    client
        .get(&entity)
        .accept("application/atom+xml")
        .send()?
        .expect_status(415)?
        .expect_in_body("AtomFormatNotSupported")?;
    client
        .get(&entity)
        .accept("application/json;odata=verbose")
        .send()?
        .expect_status(415)?
        .expect_in_body("JsonVerboseFormatNotSupported")?;
    let failed = "Server failed to authenticate the request. Make sure the value of Authorization header is formed \
                  correctly including the signature.";
    let wrong = format!("SharedKey {}:d3Jvbmc=", endpoint.account());
    client
        .get(&entity)
        .authorization(&wrong)
        .send()?
        .expect_error(403, "AuthenticationFailed")?
        .expect_in_body(failed)?;
    Ok(())
}

fn missing_methods(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("p", "r"))?;
    for (method, path) in [
        ("PUT", "/Tables".to_owned()),
        ("DELETE", "/Tables".to_owned()),
        ("PATCH", "/Tables".to_owned()),
        ("PUT", table.path()),
        ("DELETE", table.path()),
        ("POST", table.entity("p", "r")),
    ] {
        expect_method_refused(&client, method, &path)?;
    }
    table.get("p", "r")?;
    Ok(())
}

fn expect_method_refused(client: &Client<'_>, method: &str, path: &str) -> Outcome {
    let response = client.request(method, path).json("{}").header("If-Match", "*").send()?;
    response.expect_status(405)?;
    let json = response.json()?;
    let code = json.pointer("/odata.error/code").cloned().unwrap_or_default();
    response.ensure(
        code == "MethodNotAllowed" || code == "UnsupportedHttpVerb",
        "expected MethodNotAllowed or UnsupportedHttpVerb",
    )?;
    Ok(())
}
