//! Constants in a filter's text, both ways.

use std::fmt;

use crate::edm::{EdmType, EdmValue, Guid, parse_double};
use crate::time::{DateTime, DateTimeError};

/// Why a token is not a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LiteralError {
    /// It is not written as one.
    Malformed,
    /// It is written as one, and its type cannot hold it.
    OutOfRange(EdmType),
}

/// The constant that a word stands for; `None` if the word is not meant as one.
pub(super) fn from_word(word: &str) -> Option<Result<EdmValue, LiteralError>> {
    match word {
        "true" => Some(Ok(EdmValue::Boolean(true))),
        "false" => Some(Ok(EdmValue::Boolean(false))),
        "NaN" | "INF" | "-INF" => parse_double(word).map(EdmValue::double).map(Ok),
        _ if word.starts_with(|first: char| first.is_ascii_digit() || first == '-') => {
            Some(number(word))
        }
        _ => None,
    }
}

/// The constant `prefix'body'`, its doubled quotes still doubled.
pub(super) fn from_quoted(prefix: &str, body: &str) -> Result<EdmValue, LiteralError> {
    let value = match prefix {
        "" => Some(EdmValue::String(body.replace("''", "'"))),
        "guid" => Guid::parse(body).map(EdmValue::Guid),
        "X" | "binary" => bytes(body).map(EdmValue::Binary),
        "datetime" => match DateTime::parse(body) {
            Ok(at) => Some(EdmValue::DateTime(at)),
            Err(DateTimeError::OutOfRange(_)) => {
                return Err(LiteralError::OutOfRange(EdmType::DateTime));
            }
            Err(DateTimeError::Malformed) => None,
        },
        _ => None,
    };
    value.ok_or(LiteralError::Malformed)
}

/// The form decides the type: an integer without `L` is an Int32 however large it is.
fn number(word: &str) -> Result<EdmValue, LiteralError> {
    if let Some(digits) = word.strip_suffix('L').filter(|digits| is_integer(digits)) {
        return digits
            .parse()
            .map(EdmValue::Int64)
            .map_err(|_| LiteralError::OutOfRange(EdmType::Int64));
    }
    if is_integer(word) {
        return word
            .parse()
            .map(EdmValue::Int32)
            .map_err(|_| LiteralError::OutOfRange(EdmType::Int32));
    }
    if is_double(word) {
        return parse_double(word)
            .map(EdmValue::double)
            .ok_or(LiteralError::OutOfRange(EdmType::Double));
    }
    Err(LiteralError::Malformed)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_integer(word: &str) -> bool {
    is_digits(word.strip_prefix('-').unwrap_or(word))
}

/// `-`? digits (`.` digits)? (`e` sign? digits)?, at least one of the optional tails.
fn is_double(word: &str) -> bool {
    let (mantissa, exponent) = match word.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (word, None),
    };
    let whole = match mantissa.split_once('.') {
        Some((whole, fraction)) if is_digits(fraction) => whole,
        Some(_) => return false,
        None => mantissa,
    };
    is_integer(whole)
        && exponent
            .is_none_or(|digits| is_digits(digits.strip_prefix(['+', '-']).unwrap_or(digits)))
}

/// Pairs of hexadecimal digits.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let nibble = |digit: u8| char::from(digit).to_digit(16);
    let byte = |pair: &[u8]| match *pair {
        [high, low] => u8::try_from(nibble(high)? * 16 + nibble(low)?).ok(),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}

/// A constant as a filter spells it.
#[derive(Debug)]
pub(super) struct Literal<'v>(pub(super) &'v EdmValue);

impl fmt::Display for Literal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            EdmValue::String(text) => write!(f, "'{}'", text.replace('\'', "''")),
            EdmValue::Int32(number) => write!(f, "{number}"),
            EdmValue::Int64(number) => write!(f, "{number}L"),
            EdmValue::Double(number) if number.is_nan() => f.write_str("NaN"),
            EdmValue::Double(number) if number.is_infinite() => {
                f.write_str(if *number > 0.0 { "INF" } else { "-INF" })
            }
            // Unlike Display, Debug always writes a fraction or an exponent, which is what makes it
            // a double.
            EdmValue::Double(number) => write!(f, "{number:?}"),
            EdmValue::Boolean(truth) => write!(f, "{truth}"),
            EdmValue::DateTime(at) => write!(f, "datetime'{at}'"),
            EdmValue::Guid(guid) => write!(f, "guid'{guid}'"),
            EdmValue::Binary(bytes) => {
                f.write_str("X'")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02X}"))?;
                f.write_str("'")
            }
        }
    }
}
