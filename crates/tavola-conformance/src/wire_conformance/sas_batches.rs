//! Section 16.6, last part: shared access signatures on entity group transactions.

use serde_json::json;

use super::check::DenialKind;
use super::http::Response;
use super::multipart::Operation;
use super::sas::minutes_ahead;
use super::table::{Table, keys};
use super::{Case, Endpoint, Failure, Outcome};

pub(super) const CASES: &[Case] = &[
    Case::shared("sas_batch_operations_need_permissions", &["91"], permissions),
    Case::shared("sas_batch_tells_the_refused_operation", &["91"], refused_index),
    Case::shared("sas_batch_operations_stay_in_the_range", &["91", "G159"], ranges),
    Case::shared("sas_batch_stays_in_its_table", &["78", "91"], other_table),
    Case::shared("sas_batch_with_an_account_sas", &["91"], account_sas),
    Case::shared("sas_batch_with_a_policy", &["90", "91"], policy),
    Case::shared("sas_batch_queries_need_permissions", &["91"], queries),
    Case::shared("sas_batch_is_authorised_by_the_outer_url", &["92"], outer_url),
    Case::shared("sas_batch_inner_signatures_do_not_count", &["92"], inner_signatures),
    Case::shared("sas_batch_outer_refusals", &["92"], outer_refusals),
];

/// The kinds of operations on the entity `p`, `r`, each with the permissions that it needs.
fn kinds(table: &Table<'_>) -> Vec<(&'static str, u16, Operation)> {
    let entity = table.entity("p", "r");
    let change = |method: &str| Operation::new(method, &entity).json(&json!({ "changed": true }));
    vec![
        ("u", 204, change("PUT").header("If-Match", "*")),
        ("u", 204, change("PATCH").header("If-Match", "*")),
        ("u", 204, change("MERGE").header("If-Match", "*")),
        ("au", 204, change("PUT")),
        ("au", 204, change("PATCH")),
        ("d", 204, Operation::delete(&entity)),
        ("a", 201, Operation::insert(&table.path(), &keys("p", "r"))),
    ]
}

/// The whole change set failed at this operation.
fn expect_refused(response: &Response, index: usize, denial: DenialKind) -> Outcome {
    let (code, text) = denial.told();
    let message = format!("{index}:This request is not authorized to perform this operation{text}");
    response.expect_failed_part(403, code, &message)?;
    Ok(())
}

fn permissions(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let letters = ["r", "a", "u", "d", "au", "ad", "ud", "rau", "raud"];
    for (needs, status, operation) in kinds(&table) {
        for permissions in letters {
            let allowed = needs.chars().all(|letter| permissions.contains(letter));
            // An insert needs the place free, all others need it taken.
            let _ = client.delete(&table.entity("p", "r")).header("If-Match", "*").send()?;
            if needs != "a" {
                table.add(&keys("p", "r"))?;
            }
            let response = client
                .batch(std::slice::from_ref(&operation))
                .sas(&table.sas(permissions))
                .send()?;
            let told =
                |failure| Failure::mismatch(format!("{operation:?} with {permissions}: {failure}"));
            if allowed {
                response.expect_parts(&[status]).map_err(told)?;
            } else {
                expect_refused(&response, 0, DenialKind::Permission).map_err(told)?;
            }
        }
    }
    Ok(())
}

fn refused_index(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let insert = |row: &str| Operation::insert(&table.path(), &keys("p", row));
    let upsert = Operation::new("PUT", &table.entity("p", "r")).json(&json!({ "changed": true }));
    let operations =
        [insert("1"), insert("2"), Operation::delete(&table.entity("p", "r")), insert("3")];
    let response = client.batch(&operations).sas(&table.sas("rau")).send()?;
    expect_refused(&response, 2, DenialKind::Permission)?;
    let response = client.batch(&[insert("1"), upsert.clone()]).sas(&table.sas("a")).send()?;
    expect_refused(&response, 1, DenialKind::Permission)?;
    let response = client.batch(&[upsert.clone(), insert("1")]).sas(&table.sas("u")).send()?;
    expect_refused(&response, 0, DenialKind::Permission)?;
    // Nothing of all this was done.
    table.get("p", "r")?.expect_no_json("/changed")?;
    for row in ["1", "2", "3"] {
        table.expect_missing("p", row)?;
    }
    let all = [insert("1"), upsert];
    client.batch(&all).sas(&table.sas("au")).send()?.expect_parts(&[201, 204])?;
    client.batch(&operations[1..]).sas(&table.sas("ad")).send()?.expect_parts(&[201, 204, 201])?;
    Ok(())
}

fn ranges(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add_all(&[keys("p", "a"), keys("p", "c"), keys("p", "e"), keys("q", "c")])?;
    let sas = table.sas("raud").range(Some(("p", Some("b"))), Some(("p", Some("d"))));
    let insert = |row: &str| Operation::insert(&table.path(), &keys("p", row));
    let change = |row: &str| {
        Operation::new("PATCH", &table.entity("p", row)).json(&json!({ "changed": true }))
    };
    for (index, operations) in [
        (0, vec![insert("a1")]),
        (1, vec![insert("b"), insert("e1")]),
        (2, vec![change("c"), insert("d"), change("a")]),
        (1, vec![change("c"), change("e").header("If-Match", "*")]),
        (1, vec![insert("b1"), Operation::delete(&table.entity("p", "e"))]),
        (0, vec![Operation::delete(&table.entity("q", "c"))]),
    ] {
        let response = client.batch(&operations).sas(&sas).send()?;
        expect_refused(&response, index, DenialKind::Operation)?;
    }
    for row in ["a1", "b", "b1", "d", "e1"] {
        table.expect_missing("p", row)?;
    }
    for (partition, row) in [("p", "a"), ("p", "c"), ("p", "e"), ("q", "c")] {
        table.get(partition, row)?.expect_no_json("/changed")?;
    }
    let inside = [insert("b"), insert("d"), change("c")];
    client.batch(&inside).sas(&sas).send()?.expect_parts(&[201, 201, 204])?;
    Ok(())
}

fn other_table(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let (own, other) = (client.table_with_entity()?, client.table_with_entity()?);
    let operations = [
        Operation::insert(&other.path(), &keys("p", "new")),
        Operation::delete(&other.entity("p", "r")),
    ];
    let response = client.batch(&operations).sas(&own.sas("raud")).send()?;
    expect_refused(&response, 0, DenialKind::Operation)?;
    other.get("p", "r")?;
    other.expect_missing("p", "new")
}

fn account_sas(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let operations = || {
        [
            Operation::insert(&table.path(), &keys("p", "new")),
            Operation::delete(&table.entity("p", "r")),
        ]
    };
    let send = |types: &str, permissions: &str| {
        client.batch(&operations()).sas(&client.account_sas(types, permissions)).send()
    };
    expect_refused(&send("o", "a")?, 1, DenialKind::Permission)?;
    expect_refused(&send("sco", "rwdlcup")?, 0, DenialKind::Permission)?;
    // Whether the batch or its operations are of the wrong type is not settled.
    for types in ["s", "c", "sc"] {
        let refused = send(types, "rwdlacup")?;
        if refused.status == 202 {
            expect_refused(&refused, 0, DenialKind::ResourceType)?;
        } else {
            refused.expect_denied(DenialKind::ResourceType)?;
        }
    }
    table.get("p", "r")?;
    table.expect_missing("p", "new")?;
    send("o", "ad")?.expect_parts(&[201, 204])?;
    Ok(())
}

fn policy(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let acl = format!("{}?comp=acl", table.path());
    let policy = format!(
        "<SignedIdentifiers><SignedIdentifier><Id>adding</Id><AccessPolicy><Expiry>{}</Expiry>\
         <Permission>a</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>",
        minutes_ahead(60)
    );
    client.put(&acl).xml(&policy).send()?.expect_status(204)?;
    let sas = table.sas("r").without("sp").without("se").with("si", "adding");
    let insert = |row: &str| Operation::insert(&table.path(), &keys("p", row));
    client.batch(&[insert("1"), insert("2")]).sas(&sas).send()?.expect_parts(&[201, 201])?;
    let response = client
        .batch(&[insert("3"), Operation::delete(&table.entity("p", "1"))])
        .sas(&sas)
        .send()?;
    expect_refused(&response, 1, DenialKind::Permission)?;
    client.put(&acl).send()?.expect_status(204)?;
    client.batch(&[insert("3")]).sas(&sas).send()?.expect_unauthenticated()?;
    table.expect_missing("p", "3")
}

fn queries(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add_all(&[keys("p", "1"), keys("p", "2"), keys("p", "3")])?;
    let get = |row: &str| [Operation::new("GET", &table.entity("p", row))];
    let set = [Operation::new("GET", &format!("{}()", table.path()))];
    client.bare_batch(&get("1")).sas(&table.sas("r")).send()?.expect_parts(&[200])?;
    for operations in [&get("1"), &set] {
        let response = client.bare_batch(operations).sas(&table.sas("aud")).send()?;
        expect_read_refused(&response, "AuthorizationPermissionMismatch")?;
    }
    let narrow = table.sas("r").range(Some(("p", Some("2"))), Some(("p", Some("2"))));
    expect_read_refused(
        &client.bare_batch(&get("1")).sas(&narrow).send()?,
        "AuthorizationFailure",
    )?;
    let response = client.bare_batch(&set).sas(&narrow).send()?;
    let part = response.expect_parts(&[200])?.remove(0);
    let only_the_second = part.body.contains("\"RowKey\":\"2\"")
        && !part.body.contains("\"RowKey\":\"1\"")
        && !part.body.contains("\"RowKey\":\"3\"");
    response.ensure(only_the_second, "expected the row inside the range alone")?;
    Ok(())
}

/// A query is outside a change set, so its index is not settled.
fn expect_read_refused(response: &Response, code: &str) -> Outcome {
    if response.status != 202 {
        response.expect_code(403, code)?;
        return Ok(());
    }
    let part = response.expect_parts(&[403])?.remove(0);
    response.ensure(
        part.body.contains(&format!("\"code\":\"{code}\"")),
        &format!("expected {code} in the part"),
    )?;
    Ok(())
}

fn outer_url(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let insert = |row: &str, query: &str| {
        Operation::insert(&format!("{}{query}", table.path()), &keys("p", row))
    };
    let query = table.sas("a").sign(endpoint.key());
    client.batch(&[insert("1", "")]).sas_query(&query).send()?.expect_parts(&[201])?;
    // Only inside: the batch itself has no credentials.
    let inner = format!("?{query}");
    client
        .batch(&[insert("2", &inner)])
        .anonymous()
        .send()?
        .expect_code(403, "AuthenticationFailed")?;
    table.expect_missing("p", "2")?;
    // In both places, as a client does that builds all addresses alike.
    client.batch(&[insert("2", &inner)]).sas_query(&query).send()?.expect_parts(&[201])?;
    Ok(())
}

fn inner_signatures(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let (table, other) = (client.table()?, client.table()?);
    let insert = |table: &Table<'_>, query: &str| {
        [Operation::insert(&format!("{}?{query}", table.path()), &keys("p", "r"))]
    };
    let wide = table.sas("raud").sign(endpoint.key()).to_string();
    let response = client.batch(&insert(&table, &wide)).sas(&table.sas("r")).send()?;
    expect_refused(&response, 0, DenialKind::Permission)?;
    let wide = other.sas("raud").sign(endpoint.key()).to_string();
    let response = client.batch(&insert(&other, &wide)).sas(&table.sas("raud")).send()?;
    expect_refused(&response, 0, DenialKind::Operation)?;
    table.expect_missing("p", "r")?;
    other.expect_missing("p", "r")?;
    let narrow = table.sas("r").sign(endpoint.key()).to_string();
    client.batch(&insert(&table, &narrow)).sas(&table.sas("a")).send()?.expect_parts(&[201])?;
    Ok(())
}

/// What is wrong with the signature itself is wrong with the whole request.
fn outer_refusals(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let batch = || client.batch(&[Operation::insert(&table.path(), &keys("p", "r"))]);
    batch().sas_query(&table.sas("a").sign(&[7; 64])).send()?.expect_unauthenticated()?;
    batch().sas(&table.sas("a").with("se", &minutes_ahead(-5))).send()?.expect_unauthenticated()?;
    batch().sas(&table.sas("a").with("si", "none")).send()?.expect_unauthenticated()?;
    batch()
        .sas(&table.sas("a").with("spr", "https"))
        .send()?
        .expect_denied(DenialKind::Protocol)?;
    batch()
        .sas(&table.sas("a").with("sip", "203.0.113.7"))
        .send()?
        .expect_denied(DenialKind::SourceAddress)?;
    batch()
        .sas(&client.account_sas("o", "a").with("ss", "b"))
        .send()?
        .expect_denied(DenialKind::Service)?;
    table.expect_missing("p", "r")?;
    client.expect_usable_connection()
}
