//! The samples of the protocol reference to the byte, bad bodies, and round trips.

use proptest::prelude::*;
use tavola_core::entity::{EntityView, Properties, PropertyName};
use tavola_core::limits::PROPERTIES_MAX;
use tavola_core::reply::BoxedEntity;
use tavola_core::request::Select;
use tavola_core::{DateTime, ETag, EdmValue, Entity, EntityKey, Guid, PartitionKey, Refusal, RowKey, Timestamp};

use super::{
    BodyError, EntityBody, Links, MetadataLevel, decode_entity, decode_entity_set, encode_entity_body, entity_url_path,
    read_entity, write_entity, write_entity_set,
};

const LINKS: Links<'_> = Links { base: "https://acct.table.core.windows.net", account: "acct", table: "mytable" };

fn date(text: &str) -> DateTime {
    DateTime::parse(text).unwrap()
}

fn properties(list: &[(&str, EdmValue)]) -> Properties {
    let named = |(name, value): &(&str, EdmValue)| (PropertyName::new(*name).unwrap(), value.clone());
    Properties::new(list.iter().map(named).collect()).unwrap()
}

fn entity(partition_key: &str, row_key: &str, timestamp: &str, list: &[(&str, EdmValue)]) -> Entity {
    let key = EntityKey::new(PartitionKey::new(partition_key).unwrap(), RowKey::new(row_key).unwrap());
    Entity { key, timestamp: Timestamp::new(date(timestamp)), properties: properties(list) }
}

fn string(text: &str) -> EdmValue {
    EdmValue::String(text.to_owned())
}

fn clsid() -> EdmValue {
    EdmValue::Guid(Guid::parse("c9da6455-213d-42c9-9a79-3e9149a57833").unwrap())
}

fn names(list: &[&str]) -> Select {
    Select::Names(list.iter().map(|&name| name.to_owned()).collect())
}

fn written(entity: &Entity, level: MetadataLevel, select: &Select) -> String {
    let mut out = Vec::new();
    write_entity(&mut out, entity, level, select, &LINKS);
    String::from_utf8(out).unwrap()
}

fn written_set(entities: Vec<Entity>, level: MetadataLevel, select: &Select) -> String {
    let boxed: Vec<BoxedEntity> = entities.into_iter().map(|entity| Box::new(entity) as BoxedEntity).collect();
    let mut out = Vec::new();
    write_entity_set(&mut out, &boxed, level, select, &LINKS);
    String::from_utf8(out).unwrap()
}

fn sample() -> Entity {
    entity(
        "pk",
        "rk",
        "2020-07-24T14:34:24.0550534Z",
        &[
            ("age", EdmValue::Int64(39)),
            ("sex", string("male")),
            ("married", EdmValue::Boolean(true)),
            ("ratio", EdmValue::Double(3.1)),
            ("evenratio", EdmValue::Double(3.0)),
            ("Birthday", EdmValue::DateTime(date("1973-10-04T00:00:00Z"))),
            ("binary", EdmValue::Binary(b"binary".to_vec())),
            ("other", EdmValue::Int32(20)),
            ("clsid", clsid()),
        ],
    )
}

#[test]
fn one_entity_without_metadata() {
    let short = &[("age", EdmValue::Int64(39)), ("ratio", EdmValue::Double(3.1)), ("clsid", clsid())];
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
    let one = entity("contToken", "0", "2022-03-01T20:40:24.4317535Z", &[("Value", EdmValue::Int32(1))]);
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
    assert_eq!(written(&sample(), MetadataLevel::None, &names(&["nothing"])), r#"{"nothing":null}"#);
    let full = written(&sample(), MetadataLevel::Full, &names(&["Timestamp"]));
    assert!(full.ends_with(r#""Timestamp@odata.type":"Edm.DateTime","Timestamp":"2020-07-24T14:34:24.0550534Z"}"#));
    assert!(!full.contains(r#""PartitionKey":"#));
}

#[test]
fn values_at_their_edges() {
    for (value, none, minimal) in [
        (EdmValue::Double(f64::NAN), r#""p":"NaN""#, r#""p@odata.type":"Edm.Double","p":"NaN""#),
        (EdmValue::Double(f64::INFINITY), r#""p":"Infinity""#, r#""p@odata.type":"Edm.Double","p":"Infinity""#),
        (EdmValue::Double(f64::NEG_INFINITY), r#""p":"-Infinity""#, r#""p@odata.type":"Edm.Double","p":"-Infinity""#),
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
        assert_eq!(written(&entity, MetadataLevel::None, &Select::All), format!("{{{head}{none}}}"));
        assert!(written(&entity, MetadataLevel::Minimal, &Select::All).ends_with(&format!("{head}{minimal}}}")));
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

#[test]
fn the_body_that_python_sends() {
    let body = br#"{"PartitionKey": "p", "PartitionKey@odata.type": "Edm.String", "RowKey": "r1", "RowKey@odata.type": "Edm.String", "i32": 1, "i64": "1099511627776", "i64@odata.type": "Edm.Int64", "d": 1.5, "d@odata.type": "Edm.Double", "dint": 3.0, "dint@odata.type": "Edm.Double", "b": true, "s": "x'y", "s@odata.type": "Edm.String", "g": "c9da6455-213d-42c9-9a79-3e9149a57833", "g@odata.type": "Edm.Guid", "bin": "AQI=", "bin@odata.type": "Edm.Binary", "dt": "2024-01-02T03:04:05.678900Z", "dt@odata.type": "Edm.DateTime", "inf": "Infinity", "inf@odata.type": "Edm.Double"}"#;
    let expected = EntityBody {
        partition_key: Some(PartitionKey::new("p").unwrap()),
        row_key: Some(RowKey::new("r1").unwrap()),
        properties: properties(&[
            ("i32", EdmValue::Int32(1)),
            ("i64", EdmValue::Int64(1_099_511_627_776)),
            ("d", EdmValue::Double(1.5)),
            ("dint", EdmValue::Double(3.0)),
            ("b", EdmValue::Boolean(true)),
            ("s", string("x'y")),
            ("g", clsid()),
            ("bin", EdmValue::Binary(vec![1, 2])),
            ("dt", EdmValue::DateTime(date("2024-01-02T03:04:05.6789Z"))),
            ("inf", EdmValue::Double(f64::INFINITY)),
        ]),
    };
    assert_eq!(read_entity(body), Ok(expected));
}

#[test]
fn what_is_read_and_what_is_ignored() {
    let int64 = |number| properties(&[("a", EdmValue::Int64(number))]);
    let double = |number| properties(&[("a", EdmValue::double(number))]);
    for (body, expected) in [
        (r#"{}"#, properties(&[])),
        (" {\r\n} ", properties(&[])),
        (r#"{"a@odata.type":"Edm.Int64","a":"5"}"#, int64(5)),
        (r#"{"a":"5","a@odata.type":"Edm.Int64"}"#, int64(5)),
        (r#"{"a":5,"a@odata.type":"Edm.Int64"}"#, int64(5)),
        (r#"{"a":"-9223372036854775808","a@odata.type":"Edm.Int64"}"#, int64(i64::MIN)),
        (r#"{"a":2147483647}"#, properties(&[("a", EdmValue::Int32(i32::MAX))])),
        (r#"{"a":-2147483648}"#, properties(&[("a", EdmValue::Int32(i32::MIN))])),
        (r#"{"a":2147483648}"#, double(2_147_483_648.0)),
        (r#"{"a":18446744073709551615}"#, double(18_446_744_073_709_551_615.0)),
        (r#"{"a":123456789012345678901234567890}"#, double(1.234_567_890_123_456_8e29)),
        (r#"{"a":3.0}"#, double(3.0)),
        (r#"{"a":1e+21}"#, double(1e21)),
        (r#"{"a":-0.0}"#, double(0.0)),
        (r#"{"a":1,"a@odata.type":"Edm.Double"}"#, double(1.0)),
        (r#"{"a":"1e+30","a@odata.type":"Edm.Double"}"#, double(1e30)),
        (r#"{"a":"NaN","a@odata.type":"Edm.Double"}"#, double(f64::NAN)),
        (r#"{"a":"-Infinity","a@odata.type":"Edm.Double"}"#, double(f64::NEG_INFINITY)),
        (r#"{"a":"7","a@odata.type":"Edm.Int32"}"#, properties(&[("a", EdmValue::Int32(7))])),
        (r#"{"a":true,"a@odata.type":"Edm.Boolean"}"#, properties(&[("a", EdmValue::Boolean(true))])),
        (
            r#"{"a":"2024-02-29T00:30:00+01:00","a@odata.type":"Edm.DateTime"}"#,
            properties(&[("a", EdmValue::DateTime(date("2024-02-28T23:30:00Z")))]),
        ),
        (r#"{"a":"C9DA6455-213D-42C9-9A79-3E9149A57833","a@odata.type":"Edm.Guid"}"#, properties(&[("a", clsid())])),
        (r#"{"a":"","a@odata.type":"Edm.Binary"}"#, properties(&[("a", EdmValue::Binary(vec![]))])),
        (r#"{"a":"\u00e9\ud83d\ude00"}"#, properties(&[("a", string("é😀"))])),
        (r#"{"\u0061":"x","a\u0040odata.type":"Edm.String"}"#, properties(&[("a", string("x"))])),
        (r#"{"a":null,"b":null,"b@odata.type":"Edm.Decimal"}"#, properties(&[])),
        (r#"{"lost@odata.type":"Edm.Decimal","a@vendor.note":{"x":[1]},"@odata.type":1}"#, properties(&[])),
        (
            r#"{"odata.metadata":"x","odata.etag":5,"odata.type":{},"odata.id":[],"odata.editLink":null}"#,
            properties(&[]),
        ),
        (r#"{"Timestamp":null}"#, properties(&[])),
        (r#"{"Timestamp":"0001-01-01T00:00:00Z","Timestamp@odata.type":"Edm.DateTime"}"#, properties(&[])),
        (r#"{"Timestamp":1e999,"Timestamp@odata.type":"Edm.Nonsense"}"#, properties(&[])),
        (r#"{"a":1,"A":2}"#, properties(&[("a", EdmValue::Int32(1)), ("A", EdmValue::Int32(2))])),
        (r#"{"timestamp":1}"#, properties(&[("timestamp", EdmValue::Int32(1))])),
        (r#"{"PartitionKey":null,"RowKey":null}"#, properties(&[])),
    ] {
        assert_eq!(
            read_entity(body.as_bytes()),
            Ok(EntityBody { properties: expected, ..EntityBody::default() }),
            "{body}"
        );
    }
}

#[test]
fn malformed_bodies() {
    let deep = "[".repeat(100_000);
    let deep_member = format!(r#"{{"a":{deep}"#);
    for body in [
        "",
        " ",
        "null",
        "[]",
        "5",
        "\"x\"",
        "{",
        "}",
        r#"{"a"}"#,
        r#"{"a":}"#,
        r#"{"a":1,}"#,
        r#"{"a":1} x"#,
        r#"{}{}"#,
        r#"{a:1}"#,
        r#"{'a':1}"#,
        "\u{feff}{}",
        r#"{"a":[]}"#,
        r#"{"a":[1]}"#,
        r#"{"a":{}}"#,
        r#"{"a":{"b":1}}"#,
        r#"{"a":NaN}"#,
        r#"{"a":01}"#,
        r#"{"a":1e999}"#,
        r#"{"a":"\ud800"}"#,
        "{\"a\":\"\n\"}",
        r#"{"a":tru}"#,
        r#"{"a":"x"#,
        &deep,
        &deep_member,
        r#"{"PartitionKey":5}"#,
        r#"{"RowKey":true}"#,
        r#"{"PartitionKey":{}}"#,
        r#"{"a":"abc","a@odata.type":"Edm.Int32"}"#,
        r#"{"a":2147483648,"a@odata.type":"Edm.Int32"}"#,
        r#"{"a":1.0,"a@odata.type":"Edm.Int32"}"#,
        r#"{"a":"1.0","a@odata.type":"Edm.Int64"}"#,
        r#"{"a":9223372036854775808,"a@odata.type":"Edm.Int64"}"#,
        r#"{"a":"9223372036854775808","a@odata.type":"Edm.Int64"}"#,
        r#"{"a":1.5,"a@odata.type":"Edm.Int64"}"#,
        r#"{"a":true,"a@odata.type":"Edm.Double"}"#,
        r#"{"a":"nan","a@odata.type":"Edm.Double"}"#,
        r#"{"a":"","a@odata.type":"Edm.Double"}"#,
        r#"{"a":5,"a@odata.type":"Edm.String"}"#,
        r#"{"a":1,"a@odata.type":"Edm.Boolean"}"#,
        r#"{"a":"yes","a@odata.type":"Edm.Boolean"}"#,
        r#"{"a":"x","a@odata.type":"Edm.Guid"}"#,
        r#"{"a":"c9da6455213d42c99a793e9149a57833","a@odata.type":"Edm.Guid"}"#,
        r#"{"a":"2024-02-30","a@odata.type":"Edm.DateTime"}"#,
        r#"{"a":1,"a@odata.type":"Edm.DateTime"}"#,
        r#"{"a":"AQI","a@odata.type":"Edm.Binary"}"#,
        r#"{"a":"AQ I=","a@odata.type":"Edm.Binary"}"#,
        r#"{"a":"-_8=","a@odata.type":"Edm.Binary"}"#,
        r#"{"a":1,"a@odata.type":"Edm.Binary"}"#,
        r#"{"a":"1","a@odata.type":"Edm.Decimal"}"#,
        r#"{"a":"1","a@odata.type":"edm.string"}"#,
        r#"{"a":"1","a@odata.type":5}"#,
        r#"{"a":"1","a@odata.type":null}"#,
        r#"{"a":"1","a@odata.type":["Edm.String"]}"#,
    ] {
        let shown: String = body.chars().take(80).collect();
        assert_eq!(read_entity(body.as_bytes()), Err(BodyError::Malformed), "{shown}");
    }
    for body in [&b"{\"a\":\"\xff\"}"[..], b"{\"\xc3\":1}", b"\xff", b"{\"odata.x\":\"\xff\"}"] {
        assert_eq!(read_entity(body), Err(BodyError::Malformed), "{body:?}");
    }
}

#[test]
fn refused_bodies() {
    let out_of_range =
        |name: &str, value: &str| Refusal::ParameterOutOfRange { name: name.to_owned(), value: value.to_owned() };
    let key_of = |units: usize| format!(r#"{{"RowKey":"{}"}}"#, "x".repeat(units));
    let endless = format!(r#"{{"RowKey":"{}/"}}"#, "x".repeat(1000));
    let long_name = format!(r#"{{"{}":1}}"#, "n".repeat(256));
    let long_string = format!(r#"{{"a":"{}"}}"#, "é".repeat(32 * 1024 + 1));
    let long_binary = format!(r#"{{"a":"{}AA==","a@odata.type":"Edm.Binary"}}"#, "AAAA".repeat(65_536 / 3 + 1));
    let many = |count: usize, value: &str| {
        let members: Vec<String> = (0..count).map(|at| format!(r#""p{at}":{value}"#)).collect();
        format!("{{{}}}", members.join(","))
    };
    let (too_many, nulls) = (many(PROPERTIES_MAX + 1, "1"), many(100_000, "null"));
    for (body, refusal) in [
        (r#"{"PartitionKey":"a/b"}"#, out_of_range("PartitionKey", "a/b")),
        (r#"{"RowKey":"a\u0000"}"#, out_of_range("RowKey", "a\0")),
        (&key_of(513), Refusal::KeyTooLarge),
        (&endless, Refusal::KeyTooLarge),
        (r#"{"a":1,"a":1}"#, Refusal::DuplicateProperty),
        (r#"{"a":1,"a":null}"#, Refusal::DuplicateProperty),
        (r#"{"a":null,"b":1,"a":null}"#, Refusal::DuplicateProperty),
        (r#"{"RowKey":"a","RowKey":"a"}"#, Refusal::DuplicateProperty),
        (r#"{"a":1,"a@odata.type":"Edm.Int32","a@odata.type":"Edm.Int32"}"#, Refusal::DuplicateProperty),
        (r#"{"a-b":1}"#, Refusal::PropertyNameInvalid),
        (r#"{"":1}"#, Refusal::PropertyNameInvalid),
        (r#"{"1a":1}"#, Refusal::PropertyNameInvalid),
        (&long_name, Refusal::PropertyNameTooLong),
        (&long_string, Refusal::PropertyValueTooLarge),
        (&long_binary, Refusal::PropertyValueTooLarge),
        (&too_many, Refusal::TooManyProperties),
        (&nulls, Refusal::TooManyProperties),
        (r#"{"d":"0001-01-01T00:00:00Z","d@odata.type":"Edm.DateTime"}"#, out_of_range("d", "01/01/0001 00:00:00")),
    ] {
        let shown: String = body.chars().take(80).collect();
        assert_eq!(read_entity(body.as_bytes()), Err(BodyError::Refused(refusal)), "{shown}");
    }
    assert!(read_entity(key_of(512).as_bytes()).is_ok());
    assert_eq!(read_entity(many(252, "1").as_bytes()).map(|body| body.properties.len()), Ok(252));
    assert_eq!(read_entity(many(500, "null").as_bytes()), Ok(EntityBody::default()));
}

#[test]
fn a_client_reads_what_select_left() {
    let body = written(&sample(), MetadataLevel::Minimal, &names(&["other", "Address"]));
    let decoded = decode_entity(body.as_bytes()).unwrap();
    assert_eq!(decoded.etag, Some(ETag::of(sample().timestamp)));
    assert_eq!(decoded.properties, properties(&[("other", EdmValue::Int32(20))]));
    assert_eq!((decoded.partition_key.clone(), decoded.timestamp), (None, None));
    assert_eq!(decoded.into_entity(), None);
    for bad in [r#"{"Timestamp":5}"#, r#"{"Timestamp":"x"}"#, r#"{"odata.etag":"x"}"#, r#"{"odata.etag":{}}"#] {
        assert_eq!(decode_entity(bad.as_bytes()), Err(BodyError::Malformed), "{bad}");
    }
    for bad in ["{}", "[]", r#"{"value":{}}"#, r#"{"value":[1]}"#, r#"{"value":[[]]}"#, r#"{"value":[]} x"#] {
        assert_eq!(decode_entity_set(bad.as_bytes()), Err(BodyError::Malformed), "{bad}");
    }
}

fn any_value() -> impl Strategy<Value = EdmValue> {
    prop_oneof![
        any::<String>().prop_map(EdmValue::String),
        any::<i32>().prop_map(EdmValue::Int32),
        any::<i64>().prop_map(EdmValue::Int64),
        any::<f64>().prop_map(EdmValue::double),
        prop::num::f64::ANY.prop_map(EdmValue::double),
        prop::sample::select(vec![
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            3.0,
            1e16,
            1e-7,
            f64::MAX,
            f64::MIN_POSITIVE
        ])
        .prop_map(EdmValue::double),
        any::<bool>().prop_map(EdmValue::Boolean),
        (0..=DateTime::MAX.ticks()).prop_map(|ticks| EdmValue::DateTime(DateTime::from_ticks(ticks).unwrap())),
        any::<[u8; 16]>().prop_map(|bytes| EdmValue::Guid(Guid::from_bytes(bytes))),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(EdmValue::Binary),
    ]
}

prop_compose! {
    fn any_entity()(
        partition_key in "[^/\\\\#?\\p{Cc}]{0,12}",
        row_key in "[^/\\\\#?\\p{Cc}]{0,12}",
        ticks in 0..=DateTime::MAX.ticks(),
        named in prop::collection::btree_map("[_a-zA-Zé数][_a-zA-Z0-9é数]{0,6}", any_value(), 0..12),
    ) -> Entity {
        let own = named.into_iter().map(|(name, value)| (PropertyName::new(name).unwrap(), value)).collect();
        Entity {
            key: EntityKey::new(PartitionKey::new(partition_key).unwrap(), RowKey::new(row_key).unwrap()),
            timestamp: Timestamp::from_ticks(ticks).unwrap(),
            properties: Properties::new(own).unwrap(),
        }
    }
}

/// What a reader may meet: a valid body with a byte changed, removed or added, or its end cut off.
fn damaged(mut body: Vec<u8>, at: prop::sample::Index, byte: u8, how: u8) -> Vec<u8> {
    let at = at.index(body.len().max(1)).min(body.len().saturating_sub(1));
    match how % 4 {
        _ if body.is_empty() => {}
        0 => body[at] = byte,
        1 => body.truncate(at),
        2 => body.insert(at, byte),
        _ => drop(body.remove(at)),
    }
    body
}

proptest! {
    #[test]
    fn the_service_reads_what_a_client_wrote(entity in any_entity()) {
        let body = encode_entity_body(&entity.key, &entity.properties);
        let expected = EntityBody {
            partition_key: Some(entity.key.partition_key),
            row_key: Some(entity.key.row_key),
            properties: entity.properties,
        };
        prop_assert_eq!(read_entity(&body), Ok(expected));
    }

    #[test]
    fn a_client_reads_what_the_service_wrote(entities in prop::collection::vec(any_entity(), 0..4)) {
        for level in [MetadataLevel::Minimal, MetadataLevel::Full] {
            let body = written_set(entities.clone(), level, &Select::All);
            let decoded = decode_entity_set(body.as_bytes()).unwrap();
            let tags: Vec<_> = entities.iter().map(|entity| Some(ETag::of(entity.timestamp()))).collect();
            prop_assert_eq!(decoded.iter().map(|entity| entity.etag.clone()).collect::<Vec<_>>(), tags);
            let whole: Vec<_> = decoded.into_iter().filter_map(super::DecodedEntity::into_entity).collect();
            prop_assert_eq!(&whole, &entities);
            for entity in &entities {
                let body = written(entity, level, &Select::All);
                prop_assert_eq!(decode_entity(body.as_bytes()).unwrap().into_entity(), Some(entity.clone()));
            }
        }
    }

    #[test]
    fn without_metadata_it_is_the_same_json_less_the_annotations(entity in any_entity()) {
        let parse = |level| serde_json::from_str::<serde_json::Value>(&written(&entity, level, &Select::All)).unwrap();
        let mut minimal = parse(MetadataLevel::Minimal);
        minimal.as_object_mut().unwrap().retain(|name, _| !name.contains(['@', '.']));
        prop_assert_eq!(parse(MetadataLevel::None), minimal);
    }

    #[test]
    fn no_panic_on_any_bytes(body in prop::collection::vec(any::<u8>(), 0..200), text in "[{}\\[\\]\",:a@.0-9eE+\\\\-]{0,60}") {
        for body in [&body[..], text.as_bytes()] {
            let _ = (read_entity(body), decode_entity(body), decode_entity_set(body));
        }
    }

    #[test]
    fn no_panic_on_damaged_bodies(entity in any_entity(), at in any::<prop::sample::Index>(), byte in any::<u8>(), how in any::<u8>()) {
        let body = damaged(encode_entity_body(&entity.key, &entity.properties), at, byte, how);
        let _ = (read_entity(&body), decode_entity(&body));
        let page = damaged(written_set(vec![entity], MetadataLevel::Full, &Select::All).into_bytes(), at, byte, how);
        let _ = decode_entity_set(&page);
    }
}
