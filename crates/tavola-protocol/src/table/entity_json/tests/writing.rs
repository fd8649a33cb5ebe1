//! What the service writes.

use tavola_core::EdmValue;
use tavola_core::request::Select;

use super::{clsid, entity, names, sample, string, written, written_set};
use crate::table::entity_json::{MetadataLevel, entity_url_path};

#[test]
fn one_entity_without_metadata() {
    let short =
        &[("age", EdmValue::Int64(39)), ("ratio", EdmValue::Double(3.1)), ("clsid", clsid())];
    let entity = entity("pk", "rk", "2020-07-24T14:34:24.0550534Z", short);
    assert_eq!(
        written(&entity, MetadataLevel::None, &Select::All),
        r#"{"PartitionKey":"pk","RowKey":"rk","Timestamp":"2020-07-24T14:34:24.0550534Z","age":"39","ratio":3.1,"clsid":"c9da6455-213d-42c9-9a79-3e9149a57833"}"#
    );
}

#[test]
fn one_entity_with_minimal_metadata() {
    assert_eq!(
        written(&sample(), MetadataLevel::Minimal, &Select::All),
        r#"{"odata.metadata":"https://acct.table.core.windows.net/$metadata#mytable/@Element","odata.etag":"W/\"datetime'2020-07-24T14%3A34%3A24.0550534Z'\"","PartitionKey":"pk","RowKey":"rk","Timestamp":"2020-07-24T14:34:24.0550534Z","age@odata.type":"Edm.Int64","age":"39","sex":"male","married":true,"ratio":3.1,"evenratio":3.0,"Birthday@odata.type":"Edm.DateTime","Birthday":"1973-10-04T00:00:00Z","binary@odata.type":"Edm.Binary","binary":"YmluYXJ5","other":20,"clsid@odata.type":"Edm.Guid","clsid":"c9da6455-213d-42c9-9a79-3e9149a57833"}"#
    );
}

#[test]
fn one_entity_with_full_metadata() {
    let entity = entity("pk", "rk", "2020-07-24T14:34:24Z", &[("age", EdmValue::Int32(1))]);
    assert_eq!(
        written(&entity, MetadataLevel::Full, &Select::All),
        r#"{"odata.metadata":"https://acct.table.core.windows.net/$metadata#mytable/@Element","odata.type":"acct.mytable","odata.id":"https://acct.table.core.windows.net/mytable(PartitionKey='pk',RowKey='rk')","odata.etag":"W/\"datetime'2020-07-24T14%3A34%3A24Z'\"","odata.editLink":"mytable(PartitionKey='pk',RowKey='rk')","PartitionKey":"pk","RowKey":"rk","Timestamp@odata.type":"Edm.DateTime","Timestamp":"2020-07-24T14:34:24Z","age":1}"#
    );
}

#[test]
fn a_set() {
    let one =
        entity("contToken", "0", "2022-03-01T20:40:24.4317535Z", &[("Value", EdmValue::Int32(1))]);
    assert_eq!(
        written_set(vec![one.clone()], MetadataLevel::Minimal, &Select::All),
        r#"{"odata.metadata":"https://acct.table.core.windows.net/$metadata#mytable","value":[{"odata.etag":"W/\"datetime'2022-03-01T20%3A40%3A24.4317535Z'\"","PartitionKey":"contToken","RowKey":"0","Timestamp":"2022-03-01T20:40:24.4317535Z","Value":1}]}"#
    );
    assert_eq!(
        written_set(vec![one.clone(), one], MetadataLevel::None, &names(&["Value"])),
        r#"{"value":[{"Value":1},{"Value":1}]}"#
    );
    assert_eq!(
        written_set(vec![], MetadataLevel::Minimal, &Select::All),
        r#"{"odata.metadata":"https://acct.table.core.windows.net/$metadata#mytable","value":[]}"#
    );
    assert_eq!(written_set(vec![], MetadataLevel::None, &Select::All), r#"{"value":[]}"#);
}

#[test]
fn select_shows_what_it_names_and_null_for_what_is_not_there() {
    let tag = r#""odata.etag":"W/\"datetime'2020-07-24T14%3A34%3A24.0550534Z'\"""#;
    for (select, minimal) in [
        (
            names(&["age", "sex"]),
            format!(
                r#"{{"odata.metadata":"https://acct.table.core.windows.net/$metadata#mytable/@Element&$select=age,sex",{tag},"age@odata.type":"Edm.Int64","age":"39","sex":"male"}}"#
            ),
        ),
        (
            names(&["Timestamp", "RowKey", "PartitionKey"]),
            format!(
                r#"{{"odata.metadata":"https://acct.table.core.windows.net/$metadata#mytable/@Element&$select=Timestamp,RowKey,PartitionKey",{tag},"Timestamp":"2020-07-24T14:34:24.0550534Z","RowKey":"rk","PartitionKey":"pk"}}"#
            ),
        ),
        (
            names(&["other", "Address", "other"]),
            format!(
                r#"{{"odata.metadata":"https://acct.table.core.windows.net/$metadata#mytable/@Element&$select=other,Address",{tag},"other":20,"Address":null}}"#
            ),
        ),
        (
            names(&["a \"b"]),
            format!(
                r#"{{"odata.metadata":"https://acct.table.core.windows.net/$metadata#mytable/@Element&$select=a%20%22b",{tag},"a \"b":null}}"#
            ),
        ),
    ] {
        assert_eq!(written(&sample(), MetadataLevel::Minimal, &select), minimal);
    }
    assert_eq!(
        written(&sample(), MetadataLevel::None, &names(&["nothing"])),
        r#"{"nothing":null}"#
    );
    let full = written(&sample(), MetadataLevel::Full, &names(&["Timestamp"]));
    assert!(full.ends_with(
        r#""Timestamp@odata.type":"Edm.DateTime","Timestamp":"2020-07-24T14:34:24.0550534Z"}"#
    ));
    assert!(!full.contains(r#""PartitionKey":"#));
}

#[test]
fn values_at_their_edges() {
    for (value, none, minimal) in [
        (EdmValue::Double(f64::NAN), r#""p":"NaN""#, r#""p@odata.type":"Edm.Double","p":"NaN""#),
        (
            EdmValue::Double(f64::INFINITY),
            r#""p":"Infinity""#,
            r#""p@odata.type":"Edm.Double","p":"Infinity""#,
        ),
        (
            EdmValue::Double(f64::NEG_INFINITY),
            r#""p":"-Infinity""#,
            r#""p@odata.type":"Edm.Double","p":"-Infinity""#,
        ),
        (EdmValue::Double(1e30), r#""p":1e30"#, r#""p":1e30"#),
        (EdmValue::Double(0.0), r#""p":0.0"#, r#""p":0.0"#),
        (EdmValue::Int32(i32::MIN), r#""p":-2147483648"#, r#""p":-2147483648"#),
        (
            EdmValue::Int64(i64::MIN),
            r#""p":"-9223372036854775808""#,
            r#""p@odata.type":"Edm.Int64","p":"-9223372036854775808""#,
        ),
        (EdmValue::Binary(vec![]), r#""p":"""#, r#""p@odata.type":"Edm.Binary","p":"""#),
        (string("\"\\\n\u{1}é😀"), r#""p":"\"\\\n\u0001é😀""#, r#""p":"\"\\\n\u0001é😀""#),
    ] {
        let entity = entity("", "", "1601-01-01", &[("p", value)]);
        let head = r#""PartitionKey":"","RowKey":"","Timestamp":"1601-01-01T00:00:00Z","#;
        assert_eq!(
            written(&entity, MetadataLevel::None, &Select::All),
            format!("{{{head}{none}}}")
        );
        assert!(
            written(&entity, MetadataLevel::Minimal, &Select::All)
                .ends_with(&format!("{head}{minimal}}}"))
        );
    }
}

#[test]
fn addresses() {
    for (partition_key, row_key, path) in [
        ("A'aaa_bbbb2\"", "", "t(PartitionKey='A''aaa_bbbb2%22',RowKey='')"),
        ("r2 'é+&%", "😀", "t(PartitionKey='r2%20''%C3%A9%2B%26%25',RowKey='%F0%9F%98%80')"),
        ("''", "a:b@c=d(e)!*~-.", "t(PartitionKey='''''',RowKey='a%3Ab%40c%3Dd(e)!*~-.')"),
    ] {
        assert_eq!(entity_url_path("t", partition_key, row_key), path);
    }
}
