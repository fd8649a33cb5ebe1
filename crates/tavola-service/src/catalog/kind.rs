//! What differs between the kinds of named resources.

use std::borrow::Cow;
use std::fmt::Debug;

use tavola_core::{DomainError, EntityView, Metadata, TableName};
use tavola_store::StoreError;

use crate::error::ServiceError;
use crate::record::{Record, corrupt, text};

/// A kind of resources that an account has by name. Each resource is a table of the store.
pub trait ResourceKind: Debug + Clone + Send + Sync + 'static {
    /// A name that keeps the kind's rules. They allow only ASCII, and nothing from `~` on.
    type Name: Debug + Clone + Send + Sync;
    /// What a row of this kind holds beside the name, the id and the access policies.
    type Attributes: Attributes;
    /// What the catalogue answers instead of a resource.
    type Error: From<ServiceError>;

    /// Where its rows are in an account's partition; what follows is the folded name. A letter of
    /// its own and a colon; `d:` is taken (see [`super`]).
    const PREFIX: &'static str;
    /// What people call one of them.
    const NOUN: &'static str;

    /// Reads a name.
    fn parse(text: &str) -> Option<Self::Name>;
    /// The text of a name.
    fn text(name: &Self::Name) -> &str;
    /// The form under which names, and prefixes of names, are compared.
    fn fold(text: &str) -> Cow<'_, str> {
        Cow::Borrowed(text)
    }

    /// A resource of that name exists.
    fn already_exists() -> Self::Error;
    /// There is no resource of that name.
    fn not_found() -> Self::Error;
}

/// What a kind keeps in the rows of the catalogue.
pub trait Attributes: Debug + Clone + Send + Sync + 'static {
    /// Adds its properties. Their names differ from `Name`, `Id`, `Modified` and `Policy…`.
    fn write(&self, record: &mut Record);

    /// Finds them again.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if one is not as it was written.
    fn read(row: &dyn EntityView) -> Result<Self, StoreError>;
}

/// Nothing.
impl Attributes for () {
    fn write(&self, _: &mut Record) {}

    fn read(_: &dyn EntityView) -> Result<Self, StoreError> {
        Ok(())
    }
}

/// One property for all pairs, because a row has fewer properties than there may be pairs: a line
/// for each, `name=value`. No name has `=`, and no value a line break.
impl Attributes for Metadata {
    fn write(&self, record: &mut Record) {
        if !self.is_empty() {
            let lines: Vec<_> =
                self.iter().map(|(name, value)| format!("{name}={value}")).collect();
            record.set_text(METADATA_PROPERTY, &lines.join("\n"));
        }
    }

    fn read(row: &dyn EntityView) -> Result<Self, StoreError> {
        let Some(value) = row.property(METADATA_PROPERTY) else { return Ok(Self::default()) };
        let pair = |line: &str| {
            line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        text(value)
            .and_then(|lines| lines.split('\n').map(pair).collect::<Option<Vec<_>>>())
            .and_then(|pairs| Self::new(pairs).ok())
            .ok_or_else(|| corrupt(row, METADATA_PROPERTY))
    }
}

const METADATA_PROPERTY: &str = "Metadata";

/// Tables: names compare without case, and there is nothing to note on one.
#[derive(Debug, Clone, Copy)]
pub struct Tables;

impl ResourceKind for Tables {
    type Name = TableName;
    type Attributes = ();
    type Error = ServiceError;

    const PREFIX: &'static str = "t:";
    const NOUN: &'static str = "table";

    fn parse(text: &str) -> Option<TableName> {
        TableName::parse(text).ok()
    }

    fn text(name: &TableName) -> &str {
        name.as_str()
    }

    fn fold(text: &str) -> Cow<'_, str> {
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Cow::Owned(text.to_ascii_lowercase())
        } else {
            Cow::Borrowed(text)
        }
    }

    fn already_exists() -> ServiceError {
        DomainError::TableAlreadyExists.into()
    }

    fn not_found() -> ServiceError {
        DomainError::ResourceNotFound.into()
    }
}
