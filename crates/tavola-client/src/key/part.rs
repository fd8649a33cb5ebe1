//! What a part of a key is.

use std::fmt;

use super::escape;
use crate::error::{Error, ErrorKind, Outcome, Rule};

/// A type that can be a part of a key, written in the format `F` of the template.
///
/// An implementation must keep the order: for two values `a < b` the text of `a` sorts before that
/// of `b` (after it, if the format is descending), and if [`KeyPart::FIXED`] all texts have the same
/// length. [`KeyText`] lets only legal characters through. `#[derive(KeyPart)]` does it for a struct
/// around another part.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be written as `{F}` in a key template",
    note = "`Plain` is `{{field}}`, `Dec<6>` is `{{field:06}}` for u8 to u64, `DecDesc<6>` is `{{field:06,desc}}`, \
            `Desc` is `{{field:desc}}`, `Lower` is `{{field:lower}}` for String",
    note = "`#[derive(KeyPart)]` makes a key part of a struct around one"
)]
pub trait KeyPart<F = Plain>: Sized {
    /// True if all texts have the same length.
    const FIXED: bool;
    /// True if greater values sort first.
    const DESCENDING: bool = false;

    /// Writes the value.
    ///
    /// # Errors
    /// If the value does not fit.
    fn write(&self, text: &mut KeyText) -> Result<(), KeyPartError>;

    /// Reads what [`KeyPart::write`] wrote, and nothing else.
    ///
    /// # Errors
    /// If it is not such a text.
    fn read(text: &mut KeyReader<'_>) -> Result<Self, KeyPartError>;
}

/// The format `{field}`.
#[derive(Debug)]
pub struct Plain;
/// The format `{field:0W}`: `W` decimal digits.
#[derive(Debug)]
pub struct Dec<const W: usize>;
/// The format `{field:0W,desc}`: `W` decimal digits, greater values first.
#[derive(Debug)]
pub struct DecDesc<const W: usize>;
/// The format `{field:desc}`: greater values first.
#[derive(Debug)]
pub struct Desc;
/// The format `{field:lower}`: text in lower case.
#[derive(Debug)]
pub struct Lower;

/// A type whose values can be in a key with the greatest first, as `{field:desc}`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be descending in a key",
    note = "u8 to u64, i8 to i64 and OffsetDateTime can"
)]
pub trait Descending: Sized {
    /// Writes the value.
    ///
    /// # Errors
    /// If the value does not fit.
    fn write_descending(&self, text: &mut KeyText) -> Result<(), KeyPartError>;

    /// Reads what [`Descending::write_descending`] wrote, and nothing else.
    ///
    /// # Errors
    /// If it is not such a text.
    fn read_descending(text: &mut KeyReader<'_>) -> Result<Self, KeyPartError>;
}

impl<T: Descending> KeyPart<Desc> for T {
    const FIXED: bool = true;
    const DESCENDING: bool = true;

    fn write(&self, text: &mut KeyText) -> Result<(), KeyPartError> {
        self.write_descending(text)
    }

    fn read(text: &mut KeyReader<'_>) -> Result<Self, KeyPartError> {
        T::read_descending(text)
    }
}

/// Why a value cannot be a key part, or a text is not one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPartError(Problem);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    Wide { value: u64, width: usize },
    Other(String),
}

impl KeyPartError {
    /// An error with a text that follows the part's name: `is not a number of pages`.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(Problem::Other(text.into()))
    }

    pub(super) fn wide(value: u64, width: usize) -> Self {
        Self(Problem::Wide { value, width })
    }

    pub(super) fn malformed(what: &str) -> Self {
        Self::new(format!("is not {what} in the key"))
    }
}

impl fmt::Display for KeyPartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Problem::Wide { value, width } => {
                write!(f, "= {value} has more than the {width} digits of its place")
            }
            Problem::Other(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for KeyPartError {}

/// A key that is being written, by parts. All that it takes is legal in a key.
#[derive(Debug, Clone, Default)]
pub struct KeyText(String);

impl KeyText {
    /// Appends text, escaped so that its order is kept.
    pub fn push_text(&mut self, text: &str) {
        escape::push(&mut self.0, text);
    }

    /// Appends decimal digits with leading zeros; a number with more than `width` is not cut.
    pub fn push_digits(&mut self, number: u128, width: usize) {
        self.0.push_str(&format!("{number:0width$}"));
    }

    /// Appends hexadecimal digits in lower case, with leading zeros.
    pub fn push_hex(&mut self, number: u128, width: usize) {
        self.0.push_str(&format!("{number:0width$x}"));
    }

    /// What was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn push_literal(&mut self, literal: &str) {
        self.0.push_str(literal);
    }
}

/// A key that is being read, by parts.
#[derive(Debug, Clone)]
pub struct KeyReader<'a> {
    rest: &'a str,
}

impl<'a> KeyReader<'a> {
    /// A key from its beginning.
    #[must_use]
    pub fn new(key: &'a str) -> Self {
        Self { rest: key }
    }

    /// What was not read yet.
    #[must_use]
    pub fn rest(&self) -> &'a str {
        self.rest
    }

    /// Reads escaped text up to `!` or the end.
    ///
    /// # Errors
    /// If it is not escaped as [`KeyText::push_text`] does.
    pub fn text(&mut self) -> Result<String, KeyPartError> {
        let (text, rest) =
            escape::read(self.rest).ok_or_else(|| KeyPartError::malformed("text as escaped"))?;
        self.rest = rest;
        Ok(text)
    }

    /// Reads exactly `width` decimal digits.
    ///
    /// # Errors
    /// If there are others.
    pub fn digits(&mut self, width: usize) -> Result<u128, KeyPartError> {
        self.number(width, 10).ok_or_else(|| KeyPartError::malformed(&format!("{width} digits")))
    }

    /// Reads exactly `width` hexadecimal digits in lower case.
    ///
    /// # Errors
    /// If there are others.
    pub fn hex(&mut self, width: usize) -> Result<u128, KeyPartError> {
        self.number(width, 16)
            .ok_or_else(|| KeyPartError::malformed(&format!("{width} hexadecimal digits")))
    }

    fn number(&mut self, width: usize, radix: u32) -> Option<u128> {
        let (digits, rest) = self.rest.split_at_checked(width)?;
        let canonical = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        let legal = digits.bytes().all(canonical);
        let number = u128::from_str_radix(digits, radix).ok().filter(|_| legal)?;
        self.rest = rest;
        Some(number)
    }

    /// Reads a literal of a template.
    #[doc(hidden)]
    pub fn literal(&mut self, literal: &str, meta: &PartMeta) -> Result<(), Error> {
        match self.rest.strip_prefix(literal) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.foreign(&format!("does not continue with `{literal}`"), meta)),
        }
    }

    /// Reads a part of a template.
    #[doc(hidden)]
    pub fn part<F, T: KeyPart<F>>(&mut self, meta: &PartMeta) -> Result<T, Error> {
        T::read(self).map_err(|error| {
            let PartMeta { field, template } = meta;
            let text = format!("key part `{field}` {error} (template `{template}`)");
            not_a_key(text)
        })
    }

    /// Checks that nothing follows.
    #[doc(hidden)]
    pub fn end(&self, meta: &PartMeta) -> Result<(), Error> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.foreign("goes on", meta)) }
    }

    fn foreign(&self, problem: &str, meta: &PartMeta) -> Error {
        let text = format!(
            "the key was not written by the template `{}`: it {problem} at `{}`",
            meta.template, self.rest
        );
        not_a_key(text)
    }
}

fn not_a_key(text: String) -> Error {
    let kind = ErrorKind::Invalid { rule: Rule::KeyTemplate, limit: None, found: None };
    Error::new(kind, Outcome::NotApplied, text)
}

/// Where a part is: for messages.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct PartMeta {
    pub field: &'static str,
    pub template: &'static str,
}

impl PartMeta {
    pub(super) fn fault(&self, error: &KeyPartError) -> Fault {
        let Self { field, template } = self;
        match &error.0 {
            Problem::Wide { value, width } => {
                let digits = value.to_string().len();
                let text = format!(
                    "key part `{field}` = {value} has {digits} digits, the template `{template}` gives \
                     {width}; widen it (docs/patterns/rekey)"
                );
                Fault { rule: Rule::KeyPart, sizes: Some((*width, digits)), text }
            }
            Problem::Other(text) => {
                let text = format!("key part `{field}` {text} (template `{template}`)");
                Fault { rule: Rule::KeyPart, sizes: None, text }
            }
        }
    }
}

/// Why a key cannot be made; it waits until the key is used.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) rule: Rule,
    /// Limit and what was found.
    pub(crate) sizes: Option<(usize, usize)>,
    pub(crate) text: String,
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault.sizes {
            Some((limit, found)) => Self::beyond(fault.rule, limit, found, fault.text),
            None => Self::invalid(fault.rule, fault.text),
        }
    }
}
