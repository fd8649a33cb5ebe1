use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use proptest::collection::vec;
use proptest::prelude::*;
use tavola_core::request::{EntityQuery, TablesQuery};
use tavola_core::{
    EntityGroupTransaction, EntityKey, EntityOperation, PartitionKey, Precondition, RowKey,
};
use tavola_core::{TableName, TableRequest};

use super::{DecodeError, decode_reply};

/// One request for each way of reading an answer.
fn any_request() -> impl Strategy<Value = TableRequest> {
    let table = || TableName::parse("Tab").unwrap();
    let delete = || {
        (PartitionKey::default(), EntityOperation::Delete(RowKey::default(), Precondition::Exists))
    };
    prop::sample::select(vec![
        TableRequest::CreateTable(table()),
        TableRequest::GetTable(table()),
        TableRequest::QueryTables(TablesQuery::default()),
        TableRequest::GetPolicies(table()),
        TableRequest::GetEntity(table(), EntityKey::default()),
        TableRequest::QueryEntities(table(), EntityQuery::default()),
        TableRequest::Transaction(table(), EntityGroupTransaction::new(vec![delete()]).unwrap()),
        TableRequest::GetServiceProperties,
        TableRequest::GetServiceStats,
    ])
}

/// Bodies that servers and what stands before them may send, whole, cut off, and with a byte
/// changed.
fn any_body() -> impl Strategy<Value = Vec<u8>> {
    let known = [
        "{\"odata.error\":{\"code\":\"A\",\"message\":{\"lang\":\"en-US\",\"value\":\"1:B\"}}}",
        "<?xml version=\"1.0\"?><m:error xmlns:m=\"x\"><m:code>A</m:code><m:message>B &amp; &#x43;</m:message></m:error>",
        "{\"value\":[{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"odata.etag\":\"W/\\\"1\\\"\",\"A\":1.5}]}",
        "{\"value\":[{\"TableName\":\"Tab\"}]}",
        "<SignedIdentifiers><SignedIdentifier><Id>a</Id></SignedIdentifier></SignedIdentifiers>",
        "<StorageServiceProperties><Cors/></StorageServiceProperties>",
        "--b\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 204 No Content\r\nETag: W/\"1\"\r\n\r\n\r\n--b--\r\n",
        "<html>502</html>",
    ];
    let whole = prop::sample::select(known.to_vec()).prop_map(|text| text.as_bytes().to_vec());
    let changed = (whole.clone(), any::<prop::sample::Index>(), any::<u8>()).prop_map(
        |(mut body, at, byte)| {
            let at = at.index(body.len());
            body[at] = byte;
            body
        },
    );
    let cut = (whole.clone(), any::<prop::sample::Index>())
        .prop_map(|(body, at)| body[..at.index(body.len())].to_vec());
    prop_oneof![whole, changed, cut, vec(any::<u8>(), 0..60)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_answer_is_too_odd(
        request in any_request(),
        status in 100_u16..600,
        body in any_body(),
        headers in vec(("etag|content-type|x-ms-continuation-nextpartitionkey|x-ms-error-code", "[ -~]{0,20}"), 0..3),
    ) {
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        response.headers_mut().insert("content-type", HeaderValue::from_static("multipart/mixed; boundary=b"));
        for (name, value) in headers {
            let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
            response.headers_mut().insert(name, HeaderValue::from_str(&value).unwrap());
        }
        match decode_reply(&request, &response) {
            Err(DecodeError::Service(error)) => {
                // Inside a batch the failed part has a status of its own.
                let in_batch = matches!(request, TableRequest::Transaction(..));
                prop_assert!(in_batch || error.status == response.status());
                prop_assert!(!error.status.is_success());
            }
            Err(DecodeError::Malformed) | Ok(_) => prop_assert!(response.status().is_success()),
        }
    }
}
