//! The lines of the design guide that a server carries and that no case of the protocol carries
//! already.

use serde_json::{Value, json};

use super::http::Connection;
use super::multipart::Operation;
use super::request::{Client, percent_encode};
use super::table::{Table, continuation, keys, row_keys};
use super::tables::create_when_free;
use super::{Case, Endpoint, Failure, Outcome, ensure};

pub(super) const CASES: &[Case] = &[
    Case::shared("kinds_of_entities_share_a_table", &["G4"], kinds),
    Case::shared("one_property_with_several_types", &["G5"], types_per_entity),
    Case::shared("table_is_dropped_in_one_operation", &["G8"], drop_large_table),
    Case::shared("overlapping_groups_lose_nothing", &["G36"], overlapping_groups),
    Case::exclusive("point_query_reads_one_row", &["G40"], point_query_cost),
    Case::exclusive("row_range_reads_the_range", &["G41"], row_range_cost),
    Case::exclusive("partition_scan_stays_in_its_partition", &["G42"], partition_scan_cost),
    Case::exclusive("table_scan_costs_by_the_page", &["G43"], table_scan_cost),
    Case::exclusive("or_over_keys_reads_the_keys", &["G45"], or_cost),
];

fn kinds(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table
        .add(&json!({ "PartitionKey": "sales", "RowKey": "dept", "name": "Sales", "count": 2 }))?;
    table.add(&json!({ "PartitionKey": "sales", "RowKey": "emp_1", "first": "Ann", "age": 30 }))?;
    table.add(
        &json!({ "PartitionKey": "sales", "RowKey": "emp_2", "first": "Bob", "mail": true }),
    )?;
    table.add(&keys("sales", "nothing"))?;
    table.expect_found("PartitionKey eq 'sales'", "dept emp_1 emp_2 nothing")?;
    table.expect_found("first eq 'Ann'", "emp_1")?;
    table.expect_found("count eq 2 or mail eq true", "dept emp_2")?;
    table.get("sales", "emp_1")?.expect_no_json("/count")?.expect_no_json("/mail")?;
    Ok(())
}

fn types_per_entity(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for (row_key, members) in [
        ("bool", r#""v":true"#),
        ("double", r#""v":1.5"#),
        ("int32", r#""v":1"#),
        ("int64", r#""v@odata.type":"Edm.Int64","v":"1""#),
        ("string", r#""v":"1""#),
    ] {
        let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row_key}\",{members}}}");
        table.insert(&body).send()?.expect_status(201)?;
        let read = table.get("p", row_key)?;
        read.expect_own_members(members)?;
    }
    table.expect_found("v eq 'x' or v eq '1'", "string")?;
    table.expect_found("v eq true", "bool")?;
    client
        .patch(&table.entity("p", "int32"))
        .json(r#"{"v":"now text"}"#)
        .send()?
        .expect_status(204)?;
    table.get("p", "int32")?.expect_json("/v", "now text")?;
    Ok(())
}

/// Entities `00000` and up in one partition.
fn fill(table: &Table<'_>, partition_key: &str, count: usize) -> Outcome {
    let entities: Vec<_> = (0..count)
        .map(|number| json!({ "PartitionKey": partition_key, "RowKey": format!("{number:05}"), "n": number }))
        .collect();
    table.add_all(&entities)
}

/// One request, whatever the table holds; and nothing of it comes back under the same name.
fn drop_large_table(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for partition_key in ["a", "b", "c"] {
        fill(&table, partition_key, 1_000)?;
    }
    client.delete_table(table.name()).send()?.expect_status(204)?.expect_body("")?;
    client.get(&table.entity("a", "00000")).send()?.expect_status_in(&[404, 409])?;
    create_when_free(&client, table.name())?;
    let left = table.walk("")?;
    ensure!(left.is_empty(), "{} entities are left", left.len());
    table.add(&keys("a", "00000"))?;
    table.expect_found("PartitionKey ge ''", "00000")
}

const WRITERS: usize = 4;
const INCREMENTS: usize = 15;

/// Adds one to the counter together with a row that says so, in one group; goes on until no other
/// writer was faster.
fn increment(client: &Client<'_>, table: &str, log_row: &str) -> Outcome {
    let counter = format!("/{table}(PartitionKey='p',RowKey='counter')");
    for _ in 0..10_000 {
        let read = client.get(&counter).send()?;
        let count = read.expect_status(200)?.json()?["count"].as_u64().unwrap_or_default();
        let response = client
            .batch(&[
                Operation::new("PATCH", &counter)
                    .header("If-Match", read.etag()?)
                    .json(&json!({ "count": count + 1 })),
                Operation::insert(&format!("/{table}"), &keys("p", log_row))
                    .header("Prefer", "return-no-content"),
            ])
            .send()?;
        if response.parts()?.len() == 2 {
            response.expect_parts(&[204, 204])?;
            return Ok(());
        }
        response.expect_failed_part(412, "UpdateConditionNotSatisfied", "0:")?;
    }
    Err(Failure::mismatch(format!("{log_row} never had its turn")))
}

fn overlapping_groups(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&json!({ "PartitionKey": "p", "RowKey": "counter", "count": 0 }))?;
    let name = table.name();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || -> Outcome {
                    let client = endpoint.client();
                    (0..INCREMENTS).try_for_each(|round| {
                        increment(&client, name, &format!("log{writer}x{round}"))
                    })
                })
            })
            .collect();
        writers
            .into_iter()
            .try_for_each(|writer| writer.join().expect("writers return their failures"))
    })?;
    let total = WRITERS * INCREMENTS;
    table.get("p", "counter")?.expect_json("/count", total)?;
    let log = table.found("RowKey ge 'log' and RowKey lt 'loh'")?;
    ensure!(log.len() == total, "{} rows of {total} increments", log.len());
    Ok(())
}

/// The sum of all samples of a counter at the admin port.
fn counter(endpoint: &Endpoint, name: &str) -> Result<u64, Failure> {
    let admin = endpoint.admin()?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
    let response = endpoint.exchange(&mut Connection::open(admin)?, request.as_bytes())?;
    let text = response.expect_status(200)?.text()?;
    let samples: Vec<f64> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once([' ', '{']).map(|(metric, _)| (metric, line)))
        .filter(|(metric, _)| *metric == name)
        .filter_map(|(_, line)| line.rsplit(' ').next()?.parse().ok())
        .collect();
    if samples.is_empty() {
        return Err(response.mismatch(format!("expected the counter {name}")));
    }
    Ok(samples.iter().sum::<f64>() as u64)
}

/// What a request answered, and how many rows the endpoint read for it.
fn rows_read(
    endpoint: &Endpoint,
    ask: impl FnOnce() -> Result<Vec<Value>, Failure>,
) -> Result<(Vec<Value>, u64), Failure> {
    let before = counter(endpoint, "tavola_rows_read_total")?;
    let rows = ask()?;
    Ok((rows, counter(endpoint, "tavola_rows_read_total")? - before))
}

/// Ten partitions with a hundred rows each, unless the endpoint does not count rows.
fn counted_table<'c>(client: &'c Client<'c>) -> Result<Table<'c>, Failure> {
    client.endpoint().admin()?;
    let table = client.table()?;
    for partition in 0..10 {
        fill(&table, &format!("p{partition}"), 100)?;
    }
    Ok(table)
}

fn expect_cost(
    endpoint: &Endpoint,
    table: &Table<'_>,
    filter: &str,
    found: usize,
    read_max: u64,
) -> Outcome {
    let query = format!("$filter={}", percent_encode(filter));
    let (rows, read) = rows_read(endpoint, || table.walk(&query))?;
    ensure!(rows.len() == found, "{filter} found {} rows, expected {found}", rows.len());
    ensure!(read <= read_max, "{filter} read {read} rows, expected at most {read_max}");
    ensure!(read >= found as u64, "{filter} found {found} rows but counted {read}");
    Ok(())
}

fn point_query_cost(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = counted_table(&client)?;
    let (_, read) = rows_read(endpoint, || table.get("p5", "00050").map(|_| Vec::new()))?;
    ensure!(read == 1, "a point read read {read} rows");
    expect_cost(endpoint, &table, "PartitionKey eq 'p5' and RowKey eq '00050'", 1, 1)
}

/// One row more than the range may be read to see where it ends.
fn row_range_cost(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = counted_table(&client)?;
    let range = "PartitionKey eq 'p5' and RowKey ge '00020' and RowKey lt '00030'";
    expect_cost(endpoint, &table, range, 10, 11)?;
    expect_cost(endpoint, &table, &format!("{range} and n eq 25"), 1, 11)
}

fn partition_scan_cost(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = counted_table(&client)?;
    expect_cost(endpoint, &table, "PartitionKey eq 'p5'", 100, 101)?;
    expect_cost(endpoint, &table, "PartitionKey eq 'p5' and n eq 50", 1, 101)
}

/// Pages of ten out of a thousand: the last costs what the first costs.
fn table_scan_cost(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = counted_table(&client)?;
    let (mut token, mut found) = (String::new(), Vec::new());
    for page_number in 0..=100 {
        let mut next = None;
        let (rows, read) = rows_read(endpoint, || {
            let page = table.query(&format!("$top=10{token}")).send()?;
            next = continuation(page.expect_status(200)?);
            page.rows()
        })?;
        ensure!(read <= 11, "page {page_number} of ten rows read {read} rows");
        found.extend(row_keys(&rows));
        match next {
            Some(next) => token = format!("&{next}"),
            None => break,
        }
    }
    ensure!(found.len() == 1_000, "the scan found {} rows", found.len());
    Ok(())
}

fn or_cost(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = counted_table(&client)?;
    let points = "(PartitionKey eq 'p1' and RowKey eq '00001') or (PartitionKey eq 'p8' and RowKey eq '00008') or \
                  (PartitionKey eq 'p4' and RowKey eq '00004')";
    expect_cost(endpoint, &table, points, 3, 6)?;
    let ranges = "PartitionKey eq 'p2' and (RowKey lt '00003' or RowKey ge '00097')";
    expect_cost(endpoint, &table, ranges, 6, 8)
}
