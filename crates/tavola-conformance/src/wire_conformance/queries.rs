//! Section 16.11, first part: point reads, order, projection, pages and continuation.

use serde_json::{Value, json};

use super::request::{MINIMAL_METADATA, percent_encode};
use super::table::{Table, continuation, keys, row_keys};
use super::{Case, Endpoint, Failure, Outcome, ensure};

pub(super) const CASES: &[Case] = &[
    Case::shared("get_entity", &["179"], get_entity),
    Case::shared("results_ascend_by_both_keys", &["180", "G7", "G49"], order),
    Case::shared("order_is_that_of_utf16_units", &["180"], utf16_order),
    Case::shared("select_returns_what_is_named", &["197", "G57"], select),
    Case::shared("select_of_one_entity", &["197", "G57"], select_one),
    Case::shared("select_of_an_absent_property", &["198"], select_absent),
    Case::shared("top_limits_the_page", &["199", "G55"], top),
    Case::shared("top_must_be_a_number", &["201"], wrong_top),
    Case::shared("page_has_at_most_1000_entities", &["202", "G50"], page_limit),
    Case::shared("continuation_resumes_exactly", &["203"], resumes),
    Case::shared("continuation_survives_changes_before_it", &["203"], resumes_beside_writes),
    Case::shared("continuation_is_visible_ascii", &["204"], ascii_tokens),
    Case::shared("partition_token_alone", &["205"], partition_token_alone),
    Case::shared("repeated_request_decides", &["206"], repeated_request),
    Case::shared("empty_result", &["207"], empty_result),
    Case::shared("walk_goes_by_tokens_only", &["208", "G52", "G53"], sparse_walk),
    Case::shared("query_of_a_missing_table", &["209"], missing_table),
    Case::shared("other_query_options_do_no_harm", &[], other_options),
];

fn get_entity(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let etag = table.add(&json!({ "PartitionKey": "p", "RowKey": "r", "a": 1 }))?;
    client
        .get(&table.entity("p", "r"))
        .send()?
        .expect_status(200)?
        .expect_header("ETag", etag.etag()?)?
        .expect_json("/PartitionKey", "p")?
        .expect_json("/RowKey", "r")?
        .expect_json("/a", 1)?;
    for (partition_key, row_key) in [("p", "s"), ("q", "r"), ("P", "r"), ("p", "R"), ("p", "r ")] {
        client.get(&table.entity(partition_key, row_key)).send()?.expect_error_text(
            404,
            "ResourceNotFound",
            "The specified resource does not exist.",
        )?;
    }
    Ok(())
}

fn order(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let names = ["b", "B", "bB", "a", "A", "", "10", "9", "é", "_", "Z", "~"];
    for partition_key in ["a", "B", ""] {
        for row_key in names {
            table.add(&keys(partition_key, row_key))?;
        }
    }
    let sorted = ["", "10", "9", "A", "B", "Z", "_", "a", "b", "bB", "~", "é"];
    let mut expected = Vec::new();
    for partition_key in ["", "B", "a"] {
        expected.extend(sorted.map(|row_key| (partition_key.to_owned(), row_key.to_owned())));
    }
    let rows = table.walk("")?;
    let found: Vec<_> = rows
        .iter()
        .map(|row| {
            let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
            (text("PartitionKey"), text("RowKey"))
        })
        .collect();
    ensure!(found == expected, "the order is {found:?}");
    Ok(())
}

/// A pair of surrogates sorts before U+E000 and above, although its UTF-8 bytes are greater.
fn utf16_order(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for row_key in ["\u{ff21}", "\u{1F600}", "\u{e000}", "\u{d7ff}", "z"] {
        table.add(&keys("p", row_key))?;
    }
    let found = row_keys(&table.walk("")?);
    ensure!(
        found == ["z", "\u{d7ff}", "\u{1F600}", "\u{e000}", "\u{ff21}"],
        "the order is {found:?}"
    );
    table.expect_found("RowKey lt '\u{e000}'", "z \u{d7ff} \u{1F600}")
}

fn select(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(
        &json!({ "PartitionKey": "p", "RowKey": "r", "age": 39, "sex": "male", "other": 1 }),
    )?;
    for (select, expected) in [
        ("age%2C%20sex", r#"{"value":[{"age":39,"sex":"male"}]}"#),
        ("age,sex", r#"{"value":[{"age":39,"sex":"male"}]}"#),
        ("RowKey", r#"{"value":[{"RowKey":"r"}]}"#),
    ] {
        table
            .query(&format!("$select={select}&$filter=other%20eq%201"))
            .send()?
            .expect_status(200)?
            .expect_body(expected)?;
    }
    let minimal = table.query("$select=age").accept(MINIMAL_METADATA).send()?;
    minimal
        .expect_status(200)?
        .expect_json("/value/0/age", 39)?
        .expect_no_json("/value/0/PartitionKey")?
        .expect_no_json("/value/0/RowKey")?
        .expect_no_json("/value/0/Timestamp")?
        .expect_no_json("/value/0/sex")?;
    let etag = minimal.json()?["value"][0]["odata.etag"].clone();
    ensure!(etag.is_string(), "odata.etag is {etag} beside a selection");
    for all in ["$select=*", "$select="] {
        let whole = table.query("").send()?;
        table.query(all).send()?.expect_status(200)?.expect_body(whole.text()?)?;
    }
    Ok(())
}

fn select_one(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&json!({ "PartitionKey": "p", "RowKey": "r", "a": 1, "b": 2 }))?;
    let entity = table.entity("p", "r");
    client
        .get(&format!("{entity}?$select=b"))
        .accept("application/json;odata=nometadata")
        .send()?
        .expect_status(200)?
        .expect_body(r#"{"b":2}"#)?;
    let response = client.get(&format!("{entity}?$select=Timestamp,a")).send()?;
    response
        .expect_status(200)?
        .expect_json("/a", 1)?
        .expect_no_json("/b")?
        .expect_no_json("/RowKey")?;
    let timestamp = response.json()?["Timestamp"].clone();
    ensure!(timestamp.is_string(), "Timestamp is {timestamp}");
    response.etag()?;
    Ok(())
}

fn select_absent(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&json!({ "PartitionKey": "p", "RowKey": "1", "a": 1 }))?;
    table.add(&json!({ "PartitionKey": "p", "RowKey": "2", "Address": "x" }))?;
    let response = table.query("$select=RowKey,Address").accept(MINIMAL_METADATA).send()?;
    response
        .expect_status(200)?
        .expect_row_count(2)?
        .expect_json("/value/0/RowKey", "1")?
        .expect_json("/value/0/Address", Value::Null)?
        .expect_no_json("/value/0/Address@odata.type")?
        .expect_json("/value/1/Address", "x")?;
    client
        .get(&format!("{}?$select=Nowhere", table.entity("p", "1")))
        .send()?
        .expect_status(200)?
        .expect_json("/Nowhere", Value::Null)?;
    Ok(())
}

fn top(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for row_key in ["1", "2", "3"] {
        table.add(&keys("p", row_key))?;
    }
    let page = table.query("$top=1").send()?;
    page.expect_status(200)?.expect_row_count(1)?.expect_json("/value/0/RowKey", "1")?;
    page.require_header("x-ms-continuation-NextPartitionKey")?;
    let page = table.query("$top=2").send()?;
    page.expect_status(200)?.expect_row_count(2)?;
    page.require_header("x-ms-continuation-NextPartitionKey")?;
    for top in ["4", "1000"] {
        table
            .query(&format!("$top={top}"))
            .send()?
            .expect_status(200)?
            .expect_row_count(3)?
            .expect_no_header("x-ms-continuation-NextPartitionKey")?
            .expect_no_header("x-ms-continuation-NextRowKey")?;
    }
    // With a filter the limit counts what is found, not what is read.
    table
        .query("$top=1&$filter=RowKey%20eq%20'3'")
        .send()?
        .expect_status(200)?
        .expect_json("/value/0/RowKey", "3")?;
    Ok(())
}

fn wrong_top(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for top in ["abc", "-1", "1.5", "1x", "99999999999999999999", "%C3%A9"] {
        table.query(&format!("$top={top}")).send()?.expect_status(400)?;
        client.get(&format!("/Tables?$top={top}")).send()?.expect_status(400)?;
    }
    // Zero is not verified on the service: nothing or a refusal.
    let response = table.query("$top=0").send()?;
    if response.expect_status_in(&[200, 400])?.status == 200 {
        response.expect_row_count(0)?;
    }
    Ok(())
}

/// So many entities, in partitions of the given sizes, numbered through in their order.
fn fill(table: &Table<'_>, partitions: &[(&str, usize)]) -> Result<Vec<String>, Failure> {
    let mut entities = Vec::new();
    for (partition_key, count) in partitions {
        for _ in 0..*count {
            let number = entities.len();
            entities.push(json!({
                "PartitionKey": partition_key, "RowKey": format!("{number:05}"), "n": number,
            }));
        }
    }
    table.add_all(&entities)?;
    Ok(row_keys(&entities))
}

fn page_limit(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let all = fill(&table, &[("a", 700), ("b", 503)])?;
    for query in ["", "$top=1000", "$filter=n%20ge%200"] {
        let page = table.query(query).send()?;
        page.expect_status(200)?;
        let count = page.rows()?.len();
        page.ensure(count <= 1000, &format!("a page of {count} entities"))?;
        page.require_header("x-ms-continuation-NextPartitionKey")?;
        let found = row_keys(&table.walk(query)?);
        ensure!(found == all, "{query}: {} of {} entities", found.len(), all.len());
    }
    Ok(())
}

fn resumes(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let all = fill(&table, &[("a", 7), ("b", 1), ("c", 5)])?;
    for top in 1..=14 {
        let found = row_keys(&table.walk(&format!("$top={top}"))?);
        ensure!(found == all, "pages of {top}: {found:?}");
        let filtered = row_keys(&table.walk(&format!("$filter=n%20lt%2011&$top={top}"))?);
        ensure!(filtered == all[..11], "filtered pages of {top}: {filtered:?}");
    }
    // A token may be used again: it is a place, not a cursor that moves.
    let first = table.query("$top=5").send()?;
    let token = continuation(&first).unwrap_or_default();
    for _ in 0..2 {
        let page = table.query(&format!("$top=5&{token}")).send()?;
        ensure!(row_keys(&page.rows()?) == all[5..10], "the token does not resume");
    }
    Ok(())
}

/// Between two pages an entity before the token comes, one before it goes, and the one that it
/// names goes.
fn resumes_beside_writes(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let all = fill(&table, &[("a", 9), ("b", 9), ("c", 9)])?;
    let partition = |index: usize| ["a", "b", "c"][index / 9];
    let remove = |index: usize| -> Outcome {
        client
            .delete(&table.entity(partition(index), &all[index]))
            .header("If-Match", "*")
            .send()?
            .expect_status(204)?;
        Ok(())
    };
    let (mut found, mut gone) = (Vec::new(), Vec::new());
    let mut token = String::new();
    for round in 0..all.len() {
        let page = table.query(&format!("$top=4{token}")).send()?;
        page.expect_status(200)?;
        found.extend(row_keys(&page.rows()?));
        let Some(next) = continuation(&page) else {
            break;
        };
        token = format!("&{next}");
        table.add(&keys("a", &format!("00000.{round}")))?;
        let seen = found.len() + gone.len();
        remove(seen - 1)?;
        if round % 2 == 0 {
            remove(seen)?;
            gone.push(all[seen].clone());
        }
    }
    let expected: Vec<_> = all.iter().filter(|key| !gone.contains(key)).cloned().collect();
    ensure!(found == expected, "the pages gave {found:?}");
    ensure!(gone.len() >= 2, "only {} entities went before their turn", gone.len());
    Ok(())
}

fn ascii_tokens(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let names = ["", " ", "a'b", "a+b&c=d%", "é", "名前", "\u{1F600}", &"ß".repeat(512)];
    for partition_key in names {
        for row_key in names {
            table.add(&keys(partition_key, row_key))?;
        }
    }
    let mut token = String::new();
    let mut count = 0;
    for _ in 0..=names.len() * names.len() {
        let page = table.query(&format!("$top=1{token}")).send()?;
        count += page.expect_status(200)?.rows()?.len();
        for name in ["NextPartitionKey", "NextRowKey"] {
            let value = page.header(&format!("x-ms-continuation-{name}")).unwrap_or_default();
            page.ensure(
                value.bytes().all(|byte| byte.is_ascii_graphic()),
                &format!("{name} is not visible ASCII"),
            )?;
        }
        let Some(next) = continuation(&page) else {
            break;
        };
        token = format!("&{next}");
    }
    let all = names.len() * names.len();
    ensure!(count == all, "{count} of {all} entities came");
    Ok(())
}

fn partition_token_alone(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let all = fill(&table, &[("a", 2), ("b", 4), ("c", 1)])?;
    let page = table.query("$top=4").send()?;
    let found = row_keys(&page.rows()?);
    ensure!(found == all[..4], "the first page is {found:?}");
    let partition = page.require_header("x-ms-continuation-NextPartitionKey")?;
    let rest = table.query(&format!("NextPartitionKey={}", percent_encode(partition))).send()?;
    rest.expect_status(200)?;
    let found = row_keys(&rest.rows()?);
    rest.ensure(found == all[2..], "expected to begin with the first row of the partition")?;
    Ok(())
}

fn repeated_request(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    fill(&table, &[("a", 10)])?;
    let page = table.query("$top=2&$filter=n%20ge%200").send()?;
    let token = continuation(&page).unwrap_or_default();
    ensure!(!token.is_empty(), "the first page has no token");
    table
        .query(&format!("$top=3&$filter=n%20ge%205&$select=n&{token}"))
        .send()?
        .expect_status(200)?
        .expect_body(r#"{"value":[{"n":5},{"n":6},{"n":7}]}"#)?;
    table.query(&format!("$select=n&{token}")).send()?.expect_status(200)?.expect_row_count(8)?;
    Ok(())
}

fn empty_result(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let body = r#"{"value":[]}"#;
    table.query("").send()?.expect_status(200)?.expect_body(body)?;
    table.add(&keys("p", "r"))?;
    for filter in ["RowKey eq 'none'", "PartitionKey eq 'none'", "a eq 1", "false"] {
        table.filter(filter).send()?.expect_status(200)?.expect_body(body)?;
    }
    Ok(())
}

/// Few matches among many entities: an endpoint may answer with short or empty pages that have a
/// token.
fn sparse_walk(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let all = fill(&table, &[("a", 800), ("b", 700)])?;
    let expected = [&all[3], &all[799], &all[800], &all[1499]].map(String::clone);
    for query in ["", "&$top=1", "&$top=3"] {
        let filter = percent_encode("n eq 3 or n eq 799 or n eq 800 or n eq 1499");
        let found = row_keys(&table.walk(&format!("$filter={filter}{query}"))?);
        ensure!(found == expected, "{query}: the walk found {found:?}");
    }
    let none = table.walk("$filter=n%20eq%20-1&$top=1")?;
    ensure!(none.is_empty(), "the walk found {none:?}");
    Ok(())
}

fn missing_table(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    for path in ["/nosuchtable1()", "/nosuchtable1", "/nosuchtable1()?$filter=a%20eq%201&$top=1"] {
        client.get(path).send()?.expect_error_text(
            404,
            "TableNotFound",
            "The table specified does not exist.",
        )?;
    }
    Ok(())
}

/// Options that the service does not support are refused or ignored, and never change the result or
/// break the server.
fn other_options(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("p", "1"))?;
    table.add(&keys("p", "2"))?;
    for option in
        ["$orderby=RowKey%20desc", "$skip=1", "$expand=x", "$inlinecount=allpages", "$count=true"]
    {
        let response = table.query(option).send()?;
        if response.expect_status_in(&[200, 400, 501])?.status == 200 {
            response.expect_json("/value/0/RowKey", "1")?.expect_row_count(2)?;
        }
    }
    table.query("timeout=20").send()?.expect_status(200)?.expect_row_count(2)?;
    Ok(())
}
