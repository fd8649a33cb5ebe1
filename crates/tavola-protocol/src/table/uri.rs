//! The path of a request: which resource it names.

use std::borrow::Cow;

use tavola_core::key::KeyError;
use tavola_core::{DomainError, EntityKey, PartitionKey, RowKey, TableName};

use crate::api_error::ApiError;
use crate::query_string::decode;
use crate::table::error::TableError;

/// What a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// `/`
    Service,
    /// `/Tables` or `/Tables()`
    Tables,
    /// `/Tables('T')`
    Table(TableName),
    /// `/T` or `/T()`
    EntitySet(TableName),
    /// `/T(PartitionKey='…',RowKey='…')`
    Entity(TableName, EntityKey),
    /// `/$batch`
    Batch,
    /// `/$metadata`
    Metadata,
    /// `/T/…`: what a client writes whose endpoint names the table already.
    BelowTable(TableName, Below),
}

/// What follows a table's name as a segment of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Below {
    /// The same name again.
    Itself,
    /// `Tables`
    Tables,
    /// `Tables('T')`
    Table,
    /// `$batch`
    Batch,
}

impl Resource {
    /// Reads a path without its account, still percent-encoded.
    ///
    /// # Errors
    /// If the path names nothing, or breaks a rule of names or keys.
    pub fn parse(path: &str) -> Result<Self, TableError> {
        let path = without_slash_at_end(path.strip_prefix('/').unwrap_or(path));
        if let Some((table, below)) = split_table(path)? {
            return Self::below_table(&table, below);
        }
        // Decoded once and whole: a quote may be raw or escaped, `+` is a plus, and an escaped
        // slash is one of a name.
        let path = decode(path).ok_or(TableError::Common(ApiError::UrlUnparsable))?;
        let (name, predicate) = path.split_at(path.find('(').unwrap_or(path.len()));
        match (name, predicate) {
            ("", "") => Ok(Self::Service),
            ("$batch", "") => Ok(Self::Batch),
            ("$metadata", "") => Ok(Self::Metadata),
            ("Tables", "" | "()") => Ok(Self::Tables),
            ("Tables", predicate) => {
                let name =
                    Reader { rest: predicate }.unnamed_key().ok_or(TableError::KeyPredicate)?;
                Ok(Self::Table(TableName::parse(&name)?))
            }
            ("", _) => Err(TableError::Common(ApiError::InvalidUri)),
            (name, "" | "()") => Ok(Self::EntitySet(TableName::parse(name)?)),
            (name, predicate) => {
                let table = TableName::parse(name)?;
                let (partition_key, row_key) =
                    Reader { rest: predicate }.named_keys().ok_or(TableError::KeyPredicate)?;
                Ok(Self::Entity(table, entity_key(partition_key, row_key)?))
            }
        }
    }

    fn below_table(table: &str, below: &str) -> Result<Self, TableError> {
        let table =
            TableName::parse(table).map_err(|_| TableError::Common(ApiError::InvalidUri))?;
        let below = decode(below).ok_or(TableError::Common(ApiError::UrlUnparsable))?;
        let below = match below.split_at(below.find('(').unwrap_or(below.len())) {
            ("$batch", "") => Below::Batch,
            ("Tables", "" | "()") => Below::Tables,
            ("Tables", predicate) if (Reader { rest: predicate }).unnamed_key().is_some() => {
                Below::Table
            }
            (name, "" | "()") if name.eq_ignore_ascii_case(table.as_str()) => Below::Itself,
            _ => return Err(TableError::Common(ApiError::InvalidUri)),
        };
        Ok(Self::BelowTable(table, below))
    }
}

/// One slash behind a resource means nothing.
fn without_slash_at_end(path: &str) -> &str {
    path.strip_suffix('/').filter(|rest| !rest.is_empty() && !rest.ends_with('/')).unwrap_or(path)
}

/// A name, decoded, and what follows the slash behind it; `None` if no slash comes before a
/// predicate.
fn split_table(path: &str) -> Result<Option<(Cow<'_, str>, &str)>, TableError> {
    let Some((name, below)) = path.split_once('/') else { return Ok(None) };
    let name = decode(name).ok_or(TableError::Common(ApiError::UrlUnparsable))?;
    Ok(Some((name, below)).filter(|(name, _)| !name.contains('(')))
}

fn entity_key(partition_key: Cow<'_, str>, row_key: Cow<'_, str>) -> Result<EntityKey, TableError> {
    let partition_key = PartitionKey::new(partition_key).map_err(key_in_url)?;
    let row_key = RowKey::new(row_key).map_err(key_in_url)?;
    Ok(EntityKey::new(partition_key, row_key))
}

/// The service says other things to a bad key in a URL than to one in a body.
fn key_in_url(error: KeyError) -> TableError {
    match error {
        KeyError::TooLong => DomainError::KeyTooLarge.into(),
        KeyError::Forbidden('/' | '\\') => TableError::KeyPredicate,
        _ => DomainError::KeyOutOfRange.into(),
    }
}

/// Reads a predicate in parentheses.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// `('value')` and nothing behind.
    fn unnamed_key(mut self) -> Option<Cow<'a, str>> {
        self.expect('(')?;
        let value = self.quoted()?;
        self.expect(')')?;
        self.rest.is_empty().then_some(value)
    }

    /// The PartitionKey and RowKey of a predicate with both, each once, in either order, and
    /// nothing behind.
    fn named_keys(mut self) -> Option<(Cow<'a, str>, Cow<'a, str>)> {
        self.expect('(')?;
        let (first, first_value) = self.named_key()?;
        self.expect(',')?;
        let (second, second_value) = self.named_key()?;
        self.expect(')')?;
        match (first, second) {
            _ if !self.rest.is_empty() => None,
            ("PartitionKey", "RowKey") => Some((first_value, second_value)),
            ("RowKey", "PartitionKey") => Some((second_value, first_value)),
            _ => None,
        }
    }

    fn named_key(&mut self) -> Option<(&'a str, Cow<'a, str>)> {
        self.skip_spaces();
        let name = self.rest.get(..self.rest.find(|next: char| !next.is_ascii_alphabetic())?)?;
        self.rest = &self.rest[name.len()..];
        self.expect('=')?;
        Some((name, self.quoted()?))
    }

    /// A quoted text in which a doubled quote means one.
    fn quoted(&mut self) -> Option<Cow<'a, str>> {
        self.expect('\'')?;
        let text = self.rest;
        let mut end = text.find('\'')?;
        let mut has_quotes = false;
        while text[end + 1..].starts_with('\'') {
            has_quotes = true;
            end += 2 + text[end + 2..].find('\'')?;
        }
        self.rest = &text[end + 1..];
        let text = &text[..end];
        Some(if has_quotes { Cow::Owned(text.replace("''", "'")) } else { Cow::Borrowed(text) })
    }

    /// Skips spaces, then this character. None of the callers expects one inside a quoted text.
    fn expect(&mut self, character: char) -> Option<()> {
        self.skip_spaces();
        self.rest = self.rest.strip_prefix(character)?;
        Some(())
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start_matches(' ');
    }
}

#[cfg(test)]
mod tests {
    use tavola_core::{DomainError, EntityKey, PartitionKey, RowKey, TableName};

    use super::{Below, Resource};
    use crate::api_error::ApiError;
    use crate::table::error::TableError;

    fn entity(partition_key: &str, row_key: &str) -> Result<Resource, TableError> {
        let key = EntityKey::new(
            PartitionKey::new(partition_key).unwrap(),
            RowKey::new(row_key).unwrap(),
        );
        Ok(Resource::Entity(TableName::parse("Tab").unwrap(), key))
    }

    #[test]
    fn resources() {
        let name = || TableName::parse("Tab").unwrap();
        for (path, resource) in [
            ("", Resource::Service),
            ("/", Resource::Service),
            ("/Tables", Resource::Tables),
            ("/Tables()", Resource::Tables),
            ("/Tables('Tab')", Resource::Table(name())),
            ("/Tables(%27Tab%27)", Resource::Table(name())),
            ("/Tab", Resource::EntitySet(name())),
            ("/Tab()", Resource::EntitySet(name())),
            ("/$batch", Resource::Batch),
            ("/%24batch", Resource::Batch),
            ("/$metadata", Resource::Metadata),
            ("/Tables/", Resource::Tables),
            ("/Tables()/", Resource::Tables),
            ("/Tables('Tab')/", Resource::Table(name())),
            ("/Tab/", Resource::EntitySet(name())),
            ("/Tab()/", Resource::EntitySet(name())),
            ("/$batch/", Resource::Batch),
            ("/Tab/Tab", Resource::BelowTable(name(), Below::Itself)),
            ("/Tab/TAB()", Resource::BelowTable(name(), Below::Itself)),
            ("/Tab/Tables", Resource::BelowTable(name(), Below::Tables)),
            ("/Tab/Tables/", Resource::BelowTable(name(), Below::Tables)),
            ("/Tab/Tables('other')", Resource::BelowTable(name(), Below::Table)),
            ("/Tab/Tables(%27Tab%27)", Resource::BelowTable(name(), Below::Table)),
            ("/Tab/%24batch", Resource::BelowTable(name(), Below::Batch)),
        ] {
            assert_eq!(Resource::parse(path), Ok(resource), "{path}");
        }
    }

    /// Statements 7 to 15.
    #[test]
    fn key_predicates() {
        for (predicate, partition_key, row_key) in [
            ("(PartitionKey='p',RowKey='r')", "p", "r"),
            ("(PartitionKey='p',RowKey='r')/", "p", "r"),
            ("(PartitionKey=%27p%27,RowKey=%27r%27)", "p", "r"),
            ("(PartitionKey='p', RowKey='r')", "p", "r"),
            ("(PartitionKey='p'%2C%20RowKey='r')", "p", "r"),
            ("(RowKey='r',PartitionKey='p')", "p", "r"),
            ("(PartitionKey='',RowKey='')", "", ""),
            ("(PartitionKey='it''s',RowKey='''')", "it's", "'"),
            ("(PartitionKey='it%27%27s',RowKey='it'%27s')", "it's", "it's"),
            ("(PartitionKey='r2%20%27%27%C3%A9%2B%26%25',RowKey='a+b')", "r2 'é+&%", "a+b"),
            ("(PartitionKey='%2541',RowKey='%F0%9F%98%80')", "%41", "😀"),
            ("(PartitionKey='),(',RowKey=' a ')", "),(", " a "),
        ] {
            assert_eq!(
                Resource::parse(&format!("/Tab{predicate}")),
                entity(partition_key, row_key),
                "{predicate}"
            );
        }
    }

    /// Statements 21, 96 to 98, 130, 131.
    #[test]
    fn what_names_nothing() {
        let long = "x".repeat(513);
        for (path, table_error) in [
            ("/a/b", TableError::Common(ApiError::InvalidUri)),
            ("//", TableError::Common(ApiError::InvalidUri)),
            ("///", TableError::Common(ApiError::InvalidUri)),
            ("/Tab//", TableError::Common(ApiError::InvalidUri)),
            ("/Tab/other", TableError::Common(ApiError::InvalidUri)),
            ("/Tab/tables", TableError::Common(ApiError::InvalidUri)),
            ("/Tab/Tables(Tab)", TableError::Common(ApiError::InvalidUri)),
            ("/Tab/Tab(PartitionKey='x',RowKey='y')", TableError::Common(ApiError::InvalidUri)),
            ("/Tab/Tab/Tab", TableError::Common(ApiError::InvalidUri)),
            ("/Tables/Tab", TableError::Common(ApiError::InvalidUri)),
            ("/Tab/%", TableError::Common(ApiError::UrlUnparsable)),
            ("/Tab%/Tab", TableError::Common(ApiError::UrlUnparsable)),
            ("/a%2F%2F", DomainError::TableNameCharacters.into()),
            ("/Tab%2F", DomainError::TableNameCharacters.into()),
            ("/Tab%2FTab", DomainError::TableNameCharacters.into()),
            ("/Tab%2F(PartitionKey='x',RowKey='y')", DomainError::TableNameCharacters.into()),
            ("/()", TableError::Common(ApiError::InvalidUri)),
            ("/Tab%", TableError::Common(ApiError::UrlUnparsable)),
            ("/Tab%4", TableError::Common(ApiError::UrlUnparsable)),
            ("/Tab%zz", TableError::Common(ApiError::UrlUnparsable)),
            ("/Tab(PartitionKey='%FF',RowKey='')", TableError::Common(ApiError::UrlUnparsable)),
            ("/ab", DomainError::TableNameLength.into()),
            ("/a-b", DomainError::TableNameCharacters.into()),
            ("/tables", DomainError::TableNameReserved.into()),
            ("/Tables('ab')", DomainError::TableNameLength.into()),
            ("/Tables(Tab)", TableError::KeyPredicate),
            ("/Tables('Tab','Tab')", TableError::KeyPredicate),
            ("/Tab(PartitionKey='x')", TableError::KeyPredicate),
            ("/Tab(RowKey='x')", TableError::KeyPredicate),
            ("/Tab(PartitionKey='x',PartitionKey='x')", TableError::KeyPredicate),
            ("/Tab(partitionkey='x',rowkey='y')", TableError::KeyPredicate),
            ("/Tab(PartitionKey='x',RowKey='y',Other='z')", TableError::KeyPredicate),
            ("/Tab(PartitionKey='x'RowKey='y')", TableError::KeyPredicate),
            ("/Tab(PartitionKey='x',RowKey='y'", TableError::KeyPredicate),
            ("/Tab(PartitionKey='x',RowKey='y)", TableError::KeyPredicate),
            ("/Tab(PartitionKey='x',RowKey='y')/a", TableError::KeyPredicate),
            ("/Tab('x','y')", TableError::KeyPredicate),
            ("/Tab(", TableError::KeyPredicate),
            ("/Tab(PartitionKey", TableError::KeyPredicate),
            ("/Tab(PartitionKey='a%2Fb',RowKey='y')", TableError::KeyPredicate),
            ("/Tab(PartitionKey='a/b',RowKey='y')", TableError::KeyPredicate),
            ("/Tab(PartitionKey='a',RowKey='%5C')", TableError::KeyPredicate),
            ("/Tab(PartitionKey='a%23',RowKey='y')", DomainError::KeyOutOfRange.into()),
            ("/Tab(PartitionKey='a',RowKey='%3F')", DomainError::KeyOutOfRange.into()),
            ("/Tab(PartitionKey='a',RowKey='%C2%85')", DomainError::KeyOutOfRange.into()),
            (&format!("/Tab(PartitionKey='{long}',RowKey='y')"), DomainError::KeyTooLarge.into()),
        ] {
            assert_eq!(Resource::parse(path), Err(table_error), "{path}");
        }
    }
}
