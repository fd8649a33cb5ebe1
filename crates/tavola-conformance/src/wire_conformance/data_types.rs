//! Section 16.8, first part: the eight types, their edges and their texts.

use serde_json::Value;

use super::check::filled;
use super::http::Response;
use super::request::{FULL_METADATA, MINIMAL_METADATA};
use super::signer::base64;
use super::table::{Table, keys};
use super::{Case, Endpoint, Failure, Outcome, ensure};

pub(super) const CASES: &[Case] = &[
    Case::shared("all_types_round_trip", &["108"], all_types),
    Case::shared("integers_at_their_edges", &["109", "110"], integer_edges),
    Case::shared("doubles_stay_doubles", &["111", "112", "113"], doubles),
    Case::shared("date_times_round_trip", &["114", "115", "116"], date_times),
    Case::shared("date_time_bounds", &["117", "118"], date_time_bounds),
    Case::shared("binary_of_64_kibibytes_at_most", &["119"], binary_limit),
    Case::shared("string_of_32_kibi_units_at_most", &["120", "121"], string_limit),
    Case::shared("guids_come_back_in_lower_case", &["122"], guids),
    Case::shared("empty_values_round_trip", &["123"], empty_values),
    Case::shared("nulls_are_not_stored", &["124"], nulls),
    Case::shared("wrong_texts_for_declared_types", &["139"], wrong_texts),
    Case::shared("integers_beyond_int32_without_annotation", &[], large_plain_integers),
    Case::shared("client_timestamp_is_ignored", &["133", "G2"], client_timestamp),
];

/// Stores one entity with these members beside its keys.
pub(super) fn store(table: &Table<'_>, row_key: &str, members: &str) -> Result<Response, Failure> {
    let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row_key}\",{members}}}");
    table.insert(&body).send()
}

/// Writes members, reads the entity, and compares the bytes of its own properties.
pub(super) fn expect_read_back(
    table: &Table<'_>,
    row_key: &str,
    written: &str,
    read: &str,
) -> Outcome {
    store(table, row_key, written)?.expect_status(201)?;
    table.get("p", row_key)?.expect_own_members(read)?;
    Ok(())
}

const ALL_TYPES: &str = concat!(
    r#""text":"ünïcode \" \\ / 'quoted' 😀","int32":-7,"int64@odata.type":"Edm.Int64","int64":"1099511627776","#,
    r#""double":1.5,"yes":true,"no":false,"#,
    r#""date@odata.type":"Edm.DateTime","date":"2024-02-29T12:34:56.1234567Z","#,
    r#""guid@odata.type":"Edm.Guid","guid":"c9da6455-213d-42c9-9a79-3e9149a57833","#,
    r#""binary@odata.type":"Edm.Binary","binary":"AAEC/v8=""#
);

fn all_types(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    store(&table, "r", ALL_TYPES)?.expect_status(201)?;
    let written: Value = serde_json::from_str(&format!("{{{ALL_TYPES}}}")).unwrap_or_default();
    for accept in [MINIMAL_METADATA, FULL_METADATA] {
        let response = client.get(&table.entity("p", "r")).accept(accept).send()?;
        response.expect_status(200)?;
        for (name, value) in written.as_object().into_iter().flatten() {
            response.expect_json(&format!("/{name}"), value.clone())?;
        }
        for plain in ["text", "int32", "double", "yes"] {
            response.expect_no_json(&format!("/{plain}@odata.type"))?;
        }
    }
    // The same types are seen by filters, which compare by type.
    for filter in [
        "text eq 'ünïcode \" \\ / ''quoted'' 😀'",
        "int32 eq -7",
        "int64 eq 1099511627776L",
        "double eq 1.5",
        "yes eq true and no eq false",
        "date eq datetime'2024-02-29T12:34:56.1234567Z'",
        "guid eq guid'c9da6455-213d-42c9-9a79-3e9149a57833'",
        "binary eq X'000102feff'",
    ] {
        table.expect_found(filter, "r")?;
    }
    Ok(())
}

fn integer_edges(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for (row_key, value) in [
        ("a", "9223372036854775807"),
        ("b", "-9223372036854775808"),
        ("c", "0"),
        ("d", "-1"),
        ("e", "9007199254740993"),
    ] {
        let members = format!("\"n@odata.type\":\"Edm.Int64\",\"n\":\"{value}\"");
        expect_read_back(&table, row_key, &members, &members)?;
        table.expect_found(&format!("n eq {value}L"), row_key)?;
    }
    for (row_key, value) in [("m", "2147483647"), ("n", "-2147483648"), ("o", "0")] {
        let members = format!("\"small\":{value}");
        expect_read_back(&table, row_key, &members, &members)?;
    }
    Ok(())
}

fn doubles(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for (row_key, written, read) in [
        ("a", r#""d":3.0"#, r#""d":3.0"#),
        ("b", r#""d":-0.5"#, r#""d":-0.5"#),
        ("c", r#""d@odata.type":"Edm.Double","d":1"#, r#""d":1.0"#),
        ("d", r#""d@odata.type":"Edm.Double","d":"1.5""#, r#""d":1.5"#),
        ("e", r#""d":0.1"#, r#""d":0.1"#),
        ("f", r#""d":-0.0"#, r#""d":0.0"#),
        ("g", r#""d@odata.type":"Edm.Double","d":3.0"#, r#""d":3.0"#),
    ] {
        expect_read_back(&table, row_key, written, read)?;
    }
    for (row_key, text) in [("x", "NaN"), ("y", "Infinity"), ("z", "-Infinity")] {
        let members = format!("\"d@odata.type\":\"Edm.Double\",\"d\":\"{text}\"");
        expect_read_back(&table, row_key, &members, &members)?;
    }
    // Very large and very small ones may come in any JSON spelling, but with exactly their value.
    for (row_key, text, value) in [
        ("l", "1.7976931348623157e308", f64::MAX),
        ("m", "5e-324", 5e-324),
        ("n", "1e+21", 1e21),
        ("o", "-2.2250738585072014E-308", -2.2250738585072014E-308),
    ] {
        store(&table, row_key, &format!("\"d\":{text}"))?.expect_status(201)?;
        table.get("p", row_key)?.expect_json("/d", value)?;
    }
    store(&table, "t", r#""d":"1e+30","d@odata.type":"Edm.Double""#)?.expect_status(201)?;
    table.get("p", "t")?.expect_json("/d", 1e30)?;
    Ok(())
}

fn date(text: &str) -> String {
    format!("\"d@odata.type\":\"Edm.DateTime\",\"d\":\"{text}\"")
}

fn date_times(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for (index, (written, read)) in [
        ("2024-01-02T03:04:05.1234567Z", "2024-01-02T03:04:05.1234567Z"),
        ("2024-01-02T03:04:05.0000001Z", "2024-01-02T03:04:05.0000001Z"),
        ("2024-01-02T03:04:05.1000000Z", "2024-01-02T03:04:05.1Z"),
        ("2024-01-02T03:04:05.678900Z", "2024-01-02T03:04:05.6789Z"),
        ("2024-01-02T03:04:05.0000000Z", "2024-01-02T03:04:05Z"),
        ("2024-01-02T03:04:05Z", "2024-01-02T03:04:05Z"),
        ("2024-01-02T03:04:05+02:00", "2024-01-02T01:04:05Z"),
        ("2024-01-02T03:04:05.5-05:30", "2024-01-02T08:34:05.5Z"),
        ("2023-12-31T23:30:00-01:00", "2024-01-01T00:30:00Z"),
        ("2024-01-02T03:04:05", "2024-01-02T03:04:05Z"),
        ("1973-10-04T00:00:00Z", "1973-10-04T00:00:00Z"),
    ]
    .into_iter()
    .enumerate()
    {
        expect_read_back(&table, &index.to_string(), &date(written), &date(read))?;
    }
    Ok(())
}

fn date_time_bounds(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for (row_key, text) in
        [("first", "1601-01-01T00:00:00Z"), ("last", "9999-12-31T23:59:59.9999999Z")]
    {
        expect_read_back(&table, row_key, &date(text), &date(text))?;
    }
    for (text, shown) in [
        ("1600-12-31T00:00:00Z", "12/31/1600 00:00:00"),
        ("1600-12-31T23:59:59Z", "12/31/1600 23:59:59"),
        ("0001-01-01T00:00:00Z", "01/01/0001 00:00:00"),
    ] {
        store(&table, "early", &date(text))?.expect_error_text(
            400,
            "OutOfRangeInput",
            &format!("The 'd' parameter of value '{shown}' is out of range."),
        )?;
    }
    table.expect_missing("p", "early")
}

/// Base64 of so many zero bytes.
pub(super) fn zero_bytes(count: usize) -> String {
    base64(&vec![0; count])
}

fn binary_limit(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let member = |count| format!("\"b@odata.type\":\"Edm.Binary\",\"b\":\"{}\"", zero_bytes(count));
    expect_read_back(&table, "fits", &member(65_536), &member(65_536))?;
    store(&table, "large", &member(65_537))?.expect_error(400, "PropertyValueTooLarge")?;
    client
        .patch(&table.entity("p", "fits"))
        .json(&format!("{{{}}}", member(65_537)))
        .send()?
        .expect_error(400, "PropertyValueTooLarge")?;
    table.expect_missing("p", "large")
}

fn string_limit(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let units = 32 * 1024;
    let fitting = ["s".repeat(units), "é".repeat(units), "😀".repeat(units / 2)];
    for (index, text) in fitting.iter().enumerate() {
        let member = format!("\"s\":\"{text}\"");
        expect_read_back(&table, &index.to_string(), &member, &member)?;
        for extra in ["s", "é"] {
            store(&table, "large", &format!("\"s\":\"{text}{extra}\""))?
                .expect_error(400, "PropertyValueTooLarge")?;
        }
    }
    // One unit short of the limit there is room for a character of one unit, but not of two.
    let almost = "s".repeat(units - 1);
    store(&table, "one", &format!("\"s\":\"{almost}é\""))?.expect_status(201)?;
    store(&table, "two", &format!("\"s\":\"{almost}😀\""))?
        .expect_error(400, "PropertyValueTooLarge")?;
    Ok(())
}

fn guids(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let guid = |text: &str| format!("\"g@odata.type\":\"Edm.Guid\",\"g\":\"{text}\"");
    let lower = guid("c9da6455-213d-42c9-9a79-3e9149a57833");
    for (row_key, text) in [
        ("upper", "C9DA6455-213D-42C9-9A79-3E9149A57833"),
        ("mixed", "c9dA6455-213D-42c9-9a79-3e9149A57833"),
        ("lower", "c9da6455-213d-42c9-9a79-3e9149a57833"),
    ] {
        expect_read_back(&table, row_key, &guid(text), &lower)?;
    }
    Ok(())
}

fn empty_values(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let members = r#""s":"","b@odata.type":"Edm.Binary","b":"""#;
    expect_read_back(&table, "r", members, members)?;
    table.expect_found("s eq ''", "r")?;
    table.expect_found("b eq X''", "r")
}

fn nulls(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let members = r#""gone":null,"typed@odata.type":"Edm.Int64","typed":null,"kept":1"#;
    expect_read_back(&table, "r", members, r#""kept":1"#)?;
    client
        .put(&table.entity("p", "r"))
        .json(r#"{"kept":null,"other":2}"#)
        .send()?
        .expect_status(204)?;
    table.get("p", "r")?.expect_own_members(r#""other":2"#)?;
    // An absent property fits neither `eq` nor `ne`.
    table.expect_found("kept ne 7", "")?;
    table.expect_found("gone ne 7", "")
}

fn wrong_texts(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for (edm_type, value) in [
        ("Edm.Int32", r#""abc""#),
        ("Edm.Int32", "2147483648"),
        ("Edm.Int32", "1.5"),
        ("Edm.Int64", r#""abc""#),
        ("Edm.Int64", r#""9223372036854775808""#),
        ("Edm.Int64", r#""1.5""#),
        ("Edm.Int64", r#""""#),
        ("Edm.Double", r#""abc""#),
        ("Edm.Boolean", r#""maybe""#),
        ("Edm.Boolean", r#""True ""#),
        ("Edm.Boolean", "1"),
        ("Edm.DateTime", r#""yesterday""#),
        ("Edm.DateTime", r#""2024-02-30T00:00:00Z""#),
        ("Edm.DateTime", r#""2024-01-01T25:00:00Z""#),
        ("Edm.DateTime", "5"),
        ("Edm.Guid", r#""c9da6455-213d-42c9-9a79-3e9149a5783""#),
        ("Edm.Guid", r#""g9da6455-213d-42c9-9a79-3e9149a57833""#),
        ("Edm.Binary", r#""***""#),
        ("Edm.Binary", r#""AAE""#),
        ("Edm.Decimal", r#""1.5""#),
        ("Edm.Nonsense", "1"),
        ("Edm.String", "5"),
    ] {
        let members = format!("\"v@odata.type\":\"{edm_type}\",\"v\":{value}");
        store(&table, "r", &members)?.expect_error(400, "InvalidInput")?;
    }
    table.expect_missing("p", "r")
}

/// Unverified on the service: such a number is stored with its value or refused, but never changed.
fn large_plain_integers(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for (row_key, text, value) in [
        ("a", "2147483648", 2_147_483_648.0),
        ("b", "-2147483649", -2_147_483_649.0),
        ("c", "1099511627776", 1_099_511_627_776.0),
    ] {
        let response = store(&table, row_key, &format!("\"n\":{text}"))?;
        if response.status != 201 {
            response.expect_status(400)?;
            continue;
        }
        let found = table.get("p", row_key)?.json()?["n"].clone();
        let number = found.as_f64().or_else(|| found.as_str().and_then(|text| text.parse().ok()));
        ensure!(number == Some(value), "{text} came back as {found}");
    }
    Ok(())
}

fn client_timestamp(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    // The clock of the endpoint, from an entity that had no Timestamp in its body.
    table.add(&keys("p", "before"))?;
    let stamp = |row_key: &str| -> Result<String, Failure> {
        let text = table.get("p", row_key)?.json()?["Timestamp"].clone();
        Ok(filled(text.as_str().unwrap_or_default()))
    };
    let before = stamp("before")?;
    for (index, members) in [
        r#""Timestamp":null"#,
        r#""Timestamp":"0001-01-01T00:00:00Z""#,
        r#""Timestamp":"0001-01-01T00:00:00Z","Timestamp@odata.type":"Edm.DateTime""#,
        r#""Timestamp@odata.type":"Edm.DateTime","Timestamp":"2099-01-01T00:00:00Z""#,
        r#""Timestamp":"no date""#,
    ]
    .iter()
    .enumerate()
    {
        let row_key = index.to_string();
        store(&table, &row_key, members)?.expect_status(201)?;
        client
            .put(&table.entity("p", &format!("put{index}")))
            .json(&format!("{{{members}}}"))
            .send()?
            .expect_status(204)?;
    }
    table.add(&keys("p", "after"))?;
    let after = stamp("after")?;
    for row in table.walk("")? {
        let stamp = filled(row["Timestamp"].as_str().unwrap_or_default());
        ensure!(
            before <= stamp && stamp <= after,
            "{}: Timestamp {stamp} is not between {before} and {after}",
            row["RowKey"]
        );
    }
    let count = table.walk("")?.len();
    ensure!(count == 12, "{count} entities instead of 12");
    Ok(())
}
