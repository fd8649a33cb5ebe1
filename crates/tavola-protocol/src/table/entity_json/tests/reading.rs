//! What the service and its clients read, as lines of `body => what it means`.

use tavola_core::limits::PROPERTIES_MAX;
use tavola_core::{ETag, EdmValue};

use super::{names, properties, sample, written};
use crate::table::entity_json::{
    BodyError, EntityBody, MetadataLevel, decode_entity, decode_entity_set, read_entity,
};

/// A body's meaning on one line.
fn shown(read: Result<EntityBody, BodyError>) -> String {
    match read {
        Err(BodyError::Malformed(_)) => "malformed".to_owned(),
        Err(BodyError::InvalidKey(_)) => "invalid key".to_owned(),
        Err(BodyError::Refused(domain_error)) => format!("{domain_error:?}"),
        Ok(body) => {
            let partition_key = body.partition_key.map(|key| format!("PartitionKey={key:?}"));
            let row_key = body.row_key.map(|key| format!("RowKey={key:?}"));
            let properties =
                body.properties.iter().map(|(name, value)| format!("{name}={value:?}"));
            partition_key.into_iter().chain(row_key).chain(properties).collect::<Vec<_>>().join(" ")
        }
    }
}

fn check(table: &str) {
    for line in table.lines().filter(|line| !line.is_empty()) {
        let (body, expected) = line.split_once(" =>").unwrap();
        assert_eq!(shown(read_entity(body.as_bytes())), expected.trim(), "{body}");
    }
}

#[test]
fn the_body_that_python_sends() {
    check(
        r#"
{"PartitionKey": "p", "PartitionKey@odata.type": "Edm.String", "RowKey": "r1", "RowKey@odata.type": "Edm.String", "i32": 1, "i64": "1099511627776", "i64@odata.type": "Edm.Int64", "d": 1.5, "d@odata.type": "Edm.Double", "dint": 3.0, "dint@odata.type": "Edm.Double", "b": true, "s": "x'y", "s@odata.type": "Edm.String", "g": "c9da6455-213d-42c9-9a79-3e9149a57833", "g@odata.type": "Edm.Guid", "bin": "AQI=", "bin@odata.type": "Edm.Binary", "dt": "2024-01-02T03:04:05.678900Z", "dt@odata.type": "Edm.DateTime", "inf": "Infinity", "inf@odata.type": "Edm.Double"} => PartitionKey="p" RowKey="r1" i32=Int32(1) i64=Int64(1099511627776) d=Double(1.5) dint=Double(3.0) b=Boolean(true) s=String("x'y") g=Guid(c9da6455-213d-42c9-9a79-3e9149a57833) bin=Binary([1, 2]) dt=DateTime(2024-01-02T03:04:05.6789Z) inf=Double(inf)
"#,
    );
}

#[test]
fn types_by_looks_and_by_declaration() {
    check(
        r#"
{} =>
{"a":"x"} => a=String("x")
{"a":true,"b":false} => a=Boolean(true) b=Boolean(false)
{"a":2147483647} => a=Int32(2147483647)
{"a":-2147483648} => a=Int32(-2147483648)
{"a":2147483648} => a=Double(2147483648.0)
{"a":18446744073709551615} => a=Double(1.8446744073709552e19)
{"a":123456789012345678901234567890} => a=Double(1.2345678901234568e29)
{"a":3.0} => a=Double(3.0)
{"a":1e+21} => a=Double(1e21)
{"a":-0.0} => a=Double(0.0)
{"a@odata.type":"Edm.Int64","a":"5"} => a=Int64(5)
{"a":"5","a@odata.type":"Edm.Int64"} => a=Int64(5)
{"a":5,"a@odata.type":"Edm.Int64"} => a=Int64(5)
{"a":"-9223372036854775808","a@odata.type":"Edm.Int64"} => a=Int64(-9223372036854775808)
{"a":1,"a@odata.type":"Edm.Double"} => a=Double(1.0)
{"a":"1e+30","a@odata.type":"Edm.Double"} => a=Double(1e30)
{"a":"NaN","a@odata.type":"Edm.Double"} => a=Double(NaN)
{"a":"-Infinity","a@odata.type":"Edm.Double"} => a=Double(-inf)
{"a":"7","a@odata.type":"Edm.Int32"} => a=Int32(7)
{"a":true,"a@odata.type":"Edm.Boolean"} => a=Boolean(true)
{"a":"True","a@odata.type":"Edm.Boolean"} => a=Boolean(true)
{"a":"FALSE","a@odata.type":"Edm.Boolean"} => a=Boolean(false)
{"a":"True"} => a=String("True")
{"a":"2024-02-29T00:30:00+01:00","a@odata.type":"Edm.DateTime"} => a=DateTime(2024-02-28T23:30:00Z)
{"a":"1601-01-01","a@odata.type":"Edm.DateTime"} => a=DateTime(1601-01-01T00:00:00Z)
{"a":"C9DA6455-213D-42C9-9A79-3E9149A57833","a@odata.type":"Edm.Guid"} => a=Guid(c9da6455-213d-42c9-9a79-3e9149a57833)
{"a":"","a@odata.type":"Edm.Binary"} => a=Binary([])
{"a":"\u00e9\ud83d\ude00"} => a=String("é😀")
{"\u0061":"x","a\u0040odata.type":"Edm.String"} => a=String("x")
{"a":1,"A":2} => a=Int32(1) A=Int32(2)
{"z":1,"a":2,"_":3} => z=Int32(1) a=Int32(2) _=Int32(3)
{"a":"abc","a@odata.type":"Edm.Int32"} => malformed
{"a":2147483648,"a@odata.type":"Edm.Int32"} => malformed
{"a":1.0,"a@odata.type":"Edm.Int32"} => malformed
{"a":"1.0","a@odata.type":"Edm.Int64"} => malformed
{"a":1.5,"a@odata.type":"Edm.Int64"} => malformed
{"a":9223372036854775808,"a@odata.type":"Edm.Int64"} => malformed
{"a":"9223372036854775808","a@odata.type":"Edm.Int64"} => malformed
{"a":true,"a@odata.type":"Edm.Double"} => malformed
{"a":"nan","a@odata.type":"Edm.Double"} => malformed
{"a":"","a@odata.type":"Edm.Double"} => malformed
{"a":5,"a@odata.type":"Edm.String"} => malformed
{"a":1,"a@odata.type":"Edm.Boolean"} => malformed
{"a":"yes","a@odata.type":"Edm.Boolean"} => malformed
{"a":"x","a@odata.type":"Edm.Guid"} => malformed
{"a":"c9da6455213d42c99a793e9149a57833","a@odata.type":"Edm.Guid"} => malformed
{"a":"2024-02-30","a@odata.type":"Edm.DateTime"} => malformed
{"a":1,"a@odata.type":"Edm.DateTime"} => malformed
{"a":"AQI","a@odata.type":"Edm.Binary"} => malformed
{"a":"AQ I=","a@odata.type":"Edm.Binary"} => malformed
{"a":"-_8=","a@odata.type":"Edm.Binary"} => malformed
{"a":1,"a@odata.type":"Edm.Binary"} => malformed
{"a":"1","a@odata.type":"Edm.Decimal"} => malformed
{"a":"1","a@odata.type":"edm.string"} => malformed
{"a":"1","a@odata.type":5} => malformed
{"a":"1","a@odata.type":null} => malformed
{"a":"1","a@odata.type":["Edm.String"]} => malformed
{"d":"0001-01-01T00:00:00Z","d@odata.type":"Edm.DateTime"} => ParameterOutOfRange { name: "d", value: "01/01/0001 00:00:00" }
"#,
    );
}

#[test]
fn what_is_ignored() {
    check(
        r#"
{"a":null,"b":null,"b@odata.type":"Edm.Decimal","a-b":null} =>
{"PartitionKey":null,"RowKey":null} =>
{"lost@odata.type":"Edm.Decimal","a@vendor.note":{"x":[1]},"@odata.type":1,"vendor.note":[]} =>
{"odata.metadata":"x","odata.etag":5,"odata.type":{},"odata.id":[],"odata.editLink":null} =>
{"Timestamp":null} =>
{"Timestamp":"0001-01-01T00:00:00Z","Timestamp@odata.type":"Edm.DateTime"} =>
{"Timestamp":1e999,"Timestamp@odata.type":"Edm.Nonsense"} =>
{"timestamp":1} => timestamp=Int32(1)
"#,
    );
}

#[test]
fn rules_of_keys_and_names() {
    check(
        r#"
{"PartitionKey":"","RowKey":"'\"%+ é😀"} => PartitionKey="" RowKey="'\"%+ é😀"
{"PartitionKey":"a/b"} => ParameterOutOfRange { name: "PartitionKey", value: "a/b" }
{"RowKey":"a\u0000"} => ParameterOutOfRange { name: "RowKey", value: "a\0" }
{"PartitionKey":5} => invalid key
{"RowKey":true} => invalid key
{"PartitionKey":{}} => invalid key
{"PartitionKey":"p","PartitionKey@odata.type":"Edm.Guid"} => invalid key
{"RowKey@odata.type":"Edm.Int64","RowKey":"1"} => invalid key
{"RowKey@odata.type":"Edm.Nonsense","RowKey":"1"} => invalid key
{"RowKey@odata.type":null,"RowKey":"1"} => invalid key
{"RowKey@odata.type":["Edm.String"],"RowKey":"1"} => invalid key
{"RowKey@odata.type":"Edm.String","a":1} => a=Int32(1)
{"PartitionKey@vendor.note":5,"PartitionKey":"p"} => PartitionKey="p"
{"RowKey":"a","RowKey":"a"} => DuplicateProperty
{"a":1,"a":1} => DuplicateProperty
{"a":1,"a":null} => DuplicateProperty
{"a":null,"b":1,"a":null} => DuplicateProperty
{"a":1,"a@odata.type":"Edm.Int32","a@odata.type":"Edm.Int32"} => DuplicateProperty
{"a-b":1} => PropertyNameInvalid
{"":1} => PropertyNameInvalid
{"1a":1} => PropertyNameInvalid
"#,
    );
}

#[test]
fn what_is_not_json() {
    check(
        r#"
 => malformed
null => malformed
[] => malformed
5 => malformed
"x" => malformed
{ => malformed
} => malformed
{"a"} => malformed
{"a":} => malformed
{"a":1,} => malformed
{"a":1} x => malformed
{}{} => malformed
{a:1} => malformed
{'a':1} => malformed
{"a":[]} => malformed
{"a":[1]} => malformed
{"a":{}} => malformed
{"a":{"b":1}} => malformed
{"a":NaN} => malformed
{"a":01} => malformed
{"a":1e999} => malformed
{"a":"\ud800"} => malformed
{"a":tru} => malformed
{"a":"x => malformed
"#,
    );
    let deep = "[".repeat(100_000);
    for body in [
        "",
        "\u{feff}{}",
        "{\"a\":\"\n\"}",
        &deep,
        &format!(r#"{{"a":{deep}"#),
        &format!(r#"{{"odata.x":{deep}"#),
    ] {
        assert_eq!(shown(read_entity(body.as_bytes())), "malformed");
    }
    for body in [&b"{\"a\":\"\xff\"}"[..], b"{\"\xc3\":1}", b"\xff", b"{\"odata.x\":\"\xff\"}"] {
        assert_eq!(shown(read_entity(body)), "malformed");
    }
    assert_eq!(shown(read_entity(b" {\r\n\t} ")), "");
}

#[test]
fn limits() {
    let read = |body: String| shown(read_entity(body.as_bytes()));
    let key = |units: usize| read(format!(r#"{{"RowKey":"{}"}}"#, "é".repeat(units)));
    assert!(key(512).starts_with("RowKey="));
    assert_eq!(key(513), "KeyTooLarge");
    assert_eq!(
        read(format!(r#"{{"RowKey":"/{}"}}"#, "x".repeat(512))),
        "KeyTooLarge",
        "and not the endless key again"
    );

    assert_eq!(read(format!(r#"{{"{}":1}}"#, "n".repeat(256))), "PropertyNameTooLong");
    assert_eq!(
        read(format!(r#"{{"a":"{}"}}"#, "é".repeat(32 * 1024 + 1))),
        "PropertyValueTooLarge"
    );
    let binary = |bytes: usize| {
        read(serde_json::json!({ "a": base64(bytes), "a@odata.type": "Edm.Binary" }).to_string())
    };
    assert!(binary(65_536).starts_with("a=Binary"));
    assert_eq!(binary(65_537), "PropertyValueTooLarge");

    let many = |count: usize, value: &str| {
        let members: Vec<String> = (0..count).map(|at| format!(r#""p{at}":{value}"#)).collect();
        read(format!("{{{}}}", members.join(",")))
    };
    assert!(many(PROPERTIES_MAX, "1").starts_with("p0=Int32(1) p1="));
    assert_eq!(many(PROPERTIES_MAX + 1, "1"), "TooManyProperties");
    assert_eq!(many(2 * PROPERTIES_MAX, "null"), "");
    assert_eq!(many(100_000, "null"), "TooManyProperties");
}

fn base64(bytes: usize) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(vec![7; bytes])
}

#[test]
fn a_client_reads_what_select_left() {
    let body = written(&sample(), MetadataLevel::Minimal, &names(&["other", "Address"]));
    let decoded = decode_entity(body.as_bytes()).unwrap();
    assert_eq!(decoded.etag, Some(ETag::of(sample().timestamp)));
    assert_eq!(decoded.properties, properties(&[("other", EdmValue::Int32(20))]));
    assert_eq!((decoded.partition_key.clone(), decoded.timestamp), (None, None));
    assert_eq!(decoded.into_entity(), None);
    for bad in [
        r#"{"Timestamp":5}"#,
        r#"{"Timestamp":"x"}"#,
        r#"{"odata.etag":"x"}"#,
        r#"{"odata.etag":{}}"#,
    ] {
        assert!(decode_entity(bad.as_bytes()).is_err(), "{bad}");
    }
    for bad in [
        "{}",
        "[]",
        r#"{"value":{}}"#,
        r#"{"value":[1]}"#,
        r#"{"value":[[]]}"#,
        r#"{"value":[]} x"#,
    ] {
        assert!(matches!(decode_entity_set(bad.as_bytes()), Err(BodyError::Malformed(_))), "{bad}");
    }
}
