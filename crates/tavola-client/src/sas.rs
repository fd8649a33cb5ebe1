//! Shared access signatures, made without asking anybody.

mod issuer;

use std::fmt;
use std::ops::BitOr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use issuer::SasIssuer;
use tavola_protocol::auth::TableSas;
use time::OffsetDateTime;

use crate::client::TableClient;
use crate::error::{Error, ErrorKind, Outcome, Rule};
use crate::key::{KeyRange, Span};

/// The version of the signed text.
const VERSION: &str = "2019-02-02";
/// Clocks differ: a signature begins to count so much before it is made.
const CLOCK_SKEW: Duration = Duration::from_secs(15 * 60);

/// What a signature allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Permissions(u8);

impl Permissions {
    /// Reading and querying.
    pub const READ: Self = Self(1);
    /// Inserting.
    pub const ADD: Self = Self(2);
    /// Changing; with [`Permissions::ADD`] also upserting.
    pub const UPDATE: Self = Self(4);
    /// Deleting.
    pub const DELETE: Self = Self(8);

    fn letters(self) -> String {
        let all = [(Self::READ, 'r'), (Self::ADD, 'a'), (Self::UPDATE, 'u'), (Self::DELETE, 'd')];
        all.iter().filter(|(one, _)| self.0 & one.0 != 0).map(|(_, letter)| *letter).collect()
    }
}

impl BitOr for Permissions {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What a signature opens: a table, what is allowed there, and perhaps a range of keys.
///
/// ```
/// # fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::{DynEntity, KeyRange, Permissions, SasScope};
///
/// let own = KeyRange::<DynEntity>::partition("000123");
/// let scope = SasScope::table("claims", Permissions::READ | Permissions::ADD).only(own)?;
/// # let _ = scope;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SasScope {
    /// Without its times.
    fields: TableSas,
}

impl SasScope {
    /// A whole table.
    #[must_use]
    pub fn table(name: impl Into<String>, permissions: Permissions) -> Self {
        let fields = TableSas {
            version: VERSION.to_owned(),
            table: name.into(),
            permissions: permissions.letters(),
            ..TableSas::default()
        };
        Self { fields }
    }

    /// Only the entities of this range of keys: a cursor (`Claim::key().user(123)`), or a
    /// [`KeyRange`].
    ///
    /// # Errors
    /// If a key part does not fit its template.
    pub fn only<E>(mut self, keys: impl Into<KeyRange<E>>) -> Result<Self, Error> {
        let keys = keys.into();
        let spans = keys.spans()?;
        let fields = &mut self.fields;
        (fields.start_partition_key, fields.end_partition_key) = bounds(&spans.partition);
        // Rows count only within one partition at either end.
        if matches!(spans.partition, Span::One(_)) {
            (fields.start_row_key, fields.end_row_key) = bounds(&spans.row);
        }
        Ok(self)
    }

    /// Under a stored access policy, by which it can be revoked.
    #[must_use]
    pub fn policy(mut self, id: impl Into<String>) -> Self {
        self.fields.policy = id.into();
        self
    }

    /// Only from this address, or from a range `a-b`.
    #[must_use]
    pub fn ip(mut self, ip: impl Into<String>) -> Self {
        self.fields.ip = ip.into();
        self
    }
}

fn no_key() -> Error {
    let text = "only a client with the account's key can sign";
    Error::new(ErrorKind::Credential, Outcome::NotSent, text)
}

/// A shared access signature for one table while it is made.
#[must_use = "nothing is signed before build"]
pub struct TableSasBuilder<'a> {
    client: &'a TableClient,
    scope: Result<SasScope, Error>,
    valid: Duration,
}

impl fmt::Debug for TableSasBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableSasBuilder").field("scope", &self.scope).finish_non_exhaustive()
    }
}

impl TableClient {
    /// A shared access signature for this table, for so long from now. It is made here, with the
    /// account's key; nobody is asked.
    ///
    /// ```
    /// # fn main() -> Result<(), tavola_client::Error> {
    /// use std::time::Duration;
    /// use tavola_client::{Account, Permissions};
    ///
    /// let table = Account::development().tables()?.table_client("claims");
    /// let query = table.sas(Permissions::READ, Duration::from_secs(3600)).build()?;
    /// assert!(query.contains("tn=claims") && query.contains("sig="));
    /// # Ok(())
    /// # }
    /// ```
    pub fn sas(&self, permissions: Permissions, valid: Duration) -> TableSasBuilder<'_> {
        let scope = Ok(SasScope::table(self.name(), permissions));
        TableSasBuilder { client: self, scope, valid }
    }
}

impl TableSasBuilder<'_> {
    /// Only for the entities of this range of keys.
    pub fn only<E>(self, keys: impl Into<KeyRange<E>>) -> Self {
        Self { scope: self.scope.and_then(|scope| scope.only(keys)), ..self }
    }

    /// Under a stored access policy, by which it can be revoked.
    pub fn policy(self, id: impl Into<String>) -> Self {
        Self { scope: self.scope.map(|scope| scope.policy(id)), ..self }
    }

    /// Only from this address, or from a range `a-b`.
    pub fn ip(self, ip: impl Into<String>) -> Self {
        Self { scope: self.scope.map(|scope| scope.ip(ip)), ..self }
    }

    /// The signature: a query string without `?`.
    ///
    /// # Errors
    /// If the client has no account key, or a key part does not fit.
    pub fn build(self) -> Result<String, Error> {
        let scope = self.scope?;
        let account = self.client.service().account.as_ref().ok_or_else(no_key)?;
        let issuer = SasIssuer::new(account, self.valid)?;
        let issuer = issuer.with_runtime(Arc::clone(&self.client.engine().runtime));
        Ok(issuer.issue(&scope)?.text().to_owned())
    }
}

/// First and last key of a span; both are inclusive, and empty is unbounded.
fn bounds(span: &Span) -> (String, String) {
    match span {
        Span::One(key) => (key.clone(), key.clone()),
        Span::Between(from, to) => {
            let from = from.clone().unwrap_or_default();
            (from, to.as_deref().map(last_before).unwrap_or_default())
        }
    }
}

/// A key below `end` and above all that templates write below it: `~` is above every symbol that
/// can come first, and `~~` above those that may follow `.`, `>` and `[`.
fn last_before(end: &str) -> String {
    let mut text = end.to_owned();
    let Some(last) = text.pop() else { return String::new() };
    let tail = match last {
        // What is just below these stands in no key; it is written as the symbol below and `~`.
        '0' => ".~~".to_owned(),
        '@' => ">~~".to_owned(),
        ']' => "[~~".to_owned(),
        '$' => "\"~".to_owned(),
        other => {
            let before = char::from_u32(u32::from(other).saturating_sub(1)).unwrap_or(' ');
            format!("{before}~")
        }
    };
    text + &tail
}

fn text(at: SystemTime) -> Result<String, Error> {
    let invalid = || Error::invalid(Rule::DateRange, "the time of the signature is out of range");
    let since = at.duration_since(SystemTime::UNIX_EPOCH).map_err(|_| invalid())?;
    let seconds = i64::try_from(since.as_secs()).map_err(|_| invalid())?;
    let at = OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| invalid())?;
    let month = u8::from(at.month());
    Ok(format!(
        "{:04}-{month:02}-{:02}T{:02}:{:02}:{:02}Z",
        at.year(),
        at.day(),
        at.hour(),
        at.minute(),
        at.second()
    ))
}

#[cfg(test)]
mod tests {
    use super::{Permissions, bounds, last_before, text};
    use crate::key::Span;

    #[test]
    fn permissions_are_letters() {
        assert_eq!((Permissions::DELETE | Permissions::READ).letters(), "rd");
    }

    #[test]
    fn an_open_end_becomes_a_closed_one() {
        assert_eq!(last_before("empid`"), "empid_~");
        for (end, inside) in [
            ("empid`", "empid_zzz"),
            ("empid_000200", "empid_000199!x"),
            ("a0", "a.~"),
            ("b@", "b>~x"),
        ] {
            let last = last_before(end);
            assert!(last.as_str() < end, "{last} {end}");
            assert!(inside <= last.as_str(), "{inside} {last}");
        }
        assert_eq!(bounds(&Span::One("a".into())), ("a".into(), "a".into()));
        assert_eq!(bounds(&Span::ALL), (String::new(), String::new()));
    }

    #[test]
    fn times_are_in_seconds() {
        let at = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(1_000_900);
        assert_eq!(text(at).unwrap(), "1970-01-01T00:16:40Z");
    }
}
