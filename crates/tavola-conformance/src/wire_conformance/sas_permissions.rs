//! Section 16.6, third part: what a shared access signature for a table allows.

use serde_json::json;

use super::check::DenialKind;
use super::request::{Client, Request};
use super::table::{Table, keys};
use super::{Case, Endpoint, Failure, Outcome};

pub(super) const CASES: &[Case] = &[
    Case::shared("sas_read_permission_does_not_insert", &["71"], read_does_not_insert),
    Case::shared("sas_add_permission_does_not_query", &["72"], add_does_not_query),
    Case::shared(
        "sas_permissions_of_every_operation",
        &["71", "72", "73", "74", "75", "G158"],
        every_operation,
    ),
    Case::shared("sas_upserts_need_add_and_update", &["73"], upserts),
    Case::shared("sas_permissions_in_any_order", &[], any_order),
    Case::shared("sas_for_a_table_does_not_manage_tables", &["76"], no_tables),
    Case::shared("sas_for_a_table_does_not_touch_the_acl", &["77"], no_acl),
    Case::shared("sas_for_a_table_does_not_touch_the_service", &["77"], no_service),
    Case::shared("sas_for_a_table_opens_no_other", &["78"], no_other_table),
    Case::shared("sas_on_a_missing_table", &[], missing_table),
];

fn read_does_not_insert(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let insert = || table.insert(&keys("p", "r").to_string());
    for permissions in ["r", "ru", "rd", "rud"] {
        insert().sas(&table.sas(permissions)).send()?.expect_denied(DenialKind::Permission)?;
    }
    insert().sas(&table.sas("r")).send()?.expect_error_text(
        403,
        "AuthorizationPermissionMismatch",
        "This request is not authorized to perform this operation using this permission.",
    )?;
    table.expect_missing("p", "r")?;
    insert().sas(&table.sas("a")).send()?.expect_status(201)?;
    Ok(())
}

fn add_does_not_query(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("p", "r"))?;
    for permissions in ["a", "au", "ad", "aud"] {
        let sas = table.sas(permissions);
        for request in [
            table.query(""),
            table.query("$top=1"),
            table.filter("RowKey eq 'r'"),
            table.point("p", "r"),
        ] {
            request.sas(&sas).send()?.expect_denied(DenialKind::Permission)?;
        }
        // Whether an entity exists is not told either.
        table.point("p", "none").sas(&sas).send()?.expect_denied(DenialKind::Permission)?;
    }
    table.query("").sas(&table.sas("r")).send()?.expect_status(200)?.expect_row_count(1)?;
    Ok(())
}

/// One operation on an entity, with the permissions that it needs.
struct Action {
    name: &'static str,
    needs: &'static str,
    status: u16,
    /// Whether the entity is there before.
    exists: bool,
    request: for<'c> fn(&'c Client<'c>, &'c Table<'c>, &str) -> Request<'c>,
}

const fn action(
    name: &'static str,
    needs: &'static str,
    status: u16,
    exists: bool,
    request: for<'c> fn(&'c Client<'c>, &'c Table<'c>, &str) -> Request<'c>,
) -> Action {
    Action { name, needs, status, exists, request }
}

const ACTIONS: [Action; 17] = [
    action("get", "r", 200, true, |_, table, row| table.point("p", row)),
    action("query", "r", 200, true, |_, table, _| table.query("$top=1")),
    action("filter", "r", 200, true, |_, table, row| table.filter(&format!("RowKey eq '{row}'"))),
    action("insert", "a", 201, false, |_, table, row| table.insert(&keys("p", row).to_string())),
    action("replace", "u", 204, true, |client, table, row| {
        changing(client, "PUT", table, row).header("If-Match", "*")
    }),
    action("merge", "u", 204, true, |client, table, row| {
        changing(client, "PATCH", table, row).header("If-Match", "*")
    }),
    action("MERGE", "u", 204, true, |client, table, row| {
        changing(client, "MERGE", table, row).header("If-Match", "*")
    }),
    action("tunnelled merge", "u", 204, true, |client, table, row| {
        changing(client, "POST", table, row)
            .header("X-HTTP-Method", "MERGE")
            .header("If-Match", "*")
    }),
    action("insert or replace, new", "au", 204, false, |client, table, row| {
        changing(client, "PUT", table, row)
    }),
    action("insert or replace, old", "au", 204, true, |client, table, row| {
        changing(client, "PUT", table, row)
    }),
    action("insert or merge, new", "au", 204, false, |client, table, row| {
        changing(client, "PATCH", table, row)
    }),
    action("insert or merge, old", "au", 204, true, |client, table, row| {
        changing(client, "PATCH", table, row)
    }),
    action("insert or MERGE", "au", 204, true, |client, table, row| {
        changing(client, "MERGE", table, row)
    }),
    action("tunnelled insert or merge", "au", 204, true, |client, table, row| {
        changing(client, "POST", table, row).header("X-HTTP-Method", "MERGE")
    }),
    action("tunnelled insert or replace", "au", 204, false, |client, table, row| {
        changing(client, "POST", table, row).header("X-HTTP-Method", "PUT")
    }),
    action("delete", "d", 204, true, |client, table, row| {
        client.delete(&table.entity("p", row)).header("If-Match", "*")
    }),
    action("tunnelled delete", "d", 204, true, |client, table, row| {
        client
            .post(&table.entity("p", row))
            .header("X-HTTP-Method", "DELETE")
            .header("If-Match", "*")
    }),
];

fn changing<'c>(client: &'c Client<'c>, method: &str, table: &Table<'_>, row: &str) -> Request<'c> {
    client.request(method, &table.entity("p", row)).json(r#"{"changed":true}"#)
}

/// Every combination of the four letters.
fn letters() -> Vec<String> {
    (1..16)
        .map(|mask| {
            "raud"
                .chars()
                .enumerate()
                .filter(|(bit, _)| mask & (1 << bit) != 0)
                .map(|(_, c)| c)
                .collect()
        })
        .collect()
}

fn every_operation(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for (number, action) in ACTIONS.iter().enumerate() {
        for permissions in letters() {
            let row = format!("{number}{permissions}");
            if action.exists {
                table.add(&keys("p", &row))?;
            }
            let request = (action.request)(&client, &table, &row);
            let response = request.sas(&table.sas(&permissions)).send()?;
            let told = |failure: Failure| {
                Failure::mismatch(format!("{} with {permissions}: {failure}", action.name))
            };
            if action.needs.chars().all(|letter| permissions.contains(letter)) {
                response.expect_status(action.status).map_err(told)?;
            } else {
                response.expect_denied(DenialKind::Permission).map_err(told)?;
                expect_untouched(&table, &row, action.exists).map_err(told)?;
            }
        }
    }
    Ok(())
}

fn expect_untouched(table: &Table<'_>, row: &str, exists: bool) -> Outcome {
    if !exists {
        return table.expect_missing("p", row);
    }
    table.get("p", row)?.expect_no_json("/changed")?;
    Ok(())
}

/// An entity tag is a condition like any other: it makes an update of what would be an upsert.
fn upserts(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let etag = table.add(&keys("p", "r"))?.etag()?.to_owned();
    let upsert = |method: &str| changing(&client, method, &table, "r");
    for method in ["PUT", "PATCH"] {
        for permissions in ["a", "u", "rad", "rud"] {
            upsert(method)
                .sas(&table.sas(permissions))
                .send()?
                .expect_denied(DenialKind::Permission)?;
        }
    }
    table.get("p", "r")?.expect_header("ETag", &etag)?;
    let updated = upsert("PATCH").header("If-Match", &etag).sas(&table.sas("u")).send()?;
    updated.expect_status(204)?;
    upsert("PUT")
        .header("If-Match", updated.etag()?)
        .sas(&table.sas("a"))
        .send()?
        .expect_denied(DenialKind::Permission)?;
    upsert("PUT").header("If-Match", &etag).sas(&table.sas("u")).send()?.expect_status(412)?;
    upsert("PUT").sas(&table.sas("au")).send()?.expect_status(204)?;
    // What would fail is refused for its permission first.
    changing(&client, "PUT", &table, "none")
        .header("If-Match", "*")
        .sas(&table.sas("a"))
        .send()?
        .expect_denied(DenialKind::Permission)?;
    Ok(())
}

fn any_order(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for (number, permissions) in ["raud", "duar", "urda", "adru"].into_iter().enumerate() {
        let sas = table.sas(permissions);
        let row = number.to_string();
        changing(&client, "PUT", &table, &row).sas(&sas).send()?.expect_status(204)?;
        table.point("p", &row).sas(&sas).send()?.expect_status(200)?;
        client
            .delete(&table.entity("p", &row))
            .header("If-Match", "*")
            .sas(&sas)
            .send()?
            .expect_status(204)?;
    }
    Ok(())
}

fn no_tables(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let new = endpoint.fresh_name();
    for request in [
        client.get("/Tables"),
        client.get("/Tables()?$top=1"),
        client.get(&format!("/Tables('{}')", table.name())),
        client.create_table(&new),
        client.create_table(table.name()),
        client.delete_table(table.name()),
        client.delete_table(&new),
    ] {
        request.clone().sas(&table.sas("raud")).send()?.expect_denied(DenialKind::Operation)?;
        // Nor when it is made out for a table of the name that the list has.
        request.sas(&table.sas("raud").with("tn", "Tables")).send()?.expect_status(403)?;
    }
    table.query("").send()?.expect_status(200)?;
    client.get(&format!("/{new}()")).send()?.expect_error(404, "TableNotFound")?;
    Ok(())
}

fn no_acl(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let acl = format!("{}?comp=acl", table.path());
    let sas = table.sas("raud");
    client.get(&acl).sas(&sas).send()?.expect_denied(DenialKind::Operation)?;
    for body in [
        "<SignedIdentifiers />",
        "<SignedIdentifiers><SignedIdentifier><Id>a</Id></SignedIdentifier></SignedIdentifiers>",
    ] {
        client.put(&acl).xml(body).sas(&sas).send()?.expect_denied(DenialKind::Operation)?;
    }
    client.request("HEAD", &acl).sas(&sas).send()?.expect_status(403)?;
    client.get(&acl).send()?.expect_status(200)?.expect_in_body("<SignedIdentifiers />")?;
    Ok(())
}

fn no_service(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let sas = table.sas("raud");
    let properties = "/?restype=service&comp=properties";
    client.get(properties).sas(&sas).send()?.expect_denied(DenialKind::Operation)?;
    let document = "<StorageServiceProperties></StorageServiceProperties>";
    client.put(properties).xml(document).sas(&sas).send()?.expect_denied(DenialKind::Operation)?;
    // Only the secondary has stats; elsewhere they are no operation at all, with any credential.
    if endpoint.require_path_style().is_ok() {
        let target = format!("/{}-secondary/?restype=service&comp=stats", endpoint.account());
        client.get("").target(&target).sas(&sas).send()?.expect_denied(DenialKind::Operation)?;
    }
    Ok(())
}

fn no_other_table(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let (own, other) = (client.table()?, client.table()?);
    for table in [&own, &other] {
        table.add(&keys("p", "r"))?;
    }
    let sas = own.sas("raud");
    own.point("p", "r").sas(&sas).send()?.expect_status(200)?;
    for request in [
        other.point("p", "r"),
        other.point("p", "none"),
        other.query(""),
        other.insert(&keys("p", "new").to_string()),
        changing(&client, "PUT", &other, "r"),
        changing(&client, "PATCH", &other, "r").header("If-Match", "*"),
        client.delete(&other.entity("p", "r")).header("If-Match", "*"),
        client.get(&format!("/{}()", endpoint.fresh_name())),
    ] {
        request.sas(&sas).send()?.expect_denied(DenialKind::Operation)?;
    }
    let longer = client.table_named(&format!("{}longer", own.name()))?;
    longer.query("").sas(&sas).send()?.expect_denied(DenialKind::Operation)?;
    other.get("p", "r")?.expect_no_json("/changed")?;
    other.expect_missing("p", "new")
}

/// Only a credential that covers a table learns whether the table exists.
fn missing_table(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let name = endpoint.fresh_name();
    let table = client.existing_table(&name);
    table.query("").sas(&table.sas("r")).send()?.expect_error(404, "TableNotFound")?;
    table.query("").sas(&table.sas("a")).send()?.expect_denied(DenialKind::Permission)?;
    let insert = || table.insert(&json!({ "PartitionKey": "p", "RowKey": "r" }).to_string());
    insert().sas(&table.sas("a")).send()?.expect_error(404, "TableNotFound")?;
    insert().sas(&table.sas("r")).send()?.expect_denied(DenialKind::Permission)?;
    Ok(())
}
