//! The query string of a request: the parameters that the protocol knows.

use std::borrow::Cow;
use std::time::Duration;

use tavola_core::filter::{self, Filter};
use tavola_core::limits::{PAGE_ENTITIES_MAX, SELECT_NAMES_MAX};
use tavola_core::request::{Continuation, EntityQuery, Select, TablesQuery};
use tavola_core::{PartitionKey, RowKey, TableName};

use super::continuation;
use crate::api_error::ApiError;
use crate::query_string::{TIMEOUT_SECONDS_MAX, decode_form};
use crate::table::error::TableError;

/// A parameter that has a meaning here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parameter {
    Filter,
    Select,
    Top,
    Format,
    Timeout,
    NextPartitionKey,
    NextRowKey,
    NextTableName,
    Comp,
    RestType,
}

impl Parameter {
    const ALL: [Self; 10] = [
        Self::Filter,
        Self::Select,
        Self::Top,
        Self::Format,
        Self::Timeout,
        Self::NextPartitionKey,
        Self::NextRowKey,
        Self::NextTableName,
        Self::Comp,
        Self::RestType,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Filter => "$filter",
            Self::Select => "$select",
            Self::Top => "$top",
            Self::Format => "$format",
            Self::Timeout => "timeout",
            Self::NextPartitionKey => "NextPartitionKey",
            Self::NextRowKey => "NextRowKey",
            Self::NextTableName => "NextTableName",
            Self::Comp => "comp",
            Self::RestType => "restype",
        }
    }
}

/// A query string taken apart. Reading never fails, because the answer to a bad request needs some
/// of it too; what is wrong is kept for [`Query::check`].
#[derive(Debug, Default)]
pub(crate) struct Query<'a> {
    values: [Option<Cow<'a, str>>; Parameter::ALL.len()],
    fault: Option<TableError>,
}

impl<'a> Query<'a> {
    pub(crate) fn parse(query: Option<&'a str>) -> Self {
        let mut parsed = Self::default();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let Err(fault) = parsed.take(name, value) {
                parsed.fault.get_or_insert(fault);
            }
        }
        parsed
    }

    fn take(&mut self, name: &str, value: &'a str) -> Result<(), TableError> {
        let Some(name) = decode_form(name) else {
            return Err(TableError::Common(ApiError::UrlUnparsable));
        };
        let Some(parameter) = Parameter::ALL.into_iter().find(|parameter| parameter.name() == name)
        else {
            // `$orderby` and its like; a parameter without a dollar that we do not know is ignored.
            return if name.starts_with('$') {
                Err(TableError::Common(ApiError::NotImplemented))
            } else {
                Ok(())
            };
        };
        let slot = &mut self.values[parameter as usize];
        match decode_form(value) {
            Some(decoded) if slot.is_none() => {
                *slot = Some(decoded);
                Ok(())
            }
            _ => Err(TableError::Common(ApiError::InvalidQueryParameter {
                name: parameter.name(),
                value: value.to_owned(),
            })),
        }
    }

    /// What is wrong with the query string as such.
    pub(crate) fn check(&self) -> Result<(), TableError> {
        self.fault.clone().map_or(Ok(()), Err)
    }

    pub(crate) fn get(&self, parameter: Parameter) -> Option<&str> {
        self.values[parameter as usize].as_deref()
    }

    pub(crate) fn invalid(&self, parameter: Parameter) -> TableError {
        let value = self.get(parameter).unwrap_or_default().to_owned();
        TableError::Common(ApiError::InvalidQueryParameter { name: parameter.name(), value })
    }

    /// True for the operations whose bodies are XML.
    pub(crate) fn is_xml_operation(&self) -> bool {
        self.get(Parameter::RestType) == Some("service") || self.get(Parameter::Comp) == Some("acl")
    }

    pub(crate) fn timeout(&self) -> Result<Option<Duration>, TableError> {
        let Some(text) = self.get(Parameter::Timeout) else {
            return Ok(None);
        };
        let seconds: u64 = text.parse().map_err(|_| self.invalid(Parameter::Timeout))?;
        Ok(Some(Duration::from_secs(seconds.clamp(1, TIMEOUT_SECONDS_MAX))))
    }

    /// `$select`: empty and `*` mean everything.
    pub(crate) fn select(&self) -> Result<Select, TableError> {
        let text = self.get(Parameter::Select).unwrap_or_default();
        let mut names: Vec<String> = Vec::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            if name == "*" {
                return Ok(Select::All);
            }
            if names.len() == SELECT_NAMES_MAX {
                return Err(TableError::Common(ApiError::InvalidInput));
            }
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        Ok(if names.is_empty() { Select::All } else { Select::Names(names) })
    }

    pub(crate) fn entity_query(&self) -> Result<EntityQuery, TableError> {
        Ok(EntityQuery { filter: self.filter()?, top: self.top()?, from: self.continuation()? })
    }

    pub(crate) fn tables_query(&self) -> Result<TablesQuery, TableError> {
        let from = self.get(Parameter::NextTableName).map(decode_token).transpose()?;
        // A token is text of the client's: only a legal name may become a key of the catalogue.
        let from = from
            .map(|name| TableName::parse(&name))
            .transpose()
            .map_err(|_| TableError::Common(ApiError::InvalidInput))?;
        Ok(TablesQuery { filter: self.filter()?, top: self.top()?, from })
    }

    fn filter(&self) -> Result<Option<Filter>, TableError> {
        Ok(filter::parse::parse(self.get(Parameter::Filter).unwrap_or_default())?)
    }

    fn top(&self) -> Result<Option<usize>, TableError> {
        let Some(text) = self.get(Parameter::Top) else {
            return Ok(None);
        };
        let top = text.parse().ok().filter(|top| *top <= PAGE_ENTITIES_MAX);
        top.map(Some).ok_or(TableError::Common(ApiError::InvalidInput))
    }

    /// A row to go on from needs its partition; a partition alone goes on at its first row.
    fn continuation(&self) -> Result<Option<Continuation>, TableError> {
        let partition_key = self.get(Parameter::NextPartitionKey).map(decode_token).transpose()?;
        let row_key = self.get(Parameter::NextRowKey).map(decode_token).transpose()?;
        let row_key = row_key
            .map(RowKey::new)
            .transpose()
            .map_err(|_| TableError::Common(ApiError::InvalidInput))?;
        match (partition_key, row_key) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(TableError::Common(ApiError::InvalidInput)),
            (Some(partition_key), row_key) => {
                let partition_key = PartitionKey::new(partition_key)
                    .map_err(|_| TableError::Common(ApiError::InvalidInput))?;
                Ok(Some(Continuation { partition_key, row_key }))
            }
        }
    }
}

fn decode_token(token: &str) -> Result<String, TableError> {
    continuation::decode(token).ok_or(TableError::Common(ApiError::InvalidInput))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tavola_core::TableName;
    use tavola_core::request::Select;

    use super::{Parameter, Query};
    use crate::api_error::ApiError;
    use crate::table::continuation;
    use crate::table::error::TableError;

    #[test]
    fn names_and_values_are_decoded() {
        let query = Query::parse(Some("%24filter=a%20eq+%27b%2Bc%27&comp=acl&x=y&&flag"));
        assert_eq!(query.get(Parameter::Filter), Some("a eq 'b+c'"));
        assert_eq!(query.get(Parameter::Comp), Some("acl"));
        assert_eq!(query.check(), Ok(()));
    }

    #[test]
    fn faults() {
        let invalid = |name, value: &str| {
            TableError::Common(ApiError::InvalidQueryParameter { name, value: value.to_owned() })
        };
        for (query, fault) in [
            ("$orderby=a", TableError::Common(ApiError::NotImplemented)),
            ("$skip=1", TableError::Common(ApiError::NotImplemented)),
            ("comp=acl&comp=stats", invalid("comp", "stats")),
            ("$filter=%zz", invalid("$filter", "%zz")),
            ("$filter=%FF", invalid("$filter", "%FF")),
            ("%zz=1", TableError::Common(ApiError::UrlUnparsable)),
        ] {
            assert_eq!(Query::parse(Some(query)).check(), Err(fault), "{query}");
        }
    }

    #[test]
    fn top() {
        let top = |text: &str| Query::parse(Some(text)).entity_query().map(|query| query.top);
        assert_eq!(top(""), Ok(None));
        assert_eq!(top("$top=0"), Ok(Some(0)));
        assert_eq!(top("$top=1000"), Ok(Some(1000)));
        for bad in ["$top=1001", "$top=-1", "$top=abc", "$top=", "$top=99999999999999999999999"] {
            assert_eq!(top(bad), Err(TableError::Common(ApiError::InvalidInput)), "{bad}");
        }
    }

    #[test]
    fn select() {
        let names =
            |names: &[&str]| Select::Names(names.iter().map(|&name| name.to_owned()).collect());
        let select = |text: &str| Query::parse(Some(text)).select();
        assert_eq!(select(""), Ok(Select::All));
        assert_eq!(select("$select="), Ok(Select::All));
        assert_eq!(select("$select=*"), Ok(Select::All));
        assert_eq!(select("$select=age,%20sex,age"), Ok(names(&["age", "sex"])));
        let many = |count: usize| (0..count).map(|n| format!("p{n}")).collect::<Vec<_>>().join(",");
        assert!(select(&format!("$select={}", many(255))).is_ok());
        assert_eq!(
            select(&format!("$select={}", many(256))),
            Err(TableError::Common(ApiError::InvalidInput))
        );
    }

    #[test]
    fn timeouts() {
        let timeout = |text: &str| Query::parse(Some(text)).timeout();
        assert_eq!(timeout(""), Ok(None));
        assert_eq!(timeout("timeout=5"), Ok(Some(Duration::from_secs(5))));
        assert_eq!(timeout("timeout=0"), Ok(Some(Duration::from_secs(1))));
        assert_eq!(timeout("timeout=90"), Ok(Some(Duration::from_secs(30))));
        assert!(timeout("timeout=soon").is_err());
    }

    /// Statements 203 to 205.
    #[test]
    fn continuations() {
        let from = |text: &str| Query::parse(Some(text)).entity_query().map(|query| query.from);
        let (p, r) = (continuation::encode("é"), continuation::encode(""));
        assert_eq!(from(""), Ok(None));
        let both = from(&format!("NextPartitionKey={p}&NextRowKey={r}")).unwrap().unwrap();
        assert_eq!((both.partition_key.as_str(), both.row_key.unwrap().as_str()), ("é", ""));
        let partition = from(&format!("NextPartitionKey={p}")).unwrap().unwrap();
        assert_eq!((partition.partition_key.as_str(), partition.row_key), ("é", None));
        let slash = continuation::encode("a/b");
        for bad in [
            format!("NextRowKey={r}"),
            format!("NextPartitionKey={p}&NextRowKey="),
            "NextPartitionKey=".to_owned(),
            "NextPartitionKey=broken".to_owned(),
            format!("NextPartitionKey={slash}"),
        ] {
            assert_eq!(from(&bad), Err(TableError::Common(ApiError::InvalidInput)), "{bad}");
        }
    }

    /// A token whose content was no name became a key of the catalogue, which it cannot be: a panic
    /// from a socket.
    #[test]
    fn continuations_of_tables() {
        let from = |text: &str| {
            let target = format!("NextTableName={}", continuation::encode(text));
            Query::parse(Some(&target)).tables_query().map(|query| query.from)
        };
        assert_eq!(from("abc"), Ok(Some(TableName::parse("ABC").unwrap())));
        for bad in [
            "/",
            "",
            "ab",
            "a b c",
            "mytable2\u{1}01d7ae8288064e13",
            "Tables",
            &"a".repeat(64),
            &"a".repeat(1025),
        ] {
            assert_eq!(from(bad), Err(TableError::Common(ApiError::InvalidInput)), "{bad}");
        }
    }
}
