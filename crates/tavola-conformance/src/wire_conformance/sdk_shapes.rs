//! Single requests as the official SDKs word them, replayed byte for byte but for names, dates and
//! signatures.

use super::http::{Connection, Response};
use super::request::{Client, FULL_METADATA, now};
use super::signer::{Scheme, SignedParts, canonicalized_resource, signature};
use super::table::{Table, continuation, keys};
use super::{Case, Endpoint, Failure, Outcome};

pub(super) const CASES: &[Case] = &[
    Case::shared("python_tables", &["41", "93"], python_tables),
    Case::shared("python_entities", &["41", "108", "135", "136", "156"], python_entities),
    Case::shared("python_query", &["41", "192", "197"], python_query),
    Case::shared("javascript_entities", &["42", "113", "124", "157"], javascript_entities),
    Case::shared("javascript_query", &["42", "11"], javascript_query),
    Case::shared("go_entities", &["133", "150", "157"], go_entities),
    Case::shared("go_continuation", &["16", "199", "203"], go_continuation),
    Case::shared("dotnet_tables", &["30", "42", "93"], dotnet_tables),
    Case::shared("dotnet_entities", &["30", "42", "133", "136", "150"], dotnet_entities),
    Case::shared("dotnet_expect_continue", &[], expect_continue),
    Case::shared("storage_explorer_clones_tables", &["134"], cloned_entity),
];

/// A request as text. `{host}`, `{base}` (path of the account), `{table}` and `{date}` are filled
/// in; the lines of the head end in CRLF on the wire; `Content-Length` and `Authorization` are
/// added where the text says `{length}` and `{signature}`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) scheme: Scheme,
    pub(super) head: &'static str,
    pub(super) body: &'static str,
}

impl Shape {
    pub(super) fn fill(&self, endpoint: &Endpoint, table: &str, date: &str) -> Vec<u8> {
        let fill = |text: &str| {
            text.replace("{base_url}", &endpoint.base_url())
                .replace("{host}", endpoint.authority())
                .replace("{base}", endpoint.base_path())
                .replace("{table}", table)
                .replace("{date}", date)
        };
        let body = fill(self.body);
        let head =
            fill(self.head).replace("{length}", &body.len().to_string()).replace('\n', "\r\n");
        let signature = sign(endpoint, self.scheme, &head, date);
        let head = head.replace("{signature}", &signature);
        format!("{head}\r\n\r\n{body}").into_bytes()
    }

    /// Sends the request on the client's connection.
    pub(super) fn replay(&self, client: &Client<'_>, table: &str) -> Result<Response, Failure> {
        client.send_bytes(&self.fill(client.endpoint(), table, &now()))
    }
}

fn sign(endpoint: &Endpoint, scheme: Scheme, head: &str, date: &str) -> String {
    let line = head.split("\r\n").next().unwrap_or_default();
    let mut words = line.split(' ');
    let (method, target) = (words.next(), words.next());
    let value = |name: &str| {
        head.split("\r\n")
            .filter_map(|line| line.split_once(": "))
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.to_owned())
            .unwrap_or_default()
    };
    let parts = SignedParts {
        method: method.unwrap_or_default().to_owned(),
        content_md5: String::new(),
        content_type: value("Content-Type"),
        date: date.to_owned(),
        resource: canonicalized_resource(endpoint.account(), target.unwrap_or_default()),
    };
    format!(
        "{} {}:{}",
        scheme.name(),
        endpoint.account(),
        signature(endpoint.key(), &parts.string_to_sign(scheme))
    )
}

const fn python(head: &'static str, body: &'static str) -> Shape {
    Shape { scheme: Scheme::SharedKey, head, body }
}

const fn lite(head: &'static str, body: &'static str) -> Shape {
    Shape { scheme: Scheme::SharedKeyLite, head, body }
}

const PYTHON_CREATE: Shape = python(
    "POST {base}/Tables HTTP/1.1
Host: {host}
Accept: application/json;odata=minimalmetadata
Content-Type: application/json;odata=nometadata
Content-Length: {length}
x-ms-version: 2019-02-02
DataServiceVersion: 3.0
User-Agent: azsdk-python-data-tables/12.7.0 Python/3.12
x-ms-client-request-id: 6d80e966-e151-11f1-9cd5-02fc00000001
x-ms-date: {date}
Date: {date}
Authorization: {signature}",
    r#"{"TableName": "{table}"}"#,
);

const PYTHON_DELETE: Shape = python(
    "DELETE {base}/Tables('{table}') HTTP/1.1
Host: {host}
Accept: application/json
x-ms-version: 2019-02-02
Content-Length: 0
x-ms-date: {date}
Date: {date}
Authorization: {signature}",
    "",
);

fn python_tables(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let name = endpoint.fresh_name();
    let created = PYTHON_CREATE.replay(&client, &name)?;
    let _table = client.existing_table(&name);
    created
        .expect_status(201)?
        .expect_header("x-ms-client-request-id", "6d80e966-e151-11f1-9cd5-02fc00000001")?
        .expect_json("/TableName", name.as_str())?;
    PYTHON_CREATE.replay(&client, &name)?.expect_error(409, "TableAlreadyExists")?;
    PYTHON_DELETE.replay(&client, &name)?.expect_status(204)?;
    PYTHON_DELETE.replay(&client, &name)?.expect_error(404, "ResourceNotFound")?;
    Ok(())
}

const PYTHON_INSERT: Shape = python(
    "POST {base}/{table} HTTP/1.1
Host: {host}
Accept: application/json;odata=minimalmetadata
Content-Type: application/json;odata=nometadata
Content-Length: {length}
x-ms-version: 2019-02-02
DataServiceVersion: 3.0
x-ms-client-request-id: 6d80e966-e151-11f1-9cd5-02fc00000001
x-ms-date: {date}
Date: {date}
Authorization: {signature}",
    r#"{"PartitionKey": "p", "PartitionKey@odata.type": "Edm.String", "RowKey": "r1", "RowKey@odata.type": "Edm.String", "i32": 1, "i64": "1099511627776", "i64@odata.type": "Edm.Int64", "d": 1.5, "d@odata.type": "Edm.Double", "dint": 3.0, "dint@odata.type": "Edm.Double", "b": true, "s": "x'y", "s@odata.type": "Edm.String", "g": "c9da6455-213d-42c9-9a79-3e9149a57833", "g@odata.type": "Edm.Guid", "bin": "AQI=", "bin@odata.type": "Edm.Binary", "dt": "2024-01-02T03:04:05.678900Z", "dt@odata.type": "Edm.DateTime", "inf": "Infinity", "inf@odata.type": "Edm.Double", "u": "\u00e9\ud83d\ude00", "u@odata.type": "Edm.String"}"#,
);

const PYTHON_MERGE: Shape = python(
    "PATCH {base}/{table}(PartitionKey='p',RowKey='r2%20%27%27%C3%A9%2B%26%25') HTTP/1.1
Host: {host}
Accept: application/json
Content-Type: application/json
Content-Length: {length}
x-ms-version: 2019-02-02
DataServiceVersion: 3.0
x-ms-date: {date}
Date: {date}
Authorization: {signature}",
    r#"{"PartitionKey": "p", "PartitionKey@odata.type": "Edm.String", "RowKey": "r2 '\u00e9+&%", "RowKey@odata.type": "Edm.String", "v": 2}"#,
);

fn python_entities(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let inserted = PYTHON_INSERT.replay(&client, table.name())?;
    inserted.expect_status(201)?;
    let own = r#""i32":1,"i64@odata.type":"Edm.Int64","i64":"1099511627776","d":1.5,"dint":3.0,"b":true,"s":"x'y","g@odata.type":"Edm.Guid","g":"c9da6455-213d-42c9-9a79-3e9149a57833","bin@odata.type":"Edm.Binary","bin":"AQI=","dt@odata.type":"Edm.DateTime","dt":"2024-01-02T03:04:05.6789Z","inf@odata.type":"Edm.Double","inf":"Infinity","u":"é😀""#;
    let read = table.get("p", "r1")?;
    inserted.expect_body(read.text()?)?;
    read.expect_own_members(own)?;
    PYTHON_INSERT.replay(&client, table.name())?.expect_error(409, "EntityAlreadyExists")?;
    PYTHON_MERGE.replay(&client, table.name())?.expect_status(204)?;
    table.get("p", "r2 'é+&%")?.expect_json("/v", 2)?.expect_json("/RowKey", "r2 'é+&%")?;
    Ok(())
}

const PYTHON_QUERY: Shape = python(
    "GET {base}/{table}()?$select=PartitionKey%2CRowKey%2Cv&$filter=PartitionKey%20eq%20%27p%27%20and%20v%20ge%201%20and%20dt%20gt%20datetime%272020-01-01T00%3A00%3A00.000000Z%27%20or%20g%20eq%20guid%27c9da6455-213d-42c9-9a79-3e9149a57833%27%20or%20bin%20eq%20X%270102%27%20or%20i64%20eq%201099511627776L HTTP/1.1
Host: {host}
x-ms-version: 2019-02-02
DataServiceVersion: 3.0
Accept: application/json;odata=minimalmetadata
x-ms-date: {date}
Date: {date}
Authorization: {signature}",
    "",
);

fn python_query(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for (row_key, members) in [
        ("1", r#""v":1,"dt@odata.type":"Edm.DateTime","dt":"2024-01-01T00:00:00Z""#),
        ("2", r#""v":0,"dt@odata.type":"Edm.DateTime","dt":"2024-01-01T00:00:00Z""#),
        ("3", r#""g@odata.type":"Edm.Guid","g":"c9da6455-213d-42c9-9a79-3e9149a57833""#),
        ("4", r#""bin@odata.type":"Edm.Binary","bin":"AQI=""#),
        ("5", r#""i64@odata.type":"Edm.Int64","i64":"1099511627776""#),
        ("6", r#""v":9,"dt@odata.type":"Edm.DateTime","dt":"2019-01-01T00:00:00Z""#),
    ] {
        let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row_key}\",{members}}}");
        table.insert(&body).send()?.expect_status(201)?;
    }
    let response = PYTHON_QUERY.replay(&client, table.name())?;
    response
        .expect_status(200)?
        .expect_row_count(4)?
        .expect_json("/value/0/v", 1)?
        .expect_no_json("/value/0/dt")?;
    for (index, row_key) in ["1", "3", "4", "5"].iter().enumerate() {
        response.expect_json(&format!("/value/{index}/RowKey"), *row_key)?;
    }
    Ok(())
}

const JAVASCRIPT_INSERT: Shape = lite(
    "POST {base}/{table} HTTP/1.1
Host: {host}
content-type: application/json;odata=nometadata
dataserviceversion: 3.0
prefer: return-no-content
accept: application/json;odata=minimalmetadata
accept-encoding: gzip,deflate
user-agent: azsdk-js-data-tables/13.3.0 core-rest-pipeline/1.19.0 Node/v20
x-ms-version: 2019-02-02
x-ms-client-request-id: 0ad3be53-0d2c-4c6b-a2a6-0e0d5f7ff1b6
x-ms-date: {date}
authorization: {signature}
content-length: {length}
connection: keep-alive",
    r#"{"PartitionKey":"p","RowKey":"r'2 é","nul":null,"big":1e+21,"exp":"1e+30","exp@odata.type":"Edm.Double","n":1}"#,
);

const JAVASCRIPT_GET: Shape = lite(
    "GET {base}/{table}(PartitionKey='p',RowKey='r''2%20%C3%A9') HTTP/1.1
Host: {host}
dataserviceversion: 3.0
accept: application/json;odata=minimalmetadata
x-ms-version: 2019-02-02
x-ms-date: {date}
authorization: {signature}",
    "",
);

fn javascript_entities(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    JAVASCRIPT_INSERT
        .replay(&client, table.name())?
        .expect_status(204)?
        .expect_header("Preference-Applied", "return-no-content")?;
    let read = JAVASCRIPT_GET.replay(&client, table.name())?;
    read.expect_status(200)?
        .expect_json("/RowKey", "r'2 é")?
        .expect_json("/big", 1e21)?
        .expect_json("/exp", 1e30)?
        .expect_json("/n", 1)?
        .expect_no_json("/nul")?;
    Ok(())
}

const JAVASCRIPT_QUERY: Shape = lite(
    "GET {base}/{table}()?$top=2&$select=RowKey%2Cn&$filter=PartitionKey%20eq%20%27it%27%27s%27 HTTP/1.1
Host: {host}
dataserviceversion: 3.0
accept: application/json;odata=minimalmetadata
x-ms-version: 2019-02-02
x-ms-date: {date}
authorization: {signature}",
    "",
);

fn javascript_query(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for row_key in ["1", "2", "3"] {
        table.add(&keys("it's", row_key))?;
        table.add(&keys("its", row_key))?;
    }
    let page = JAVASCRIPT_QUERY.replay(&client, table.name())?;
    page.expect_status(200)?.expect_row_count(2)?.expect_json("/value/1/RowKey", "2")?;
    page.require_header("x-ms-continuation-NextPartitionKey")?;
    Ok(())
}

const GO_INSERT: Shape = python(
    "POST {base}/{table}?%24format=application%2Fjson%3Bodata%3Dminimalmetadata HTTP/1.1
Host: {host}
User-Agent: azsdk-go-aztables/v1.3.0 (go1.23; linux)
Content-Length: {length}
Accept: application/json;odata=minimalmetadata
Authorization: {signature}
Content-Type: application/json
Dataserviceversion: 3.0
Prefer: return-no-content
X-Ms-Date: {date}
X-Ms-Version: 2019-02-02
Accept-Encoding: gzip",
    r#"{"odata.metadata":"","odata.etag":"","PartitionKey":"contToken","RowKey":"0","Timestamp":"0001-01-01T00:00:00Z","Value":1}"#,
);

fn go_entities(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let location =
        format!("{}/{}(PartitionKey='contToken',RowKey='0')", endpoint.base_url(), table.name());
    GO_INSERT
        .replay(&client, table.name())?
        .expect_status(204)?
        .expect_header("Location", &location)?
        .expect_header("DataServiceId", &location)?;
    let read = table.get("contToken", "0")?;
    read.expect_json("/Value", 1)?.expect_not_in_body("0001-01-01")?;
    Ok(())
}

const GO_QUERY: Shape = python(
    "GET {base}/{table}()?%24format=application%2Fjson%3Bodata%3Dminimalmetadata&%24top=1{next} HTTP/1.1
Host: {host}
Accept: application/json;odata=minimalmetadata
Authorization: {signature}
Dataserviceversion: 3.0
X-Ms-Date: {date}
X-Ms-Version: 2019-02-02",
    "",
);

fn go_page(client: &Client<'_>, table: &Table<'_>, next: &str) -> Result<Response, Failure> {
    let bytes = GO_QUERY.fill(client.endpoint(), table.name(), &now());
    // The query is not signed, so the token may be put in afterwards.
    let text = String::from_utf8_lossy(&bytes).replace("{next}", next);
    client.send_bytes(text.as_bytes())
}

fn go_continuation(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("contToken", "0"))?;
    table.add(&keys("contToken", "1"))?;
    let page = go_page(&client, &table, "")?;
    page.expect_status(200)?
        .expect_row_count(1)?
        .expect_json("/value/0/RowKey", "0")?
        .expect_json(
            "/odata.metadata",
            format!("{}/$metadata#{}", endpoint.base_url(), table.name()),
        )?;
    let token = continuation(&page).unwrap_or_default();
    let page = go_page(&client, &table, &format!("&{token}"))?;
    page.expect_status(200)?
        .expect_row_count(1)?
        .expect_json("/value/0/RowKey", "1")?
        .expect_no_header("x-ms-continuation-NextPartitionKey")?;
    Ok(())
}

const DOTNET_CREATE: Shape = lite(
    "POST {base}/Tables?$format=application%2Fjson%3Bodata%3Dminimalmetadata HTTP/1.1
Host: {host}
x-ms-version: 2019-02-02
DataServiceVersion: 3.0
Accept: application/json
x-ms-client-request-id: 5a4f7b0f-5b8a-4f0f-8d39-1a1a3c1d6a52
x-ms-return-client-request-id: true
User-Agent: azsdk-net-Data.Tables/12.9.1 (.NET 8.0.8; Debian GNU/Linux 12)
x-ms-date: {date}
Authorization: {signature}
traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00
Content-Type: application/json; odata=nometadata
Content-Length: {length}",
    r#"{"TableName":"{table}"}"#,
);

fn dotnet_tables(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let name = endpoint.fresh_name();
    let created = DOTNET_CREATE.replay(&client, &name)?;
    let _table = client.existing_table(&name);
    created
        .expect_status(201)?
        .expect_json("/TableName", name.as_str())?
        .expect_header("x-ms-client-request-id", "5a4f7b0f-5b8a-4f0f-8d39-1a1a3c1d6a52")?
        .expect_header(
            "Content-Type",
            "application/json;odata=minimalmetadata;streaming=true;charset=utf-8",
        )?;
    DOTNET_CREATE.replay(&client, &name)?.expect_error(409, "TableAlreadyExists")?;
    Ok(())
}

const DOTNET_INSERT: Shape = lite(
    "POST {base}/{table}?$format=application%2Fjson%3Bodata%3Dminimalmetadata HTTP/1.1
Host: {host}
x-ms-version: 2019-02-02
DataServiceVersion: 3.0
MaxDataServiceVersion: 3.0;NetFx
Prefer: return-no-content
Accept: application/json
x-ms-client-request-id: 5a4f7b0f-5b8a-4f0f-8d39-1a1a3c1d6a52
x-ms-return-client-request-id: true
x-ms-date: {date}
Authorization: {signature}
Content-Type: application/json; odata=nometadata
Content-Length: {length}",
    r#"{"PartitionKey":"p","RowKey":"r","Timestamp":null,"odata.etag":"","Big":"1099511627776","Big@odata.type":"Edm.Int64","When":"2024-01-02T03:04:05.6789000Z","When@odata.type":"Edm.DateTime","Id":"c9da6455-213d-42c9-9a79-3e9149a57833","Id@odata.type":"Edm.Guid","Bytes":"AQI=","Bytes@odata.type":"Edm.Binary","Text":"x","Gone":null}"#,
);

const DOTNET_QUERY: Shape = lite(
    "GET {base}/{table}()?$format=application%2Fjson%3Bodata%3Dminimalmetadata&$filter=PartitionKey%20eq%20%27p%27 HTTP/1.1
Host: {host}
x-ms-version: 2020-12-06
DataServiceVersion: 3.0
Accept: application/json
x-ms-date: {date}
Authorization: {signature}",
    "",
);

fn dotnet_entities(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    DOTNET_INSERT
        .replay(&client, table.name())?
        .expect_status(204)?
        .expect_header("Preference-Applied", "return-no-content")?;
    let page = DOTNET_QUERY.replay(&client, table.name())?;
    page.expect_status(200)?
        .expect_header("x-ms-version", "2020-12-06")?
        .expect_row_count(1)?
        .expect_json("/value/0/Big", "1099511627776")?
        .expect_json("/value/0/Big@odata.type", "Edm.Int64")?
        .expect_json("/value/0/When", "2024-01-02T03:04:05.6789Z")?
        .expect_json("/value/0/When@odata.type", "Edm.DateTime")?
        .expect_json("/value/0/Id@odata.type", "Edm.Guid")?
        .expect_json("/value/0/Bytes@odata.type", "Edm.Binary")?
        .expect_no_json("/value/0/Gone")?;
    let timestamp = page.json()?["value"][0]["Timestamp"].clone();
    page.ensure(timestamp.is_string(), "expected a Timestamp")?;
    Ok(())
}

/// Old .NET clients announce the body and wait for `100 Continue`, for at most a third of a second.
fn expect_continue(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let body = keys("p", "patient").to_string();
    let request = table.insert(&body).header("Expect", "100-continue");
    let mut connection = Connection::open(endpoint.authority())?;
    connection.write(&request.render_head())?;
    let interim = connection.read_head()?;
    interim.expect_status(100)?;
    connection.write(body.as_bytes())?;
    connection.read_response(false)?.expect_status(201)?;
    // A client that does not wait is served as well.
    let body = keys("p", "hasty").to_string();
    let bytes = table.insert(&body).header("Expect", "100-continue").render();
    connection.write(&bytes)?;
    connection.read_response(false)?.expect_status(201)?;
    table.get("p", "patient")?;
    table.get("p", "hasty")?;
    Ok(())
}

/// Tools that copy a table send back what they have read, metadata included.
fn cloned_entity(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let (source, copy) = (client.table()?, client.table()?);
    source
        .insert(r#"{"PartitionKey":"p","RowKey":"r","n@odata.type":"Edm.Int64","n":"5","s":"x"}"#)
        .send()?
        .expect_status(201)?;
    let read = client.get(&source.entity("p", "r")).accept(FULL_METADATA).send()?;
    copy.insert(read.text()?).send()?.expect_status(201)?;
    copy.get("p", "r")?
        .expect_json("/n", "5")?
        .expect_json("/n@odata.type", "Edm.Int64")?
        .expect_json("/s", "x")?
        .expect_json(
            "/odata.metadata",
            format!("{}/$metadata#{}/@Element", endpoint.base_url(), copy.name()),
        )?;
    Ok(())
}
