//! Batches as the official SDKs write them, replayed byte for byte but for names, dates and
//! signatures.

use super::sdk_shapes::Shape;
use super::signer::Scheme;
use super::table::keys;
use super::{Case, Endpoint, Outcome};

pub(super) const CASES: &[Case] = &[
    Case::shared("python_batch", &["226"], python_batch),
    Case::shared("javascript_batch", &["226", "227", "228"], javascript_batch),
    Case::shared("go_batch", &["226"], go_batch),
    Case::shared("dotnet_batch", &["226", "227"], dotnet_batch),
    Case::shared("legacy_dotnet_batch", &["226"], legacy_dotnet_batch),
    Case::shared("legacy_dotnet_query_in_a_batch", &["224"], legacy_dotnet_query),
];

const PYTHON_BATCH: Shape = Shape {
    scheme: Scheme::SharedKey,
    head: "POST {base}/$batch HTTP/1.1
Host: {host}
Content-Type: multipart/mixed; boundary=batch_1e39cf1e-c55d-4e5c-8f3b-364d0896ef43
x-ms-version: 2019-02-02
DataServiceVersion: 3.0
MaxDataServiceVersion: 3.0;NetFx
Accept: application/json
Content-Length: {length}
x-ms-date: {date}
Date: {date}
Authorization: {signature}",
    body: "--batch_1e39cf1e-c55d-4e5c-8f3b-364d0896ef43\r\n\
Content-Type: multipart/mixed; boundary=changeset_8f2a7d6b-92bb-4d8b-b3a7-2e5d5c8f0a11\r\n\r\n\
--changeset_8f2a7d6b-92bb-4d8b-b3a7-2e5d5c8f0a11\r\n\
Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: 0\r\n\r\n\
POST {base_url}/{table} HTTP/1.1\r\n\
x-ms-version: 2019-02-02\r\nDataServiceVersion: 3.0\r\nContent-Type: application/json;odata=nometadata\r\n\
Accept: application/json;odata=minimalmetadata\r\nContent-Length: 115\r\nx-ms-date: {date}\r\nDate: {date}\r\n\r\n\
{\"PartitionKey\": \"p\", \"PartitionKey@odata.type\": \"Edm.String\", \"RowKey\": \"b1\", \"RowKey@odata.type\": \"Edm.String\"}\r\n\
--changeset_8f2a7d6b-92bb-4d8b-b3a7-2e5d5c8f0a11\r\n\
Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: 1\r\n\r\n\
PATCH {base_url}/{table}(PartitionKey='p',RowKey='old1') HTTP/1.1\r\n\
x-ms-version: 2019-02-02\r\nDataServiceVersion: 3.0\r\nIf-Match: *\r\nContent-Type: application/json\r\n\
Accept: application/json\r\nContent-Length: 8\r\nx-ms-date: {date}\r\nDate: {date}\r\n\r\n\
{\"v\": 2}\r\n\
--changeset_8f2a7d6b-92bb-4d8b-b3a7-2e5d5c8f0a11\r\n\
Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: 2\r\n\r\n\
DELETE {base_url}/{table}(PartitionKey='p',RowKey='old2') HTTP/1.1\r\n\
x-ms-version: 2019-02-02\r\nDataServiceVersion: 3.0\r\nIf-Match: *\r\n\
Accept: application/json;odata=minimalmetadata\r\nx-ms-date: {date}\r\nDate: {date}\r\n\r\n\r\n\
--changeset_8f2a7d6b-92bb-4d8b-b3a7-2e5d5c8f0a11--\r\n\r\n\
--batch_1e39cf1e-c55d-4e5c-8f3b-364d0896ef43--\r\n",
};

/// Section 15.8 of the reference.
const JAVASCRIPT_BATCH: Shape = Shape {
    scheme: Scheme::SharedKeyLite,
    head: "POST {base}/$batch HTTP/1.1
Host: {host}
accept: application/json
x-ms-version: 2019-02-02
DataServiceVersion: 3.0;
MaxDataServiceVersion: 3.0;NetFx
Accept-Charset: UTF-8
content-type: multipart/mixed; boundary=batch_f9618eea-e9ec-4f57-916d-e07780f212b1
x-ms-date: {date}
authorization: {signature}
content-length: {length}",
    body: "--batch_f9618eea-e9ec-4f57-916d-e07780f212b1\r\n\
content-type: multipart/mixed; boundary=changeset_2bc97572-0e65-4cdd-9b80-015672e9becb\r\n\
\r\n\
\r\n\
--changeset_2bc97572-0e65-4cdd-9b80-015672e9becb\r\n\
content-type: application/http\r\n\
content-transfer-encoding: binary\r\n\
\r\n\
POST {base_url}/{table} HTTP/1.1\r\n\
Content-Type: application/json;odata=nometadata\r\n\
Accept: application/json;odata=minimalmetadata\r\n\
DataServiceVersion: 3.0\r\n\
Prefer: return-no-content\r\n\
\r\n\
\r\n\
{\"PartitionKey\":\"p\",\"RowKey\":\"b1\"}\r\n\
--changeset_2bc97572-0e65-4cdd-9b80-015672e9becb\r\n\
content-type: application/http\r\n\
content-transfer-encoding: binary\r\n\
\r\n\
PATCH {base_url}/{table}(PartitionKey='p',RowKey='old1') HTTP/1.1\r\n\
Content-Type: application/json\r\n\
Accept: application/json\r\n\
DataServiceVersion: 3.0\r\n\
If-Match: *\r\n\
\r\n\
\r\n\
{\"PartitionKey\":\"p\",\"RowKey\":\"old1\",\"v\":2}\r\n\
--changeset_2bc97572-0e65-4cdd-9b80-015672e9becb\r\n\
content-type: application/http\r\n\
content-transfer-encoding: binary\r\n\
\r\n\
DELETE {base_url}/{table}(PartitionKey='p',RowKey='old2') HTTP/1.1\r\n\
Accept: application/json;odata=minimalmetadata\r\n\
DataServiceVersion: 3.0\r\n\
If-Match: *\r\n\
\r\n\
\r\n\
--changeset_2bc97572-0e65-4cdd-9b80-015672e9becb--\r\n\
--batch_f9618eea-e9ec-4f57-916d-e07780f212b1--\r\n",
};

const GO_BATCH: Shape = Shape {
    scheme: Scheme::SharedKey,
    head: "POST {base}/$batch HTTP/1.1
Host: {host}
User-Agent: azsdk-go-aztables/v1.3.0 (go1.23; linux)
Content-Length: {length}
Accept: application/json;odata=minimalmetadata
Authorization: {signature}
Content-Type: multipart/mixed; boundary=batch_0b0f3a5e-0b5c-4a5f-9c5b-5b8c5f1f0c11
Dataserviceversion: 3.0
X-Ms-Date: {date}
X-Ms-Version: 2019-02-02
Accept-Encoding: gzip",
    body: "--batch_0b0f3a5e-0b5c-4a5f-9c5b-5b8c5f1f0c11\r\n\
Content-Type: multipart/mixed; boundary=changeset_5a0a86d2-98ca-4f0f-94f4-4a3a1a2a0d22\r\n\r\n\
--changeset_5a0a86d2-98ca-4f0f-94f4-4a3a1a2a0d22\r\n\
Content-Transfer-Encoding: binary\r\nContent-Type: application/http\r\n\r\n\
POST {base_url}/{table}?%24format=application%2Fjson%3Bodata%3Dminimalmetadata HTTP/1.1\r\n\
Accept: application/json;odata=minimalmetadata\r\nContent-Length: 34\r\nContent-Type: application/json\r\n\
Dataserviceversion: 3.0\r\nPrefer: return-no-content\r\nX-Ms-Version: 2019-02-02\r\n\r\n\
{\"PartitionKey\":\"p\",\"RowKey\":\"b1\"}\r\n\
--changeset_5a0a86d2-98ca-4f0f-94f4-4a3a1a2a0d22\r\n\
Content-Transfer-Encoding: binary\r\nContent-Type: application/http\r\n\r\n\
PATCH {base_url}/{table}%28PartitionKey=%27p%27,RowKey=%27old1%27%29 HTTP/1.1\r\n\
Accept: application/json\r\nContent-Length: 7\r\nContent-Type: application/json\r\n\
Dataserviceversion: 3.0\r\nIf-Match: *\r\nX-Ms-Version: 2019-02-02\r\n\r\n\
{\"v\":2}\r\n\
--changeset_5a0a86d2-98ca-4f0f-94f4-4a3a1a2a0d22\r\n\
Content-Transfer-Encoding: binary\r\nContent-Type: application/http\r\n\r\n\
DELETE {base_url}/{table}%28PartitionKey=%27p%27,RowKey=%27old2%27%29 HTTP/1.1\r\n\
Accept: application/json;odata=minimalmetadata\r\nDataserviceversion: 3.0\r\nIf-Match: *\r\n\
X-Ms-Version: 2019-02-02\r\n\r\n\r\n\
--changeset_5a0a86d2-98ca-4f0f-94f4-4a3a1a2a0d22--\r\n\r\n\
--batch_0b0f3a5e-0b5c-4a5f-9c5b-5b8c5f1f0c11--\r\n",
};

/// Inner `Host` and `x-ms-version`, neither `Content-ID` nor lengths, and no `Accept` outside.
const DOTNET_BATCH: Shape = Shape {
    scheme: Scheme::SharedKeyLite,
    head: "POST {base}/$batch HTTP/1.1
Host: {host}
x-ms-version: 2019-02-02
DataServiceVersion: 3.0
x-ms-client-request-id: 1f4d8e1a-6f7b-4d6c-9a6b-0f5c5a1b7e33
x-ms-return-client-request-id: true
User-Agent: azsdk-net-Data.Tables/12.9.1 (.NET 8.0.8; Debian GNU/Linux 12)
x-ms-date: {date}
Authorization: {signature}
Content-Type: multipart/mixed; boundary=batch_26e4c1f9-d7b5-4c5b-a9c4-83d4f8b5a644
Content-Length: {length}",
    body: "--batch_26e4c1f9-d7b5-4c5b-a9c4-83d4f8b5a644\r\n\
Content-Type: multipart/mixed; boundary=changeset_3c7c6e7d-6d3c-4a1e-8b0c-6d1d3a0f2b55\r\n\r\n\
--changeset_3c7c6e7d-6d3c-4a1e-8b0c-6d1d3a0f2b55\r\n\
Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
POST {base_url}/{table}?$format=application%2Fjson%3Bodata%3Dminimalmetadata HTTP/1.1\r\n\
Host: {host}\r\nx-ms-version: 2019-02-02\r\nDataServiceVersion: 3.0\r\nPrefer: return-no-content\r\n\
Accept: application/json\r\nContent-Type: application/json; odata=nometadata\r\n\r\n\
{\"PartitionKey\":\"p\",\"RowKey\":\"b1\",\"Timestamp\":null}\r\n\
--changeset_3c7c6e7d-6d3c-4a1e-8b0c-6d1d3a0f2b55\r\n\
Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
PATCH {base_url}/{table}(PartitionKey='p',RowKey='old1')?$format=application%2Fjson%3Bodata%3Dminimalmetadata HTTP/1.1\r\n\
Host: {host}\r\nx-ms-version: 2019-02-02\r\nDataServiceVersion: 3.0\r\nIf-Match: *\r\n\
Accept: application/json\r\nContent-Type: application/json\r\n\r\n\
{\"PartitionKey\":\"p\",\"RowKey\":\"old1\",\"Timestamp\":null,\"v\":2}\r\n\
--changeset_3c7c6e7d-6d3c-4a1e-8b0c-6d1d3a0f2b55\r\n\
Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
DELETE {base_url}/{table}(PartitionKey='p',RowKey='old2') HTTP/1.1\r\n\
Host: {host}\r\nx-ms-version: 2019-02-02\r\nDataServiceVersion: 3.0\r\nIf-Match: *\r\nAccept: application/json\r\n\r\n\r\n\
--changeset_3c7c6e7d-6d3c-4a1e-8b0c-6d1d3a0f2b55--\r\n\r\n\
--batch_26e4c1f9-d7b5-4c5b-a9c4-83d4f8b5a644--\r\n",
};

/// The old library merges by a verb of its own and counts its operations.
const LEGACY_BATCH: Shape = Shape {
    scheme: Scheme::SharedKeyLite,
    head: "POST {base}/$batch HTTP/1.1
Host: {host}
User-Agent: Azure-Cosmos-Table/1.0.8 (.NET Core)
x-ms-version: 2017-07-29
Accept-Charset: UTF-8
MaxDataServiceVersion: 3.0;NetFx
DataServiceVersion: 3.0;
x-ms-date: {date}
Authorization: {signature}
Content-Type: multipart/mixed; boundary=batch_9a3c7e2f-5c3c-4bb4-bd0f-3a6a3c8b1166
Content-Length: {length}",
    body: "--batch_9a3c7e2f-5c3c-4bb4-bd0f-3a6a3c8b1166\r\n\
Content-Type: multipart/mixed; boundary=changeset_6d0f2f6c-3c0a-4f8d-8f4b-0a8d8b7c1177\r\n\r\n\
--changeset_6d0f2f6c-3c0a-4f8d-8f4b-0a8d8b7c1177\r\n\
Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
POST {base_url}/{table}() HTTP/1.1\r\n\
Accept: application/json;odata=minimalmetadata\r\nContent-Type: application/json\r\n\
Prefer: return-no-content\r\nDataServiceVersion: 3.0;\r\n\r\n\
{\"PartitionKey\":\"p\",\"RowKey\":\"b1\"}\r\n\
--changeset_6d0f2f6c-3c0a-4f8d-8f4b-0a8d8b7c1177\r\n\
Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
POST {base_url}/{table}(PartitionKey='p',RowKey='old1') HTTP/1.1\r\n\
X-HTTP-Method: MERGE\r\nAccept: application/json;odata=minimalmetadata\r\nContent-Type: application/json\r\n\
If-Match: *\r\nDataServiceVersion: 3.0;\r\n\r\n\
{\"v\":2}\r\n\
--changeset_6d0f2f6c-3c0a-4f8d-8f4b-0a8d8b7c1177\r\n\
Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
DELETE {base_url}/{table}(PartitionKey='p',RowKey='old2') HTTP/1.1\r\n\
Accept: application/json;odata=minimalmetadata\r\nIf-Match: *\r\nDataServiceVersion: 3.0;\r\n\r\n\r\n\
--changeset_6d0f2f6c-3c0a-4f8d-8f4b-0a8d8b7c1177--\r\n\
--batch_9a3c7e2f-5c3c-4bb4-bd0f-3a6a3c8b1166--\r\n",
};

const LEGACY_QUERY: Shape = Shape {
    scheme: Scheme::SharedKeyLite,
    head: "POST {base}/$batch HTTP/1.1
Host: {host}
x-ms-version: 2017-07-29
Accept-Charset: UTF-8
MaxDataServiceVersion: 3.0;NetFx
DataServiceVersion: 3.0;
x-ms-date: {date}
Authorization: {signature}
Content-Type: multipart/mixed; boundary=batch_2e7f7d0c-6a44-4c85-9a0b-7f0a4a2b1188
Content-Length: {length}",
    body: "--batch_2e7f7d0c-6a44-4c85-9a0b-7f0a4a2b1188\r\n\
Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
GET {base_url}/{table}(PartitionKey='p',RowKey='old1') HTTP/1.1\r\n\
Accept: application/json;odata=minimalmetadata\r\nMaxDataServiceVersion: 3.0;NetFx\r\n\r\n\
--batch_2e7f7d0c-6a44-4c85-9a0b-7f0a4a2b1188--\r\n",
};

/// Insert `b1`, merge `old1`, delete `old2`: the effects, and the same batch once more, which must
/// fail at its insert.
fn check(endpoint: &Endpoint, shape: &Shape, insert_status: u16) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&serde_json::json!({ "PartitionKey": "p", "RowKey": "old1", "v": 1, "w": 1 }))?;
    table.add(&keys("p", "old2"))?;
    shape.replay(&client, table.name())?.expect_parts(&[insert_status, 204, 204])?;
    table.get("p", "b1")?;
    table.get("p", "old1")?.expect_json("/v", 2)?.expect_json("/w", 1)?;
    table.expect_missing("p", "old2")?;
    shape.replay(&client, table.name())?.expect_failed_part(
        409,
        "EntityAlreadyExists",
        "0:The specified entity already exists.\n",
    )?;
    Ok(())
}

fn python_batch(endpoint: &Endpoint) -> Outcome {
    check(endpoint, &PYTHON_BATCH, 201)
}

fn javascript_batch(endpoint: &Endpoint) -> Outcome {
    check(endpoint, &JAVASCRIPT_BATCH, 204)
}

fn go_batch(endpoint: &Endpoint) -> Outcome {
    check(endpoint, &GO_BATCH, 204)
}

fn dotnet_batch(endpoint: &Endpoint) -> Outcome {
    check(endpoint, &DOTNET_BATCH, 204)
}

fn legacy_dotnet_batch(endpoint: &Endpoint) -> Outcome {
    check(endpoint, &LEGACY_BATCH, 204)
}

fn legacy_dotnet_query(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let missing = LEGACY_QUERY.replay(&client, table.name())?;
    missing.expect_parts(&[404])?;
    table.add(&keys("p", "old1"))?;
    let found = LEGACY_QUERY.replay(&client, table.name())?;
    let part = found.expect_parts(&[200])?.remove(0);
    found.ensure(
        part.body == table.get("p", "old1")?.text()?,
        "expected the entity as it is read alone",
    )?;
    Ok(())
}
