//! Where a query goes on.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tavola_protocol::table::encode::NextPage;

use crate::error::{Error, Rule};

const PREFIX: &str = "tv1.";

/// Where a query goes on: display it, keep it, parse it, and give it to the same query, also in
/// another process. Another query refuses it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use futures_util::TryStreamExt as _;
/// use tavola_client::{Continuation, DynEntity, TableServiceClient};
///
/// # let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// # let table = service.table_client("people");
/// # table.create().await?;
/// # for row in ["1", "2"] { table.insert(&DynEntity::new("Smith", row)).await?; }
/// let page = table.scan::<DynEntity>().page_size(1).pages().try_next().await?;
/// let kept = page.and_then(|page| page.next).map(|token| token.to_string());
/// // Later, perhaps elsewhere:
/// let token = kept.map(|text| text.parse::<Continuation>()).transpose()?;
/// let next = table.scan::<DynEntity>().resume(token).stream().try_next().await?;
/// assert_eq!(next.expect("there are two").row(), "2");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Continuation {
    query: u64,
    partition: Option<String>,
    row: Option<String>,
}

impl Continuation {
    pub(crate) fn new(query: u64, page: NextPage) -> Self {
        Self { query, partition: page.partition_key, row: page.row_key }
    }

    /// The page, if the token is one of the query with this hash.
    pub(crate) fn page_of(&self, query: u64) -> Result<NextPage, Error> {
        if self.query != query {
            let text = "the continuation is of another query: table, filter and selection must be \
                        the same";
            return Err(Error::invalid(Rule::Continuation, text));
        }
        let (partition_key, row_key) = (self.partition.clone(), self.row.clone());
        Ok(NextPage { partition_key, row_key, table_name: None })
    }
}

/// The hash by which a query knows its own tokens (FNV-1a): it never changes, because tokens are
/// kept.
pub(crate) fn query_hash(parts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        // No byte of UTF-8 is 255, so that parts cannot run into each other.
        for byte in part.bytes().chain([255]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

impl fmt::Display for Continuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = self.query.to_be_bytes().to_vec();
        for part in [&self.partition, &self.row] {
            match part {
                None => bytes.push(0),
                Some(text) => {
                    bytes.push(1);
                    let length = u32::try_from(text.len()).map_err(|_| fmt::Error)?;
                    bytes.extend_from_slice(&length.to_be_bytes());
                    bytes.extend_from_slice(text.as_bytes());
                }
            }
        }
        write!(f, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl fmt::Debug for Continuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Continuation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).ok_or_else(|| {
            Error::invalid(Rule::Continuation, "this is not a continuation; was it cut off?")
        })
    }
}

fn parse(text: &str) -> Option<Continuation> {
    let bytes = URL_SAFE_NO_PAD.decode(text.trim().strip_prefix(PREFIX)?).ok()?;
    let (query, mut rest) = bytes.split_first_chunk::<8>()?;
    let mut part = || -> Option<Option<String>> {
        let (tag, after) = rest.split_first()?;
        if *tag == 0 {
            rest = after;
            return Some(None);
        }
        let (length, after) = after.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (text, after) = after.split_at_checked(length).filter(|_| *tag == 1)?;
        rest = after;
        Some(Some(String::from_utf8(text.to_vec()).ok()?))
    };
    let (partition, row) = (part()?, part()?);
    rest.is_empty().then(|| Continuation { query: u64::from_be_bytes(*query), partition, row })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Continuation, query_hash};

    proptest! {
        /// G61.
        #[test]
        fn tokens_survive_being_text(
            query in any::<u64>(),
            partition in any::<Option<String>>(),
            row in any::<Option<String>>(),
        ) {
            let token = Continuation { query, partition, row };
            let text = token.to_string();
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)));
            prop_assert_eq!(text.parse::<Continuation>().unwrap(), token);
        }

        #[test]
        fn no_text_is_too_odd(text in any::<String>(), tail in "tv1\\.[A-Za-z0-9_-]{0,40}") {
            let _ = (text.parse::<Continuation>().is_ok(), tail.parse::<Continuation>().is_ok());
        }
    }

    #[test]
    fn tokens_are_for_one_query() {
        let hash = query_hash(&["employees", "PartitionKey eq 'Sales'", ""]);
        assert_eq!(hash, query_hash(&["employees", "PartitionKey eq 'Sales'", ""]));
        assert_ne!(query_hash(&["ab", "c"]), query_hash(&["a", "bc"]));
        let page = tavola_protocol::table::encode::NextPage {
            partition_key: Some("1!4!MQ--".to_owned()),
            ..Default::default()
        };
        let token = Continuation::new(hash, page.clone());
        assert_eq!(token.page_of(hash).unwrap(), page);
        assert!(token.page_of(hash + 1).unwrap_err().to_string().contains("another query"));
        assert!("tv1.AAAA".parse::<Continuation>().is_err());
    }
}
