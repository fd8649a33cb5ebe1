//! Section 16.6, fifth part: the key range of a shared access signature. Every case compares the
//! endpoint with [`Range::contains`], the table of section 4.3 written down once more.

use serde_json::Value;

use super::check::DenialKind;
use super::request::{Client, Request, percent_encode};
use super::sas::Sas;
use super::table::{Table, continuation, keys};
use super::{Case, Endpoint, Failure, Outcome, ensure};

pub(super) const CASES: &[Case] = &[
    Case::shared("sas_range_refuses_inserts_outside", &["83", "G159"], inserts),
    Case::shared("sas_range_binds_every_operation", &["83", "85", "G159"], every_operation),
    Case::shared("sas_range_bounds_queries", &["84", "85", "86", "G159"], queries),
    Case::shared("sas_range_ends_belong_to_it", &["85"], ends_belong),
    Case::shared("sas_range_of_partitions_only", &["86"], partitions_only),
    Case::shared("sas_range_with_filters", &["84"], filters),
    Case::shared("sas_range_with_pages", &["84"], pages),
    Case::shared("sas_range_with_foreign_continuation", &["84"], foreign_continuation),
    Case::shared("sas_range_over_a_full_page", &["84"], full_page),
    Case::shared("sas_range_that_is_empty", &["83", "84"], empty_range),
    Case::shared("sas_range_rows_need_a_partition", &[], rows_without_partition),
    Case::shared("sas_range_with_unusual_keys", &["64", "84"], unusual_keys),
];

type Bound = Option<(&'static str, Option<&'static str>)>;

/// First and last key; a bound without a row key is one of partitions.
#[derive(Debug, Clone, Copy)]
struct Range {
    first: Bound,
    last: Bound,
}

impl Range {
    const fn new(first: Bound, last: Bound) -> Self {
        Range { first, last }
    }

    fn contains(&self, partition_key: &str, row_key: &str) -> bool {
        let after_first = match self.first {
            None => true,
            Some((partition, None)) => partition_key >= partition,
            Some((partition, Some(row))) => (partition_key, row_key) >= (partition, row),
        };
        let before_last = match self.last {
            None => true,
            Some((partition, None)) => partition_key <= partition,
            Some((partition, Some(row))) => (partition_key, row_key) <= (partition, row),
        };
        after_first && before_last
    }

    fn sas(&self, table: &Table<'_>, permissions: &str) -> Sas {
        table.sas(permissions).range(self.first, self.last)
    }
}

/// All shapes of a range: no bound, a partition, or a partition and a row, at either end.
const RANGES: [Range; 13] = [
    Range::new(None, None),
    Range::new(Some(("b", None)), None),
    Range::new(Some(("b", Some("2"))), None),
    Range::new(None, Some(("c", None))),
    Range::new(None, Some(("c", Some("2")))),
    Range::new(Some(("b", None)), Some(("c", None))),
    Range::new(Some(("b", Some("2"))), Some(("c", None))),
    Range::new(Some(("b", None)), Some(("c", Some("2")))),
    Range::new(Some(("b", Some("2"))), Some(("c", Some("2")))),
    Range::new(Some(("b", Some("10"))), Some(("b", Some("2")))),
    Range::new(Some(("b", Some("2"))), Some(("b", Some("2")))),
    Range::new(Some(("bb", Some("x"))), Some(("bz", Some("x")))),
    Range::new(Some(("b", None)), Some(("b", None))),
];

/// Partitions whose names begin alike or differ by case, and numbers that order as texts.
const PARTITIONS: [&str; 7] = ["B", "a", "b", "ba", "c", "ca", "d"];
const ROWS: [&str; 5] = ["1", "10", "2", "20", "3"];

fn all_keys() -> Vec<(&'static str, &'static str)> {
    PARTITIONS.iter().flat_map(|partition| ROWS.iter().map(|row| (*partition, *row))).collect()
}

fn filled_table<'c>(client: &'c Client<'c>) -> Result<Table<'c>, Failure> {
    let table = client.table()?;
    let entities: Vec<_> = all_keys().iter().map(|(partition, row)| keys(partition, row)).collect();
    table.add_all(&entities)?;
    Ok(table)
}

fn keys_of(rows: &[Value]) -> Vec<(&str, &str)> {
    rows.iter()
        .map(|row| {
            (row["PartitionKey"].as_str().unwrap_or("?"), row["RowKey"].as_str().unwrap_or("?"))
        })
        .collect()
}

/// A query with the range must find exactly what the owner finds with it, less what lies outside.
fn expect_bounded(table: &Table<'_>, range: Range, query: &str) -> Outcome {
    let all = table.walk(query)?;
    let inside: Vec<_> = keys_of(&all)
        .into_iter()
        .filter(|(partition, row)| range.contains(partition, row))
        .collect();
    let found = table.walk_sas(query, "", &range.sas(table, "r"))?;
    let found = keys_of(&found);
    ensure!(found == inside, "{range:?} with ?{query} found {found:?}, expected {inside:?}");
    Ok(())
}

fn inserts(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    for range in RANGES {
        let table = client.table()?;
        let sas = range.sas(&table, "a");
        for (partition, row) in all_keys() {
            let response = table.insert(&keys(partition, row).to_string()).sas(&sas).send()?;
            let told =
                |failure| Failure::mismatch(format!("{range:?} at {partition}, {row}: {failure}"));
            if range.contains(partition, row) {
                response.expect_status(201).map_err(told)?;
            } else {
                response.expect_denied(DenialKind::Operation).map_err(told)?;
            }
        }
        let stored = table.walk("")?;
        let inside: Vec<_> = all_keys()
            .into_iter()
            .filter(|(partition, row)| range.contains(partition, row))
            .collect();
        ensure!(
            keys_of(&stored) == inside,
            "{range:?} let {:?} in, expected {inside:?}",
            keys_of(&stored)
        );
    }
    Ok(())
}

/// Everything that can be done to one entity, with the status of its success.
fn requests<'c>(
    client: &'c Client<'c>,
    table: &'c Table<'c>,
    at: (&str, &str),
) -> Vec<(u16, Request<'c>)> {
    let entity = table.entity(at.0, at.1);
    let change = |method: &str| client.request(method, &entity).json(r#"{"changed":true}"#);
    vec![
        (200, table.point(at.0, at.1)),
        (204, change("PUT").header("If-Match", "*")),
        (204, change("PATCH").header("If-Match", "*")),
        (204, change("MERGE").header("If-Match", "*")),
        (204, change("POST").header("X-HTTP-Method", "MERGE").header("If-Match", "*")),
        (204, change("PUT")),
        (204, change("PATCH")),
        (409, table.insert(&keys(at.0, at.1).to_string())),
        (204, client.delete(&entity).header("If-Match", "*")),
        // Now it is gone, which is told only inside the range.
        (404, table.point(at.0, at.1)),
        (404, change("PUT").header("If-Match", "*")),
        (404, client.delete(&entity).header("If-Match", "*")),
    ]
}

fn every_operation(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let text = "This request is not authorized to perform this operation.";
    for range in [RANGES[1], RANGES[4], RANGES[8], RANGES[10]] {
        let table = filled_table(&client)?;
        let sas = range.sas(&table, "raud");
        for at in
            [("a", "3"), ("b", "1"), ("b", "2"), ("ba", "1"), ("c", "2"), ("c", "20"), ("d", "1")]
        {
            for (status, request) in requests(&client, &table, at) {
                let response = request.sas(&sas).send()?;
                let told = |failure| Failure::mismatch(format!("{range:?} at {at:?}: {failure}"));
                if range.contains(at.0, at.1) {
                    response.expect_status(status).map_err(told)?;
                } else {
                    response.expect_error_text(403, "AuthorizationFailure", text).map_err(told)?;
                }
            }
            if !range.contains(at.0, at.1) {
                table.get(at.0, at.1)?.expect_no_json("/changed")?;
            }
        }
    }
    Ok(())
}

fn queries(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = filled_table(&client)?;
    for range in RANGES {
        expect_bounded(&table, range, "")?;
        expect_bounded(&table, range, "$select=PartitionKey,RowKey")?;
    }
    Ok(())
}

fn ends_belong(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = filled_table(&client)?;
    let sas = table.sas("r").range(Some(("b", Some("2"))), Some(("c", Some("2"))));
    let found = table.walk_sas("", "", &sas)?;
    let found = keys_of(&found);
    ensure!(found.first() == Some(&("b", "2")), "begins with {:?}", found.first());
    ensure!(found.last() == Some(&("c", "2")), "ends with {:?}", found.last());
    for (partition, row) in [("b", "2"), ("c", "2")] {
        table.point(partition, row).sas(&sas).send()?.expect_status(200)?;
    }
    for (partition, row) in [("b", "10"), ("c", "20")] {
        table.point(partition, row).sas(&sas).send()?.expect_denied(DenialKind::Operation)?;
    }
    Ok(())
}

/// A row key bounds only the partition that it comes with.
fn partitions_only(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = filled_table(&client)?;
    let partition = Range::new(Some(("b", None)), Some(("b", None)));
    let found = table.walk_sas("", "", &partition.sas(&table, "r"))?;
    ensure!(keys_of(&found).len() == ROWS.len(), "found {:?}", keys_of(&found));
    for row in ["", "0", "zzz", "é"] {
        client
            .put(&table.entity("b", row))
            .json("{}")
            .sas(&partition.sas(&table, "au"))
            .send()?
            .expect_status(204)?;
    }
    let across = Range::new(Some(("b", Some("3"))), Some(("c", Some("1"))));
    for (at, status) in
        [(("ba", "1"), 200), (("ba", "3"), 200), (("b", "20"), 403), (("c", "10"), 403)]
    {
        table.point(at.0, at.1).sas(&across.sas(&table, "r")).send()?.expect_status(status)?;
    }
    Ok(())
}

fn filters(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = filled_table(&client)?;
    for filter in [
        "PartitionKey eq 'b'",
        "PartitionKey eq 'a'",
        "PartitionKey eq 'b' and RowKey eq '2'",
        "PartitionKey eq 'b' and RowKey eq '1'",
        "PartitionKey eq 'b' and RowKey ge '10'",
        "PartitionKey eq 'a' or PartitionKey eq 'c'",
        "(PartitionKey eq 'b' and RowKey eq '1') or (PartitionKey eq 'c' and RowKey eq '2')",
        "PartitionKey gt 'b' and PartitionKey lt 'd'",
        "PartitionKey lt 'b' or PartitionKey gt 'c'",
        "not (PartitionKey eq 'b')",
        "RowKey eq '2'",
        "RowKey ne '2'",
        "Timestamp gt datetime'2020-01-01T00:00:00Z'",
    ] {
        for range in [RANGES[2], RANGES[5], RANGES[8], RANGES[10]] {
            expect_bounded(&table, range, &format!("$filter={}", percent_encode(filter)))?;
        }
    }
    Ok(())
}

fn pages(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = filled_table(&client)?;
    for range in [RANGES[1], RANGES[4], RANGES[8], RANGES[9], RANGES[10]] {
        for top in [1, 2, 3, 7] {
            expect_bounded(&table, range, &format!("$top={top}"))?;
            let filter = percent_encode("RowKey ne '10'");
            expect_bounded(&table, range, &format!("$top={top}&$filter={filter}"))?;
        }
    }
    Ok(())
}

/// A token says where to go on, not what may be seen: the owner's tokens lead nowhere outside the
/// range.
fn foreign_continuation(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = filled_table(&client)?;
    for range in [RANGES[5], RANGES[8], RANGES[10]] {
        let sas = range.sas(&table, "r");
        for (passed, _) in all_keys().iter().enumerate().skip(1) {
            let owners_page = table.query(&format!("$top={passed}")).send()?;
            let token = continuation(&owners_page).ok_or_else(|| {
                owners_page.mismatch("expected a continuation after a page of $top")
            })?;
            let inside: Vec<_> = all_keys()
                .into_iter()
                .skip(passed)
                .filter(|(partition, row)| range.contains(partition, row))
                .collect();
            let rows = table.walk_sas("", &token, &sas)?;
            ensure!(
                keys_of(&rows) == inside,
                "{range:?} after {passed} found {rows:?}, expected {inside:?}"
            );
        }
    }
    Ok(())
}

/// More than a page inside the range and as much on either side of it.
fn full_page(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let entities: Vec<_> = (0..1_500).map(|number| keys("p", &format!("{number:04}"))).collect();
    table.add_all(&entities)?;
    let range = Range::new(Some(("p", Some("0200"))), Some(("p", Some("1299"))));
    let sas = range.sas(&table, "r");
    table.query("").sas(&sas).send()?.expect_status(200)?.expect_json("/value/0/RowKey", "0200")?;
    let found = table.walk_sas("", "", &sas)?;
    let expected: Vec<_> = (200..1_300).map(|number| format!("{number:04}")).collect();
    let found: Vec<_> = keys_of(&found).into_iter().map(|(_, row)| row).collect();
    ensure!(
        found == expected,
        "found {} rows, from {:?} to {:?}",
        found.len(),
        found.first(),
        found.last()
    );
    Ok(())
}

fn empty_range(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = filled_table(&client)?;
    for range in [
        Range::new(Some(("c", None)), Some(("b", None))),
        Range::new(Some(("z", Some("z"))), Some(("a", Some("a")))),
        Range::new(Some(("b", Some("3"))), Some(("b", Some("1")))),
    ] {
        let sas = range.sas(&table, "raud");
        for query in ["", "$top=1", "$filter=PartitionKey%20eq%20'b'"] {
            let found = table.walk_sas(query, "", &sas)?;
            ensure!(found.is_empty(), "{range:?} found {:?}", keys_of(&found));
        }
        for at in [("b", "2"), ("c", "1")] {
            for (_, request) in requests(&client, &table, at) {
                request.sas(&sas).send()?.expect_denied(DenialKind::Operation)?;
            }
        }
    }
    ensure!(table.walk("")?.len() == all_keys().len(), "an entity is gone");
    Ok(())
}

fn rows_without_partition(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = filled_table(&client)?;
    table
        .point("b", "2")
        .sas(&table.sas("r").with("spk", "b").with("srk", "1"))
        .send()?
        .expect_status(200)?;
    for sas in [
        table.sas("raud").with("srk", "1"),
        table.sas("raud").with("erk", "3"),
        table.sas("raud").with("srk", "1").with("erk", "3"),
        table.sas("raud").with("spk", "b").with("erk", "3"),
        table.sas("raud").with("epk", "b").with("srk", "1"),
    ] {
        table.query("").sas(&sas).send()?.expect_status(403)?;
        table.point("b", "2").sas(&sas).send()?.expect_status(403)?;
        client
            .delete(&table.entity("b", "2"))
            .header("If-Match", "*")
            .sas(&sas)
            .send()?
            .expect_status(403)?;
    }
    table.get("b", "2")?;
    Ok(())
}

/// Keys that need escapes, and keys beyond Latin; all sort the same by character and by UTF-16
/// unit.
fn unusual_keys(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let all =
        [" ", "%41", "%", "'", "&", "+", "=", "A", "a b", "a+b", "é", "ü", "Ω", "日", "日本", "語"];
    let entities: Vec<_> = all.iter().map(|key| keys(key, key)).collect();
    table.add_all(&entities)?;
    for first in all {
        for range in [
            Range::new(Some((first, None)), None),
            Range::new(None, Some((first, Some(first)))),
            Range::new(Some((first, Some(first))), Some((first, Some(first)))),
        ] {
            expect_bounded(&table, range, "")?;
        }
    }
    // Beyond the basic plane only equality is asked: UTF-8 and UTF-16 order such keys differently.
    let smile = "\u{1f600}'%20+";
    let sas = table.sas("raud").range(Some((smile, Some(smile))), Some((smile, Some(smile))));
    table.insert(&keys(smile, smile).to_string()).sas(&sas).send()?.expect_status(201)?;
    table.point(smile, smile).sas(&sas).send()?.expect_status(200)?;
    ensure!(table.walk_sas("", "", &sas)?.len() == 1, "the entity at {smile} is not found alone");
    table.point("A", "A").sas(&sas).send()?.expect_denied(DenialKind::Operation)?;
    Ok(())
}
