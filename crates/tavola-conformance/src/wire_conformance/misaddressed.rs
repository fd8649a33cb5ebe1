//! Paths that go on behind a table's name, and slashes where none are needed. Clients make them
//! from an endpoint that names the table already; the Python SDK turns most of the answers into
//! "Please check your account URL".

use serde_json::json;

use super::check::DenialKind;
use super::multipart::Operation;
use super::table::keys;
use super::{Case, Endpoint, Outcome};

pub(super) const CASES: &[Case] = &[
    Case::shared("slash_behind_a_resource", &[], trailing_slashes),
    Case::shared("escaped_slashes_are_part_of_a_name", &[], escaped_slashes),
    Case::shared("insert_below_the_table", &[], insert_below),
    Case::shared("create_table_below_a_table", &[], create_below),
    Case::shared("delete_table_below_a_table", &[], delete_below),
    Case::shared("batch_below_a_table", &[], batch_below),
    Case::shared("service_properties_of_a_table", &[], properties_below),
    Case::shared("other_segments_name_nothing", &[], other_segments),
];

const NO_TABLE: &str = "The table specified does not exist.";

fn trailing_slashes(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let path = table.path();
    client
        .post(&format!("{path}/"))
        .json(&keys("p", "1").to_string())
        .send()?
        .expect_status(201)?;
    for set in [format!("{path}/"), format!("{path}()/")] {
        client.get(&set).send()?.expect_status(200)?.expect_row_count(1)?;
    }
    client
        .get(&format!("{}/", table.entity("p", "1")))
        .send()?
        .expect_status(200)?
        .expect_json("/RowKey", "1")?;
    client.get(&format!("{path}/?comp=acl")).send()?.expect_status(200)?;
    let filter = format!("$filter=TableName%20eq%20'{}'", table.name());
    for tables in ["/Tables/", "/Tables()/"] {
        client
            .get(&format!("{tables}?{filter}"))
            .send()?
            .expect_status(200)?
            .expect_row_count(1)?;
    }
    client.get(&format!("/Tables('{}')/", table.name())).send()?.expect_status(200)?;
    let name = endpoint.fresh_name();
    client
        .post("/Tables/")
        .json(&json!({ "TableName": name }).to_string())
        .send()?
        .expect_status(201)?;
    drop(client.existing_table(&name));
    // One slash means nothing; two are a segment without a name.
    client.get(&format!("{path}//")).send()?.expect_error(400, "InvalidUri")?;
    client.get(&format!("{path}/?$top=1")).send()?.expect_status(200)?;
    Ok(())
}

fn escaped_slashes(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let insert = |path: &str| client.post(path).json(&keys("p", "r").to_string()).send();
    insert("/a%2F%2F")?.expect_error(400, "InvalidResourceName")?;
    insert(&format!("{}%2F", table.path()))?.expect_error(400, "InvalidResourceName")?;
    insert(&format!("{}%2F{}", table.path(), table.name()))?
        .expect_error(400, "InvalidResourceName")?;
    table.expect_missing("p", "r")
}

fn insert_below(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let path = format!("{0}{0}", table.path());
    let insert = |row_key: &str| client.post(&path).json(&keys("p", row_key).to_string());
    insert("signed").sas(&table.sas("a")).send()?.expect_status(201)?;
    insert("owned").send()?.expect_status(201)?;
    insert("refused").sas(&table.sas("rud")).send()?.expect_denied(DenialKind::Permission)?;
    // The table is the one of the first segment, for the signature too.
    let other = client.table()?;
    insert("foreign").sas(&other.sas("a")).send()?.expect_denied(DenialKind::Operation)?;
    table.expect_found("", "owned signed")
}

fn create_below(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let missing = endpoint.fresh_name();
    let create = |below: &str| {
        let body = json!({ "TableName": missing }).to_string();
        client.post(&format!("/{below}/Tables")).json(&body)
    };
    create(&missing).send()?.expect_error_text(404, "TableNotFound", NO_TABLE)?;
    create(table.name()).send()?.expect_error_text(
        400,
        "PropertiesNeedValue",
        "The values are not specified for all properties in the entity.",
    )?;
    // A credential that may not add to the table does not learn whether it exists.
    create(table.name()).sas(&table.sas("r")).send()?.expect_denied(DenialKind::Permission)?;
    client.get(&format!("/Tables('{missing}')")).send()?.expect_status(404)?;
    Ok(())
}

fn delete_below(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let delete = |below: &str| client.delete(&format!("/{below}/Tables('{}')", table.name()));
    delete(table.name()).send()?.expect_error_text(
        400,
        "InvalidInput",
        "The number of keys specified in the URI does not match number of key properties for the resource.",
    )?;
    // The Python SDK takes a 404 for a table that is gone already.
    delete(&endpoint.fresh_name()).send()?.expect_error_text(404, "TableNotFound", NO_TABLE)?;
    client.get(&format!("/Tables('{}')", table.name())).send()?.expect_status(200)?;
    Ok(())
}

fn batch_below(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let batch = client.batch(&[Operation::insert(&table.path(), &keys("p", "r"))]);
    let below = format!("{}{}/$batch", endpoint.base_path(), table.path());
    batch.target(&below).send()?.expect_error_text(
        415,
        "MediaTypeNotSupported",
        "None of the provided media types are supported.",
    )?;
    table.expect_missing("p", "r")
}

/// The code under which the Python SDK (12.7) finds the text "URI is invalid" and gives its hint.
fn properties_below(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for path in [table.path(), format!("{}/", table.path())] {
        let path = format!("{path}?restype=service&comp=properties");
        for request in [client.get(&path), client.put(&path).xml("<StorageServiceProperties/>")] {
            request.send()?.expect_xml_error(400, "InvalidQueryParameterValue")?.expect_in_body(
                "Value for one of the query parameters specified in the request URI is invalid",
            )?;
        }
    }
    Ok(())
}

fn other_segments(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for below in ["other", "Tables/Tables", "$metadata", "Tables(x)"] {
        client.get(&format!("{}/{below}", table.path())).send()?.expect_error(400, "InvalidUri")?;
        client
            .post(&format!("{}/{below}", table.path()))
            .json("{}")
            .send()?
            .expect_error(400, "InvalidUri")?;
    }
    client.get(&format!("{}/Tables", table.path())).send()?.expect_error(400, "InvalidUri")?;
    Ok(())
}
