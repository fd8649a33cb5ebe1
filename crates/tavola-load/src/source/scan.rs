//! A whole table or the matches of a filter over the wire, page by page. A page's place is known
//! only from the one before.

use super::{Source, count_entities, expect_status};
use crate::failure::Result;
use crate::reply::{Head, Reply};
use crate::request::Signer;

/// Asks for pages until a scan ends after the round's time.
#[derive(Debug)]
pub struct ScanSource<'a> {
    signer: &'a Signer<'a>,
    resource: String,
    /// `?$filter=…`, or nothing.
    filter: String,
}

impl<'a> ScanSource<'a> {
    pub fn new(signer: &'a Signer<'a>, table: &str) -> Self {
        Self { signer, resource: format!("{table}()"), filter: String::new() }
    }

    /// Only what a filter finds. It is given as people write it.
    pub fn filtered(signer: &'a Signer<'a>, table: &str, filter: &str) -> Self {
        Self { filter: format!("?$filter={}", encode(filter)), ..Self::new(signer, table) }
    }
}

impl Source for ScanSource<'_> {
    fn next(&mut self, previous: Option<Reply<'_>>, is_over: bool, out: &mut Vec<u8>) -> bool {
        let query = previous.and_then(|reply| next_page(reply.head));
        if is_over && query.is_none() {
            return false;
        }
        let query = match query {
            Some(next) if !self.filter.is_empty() => {
                format!("{}&{}", self.filter, next.trim_start_matches('?'))
            }
            Some(next) => next,
            None => self.filter.clone(),
        };
        // Signing costs a microsecond, a page a thousand times that.
        out.extend_from_slice(&self.signer.get(&self.resource, &query));
        true
    }

    fn check(&self, reply: Reply<'_>) -> Result<u64> {
        expect_status(reply, 200)?;
        Ok(count_entities(reply.body))
    }
}

/// The query of the page after this one, if there is one.
pub fn next_page(head: &Head) -> Option<String> {
    let partition_key = head.next_partition_key.as_ref()?;
    let query = format!("?NextPartitionKey={}", encode(partition_key));
    Some(match &head.next_row_key {
        Some(row_key) => format!("{query}&NextRowKey={}", encode(row_key)),
        None => query,
    })
}

/// Tokens are opaque: whatever has a meaning of its own in a query is escaped.
pub(super) fn encode(token: &str) -> String {
    let escape = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'!' | b'*' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    token.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continuation_becomes_a_query() {
        let mut head = Head::default();
        assert_eq!(next_page(&head), None);
        head.next_partition_key = Some("1!4!cA--".into());
        assert_eq!(next_page(&head).as_deref(), Some("?NextPartitionKey=1!4!cA--"));
        head.next_row_key = Some("a+b/c=&".into());
        assert_eq!(
            next_page(&head).as_deref(),
            Some("?NextPartitionKey=1!4!cA--&NextRowKey=a%2Bb%2Fc%3D%26")
        );
    }
}
