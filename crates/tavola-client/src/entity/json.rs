//! Entities as JSON, in the service's own form.

use tavola_protocol::ServiceApiError as _;
use tavola_protocol::table::TableError;
use tavola_protocol::table::entity_json::{BodyError, encode_entity_body, read_entity};

use super::{DynEntity, Entity as _, encode_properties};
use crate::error::{Error, Rule};
use crate::value::edm_to_ref;

impl DynEntity {
    /// The entity as one line of JSON. Types that JSON does not tell apart are named beside their
    /// property, as the service does it: `"Visits@odata.type":"Edm.Int64"`.
    ///
    /// ```
    /// use tavola_client::DynEntity;
    ///
    /// let mut ann = DynEntity::new("Smith", "1");
    /// ann.set("Visits", 7_i64);
    /// let json = ann.to_json()?;
    /// assert!(json.ends_with(r#""Visits@odata.type":"Edm.Int64","Visits":"7"}"#), "{json}");
    /// assert_eq!(DynEntity::from_json(&json)?, ann);
    /// # Ok::<(), tavola_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// If its key, a name or a value breaks a rule.
    pub fn to_json(&self) -> Result<String, Error> {
        let key = self.entity_key()?;
        let body = encode_entity_body(key.as_core(), &encode_properties(self, &[])?);
        String::from_utf8(body).map_err(|_| Error::invalid(Rule::PropertyText, "it is not UTF-8"))
    }

    /// Reads an entity from JSON. A number without a type is an `Edm.Int32` if it is whole and fits,
    /// else an `Edm.Double`; Timestamp and other annotations of the service are passed over.
    ///
    /// # Errors
    /// What is wrong with it, without showing any value.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        let body = read_entity(text.as_bytes()).map_err(refused)?;
        let (Some(partition), Some(row)) = (&body.partition_key, &body.row_key) else {
            let text = "the entity needs the members PartitionKey and RowKey, both texts";
            return Err(Error::invalid(Rule::Request, text));
        };
        let mut entity = Self::new(partition.as_str(), row.as_str());
        for (name, value) in body.properties.iter() {
            entity.set(name, edm_to_ref(value).to_value());
        }
        Ok(entity)
    }
}

fn refused(error: BodyError) -> Error {
    let words = match error {
        BodyError::Malformed(words) | BodyError::InvalidKey(words) => words,
        BodyError::Refused(error) => TableError::from(error).parts().text.into_owned(),
    };
    let words = words.lines().next().unwrap_or_default().trim_end_matches('.').to_owned();
    Error::invalid(Rule::Request, words)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::DynEntity;
    use crate::value::Value;

    #[test]
    fn every_type_survives() {
        let mut entity = DynEntity::new("it's, \"so\"", "ü");
        for (number, value) in [
            Value::from("a\n\u{1}\"\\é"),
            Value::from(i32::MIN),
            Value::from(i64::MAX),
            Value::from(1.0),
            Value::from(f64::NAN),
            Value::from(f64::NEG_INFINITY),
            Value::from(false),
            Value::from(OffsetDateTime::UNIX_EPOCH),
            Value::from(Uuid::from_u128(7)),
            Value::from(Bytes::from_static(b"\0\xff")),
        ]
        .into_iter()
        .enumerate()
        {
            entity.set(format!("P{number}"), value);
        }
        let json = entity.to_json().unwrap();
        assert_eq!(DynEntity::from_json(&json).unwrap(), entity, "{json}");
    }

    #[test]
    fn what_is_no_entity_is_explained() {
        for (text, words) in [
            ("[]", "members that it should have"),
            ("{", "not JSON: line 1"),
            (r#"{"PartitionKey":"a"}"#, "PartitionKey and RowKey"),
            (r#"{"PartitionKey":"a","RowKey":1}"#, "is not a text"),
            (r#"{"PartitionKey":"a","RowKey":"b","P":[1]}"#, "'P' is an array or an object"),
            (
                r#"{"PartitionKey":"a","RowKey":"b","P@odata.type":"Edm.Guid","P":"secret"}"#,
                "'P' is not a value of the type Edm.Guid",
            ),
        ] {
            let error = DynEntity::from_json(text).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains("secret"), "{text}: {error}");
        }
    }
}
