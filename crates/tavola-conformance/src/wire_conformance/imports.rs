//! Bodies of imports: texts for truth values, keys with types, and how the one property that is
//! wrong is found.

use serde_json::json;

use super::data_types::{expect_read_back, store};
use super::http::Response;
use super::multipart::Operation;
use super::table::keys;
use super::{Case, Endpoint, Outcome};

pub(super) const CASES: &[Case] = &[
    Case::shared("texts_of_booleans_in_any_case", &[], boolean_texts),
    Case::shared("keys_annotated_with_other_types", &[], annotated_keys),
    Case::shared("the_property_that_is_wrong_is_named", &[], faults_are_named),
];

/// As imports of exported tables send it.
fn boolean_texts(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for (row_key, text, truth) in [
        ("a", "true", true),
        ("b", "True", true),
        ("c", "TRUE", true),
        ("d", "false", false),
        ("e", "False", false),
    ] {
        let members = format!("\"v\":\"{text}\",\"v@odata.type\":\"Edm.Boolean\"");
        expect_read_back(&table, row_key, &members, &format!("\"v\":{truth}"))?;
    }
    table.expect_found("v eq true", "a b c")?;
    // Without a type it is a text.
    expect_read_back(&table, "f", r#""v":"True""#, r#""v":"True""#)
}

/// One property of many is named, after the service's own text; its value is not.
fn faults_are_named(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let members = r#""fine":1,"Age":"secret","Age@odata.type":"Edm.Int32","more":true"#;
    let expect_named = |response: &Response| -> Outcome {
        response
            .expect_error_text(
                400,
                "InvalidInput",
                "An error occurred while processing this request.",
            )?
            .expect_in_body("Age")?
            .expect_in_body("Edm.Int32")?
            .expect_not_in_body("secret")?;
        Ok(())
    };
    expect_named(&store(&table, "r", members)?)?;
    for method in ["PUT", "PATCH"] {
        expect_named(
            &client
                .request(method, &table.entity("p", "r"))
                .json(&format!("{{{members}}}"))
                .send()?,
        )?;
    }
    let long = "n".repeat(10_000);
    let response = store(&table, "r", &format!("\"{long}\":[],\"a\":1"))?;
    response.expect_error(400, "InvalidInput")?;
    response.ensure(response.body.len() < 1_000, "an endless name was repeated")?;
    table.expect_missing("p", "r")
}

/// A key is a text, whatever else an annotation says of it; also where the URL's keys count.
fn annotated_keys(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for edm_type in ["Edm.Guid", "Edm.Int64", "Edm.DateTime", "Edm.Binary", "Edm.Nonsense"] {
        for key in ["PartitionKey", "RowKey"] {
            let entity = json!({
                "PartitionKey": "p", "RowKey": "c9da6455-213d-42c9-9a79-3e9149a57833",
                format!("{key}@odata.type"): edm_type,
            });
            table
                .insert(&entity.to_string())
                .send()?
                .expect_error(400, "InvalidInput")?
                .expect_in_body(key)?;
            for method in ["PUT", "PATCH", "MERGE"] {
                let write =
                    client.request(method, &table.entity("p", "r")).json(&entity.to_string());
                write.send()?.expect_error(400, "InvalidInput")?;
            }
            let batch = [
                Operation::insert(&table.path(), &keys("p", "other")),
                Operation::insert(&table.path(), &entity),
            ];
            client.batch(&batch).send()?.expect_failed_part(400, "InvalidInput", "1:")?;
        }
    }
    table.query("").send()?.expect_body(r#"{"value":[]}"#)?;
    Ok(())
}
