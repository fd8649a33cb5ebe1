//! Section 16.7: operations on tables.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use super::request::{Client, FULL_METADATA, MINIMAL_METADATA, NO_METADATA, percent_encode};
use super::table::{Table, keys};
use super::{Case, Endpoint, Failure, Outcome, ensure};

pub(super) const CASES: &[Case] = &[
    Case::shared("create_table_answers_with_the_table", &["93", "95"], create),
    Case::shared("create_table_obeys_prefer", &["94"], create_with_prefer),
    Case::shared("table_names_of_wrong_length", &["96"], wrong_length),
    Case::shared("table_names_with_wrong_characters", &["97"], wrong_characters),
    Case::shared("reserved_table_name", &["98"], reserved_name),
    Case::shared("create_table_without_a_name", &[], missing_name),
    Case::shared("same_table_name_in_other_case", &["99"], other_case),
    Case::shared("tables_are_listed_as_created_and_sorted", &["100"], listed_sorted),
    Case::shared("tables_come_by_pages", &["101", "102"], listed_by_pages),
    Case::shared("all_tables_of_the_account_come_once", &["102"], all_listed_once),
    Case::shared("tables_are_filtered_by_name", &["103"], filtered),
    Case::shared("one_table_can_be_read", &["104"], one_table),
    Case::shared("delete_table_twice", &["105"], delete_twice),
    Case::shared("deleted_table_has_no_entities", &["106"], deleted_table),
    Case::shared("created_again_a_table_is_empty", &["107"], created_again),
];

fn create(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let base = endpoint.base_url();
    let account = endpoint.account();
    for accept in [NO_METADATA, MINIMAL_METADATA, FULL_METADATA] {
        let name = endpoint.fresh_name();
        let response = client.create_table(&name).accept(accept).send()?;
        let _table = client.existing_table(&name);
        let body = match accept {
            NO_METADATA => format!(r#"{{"TableName":"{name}"}}"#),
            MINIMAL_METADATA => {
                format!(
                    r#"{{"odata.metadata":"{base}/$metadata#Tables/@Element","TableName":"{name}"}}"#
                )
            }
            _ => format!(
                r#"{{"odata.metadata":"{base}/$metadata#Tables/@Element","odata.type":"{account}.Tables","odata.id":"{base}/Tables('{name}')","odata.editLink":"Tables('{name}')","TableName":"{name}"}}"#
            ),
        };
        response
            .expect_status(201)?
            .expect_body(&body)?
            .expect_header("Location", &format!("{base}/Tables('{name}')"))?
            .expect_header("Content-Type", &format!("{accept};streaming=true;charset=utf-8"))?
            .expect_no_header("ETag")?
            .expect_no_header("Preference-Applied")?;
    }
    Ok(())
}

fn create_with_prefer(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let silent = endpoint.fresh_name();
    let response = client.create_table(&silent).header("Prefer", "return-no-content").send()?;
    let _silent = client.existing_table(&silent);
    let location = format!("{}/Tables('{silent}')", endpoint.base_url());
    response
        .expect_status(204)?
        .expect_header("Preference-Applied", "return-no-content")?
        .expect_header("Location", &location)?
        .expect_header("DataServiceId", &location)?
        .expect_body("")?;
    let echoed = endpoint.fresh_name();
    let response = client.create_table(&echoed).header("Prefer", "return-content").send()?;
    let _echoed = client.existing_table(&echoed);
    response
        .expect_status(201)?
        .expect_header("Preference-Applied", "return-content")?
        .expect_json("/TableName", echoed.as_str())?;
    Ok(())
}

fn wrong_length(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    for name in ["a", "ab", &"a".repeat(64), &"a".repeat(300)] {
        client.create_table(name).send()?.expect_error_text(
            400,
            "OutOfRangeInput",
            "The specified resource name length is not within the permissible limits.",
        )?;
    }
    // The bounds themselves: 63 characters are a name, and so are three.
    let longest = format!("{:z<63}", endpoint.fresh_name());
    client.table_named(&longest)?;
    let shortest = client.create_table("q7Z").send()?;
    let _shortest = client.existing_table("q7Z");
    shortest.expect_status_in(&[201, 409])?;
    Ok(())
}

fn wrong_characters(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    for name in [
        "with_line",
        "with-dash",
        "1table",
        "täble",
        "tablé",
        "tab le",
        "table!",
        "тест",
        "表表表",
        "a.b.c",
        "$table",
        "Table\u{1F600}",
    ] {
        client.create_table(name).send()?.expect_error_text(
            400,
            "InvalidResourceName",
            "The specifed resource name contains invalid characters.",
        )?;
    }
    Ok(())
}

fn reserved_name(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    for name in ["tables", "Tables", "TABLES", "tAbLeS"] {
        client.create_table(name).send()?.expect_error(400, "InvalidInput")?;
    }
    Ok(())
}

fn missing_name(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    for body in [
        "{}",
        r#"{"TableName":null}"#,
        r#"{"TableName":""}"#,
        r#"{"TableName":5}"#,
        r#"{"tablename":"abcdef"}"#,
        "[]",
        "",
        "{",
    ] {
        client.post("/Tables").json(body).send()?.expect_status(400)?;
    }
    Ok(())
}

fn other_case(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for name in [table.name().to_owned(), table.name().to_uppercase()] {
        client.create_table(&name).send()?.expect_error_text(
            409,
            "TableAlreadyExists",
            "The table specified already exists.",
        )?;
    }
    Ok(())
}

/// Five tables whose names begin alike. Their order is the same with and without regard to case.
fn family<'c>(client: &'c Client<'c>) -> Result<(String, Vec<Table<'c>>), Failure> {
    let prefix = client.endpoint().fresh_name();
    let tables = ["dElTa", "BRAVO", "Alpha", "echo", "charlie"]
        .iter()
        .map(|name| client.table_named(&format!("{prefix}{}", capitalised(name))))
        .collect::<Result<Vec<_>, _>>()?;
    Ok((prefix, tables))
}

fn capitalised(name: &str) -> String {
    format!("{}{}", name[..1].to_uppercase(), &name[1..])
}

fn sorted_names(prefix: &str) -> Vec<String> {
    ["Alpha", "BRAVO", "Charlie", "DElTa", "Echo"]
        .iter()
        .map(|name| format!("{prefix}{name}"))
        .collect()
}

/// The filter that Storage Explorer sends to search by prefix.
fn prefix_filter(prefix: &str) -> String {
    let filter = format!("TableName ge '{prefix}' and TableName lt '{prefix}{{'");
    format!("$filter={}", percent_encode(&filter))
}

fn listed_sorted(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let (prefix, _tables) = family(&client)?;
    let base = endpoint.base_url();
    let names = sorted_names(&prefix);
    let rows: Vec<_> = names.iter().map(|name| json!({ "TableName": name }).to_string()).collect();
    let path = format!("/Tables?{}", prefix_filter(&prefix));
    client
        .get(&path)
        .accept(NO_METADATA)
        .send()?
        .expect_status(200)?
        .expect_body(&format!(r#"{{"value":[{}]}}"#, rows.join(",")))?;
    client.get(&path).send()?.expect_status(200)?.expect_body(&format!(
        r#"{{"odata.metadata":"{base}/$metadata#Tables","value":[{}]}}"#,
        rows.join(",")
    ))?;
    let full = client.get(&path).accept(FULL_METADATA).send()?;
    let name = &names[0];
    full.expect_status(200)?
        .expect_json("/value/0/odata.type", format!("{}.Tables", endpoint.account()))?
        .expect_json("/value/0/odata.id", format!("{base}/Tables('{name}')"))?
        .expect_json("/value/0/odata.editLink", format!("Tables('{name}')"))?
        .expect_json("/value/0/TableName", name.as_str())?;
    Ok(())
}

/// The names of a listing, page by page, and the sizes of the pages.
fn walk(client: &Client<'_>, query: &str) -> Result<(Vec<String>, Vec<usize>), Failure> {
    let (mut names, mut sizes) = (Vec::new(), Vec::new());
    let mut token = String::new();
    for _ in 0..5_000 {
        let page = client.get(&format!("/Tables?{query}{token}")).send()?;
        page.expect_status(200)?;
        let rows = page.rows()?;
        sizes.push(rows.len());
        names.extend(rows.iter().filter_map(|row| row["TableName"].as_str().map(str::to_owned)));
        let Some(next) = page.header("x-ms-continuation-NextTableName") else {
            return Ok((names, sizes));
        };
        token = format!("&NextTableName={}", percent_encode(next));
    }
    Err(Failure::mismatch(format!("{query} was not done after 5,000 pages")))
}

fn listed_by_pages(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let (prefix, _tables) = family(&client)?;
    let filter = prefix_filter(&prefix);
    let first = client.get(&format!("/Tables?{filter}&$top=2")).send()?;
    first.expect_status(200)?.expect_row_count(2)?;
    let token = first.require_header("x-ms-continuation-NextTableName")?;
    first.ensure(
        token.bytes().all(|byte| byte.is_ascii_graphic()),
        "the token is not visible ASCII",
    )?;
    for top in 1..=6 {
        let (names, sizes) = walk(&client, &format!("{filter}&$top={top}"))?;
        ensure!(names == sorted_names(&prefix), "pages of {top} gave {names:?}");
        ensure!(sizes.iter().all(|size| *size <= top), "$top={top} gave pages {sizes:?}");
    }
    Ok(())
}

/// Without a filter, while other cases create and delete tables: ours must come exactly once.
fn all_listed_once(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let (prefix, _tables) = family(&client)?;
    let (names, _) = walk(&client, "$top=7")?;
    let ours: Vec<_> = names.iter().filter(|name| name.starts_with(&prefix)).cloned().collect();
    ensure!(ours == sorted_names(&prefix), "the listing had {ours:?}");
    Ok(())
}

fn filtered(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let (prefix, _tables) = family(&client)?;
    let at = |index: usize| sorted_names(&prefix)[index].clone();
    let (alpha, bravo, echo) = (at(0), at(1), at(4));
    let found = |filter: String| {
        walk(&client, &format!("$filter={}", percent_encode(&filter))).map(|(names, _)| names)
    };
    for (filter, expected) in [
        (format!("TableName eq '{bravo}'"), vec![1]),
        (format!("TableName eq '{alpha}' or TableName eq '{echo}'"), vec![0, 4]),
        (format!("TableName ge '{bravo}' and TableName lt '{echo}'"), vec![1, 2, 3]),
        (format!("TableName gt '{bravo}' and TableName le '{echo}'"), vec![2, 3, 4]),
        (format!("TableName eq '{prefix}none'"), vec![]),
    ] {
        let expected: Vec<_> = expected.into_iter().map(at).collect();
        let names = found(filter.clone())?;
        ensure!(names == expected, "{filter} found {names:?}");
    }
    Ok(())
}

fn one_table(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let path = format!("/Tables('{}')", table.name());
    client.get(&path).send()?.expect_status(200)?.expect_body(&format!(
        r#"{{"odata.metadata":"{}/$metadata#Tables/@Element","TableName":"{}"}}"#,
        endpoint.base_url(),
        table.name()
    ))?;
    client
        .get(&path)
        .accept(NO_METADATA)
        .send()?
        .expect_status(200)?
        .expect_body(&format!(r#"{{"TableName":"{}"}}"#, table.name()))?;
    client.get("/Tables('nosuchtable1')").send()?.expect_error(404, "ResourceNotFound")?;
    Ok(())
}

fn delete_twice(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    client.delete_table(table.name()).send()?.expect_status(204)?.expect_body("")?;
    client.delete_table(table.name()).send()?.expect_error_text(
        404,
        "ResourceNotFound",
        "The specified resource does not exist.",
    )?;
    Ok(())
}

fn deleted_table(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("p", "r"))?;
    client.delete_table(table.name()).send()?.expect_status(204)?;
    let entity = table.entity("p", "r");
    for request in [
        client.get(&entity),
        table.query("").accept(MINIMAL_METADATA),
        table.insert(&keys("p", "r").to_string()),
        client.put(&entity).json("{}"),
        client.patch(&entity).json("{}"),
        client.delete(&entity).header("If-Match", "*"),
    ] {
        let response = request.send()?;
        match response.status {
            409 => response.expect_error(409, "TableBeingDeleted")?,
            _ => response.expect_error(404, "TableNotFound")?,
        };
    }
    let (names, _) = walk(&client, &prefix_filter(table.name()))?;
    ensure!(names.is_empty(), "the deleted table is listed: {names:?}");
    Ok(())
}

fn created_again(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("p", "r"))?;
    let acl = format!("{}?comp=acl", table.path());
    let policy = "<SignedIdentifiers><SignedIdentifier><Id>policy</Id>\
                  <AccessPolicy><Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";
    client.put(&acl).xml(policy).send()?.expect_status(204)?;
    client.delete_table(table.name()).send()?.expect_status(204)?;
    create_when_free(&client, table.name())?;
    table.query("").send()?.expect_status(200)?.expect_body(r#"{"value":[]}"#)?;
    table.expect_missing("p", "r")?;
    client.get(&acl).send()?.expect_status(200)?.expect_not_in_body("policy")?;
    Ok(())
}

/// The service blocks the name of a deleted table for a while.
pub(super) fn create_when_free(client: &Client<'_>, name: &str) -> Outcome {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let response = client.create_table(name).send()?;
        if response.status == 201 {
            return Ok(());
        }
        response.expect_error(409, "TableBeingDeleted")?;
        ensure!(Instant::now() < deadline, "{name} is not free after two minutes");
        sleep(Duration::from_secs(1));
    }
}
