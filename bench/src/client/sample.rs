//! The load generator's entity as a derived type, and as what serde reads.

use serde::{Deserialize, Deserializer};
use tavola_client::Entity;
use tavola_load::{EntityTemplate, Key};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition = "{partition}", row = "{row}", rename_all = "PascalCase")]
pub(super) struct Typed {
    pub(super) partition: String,
    pub(super) row: String,
    pub(super) count: i32,
    pub(super) active: bool,
    pub(super) price: f64,
    pub(super) total: i64,
    pub(super) when: OffsetDateTime,
    pub(super) text: String,
}

impl Typed {
    pub(super) fn new(key: Key, template: &EntityTemplate, row: u64) -> Self {
        Self {
            partition: key.partition_key(),
            row: key.row_key(),
            count: 100_000,
            active: true,
            price: 19.99,
            total: 9_007_199_254_740_993,
            when: OffsetDateTime::UNIX_EPOCH,
            text: String::from_utf8_lossy(template.text_of(row)).into_owned(),
        }
    }
}

/// A page as serde reads it.
#[derive(Debug, Deserialize)]
pub(super) struct BarePage {
    pub(super) value: Vec<Bare>,
}

/// The same fields, of the same types.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[expect(dead_code, reason = "they are read from JSON and not looked at")]
pub(super) struct Bare {
    #[serde(rename = "odata.etag")]
    etag: String,
    partition_key: String,
    row_key: String,
    #[serde(deserialize_with = "time")]
    timestamp: OffsetDateTime,
    count: i32,
    active: bool,
    price: f64,
    #[serde(deserialize_with = "number")]
    total: i64,
    #[serde(deserialize_with = "time")]
    when: OffsetDateTime,
    text: String,
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    <&str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OffsetDateTime, D::Error> {
    let text = <&str>::deserialize(deserializer)?;
    OffsetDateTime::parse(text, &Rfc3339).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use tavola_load::{EntityTemplate, Family};

    use super::*;

    #[test]
    fn both_read_what_the_generator_writes() {
        let (template, mut text) = (EntityTemplate::new(), Vec::new());
        template.render(Family::Loaded.key(1), &mut text);
        let text = String::from_utf8(text).unwrap();
        let stored =
            text.replacen('{', "{\"odata.etag\":\"x\",\"Timestamp\":\"2026-01-02T03:04:05Z\",", 1);
        let page: BarePage = serde_json::from_str(&format!("{{\"value\":[{stored}]}}")).unwrap();
        assert_eq!((page.value[0].total, page.value[0].count), (9_007_199_254_740_993, 100_001));
    }
}
