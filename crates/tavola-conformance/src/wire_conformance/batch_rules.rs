//! Section 16.12, second part: what a batch may contain, and the spellings that a parser must cope
//! with.

use serde_json::json;

use super::http::Response;
use super::multipart::Operation;
use super::table::keys;
use super::{Case, Endpoint, Outcome, ensure};

pub(super) const CASES: &[Case] = &[
    Case::shared("batch_over_two_partitions", &["217", "G33"], two_partitions),
    Case::shared("batch_over_two_tables", &["217", "G33"], two_tables),
    Case::shared("batch_with_an_entity_twice", &["218", "G32"], entity_twice),
    Case::shared("batch_of_100_operations_at_most", &["219", "G30"], operation_count),
    Case::shared("batch_of_four_mebibytes_at_most", &["220", "G31"], size_limit),
    Case::shared("batch_with_query_and_writes", &["225"], query_and_writes),
    Case::shared("batch_part_spellings", &["226", "227", "228"], part_spellings),
    Case::shared("batch_with_line_feeds_only", &[], line_feeds),
    Case::shared("batch_with_quoted_boundary", &["229"], quoted_boundary),
    Case::shared("batch_with_boundary_text_in_values", &["230"], boundary_in_values),
    Case::shared("batch_with_an_empty_changeset", &["232"], empty_changeset),
    Case::shared("batch_inner_addresses", &["233"], inner_addresses),
    Case::shared("batch_with_unsupported_operations", &["234"], unsupported_operations),
    Case::shared("batch_with_two_changesets", &[], two_changesets),
    Case::shared("batch_that_is_no_multipart", &[], no_multipart),
];

fn two_partitions(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    client
        .batch(&[
            Operation::insert(&table.path(), &keys("p", "1")),
            Operation::insert(&table.path(), &keys("p", "2")),
            Operation::insert(&table.path(), &keys("q", "3")),
            Operation::insert(&table.path(), &keys("p", "4")),
        ])
        .send()?
        .expect_failed_part(
            400,
            "CommandsInBatchActOnDifferentPartitions",
            "2:All commands in a batch must operate on same entity group.\n",
        )?;
    client
        .batch(&[
            Operation::insert(&table.path(), &keys("p", "1")),
            Operation::new("PUT", &table.entity("q", "1")).json(&json!({})),
        ])
        .send()?
        .expect_failed_part(400, "CommandsInBatchActOnDifferentPartitions", "1:")?;
    table.query("").send()?.expect_body(r#"{"value":[]}"#)?;
    Ok(())
}

fn two_tables(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let (table, other) = (client.table()?, client.table()?);
    client
        .batch(&[
            Operation::insert(&table.path(), &keys("p", "1")),
            Operation::insert(&other.path(), &keys("p", "1")),
        ])
        .send()?
        .expect_failed_part(400, "CommandsInBatchActOnDifferentPartitions", "1:")?;
    for table in [&table, &other] {
        table.query("").send()?.expect_body(r#"{"value":[]}"#)?;
    }
    // One table under two spellings of its name is one table.
    client
        .batch(&[
            Operation::insert(&table.path(), &keys("p", "1")),
            Operation::insert(&table.path().to_uppercase(), &keys("p", "2")),
        ])
        .send()?
        .expect_parts(&[201, 201])?;
    Ok(())
}

fn entity_twice(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let text = "2:The batch request contains multiple changes with same row key. An entity can appear only once in \
                a batch request.\n";
    for second in [
        Operation::insert(&table.path(), &keys("p", "1")),
        Operation::new("PUT", &table.entity("p", "1")).json(&json!({})),
        Operation::delete(&table.entity("p", "1")),
    ] {
        client
            .batch(&[
                Operation::insert(&table.path(), &keys("p", "1")),
                Operation::insert(&table.path(), &keys("p", "2")),
                second,
                Operation::insert(&table.path(), &keys("p", "3")),
            ])
            .send()?
            .expect_failed_part(400, "InvalidDuplicateRow", text)?;
    }
    table.query("").send()?.expect_body(r#"{"value":[]}"#)?;
    Ok(())
}

fn operation_count(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let inserts = |count: usize| -> Vec<_> {
        (0..count)
            .map(|number| {
                Operation::insert(&table.path(), &keys("p", &format!("{number:03}")))
                    .header("Prefer", "return-no-content")
            })
            .collect()
    };
    let response = client.batch(&inserts(101)).send()?;
    let part = response.expect_failed_part(400, "InvalidInput", "")?;
    // The index was seen as 99 and as 0.
    let text = ":The batch request operation exceeds the maximum 100 changes per change set.";
    let prefix = part.body.split(text).next().unwrap_or_default();
    let index = prefix.rsplit('"').next().unwrap_or_default();
    response.ensure(
        part.body.contains(text) && index.parse::<u8>().is_ok(),
        &format!("expected an index and {text}"),
    )?;
    table.query("").send()?.expect_body(r#"{"value":[]}"#)?;
    client.batch(&inserts(100)).send()?.expect_parts(&[204; 100])?;
    let count = table.walk("")?.len();
    ensure!(count == 100, "{count} entities instead of 100");
    Ok(())
}

/// Some entities of nearly a mebibyte each.
fn large_inserts(set: &str, count: usize) -> Vec<Operation> {
    (0..count)
        .map(|number| {
            let mut entity = keys("p", &number.to_string());
            for property in 0..15 {
                entity[format!("s{property}")] = json!("s".repeat(32 * 1024));
            }
            Operation::insert(set, &entity).header("Prefer", "return-no-content")
        })
        .collect()
}

fn size_limit(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    // Each entity has 480 KiB of text: eight of them fit, nine do not.
    let response = client.batch(&large_inserts(&table.path(), 9)).send()?;
    response.expect_status(413)?.expect_in_body("RequestBodyTooLarge")?.expect_in_body(
        "The request body is too large and exceeds the maximum permissible limit.",
    )?;
    table.query("").send()?.expect_body(r#"{"value":[]}"#)?;
    client.batch(&large_inserts(&table.path(), 8)).send()?.expect_parts(&[204; 8])?;
    Ok(())
}

/// The reference asks for 400 and leaves open whether the answer or a part has it.
fn expect_batch_refused(response: &Response) -> Outcome {
    if response.status == 202 {
        response.expect_parts(&[400])?;
    } else {
        response.expect_status(400)?;
    }
    Ok(())
}

fn query_and_writes(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("p", "r"))?;
    let get = || Operation::new("GET", &table.entity("p", "r"));
    let insert = || Operation::insert(&table.path(), &keys("p", "new"));
    for batch in [
        client.batch(&[insert(), get()]),
        client.batch(&[get(), insert()]),
        client.batch(&[get()]),
        client.bare_batch(&[get(), get()]),
        client.bare_batch(&[get(), insert()]),
    ] {
        expect_batch_refused(&batch.send()?)?;
    }
    table.expect_missing("p", "new")
}

/// A batch body with placeholders filled in: `{set}` is the address of the set, `{r}` the row key
/// of the round.
struct Spelling {
    name: &'static str,
    content_type: &'static str,
    body: &'static str,
}

const SPELLINGS: [Spelling; 6] = [
    Spelling {
        name: "lower",
        content_type: "multipart/mixed;boundary=batch_b",
        body: "--batch_b\r\ncontent-type: multipart/mixed;boundary=changeset_c\r\n\r\n\r\n--changeset_c\r\n\
               content-type: application/http\r\ncontent-transfer-encoding: binary\r\n\r\n\
               POST {set} HTTP/1.1\r\ncontent-type: application/json\r\nprefer: return-no-content\r\n\r\n\r\n\
               {\"PartitionKey\":\"p\",\"RowKey\":\"{r}\"}\r\n--changeset_c--\r\n--batch_b--\r\n",
    },
    Spelling {
        name: "canonical",
        content_type: "multipart/mixed; boundary=batch_b",
        body: "--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n--changeset_c\r\n\
               Content-Transfer-Encoding: binary\r\nContent-Type: application/http\r\n\r\n\
               POST {set} HTTP/1.1\r\nAccept: application/json;odata=minimalmetadata\r\nContent-Length: {length}\r\n\
               Content-Type: application/json\r\nDataserviceversion: 3.0\r\nPrefer: return-no-content\r\n\
               X-Ms-Version: 2019-02-02\r\n\r\n\
               {\"PartitionKey\":\"p\",\"RowKey\":\"{r}\"}\r\n--changeset_c--\r\n\r\n--batch_b--\r\n",
    },
    Spelling {
        name: "no_final_line_end",
        content_type: "multipart/mixed; boundary=batch_b",
        body: "--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n--changeset_c\r\n\
               Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: 0\r\n\r\n\
               POST {set} HTTP/1.1\r\nContent-Type: application/json\r\nPrefer: return-no-content\r\n\r\n\
               {\"PartitionKey\":\"p\",\"RowKey\":\"{r}\"}\r\n--changeset_c--\r\n--batch_b--",
    },
    Spelling {
        name: "open_end_of_the_reference",
        content_type: "multipart/mixed; boundary=batch_b",
        body: "--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n--changeset_c\r\n\
               Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
               POST {set} HTTP/1.1\r\nContent-Type: application/json\r\nPrefer: return-no-content\r\n\r\n\
               {\"PartitionKey\":\"p\",\"RowKey\":\"{r}\"}\r\n--changeset_c--\r\n--batch_b\r\n",
    },
    Spelling {
        name: "other_inner_headers",
        content_type: "multipart/mixed; boundary=batch_b",
        body: "--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n--changeset_c\r\n\
               Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
               POST {set} HTTP/1.1\r\nHost: elsewhere.example\r\nx-ms-version: 2013-08-15\r\n\
               x-ms-date: Thu, 23 Jul 2020 16:43:13 GMT\r\nDate: Thu, 23 Jul 2020 16:43:13 GMT\r\nUser-Agent: x\r\n\
               x-ms-client-request-id: y\r\nContent-Type: application/json\r\nPrefer: return-no-content\r\n\r\n\
               {\"PartitionKey\":\"p\",\"RowKey\":\"{r}\"}\r\n--changeset_c--\r\n--batch_b--\r\n",
    },
    Spelling {
        name: "white_space_around_the_body",
        content_type: "multipart/mixed; boundary=batch_b",
        body: "--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n--changeset_c\r\n\
               Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
               POST {set} HTTP/1.1\r\nContent-Type: application/json\r\nPrefer: return-no-content\r\n\r\n\r\n\r\n\
               \t {\"PartitionKey\":\"p\", \"RowKey\":\"{r}\"} \r\n\r\n--changeset_c--\r\n--batch_b--\r\n",
    },
];

impl Spelling {
    fn fill(&self, set: &str) -> String {
        let length = format!(r#"{{"PartitionKey":"p","RowKey":"{}"}}"#, self.name).len();
        self.body
            .replace("{set}", set)
            .replace("{r}", self.name)
            .replace("{length}", &length.to_string())
    }
}

fn part_spellings(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let set = format!("{}{}", endpoint.base_url(), table.path());
    for spelling in &SPELLINGS {
        client
            .batch_bytes("batch_b", spelling.fill(&set).as_bytes())
            .header("Content-Type", spelling.content_type)
            .send()?
            .expect_parts(&[204])?;
        table.get("p", spelling.name)?;
    }
    Ok(())
}

/// Tolerated by recommendation only: understood, or refused as a whole.
fn line_feeds(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let set = format!("{}{}", endpoint.base_url(), table.path());
    let spelling = &SPELLINGS[1];
    let response = client
        .batch_bytes("batch_b", spelling.fill(&set).replace("\r\n", "\n").as_bytes())
        .send()?;
    if response.expect_status_in(&[202, 400])?.status == 202 {
        response.expect_parts(&[204])?;
        table.get("p", spelling.name)?;
    } else {
        table.expect_missing("p", spelling.name)?;
    }
    Ok(())
}

fn quoted_boundary(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let set = format!("{}{}", endpoint.base_url(), table.path());
    let body = SPELLINGS[1].fill(&set).replace("boundary=changeset_c", "boundary=\"changeset_c\"");
    client.batch_bytes("\"batch_b\"", body.as_bytes()).send()?.expect_parts(&[204])?;
    table.get("p", SPELLINGS[1].name)?;
    Ok(())
}

fn boundary_in_values(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let set = format!("{}{}", endpoint.base_url(), table.path());
    let value = "--changeset_c\r\n--changeset_c--\r\n--batch_b--\r\nPOST x HTTP/1.1";
    let escaped = json!(value).to_string();
    let plain = SPELLINGS[1].fill(&set);
    // Without the length, so that only the delimiters can end the body.
    let body: String = plain
        .split_inclusive("\r\n")
        .filter(|line| !line.starts_with("Content-Length"))
        .collect::<String>()
        .replace("\"RowKey\"", &format!("\"s\":{escaped},\"RowKey\""));
    client.batch_bytes("batch_b", body.as_bytes()).send()?.expect_parts(&[204])?;
    table.get("p", SPELLINGS[1].name)?.expect_json("/s", value)?;
    Ok(())
}

/// Not verified on the service; whatever the answer, it is not a failure of the server.
fn empty_changeset(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    for batch in [client.batch(&[]), client.bare_batch(&[]), client.batch_bytes("batch_b", b"")] {
        let response = batch.send()?;
        if response.status == 202 {
            response.ensure(
                !response.text()?.contains("HTTP/1.1 2")
                    && !response.text()?.contains("HTTP/1.1 5"),
                "an empty changeset has neither successes nor failures of the server",
            )?;
        } else {
            response.expect_status(400)?;
        }
    }
    Ok(())
}

fn inner_addresses(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let (base_url, base_path) = (endpoint.base_url(), endpoint.base_path());
    let format = "?$format=application%2Fjson%3Bodata%3Dminimalmetadata";
    let encoded = "?%24format=application%2Fjson%3Bodata%3Dminimalmetadata";
    for (number, prefix, suffix) in [
        (0, base_url.as_str(), ""),
        (1, base_path, ""),
        (2, base_url.as_str(), format),
        (3, base_path, encoded),
        (4, base_url.as_str(), "?sv=2019-02-02&sig=ignored"),
    ] {
        let row_key = number.to_string();
        let body = format!(
            "--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n--changeset_c\r\n\
             Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             POST {prefix}{}{suffix} HTTP/1.1\r\nContent-Type: application/json\r\n\
             Accept: application/json\r\nPrefer: return-no-content\r\n\r\n{}\r\n\
             --changeset_c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             PATCH {prefix}{}{suffix} HTTP/1.1\r\nContent-Type: application/json\r\n\
             Accept: application/json\r\n\r\n{{\"a\":1}}\r\n--changeset_c--\r\n--batch_b--\r\n",
            table.path(),
            keys("p", &row_key),
            table.entity("p", &format!("{row_key}merged")),
        );
        client.batch_bytes("batch_b", body.as_bytes()).send()?.expect_parts(&[204, 204])?;
        table.get("p", &row_key)?;
        table.get("p", &format!("{row_key}merged"))?.expect_json("/a", 1)?;
    }
    Ok(())
}

fn unsupported_operations(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("p", "r"))?;
    let name = endpoint.fresh_name();
    let insert = || Operation::insert(&table.path(), &keys("p", "new"));
    for operation in [
        Operation::new("OPTIONS", &table.entity("p", "r")),
        Operation::new("FETCH", &table.entity("p", "r")),
        Operation::new("HEAD", &table.entity("p", "r")),
        Operation::new("POST", "/Tables").json(&json!({ "TableName": name })),
        Operation::new("DELETE", &format!("/Tables('{}')", table.name())),
        Operation::new("PUT", &format!("{}?comp=acl", table.path())),
        Operation::new("POST", "/$batch"),
    ] {
        expect_batch_refused(&client.batch(&[insert(), operation.clone()]).send()?)?;
        expect_batch_refused(&client.batch(&[operation]).send()?)?;
    }
    table.get("p", "r")?;
    table.expect_missing("p", "new")?;
    client.get(&format!("/Tables('{name}')")).send()?.expect_status(404)?;
    Ok(())
}

/// The reference processes the first and refuses the rest; refusing both is recommended.
fn two_changesets(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let set = format!("{}{}", endpoint.base_url(), table.path());
    let one = SPELLINGS[1].fill(&set);
    let first = one.strip_suffix("\r\n--batch_b--\r\n").unwrap_or_default();
    let second = one.replace(SPELLINGS[1].name, "second");
    let response =
        client.batch_bytes("batch_b", format!("{first}\r\n{second}").as_bytes()).send()?;
    response.ensure(response.status < 500, "two changesets broke the server")?;
    response.ensure(
        response.status == 400 || response.text()?.contains("HTTP/1.1 400"),
        "expected a refusal of the second changeset",
    )?;
    table.expect_missing("p", "second")
}

fn no_multipart(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    for (content_type, body) in [
        ("multipart/mixed; boundary=batch_b", "nonsense"),
        ("multipart/mixed; boundary=batch_b", "--batch_b\r\n"),
        ("multipart/mixed; boundary=batch_b", "--other\r\n\r\n--other--\r\n"),
        ("multipart/mixed", "--batch_b\r\n\r\n--batch_b--\r\n"),
        ("multipart/mixed; boundary=", "--\r\n\r\n----\r\n"),
        ("application/json", "{}"),
        (
            "multipart/mixed; boundary=batch_b",
            "--batch_b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n",
        ),
        (
            "multipart/mixed; boundary=batch_b",
            "--batch_b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: application/http\r\n\
             \r\nPOST\r\n\r\n--c--\r\n--batch_b--\r\n",
        ),
    ] {
        let response = client
            .post("/$batch")
            .header("Content-Type", content_type)
            .body(body.as_bytes())
            .send()?;
        if response.status == 202 {
            response.expect_parts(&[400])?;
        } else {
            response.expect_status_in(&[400, 415])?;
        }
    }
    client.expect_usable_connection()
}
