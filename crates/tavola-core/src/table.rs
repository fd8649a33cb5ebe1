//! Tables: the name clients use, the id stores use, and the address of an entity in a store.

use std::fmt;

use crate::domain_error::DomainError;
use crate::key::EntityKey;
use crate::limits::{TABLE_NAME_CHARS_MAX, TABLE_NAME_CHARS_MIN};

/// A table's name in the case in which it was created. Names compare without case.
#[derive(Debug, Clone)]
pub struct TableName(String);

impl TableName {
    /// Checks in the service's order: length, characters, reserved words.
    ///
    /// # Errors
    /// The refusal that the service answers with.
    pub fn parse(name: &str) -> Result<Self, DomainError> {
        let length = name.chars().count();
        if !(TABLE_NAME_CHARS_MIN..=TABLE_NAME_CHARS_MAX).contains(&length) {
            return Err(DomainError::TableNameLength);
        }
        let starts_with_letter = name.starts_with(|first: char| first.is_ascii_alphabetic());
        if !starts_with_letter || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(DomainError::TableNameCharacters);
        }
        if name.eq_ignore_ascii_case("tables") {
            return Err(DomainError::TableNameReserved);
        }
        Ok(Self(name.to_owned()))
    }

    /// The name as created or as written in the request.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The form under which names are compared.
    #[must_use]
    pub fn folded(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl PartialEq for TableName {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for TableName {}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One incarnation of one table. Never given out twice: a table dropped and created again has
/// another id, so that a late write cannot reach the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(u64);

impl TableId {
    /// The ids below are system tables, which no client can name.
    pub const FIRST_USER: u64 = 256;
    /// The system table with one entity per table of an account, and per whatever else has a name.
    pub const CATALOG: Self = Self(1);
    /// The system table with one entity per service and account: its properties.
    pub const SERVICE_PROPERTIES: Self = Self(2);
    /// The system table of counters, from which table ids are given out.
    pub const SEQUENCES: Self = Self(3);
    /// The system table with one entity while the store is a copy of another that is not finished.
    pub const UNFINISHED_COPY: Self = Self(4);

    /// Whether no client can name it.
    #[must_use]
    pub const fn is_system(self) -> bool {
        self.0 < Self::FIRST_USER
    }

    /// The table with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, as stores keep it.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// Where an entity lives in a store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityAddress {
    /// The table.
    pub table: TableId,
    /// The entity in it.
    pub key: EntityKey,
}

#[cfg(test)]
mod tests {
    use super::TableName;
    use crate::domain_error::DomainError;

    #[test]
    fn names() {
        let check = |name: &str| TableName::parse(name).map(|table| table.folded());
        assert_eq!(check("MyTable1"), Ok("mytable1".to_owned()));
        assert_eq!(check("ab"), Err(DomainError::TableNameLength));
        assert_eq!(check(&"a".repeat(63)), Ok("a".repeat(63)));
        assert_eq!(check(&"a".repeat(64)), Err(DomainError::TableNameLength));
        for bad in ["a_b", "a-b", "1abc", "abé", "$MetricsX", "a b"] {
            assert_eq!(check(bad), Err(DomainError::TableNameCharacters), "{bad}");
        }
        assert_eq!(check("tAbles"), Err(DomainError::TableNameReserved));
        assert_eq!(TableName::parse("abc"), TableName::parse("ABC"));
    }
}
