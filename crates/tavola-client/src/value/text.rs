//! Values as text.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Value, ValueRef, date_time_to};

/// The value as the service writes it, without its type and without quotes.
///
/// ```
/// use tavola_client::Value;
///
/// assert_eq!(Value::from(b"ab".to_vec()).to_string(), "YWI=");
/// assert_eq!(Value::from(f64::INFINITY).to_string(), "Infinity");
/// ```
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_ref() {
            ValueRef::String(text) => f.write_str(text),
            ValueRef::Int32(number) => write!(f, "{number}"),
            ValueRef::Int64(number) => write!(f, "{number}"),
            ValueRef::Double(f64::INFINITY) => f.write_str("Infinity"),
            ValueRef::Double(f64::NEG_INFINITY) => f.write_str("-Infinity"),
            // Rust's own text of a number reads as the same number; of NaN it is the service's.
            ValueRef::Double(number) => write!(f, "{number:?}"),
            ValueRef::Boolean(truth) => write!(f, "{truth}"),
            ValueRef::DateTime(at) => match date_time_to(at) {
                Some(at) => write!(f, "{at}"),
                None => write!(f, "{at}"),
            },
            ValueRef::Guid(id) => write!(f, "{id}"),
            ValueRef::Binary(bytes) => f.write_str(&STANDARD.encode(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::Value;

    #[test]
    fn every_type_has_a_text() {
        for (value, text) in [
            (Value::from("a 'b'"), "a 'b'"),
            (Value::from(-1), "-1"),
            (Value::from(i64::MIN), "-9223372036854775808"),
            (Value::from(5.0), "5.0"),
            (Value::from(f64::NAN), "NaN"),
            (Value::from(f64::NEG_INFINITY), "-Infinity"),
            (Value::from(true), "true"),
            (Value::from(OffsetDateTime::UNIX_EPOCH), "1970-01-01T00:00:00Z"),
            (Value::from(Uuid::from_u128(7)), "00000000-0000-0000-0000-000000000007"),
            (Value::from(vec![0, 255]), "AP8="),
        ] {
            assert_eq!(value.to_string(), text);
        }
    }
}
