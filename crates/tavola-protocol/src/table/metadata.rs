//! The schema document of `$metadata`: what OData tools read before they ask for anything else.
//!
//! A table has no schema, so each has an entity type with only the properties that every entity
//! has. The namespace is the account, as in the `odata.type` of an entity.

use std::fmt::Write as _;

use quick_xml::escape::escape;
use tavola_core::TableName;

const HEAD: &str = concat!(
    r#"<?xml version="1.0" encoding="utf-8"?>"#,
    r#"<edmx:Edmx Version="1.0" xmlns:edmx="http://schemas.microsoft.com/ado/2007/06/edmx">"#,
    r#"<edmx:DataServices xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata""#,
    r#" m:DataServiceVersion="3.0" m:MaxDataServiceVersion="3.0">"#,
);
const ENTITY_PROPERTIES: &str = concat!(
    r#"<Key><PropertyRef Name="PartitionKey" /><PropertyRef Name="RowKey" /></Key>"#,
    r#"<Property Name="PartitionKey" Type="Edm.String" Nullable="false" />"#,
    r#"<Property Name="RowKey" Type="Edm.String" Nullable="false" />"#,
    r#"<Property Name="Timestamp" Type="Edm.DateTime" Nullable="false" ConcurrencyMode="Fixed" />"#,
);
const TABLE_PROPERTIES: &str = concat!(
    r#"<Key><PropertyRef Name="TableName" /></Key>"#,
    r#"<Property Name="TableName" Type="Edm.String" Nullable="false" />"#,
);

/// One entity type per table, and that of the collection of tables itself.
#[must_use]
pub fn write_metadata(names: &[TableName], account: &str) -> Vec<u8> {
    let account = escape(account);
    let tables = std::iter::once(("Tables", "", TABLE_PROPERTIES));
    // Open: its entities have more properties than the type says.
    let types = tables
        .chain(names.iter().map(|name| (name.as_str(), r#" OpenType="true""#, ENTITY_PROPERTIES)));
    let mut schema = String::from(HEAD);
    let mut sets = String::new();
    let _ = write!(
        schema,
        r#"<Schema Namespace="{account}" xmlns="http://schemas.microsoft.com/ado/2009/11/edm">"#
    );
    for (name, open, properties) in types {
        let _ = write!(schema, r#"<EntityType Name="{name}"{open}>{properties}</EntityType>"#);
        let _ = write!(sets, r#"<EntitySet Name="{name}" EntityType="{account}.{name}" />"#);
    }
    let _ = write!(
        schema,
        r#"<EntityContainer Name="{account}" m:IsDefaultEntityContainer="true">{sets}</EntityContainer>"#
    );
    schema.push_str("</Schema></edmx:DataServices></edmx:Edmx>");
    schema.into_bytes()
}

#[cfg(test)]
mod tests {
    use tavola_core::TableName;

    use super::write_metadata;

    #[test]
    fn each_table_is_a_type_and_a_set() {
        let names = ["alpha", "Beta"].map(|name| TableName::parse(name).unwrap());
        let document = String::from_utf8(write_metadata(&names, "acct")).unwrap();
        assert!(
            document
                .starts_with(r#"<?xml version="1.0" encoding="utf-8"?><edmx:Edmx Version="1.0""#)
        );
        let beta = concat!(
            r#"<EntityType Name="Beta" OpenType="true"><Key><PropertyRef Name="PartitionKey" /><PropertyRef Name="RowKey" /></Key>"#,
            r#"<Property Name="PartitionKey" Type="Edm.String" Nullable="false" /><Property Name="RowKey" Type="Edm.String" Nullable="false" />"#,
            r#"<Property Name="Timestamp" Type="Edm.DateTime" Nullable="false" ConcurrencyMode="Fixed" /></EntityType>"#,
        );
        assert!(document.contains(beta), "{document}");
        assert!(document.contains(r#"<Schema Namespace="acct""#));
        assert!(document.contains(r#"<EntitySet Name="alpha" EntityType="acct.alpha" />"#));
        assert!(document.contains(r#"<EntitySet Name="Tables" EntityType="acct.Tables" />"#));
    }

    #[test]
    fn it_is_well_formed() {
        let names = [TableName::parse("abc").unwrap()];
        let document = String::from_utf8(write_metadata(&names, "a\"<&")).unwrap();
        let mut reader = quick_xml::Reader::from_str(&document);
        loop {
            match reader.read_event().unwrap() {
                quick_xml::events::Event::Eof => break,
                quick_xml::events::Event::Start(tag) | quick_xml::events::Event::Empty(tag) => {
                    assert!(tag.attributes().all(|attribute| attribute.is_ok()));
                }
                _ => {}
            }
        }
    }
}
