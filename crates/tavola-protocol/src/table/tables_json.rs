//! Tables as JSON.

use std::borrow::Cow;

use tavola_core::TableName;

use super::entity_json::seed::{ArraySeed, MemberSeed, TextSeed};
use super::entity_json::text::{close, push_text_member};
use super::entity_json::{BodyError, Links, MetadataLevel, parse};

/// One table, in the body of a create or in an answer.
const TABLE: MemberSeed<TextSeed> = MemberSeed("TableName", TextSeed);

/// The name in the body of a create; whether it is a legal one is the domain's matter.
///
/// # Errors
/// If the body is not an object with one text `TableName`.
pub fn read_table_name(body: &[u8]) -> Result<String, BodyError> {
    parse(body, TABLE).map(Cow::into_owned)
}

/// Writes one table as the whole of an answer.
pub fn write_table(out: &mut Vec<u8>, name: &TableName, level: MetadataLevel, links: &Links<'_>) {
    out.push(b'{');
    push_metadata(out, level, links, "/@Element");
    push_table(out, name, level, links);
    close(out, b'}');
}

/// Writes a page of tables.
pub fn write_table_set(
    out: &mut Vec<u8>,
    names: &[TableName],
    level: MetadataLevel,
    links: &Links<'_>,
) {
    out.push(b'{');
    push_metadata(out, level, links, "");
    out.extend_from_slice(b"\"value\":[");
    for name in names {
        out.push(b'{');
        push_table(out, name, level, links);
        close(out, b'}');
        out.push(b',');
    }
    close(out, b']');
    out.push(b'}');
}

/// Writes the body of a create.
#[must_use]
pub fn encode_table_body(name: &TableName) -> Vec<u8> {
    let mut out = vec![b'{'];
    push_text_member(&mut out, "TableName", name.as_str());
    close(&mut out, b'}');
    out
}

/// Reads the names of a page of tables.
///
/// # Errors
/// If it is not a set of tables.
pub fn decode_table_set(body: &[u8]) -> Result<Vec<String>, BodyError> {
    let names = parse(body, MemberSeed("value", ArraySeed(TABLE)))?;
    Ok(names.into_iter().map(Cow::into_owned).collect())
}

fn push_metadata(out: &mut Vec<u8>, level: MetadataLevel, links: &Links<'_>, element: &str) {
    if level != MetadataLevel::None {
        push_text_member(
            out,
            "odata.metadata",
            &format!("{}/$metadata#Tables{element}", links.base),
        );
    }
}

fn push_table(out: &mut Vec<u8>, name: &TableName, level: MetadataLevel, links: &Links<'_>) {
    if level == MetadataLevel::Full {
        let path = format!("Tables('{name}')");
        push_text_member(out, "odata.type", &format!("{}.Tables", links.account));
        push_text_member(out, "odata.id", &format!("{}/{path}", links.base));
        push_text_member(out, "odata.editLink", &path);
    }
    push_text_member(out, "TableName", name.as_str());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tavola_core::TableName;

    use super::{
        decode_table_set, encode_table_body, read_table_name, write_table, write_table_set,
    };
    use crate::table::entity_json::{BodyError, Links, MetadataLevel};

    const LINKS: Links<'_> = Links {
        base: "http://127.0.0.1:10002/devstoreaccount1",
        account: "devstoreaccount1",
        table: "",
    };

    fn table(name: &str) -> TableName {
        TableName::parse(name).unwrap()
    }

    #[test]
    fn one_table() {
        for (level, expected) in [
            (MetadataLevel::None, r#"{"TableName":"MyTable"}"#),
            (
                MetadataLevel::Minimal,
                r#"{"odata.metadata":"http://127.0.0.1:10002/devstoreaccount1/$metadata#Tables/@Element","TableName":"MyTable"}"#,
            ),
            (
                MetadataLevel::Full,
                r#"{"odata.metadata":"http://127.0.0.1:10002/devstoreaccount1/$metadata#Tables/@Element","odata.type":"devstoreaccount1.Tables","odata.id":"http://127.0.0.1:10002/devstoreaccount1/Tables('MyTable')","odata.editLink":"Tables('MyTable')","TableName":"MyTable"}"#,
            ),
        ] {
            let mut out = Vec::new();
            write_table(&mut out, &table("MyTable"), level, &LINKS);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn a_page_of_tables() {
        let written = |names: &[TableName], level| {
            let mut out = Vec::new();
            write_table_set(&mut out, names, level, &LINKS);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            written(&[table("aaa"), table("bbb")], MetadataLevel::Minimal),
            r#"{"odata.metadata":"http://127.0.0.1:10002/devstoreaccount1/$metadata#Tables","value":[{"TableName":"aaa"},{"TableName":"bbb"}]}"#
        );
        assert_eq!(written(&[], MetadataLevel::None), r#"{"value":[]}"#);
        let full = written(&[table("aaa")], MetadataLevel::Full);
        assert_eq!(decode_table_set(full.as_bytes()), Ok(vec!["aaa".to_owned()]));
    }

    #[test]
    fn the_body_of_a_create() {
        for (body, name) in [
            (r#"{"TableName": "pytablesync6d7c1113"}"#, "pytablesync6d7c1113"),
            (r#"{"odata.type":"x","TableName":"\u0061-","other":[{}]}"#, "a-"),
            (r#"{"TableName":""}"#, ""),
        ] {
            assert_eq!(read_table_name(body.as_bytes()), Ok(name.to_owned()), "{body}");
        }
        for body in [
            "",
            "{}",
            "[]",
            "null",
            r#"["a"]"#,
            r#"{"TableName":null}"#,
            r#"{"TableName":5}"#,
            r#"{"TableName":["a"]}"#,
            r#"{"tablename":"a"}"#,
            r#"{"TableName":"a","TableName":"a"}"#,
            r#"{"TableName":"a"}x"#,
        ] {
            assert!(
                matches!(read_table_name(body.as_bytes()), Err(BodyError::Malformed(_))),
                "{body}"
            );
        }
        assert_eq!(read_table_name(&encode_table_body(&table("abc"))), Ok("abc".to_owned()));
    }

    proptest! {
        #[test]
        fn no_panic(body in prop::collection::vec(any::<u8>(), 0..100), name in any::<String>()) {
            let _ = (read_table_name(&body), decode_table_set(&body));
            let body = serde_json::json!({ "TableName": name }).to_string();
            prop_assert_eq!(read_table_name(body.as_bytes()), Ok(name));
        }
    }
}
