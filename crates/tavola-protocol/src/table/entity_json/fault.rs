//! What is wrong with a body, in words: an import of a thousand entities is refused for one
//! property of one of them.
//!
//! The words name properties and types, cut to a bounded length and without characters that could
//! break a line. They never show a value, which may be secret.

use serde_json::error::Category;
use tavola_core::EdmType;

use super::BodyError;

/// Enough of a name to find it.
const CHARS_SHOWN: usize = 64;

pub(super) fn not_utf8() -> BodyError {
    BodyError::Malformed("The body is not UTF-8.".to_owned())
}

/// Where the text ends to be what it should be. What the reader says itself may quote the body.
pub(super) fn not_json(error: &serde_json::Error) -> BodyError {
    let (line, column) = (error.line(), error.column());
    let what = match error.classify() {
        Category::Data => "The body does not have the members that it should have",
        Category::Syntax | Category::Eof | Category::Io => "The body is not JSON",
    };
    BodyError::Malformed(format!("{what}: line {line}, column {column}."))
}

/// `None` is a property without a type, which every JSON value but an array or an object is a value
/// of.
pub(super) fn wrong_value(name: &str, edm: Option<EdmType>) -> BodyError {
    let name = shown(name);
    BodyError::Malformed(match edm {
        Some(edm) => format!("The property '{name}' is not a value of the type {}.", edm.name()),
        None => format!("The property '{name}' is an array or an object."),
    })
}

pub(super) fn unknown_type(name: &str, edm: &str) -> BodyError {
    BodyError::Malformed(format!(
        "The property '{}' has the unknown type '{}'.",
        shown(name),
        shown(edm)
    ))
}

pub(super) fn type_is_no_text(name: &str) -> BodyError {
    BodyError::Malformed(format!("The type of the property '{}' is not a text.", shown(name)))
}

pub(super) fn key_of_other_type(name: &str) -> BodyError {
    BodyError::InvalidKey(format!(
        "The property '{name}' is a key: its type can only be Edm.String."
    ))
}

pub(super) fn key_is_no_text(name: &str) -> BodyError {
    BodyError::InvalidKey(format!("The property '{name}' is a key, and is not a text."))
}

/// A client's text as it may stand in a message.
fn shown(text: &str) -> String {
    let plain = |character: char| {
        character == ' ' || character.is_ascii_graphic() || character.is_alphanumeric()
    };
    let mut characters = text.chars();
    let start = characters.by_ref().take(CHARS_SHOWN);
    let mut shown: String =
        start.map(|character| if plain(character) { character } else { '?' }).collect();
    if characters.next().is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::super::{BodyError, read_entity};

    fn told(body: &str) -> String {
        match read_entity(body.as_bytes()) {
            Err(BodyError::Malformed(detail)) => detail,
            Err(BodyError::InvalidKey(detail)) => format!("key: {detail}"),
            other => panic!("{body}: {other:?}"),
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (body, expected) in [
            (
                r#"{"Age":"x","Age@odata.type":"Edm.Int32"}"#,
                "The property 'Age' is not a value of the type Edm.Int32.",
            ),
            (
                r#"{"a":1,"b":5,"b@odata.type":"Edm.String"}"#,
                "The property 'b' is not a value of the type Edm.String.",
            ),
            (
                r#"{"a":"%","a@odata.type":"Edm.Binary"}"#,
                "The property 'a' is not a value of the type Edm.Binary.",
            ),
            (r#"{"a":{"secret":1}}"#, "The property 'a' is an array or an object."),
            (r#"{"a":[1]}"#, "The property 'a' is an array or an object."),
            (
                r#"{"a":"1","a@odata.type":"Edm.Decimal"}"#,
                "The property 'a' has the unknown type 'Edm.Decimal'.",
            ),
            (r#"{"a":"1","a@odata.type":7}"#, "The type of the property 'a' is not a text."),
            (
                r#"{"PartitionKey":5}"#,
                "key: The property 'PartitionKey' is a key, and is not a text.",
            ),
            (
                r#"{"RowKey@odata.type":"Edm.Guid","RowKey":"x"}"#,
                "key: The property 'RowKey' is a key: its type can only be Edm.String.",
            ),
            ("{\n\"a\":tru}", "The body is not JSON: line 2, column 8."),
            ("[]", "The body does not have the members that it should have: line 1, column 0."),
        ] {
            assert_eq!(told(body), expected, "{body}");
        }
        assert!(matches!(read_entity(b"{\"a\":\"\xff\"}"), Err(BodyError::Malformed(_))));
    }

    #[test]
    fn nothing_secret_and_nothing_endless_is_repeated() {
        let long = "n".repeat(100_000);
        let body = serde_json::json!({ &long: "secret", format!("{long}@odata.type"): "Edm.Guid" })
            .to_string();
        let detail = told(&body);
        assert!(
            detail.len() < 200 && detail.contains('…') && !detail.contains("secret"),
            "{detail}"
        );
        let body =
            serde_json::json!({ "a": "secret", "a@odata.type": format!("x\n\u{2028}\u{85}\"{long}") }).to_string();
        let detail = told(&body);
        assert!(
            detail.contains("'x???\"nnn") && detail.len() < 200 && !detail.contains("secret"),
            "{detail}"
        );
        assert!(!told("\"secret\"").contains("secret"));
    }
}
