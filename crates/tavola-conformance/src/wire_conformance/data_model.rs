//! Section 16.8, second part: entities, keys, names, sizes, ETags.

use serde_json::{Value, json};

use super::check::{etag_of, filled};
use super::data_types::zero_bytes;
use super::request::{FULL_METADATA, NO_METADATA, percent_encode};
use super::table::{Table, keys};
use super::{Case, Endpoint, Failure, Outcome, ensure};

pub(super) const CASES: &[Case] = &[
    Case::shared("two_hundred_fifty_two_properties_at_most", &["125", "G10"], property_count),
    Case::shared("property_names_of_255_characters_at_most", &["126"], name_length),
    Case::shared("property_names_differ_by_case", &["127"], name_case),
    Case::shared("property_names_must_be_identifiers", &["128"], name_characters),
    Case::shared("entity_of_one_mebibyte_at_most", &["129", "G11"], entity_size),
    Case::shared("forbidden_characters_of_keys_in_bodies", &["130"], key_characters_in_bodies),
    Case::shared("forbidden_characters_of_keys_in_urls", &["130"], key_characters_in_urls),
    Case::shared("keys_of_one_kibibyte_at_most", &["131", "G12"], key_length),
    Case::shared("both_keys_are_needed", &["132"], missing_keys),
    Case::shared("odata_members_are_ignored", &["134", "135"], odata_members),
    Case::shared("annotations_before_and_after", &["136"], annotation_order),
    Case::shared("arrays_and_objects_are_no_values", &["137"], nested_values),
    Case::shared("malformed_json_is_refused", &["138"], malformed_json),
    Case::shared("etag_is_the_timestamp", &["140", "G3"], etag_is_timestamp),
    Case::shared("every_write_has_a_later_timestamp", &["141", "G2"], timestamps_grow),
];

fn with_properties(row_key: &str, count: usize) -> Value {
    let mut entity = keys("p", row_key);
    for number in 0..count {
        entity[format!("p{number}")] = json!(number);
    }
    entity
}

fn property_count(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&with_properties("fits", 252))?;
    let read = client.get(&table.entity("p", "fits")).accept(NO_METADATA).send()?.json()?;
    let count = read.as_object().map_or(0, |members| members.len());
    ensure!(count == 255, "{count} members came back");
    table
        .insert(&with_properties("many", 253).to_string())
        .send()?
        .expect_error(400, "TooManyProperties")?;
    client
        .put(&table.entity("p", "many"))
        .json(&with_properties("many", 253).to_string())
        .send()?
        .expect_error(400, "TooManyProperties")?;
    table.expect_missing("p", "many")
}

fn name_length(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for (row_key, letter) in [("ascii", "n"), ("greek", "λ")] {
        let longest = letter.repeat(255);
        let mut entity = keys("p", row_key);
        entity[&longest] = json!("kept");
        table.add(&entity)?;
        table.get("p", row_key)?.expect_json(&format!("/{longest}"), "kept")?;
        let mut entity = keys("p", "long");
        entity[format!("{longest}{letter}")] = json!("refused");
        table.insert(&entity.to_string()).send()?.expect_error(400, "PropertyNameTooLong")?;
    }
    table.expect_missing("p", "long")
}

fn name_case(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&json!({
        "PartitionKey": "p", "RowKey": "r", "Birthday": 1, "birthday": 2,
    }))?;
    table.get("p", "r")?.expect_json("/Birthday", 1)?.expect_json("/birthday", 2)?;
    table.expect_found("Birthday eq 1 and birthday eq 2", "r")?;
    table.expect_found("Birthday eq 2", "")
}

fn name_characters(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for name in ["a-b", "-a", "1a", "a b", "a!", "a/b", "", "a\u{1F600}"] {
        let mut entity = keys("p", "bad");
        entity[name] = json!(1);
        table.insert(&entity.to_string()).send()?.expect_error(400, "PropertyNameInvalid")?;
    }
    table.expect_missing("p", "bad")?;
    for (index, name) in ["_a", "a1", "é", "名前", "a_b", "A", "ñ9"].iter().enumerate() {
        let mut entity = keys("p", &index.to_string());
        entity[name] = json!(1);
        table.add(&entity)?;
        table.get("p", &index.to_string())?.expect_json(&format!("/{name}"), 1)?;
    }
    Ok(())
}

/// An entity whose size by the formula of the service is exactly so many bytes.
fn entity_of(row_key: &str, bytes: usize) -> String {
    let own = 4 + 2 * ("p".len() + row_key.len());
    let per_property = |name: &str| 8 + 2 * name.len() + 4;
    let mut left = bytes - own;
    let mut members = format!("\"PartitionKey\":\"p\",\"RowKey\":\"{row_key}\"");
    for number in 0.. {
        let name = format!("b{number:02}");
        let overhead = per_property(&name);
        // For a mebibyte the full properties leave a rest that is large enough to be a property
        // itself.
        let size = (left - overhead).min(60_000);
        members.push_str(&format!(
            ",\"{name}@odata.type\":\"Edm.Binary\",\"{name}\":\"{}\"",
            zero_bytes(size)
        ));
        left -= overhead + size;
        if left == 0 {
            break;
        }
    }
    format!("{{{members}}}")
}

const ENTITY_BYTES_MAX: usize = 1024 * 1024;

fn entity_size(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.insert(&entity_of("fits", ENTITY_BYTES_MAX)).send()?.expect_status(201)?;
    let large = entity_of("over", ENTITY_BYTES_MAX + 1);
    table.insert(&large).send()?.expect_error(400, "EntityTooLarge")?;
    for request in
        [client.put(&table.entity("p", "over")), client.patch(&table.entity("p", "over"))]
    {
        request.json(&large).send()?.expect_error(400, "EntityTooLarge")?;
    }
    table.expect_missing("p", "over")?;
    // Strings count two bytes for each unit.
    let mut entity = keys("p", "text");
    for number in 0..15 {
        entity[format!("s{number:02}")] = json!("s".repeat(32 * 1024));
    }
    let own = 4 + 2 * ("p".len() + "text".len());
    let per_property = 8 + 2 * "s00".len() + 4;
    let rest = ENTITY_BYTES_MAX - own - 15 * (per_property + 64 * 1024) - per_property;
    entity["s15"] = json!("s".repeat(rest / 2));
    table.add(&entity)?;
    entity["RowKey"] = json!("texT");
    entity["s15"] = json!("s".repeat(rest / 2 + 1));
    table.insert(&entity.to_string()).send()?.expect_error(400, "EntityTooLarge")?;
    Ok(())
}

fn key_characters_in_bodies(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for character in [
        '/', '\\', '#', '?', '\u{0}', '\u{1}', '\t', '\n', '\r', '\u{1f}', '\u{7f}', '\u{80}',
        '\u{9f}',
    ] {
        let bad = format!("a{character}b");
        for (key, entity) in [("PartitionKey", keys(&bad, "r")), ("RowKey", keys("p", &bad))] {
            let response = table.insert(&entity.to_string()).send()?;
            response.expect_error(400, "OutOfRangeInput")?;
            if !character.is_control() {
                response.expect_error_text(
                    400,
                    "OutOfRangeInput",
                    &format!("The '{key}' parameter of value '{bad}' is out of range."),
                )?;
            }
        }
    }
    table.query("").send()?.expect_body(r#"{"value":[]}"#)?;
    // Their neighbours are legal.
    for character in ['!', '"', '$', '>', '@', '[', ']', ' ', '~', '\u{a0}', '\u{ffff}'] {
        table.add(&keys("p", &format!("a{character}b")))?;
    }
    Ok(())
}

fn key_characters_in_urls(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let syntax = "Bad Request - Error in query syntax.";
    let range = "One of the request inputs is out of range.";
    for (escape, code, text) in [
        ("%2F", "InvalidInput", syntax),
        ("%5C", "InvalidInput", syntax),
        ("%23", "OutOfRangeInput", range),
        ("%3F", "OutOfRangeInput", range),
        ("%C2%80", "OutOfRangeInput", range),
        ("%C2%9F", "OutOfRangeInput", range),
    ] {
        for predicate in [
            format!("(PartitionKey='a{escape}b',RowKey='r')"),
            format!("(PartitionKey='p',RowKey='a{escape}b')"),
        ] {
            client
                .put(&format!("{}{predicate}", table.path()))
                .json("{}")
                .send()?
                .expect_error_text(400, code, text)?;
        }
    }
    // Below the space the HTTP layer of the service answers, without a body.
    for escape in ["%00", "%01", "%09", "%0D%0A", "%1F", "%7F"] {
        client
            .put(&format!("{}(PartitionKey='a{escape}b',RowKey='r')", table.path()))
            .json("{}")
            .send()?
            .expect_status(400)?;
    }
    table.query("").send()?.expect_body(r#"{"value":[]}"#)?;
    Ok(())
}

fn key_length(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for (longest, extra) in
        [("k".repeat(512), "k"), ("é".repeat(512), "é"), ("😀".repeat(256), "k")]
    {
        table.add(&keys(&longest, &longest))?;
        table.get(&longest, &longest)?.expect_json("/RowKey", longest.as_str())?;
        let long = format!("{longest}{extra}");
        for (partition_key, row_key) in [(long.as_str(), "r"), ("p", long.as_str())] {
            table.insert(&keys(partition_key, row_key).to_string()).send()?.expect_status(400)?;
            client
                .put(&table.entity(partition_key, row_key))
                .json("{}")
                .send()?
                .expect_status(400)?;
        }
    }
    let count = table.walk("")?.len();
    ensure!(count == 3, "{count} entities instead of three");
    Ok(())
}

fn missing_keys(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for body in [
        r#"{"RowKey":"r"}"#,
        r#"{"PartitionKey":"p"}"#,
        r#"{"PartitionKey":null,"RowKey":"r"}"#,
        r#"{"PartitionKey":"p","RowKey":null}"#,
        r#"{"a":1}"#,
        "{}",
        r#"{"partitionKey":"p","rowKey":"r"}"#,
    ] {
        table.insert(body).send()?.expect_error_text(
            400,
            "PropertiesNeedValue",
            "The values are not specified for all properties in the entity.",
        )?;
    }
    for body in [r#"{"PartitionKey":5,"RowKey":"r"}"#, r#"{"PartitionKey":"p","RowKey":true}"#] {
        table.insert(body).send()?.expect_error_text(
            400,
            "InvalidInput",
            "One of the request inputs is not valid.",
        )?;
    }
    table.query("").send()?.expect_body(r#"{"value":[]}"#)?;
    Ok(())
}

/// A body as an export tool sends it back: everything that the service itself puts into an entity.
fn odata_members(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let body = r#"{"odata.metadata":"http://x/$metadata#T/@Element","odata.type":"x.T","odata.id":"http://x/T","odata.etag":"W/\"datetime'2020-01-01T00%3A00%3A00Z'\"","odata.editLink":"T(…)","PartitionKey":"p","PartitionKey@odata.type":"Edm.String","RowKey":"r","RowKey@odata.type":"Edm.String","Timestamp@odata.type":"Edm.DateTime","Timestamp":"2020-01-01T00:00:00Z","a@odata.type":"Edm.String","a":"x","lone@odata.type":"Edm.Int64"}"#;
    table.insert(body).send()?.expect_status(201)?;
    let read = client.get(&table.entity("p", "r")).accept(NO_METADATA).send()?.json()?;
    let names: Vec<_> = read.as_object().into_iter().flat_map(|members| members.keys()).collect();
    ensure!(names == ["PartitionKey", "RowKey", "Timestamp", "a"], "the entity has {names:?}");
    let full = client.get(&table.entity("p", "r")).accept(FULL_METADATA).send()?;
    full.expect_status(200)?
        .expect_no_json("/PartitionKey@odata.type")?
        .expect_no_json("/RowKey@odata.type")?
        .expect_no_json("/lone@odata.type")?
        .expect_not_in_body("2020-01-01")?;
    Ok(())
}

fn annotation_order(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for (row_key, members) in [
        ("before", r#""n@odata.type":"Edm.Int64","n":"5""#),
        ("after", r#""n":"5","n@odata.type":"Edm.Int64""#),
        ("apart", r#""n":"5","a":1,"b":"x","n@odata.type":"Edm.Int64""#),
        ("ahead", r#""n@odata.type":"Edm.Int64","a":1,"b":"x","n":"5""#),
    ] {
        let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row_key}\",{members}}}");
        table.insert(&body).send()?.expect_status(201)?;
        table
            .get("p", row_key)?
            .expect_json("/n", "5")?
            .expect_json("/n@odata.type", "Edm.Int64")?;
    }
    table.expect_found("n eq 5L", "after ahead apart before")
}

fn nested_values(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for value in ["[]", "[1]", "{}", r#"{"b":1}"#, r#"["x",{"y":[]}]"#] {
        let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"a\":{value}}}");
        table.insert(&body).send()?.expect_error(400, "InvalidInput")?;
        client
            .put(&table.entity("p", "r"))
            .json(&body)
            .send()?
            .expect_error(400, "InvalidInput")?;
    }
    table.expect_missing("p", "r")
}

fn malformed_json(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let good = keys("p", "r").to_string();
    for body in [
        "",
        "{",
        "}",
        "null",
        "5",
        "[]",
        r#""text""#,
        r#"{"PartitionKey":"p","RowKey":"r","#,
        r#"{"PartitionKey":"p","RowKey":"r""#,
        r#"{'PartitionKey':'p','RowKey':'r'}"#,
        r#"{"PartitionKey":"p","RowKey":"r",}"#,
        r#"{"PartitionKey":"p" "RowKey":"r"}"#,
        r#"{"PartitionKey":"p","RowKey":"r","a":tru}"#,
        r#"{"PartitionKey":"p","RowKey":"r","a":1.}"#,
        r#"{"PartitionKey":"p","RowKey":"r","a":01}"#,
        r#"{"PartitionKey":"p","RowKey":"r","a":"\x"}"#,
        "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"a\":\"line\nbreak\"}",
        r#"{"PartitionKey":"p","RowKey":"r","a":NaN}"#,
        &format!("{good}{good}"),
        &format!("{good} trailing"),
    ] {
        table.insert(body).send()?.expect_error(400, "InvalidInput")?;
    }
    table.expect_missing("p", "r")
}

/// Timestamp and ETag of an entity, checked against each other in every place where they stand.
fn stamp(table: &Table<'_>, row_key: &str) -> Result<(String, String), Failure> {
    let response = table.get("p", row_key)?;
    let json = response.json()?;
    let timestamp = json["Timestamp"].as_str().unwrap_or_default().to_owned();
    let etag = response.etag()?.to_owned();
    response
        .expect_header("ETag", &etag_of(&timestamp))?
        .expect_json("/odata.etag", etag.as_str())?;
    let trimmed = timestamp
        .strip_suffix('Z')
        .is_some_and(|text| !text.contains('.') || (!text.ends_with('0') && !text.ends_with('.')));
    response.ensure(trimmed, "the Timestamp has zeros at the end of its fraction")?;
    Ok((timestamp, etag))
}

fn etag_is_timestamp(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let inserted = table.insert(&keys("p", "r").to_string()).send()?;
    let json = inserted.expect_status(201)?.json()?;
    let timestamp = json["Timestamp"].as_str().unwrap_or_default();
    inserted
        .expect_header("ETag", &etag_of(timestamp))?
        .expect_json("/odata.etag", etag_of(timestamp))?;
    let (_, etag) = stamp(&table, "r")?;
    inserted.expect_header("ETag", &etag)?;
    for method in ["PUT", "PATCH"] {
        let written = client.request(method, &table.entity("p", "r")).json("{}").send()?;
        let (timestamp, etag) = stamp(&table, "r")?;
        written.expect_status(204)?.expect_header("ETag", &etag)?;
        let filter = percent_encode(&format!("Timestamp eq datetime'{timestamp}'"));
        let rows = table.walk(&format!("$filter={filter}"))?;
        ensure!(rows.len() == 1, "no entity has Timestamp {timestamp}");
    }
    Ok(())
}

fn timestamps_grow(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("p", "r"))?;
    let entity = table.entity("p", "r");
    let (mut last, mut last_etag) = stamp(&table, "r")?;
    for round in 0..24 {
        let write = match round % 4 {
            0 => client.put(&entity).json(r#"{"a":1}"#),
            1 => client.patch(&entity).json("{}"),
            2 => client.patch(&entity).json("{}").header("If-Match", &last_etag),
            _ => client.put(&entity).json(r#"{"a":1}"#).header("If-Match", "*"),
        };
        write.send()?.expect_status(204)?;
        let (timestamp, etag) = stamp(&table, "r")?;
        ensure!(filled(&timestamp) > filled(&last), "{timestamp} does not follow {last}");
        (last, last_etag) = (timestamp, etag);
    }
    // Deleted and inserted again, it still goes on.
    client.delete(&entity).header("If-Match", "*").send()?.expect_status(204)?;
    table.add(&keys("p", "r"))?;
    let (timestamp, _) = stamp(&table, "r")?;
    ensure!(filled(&timestamp) > filled(&last), "{timestamp} does not follow {last}");
    Ok(())
}
