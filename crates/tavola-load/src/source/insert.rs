//! New entities, one per request.

use super::{Source, expect_status};
use crate::entity::{ENTITY_BYTES, EntityTemplate, Family};
use crate::failure::Result;
use crate::reply::Reply;
use crate::request::{Content, Signer};

#[derive(Debug)]
pub struct InsertSource<'a> {
    head: Vec<u8>,
    family: Family,
    template: &'a EntityTemplate,
    /// Kept by the caller from round to round: an entity can be inserted once.
    next_index: &'a mut u64,
}

impl<'a> InsertSource<'a> {
    /// To many partitions in turn, or to one, as the family says.
    pub fn new(
        signer: &Signer<'_>,
        table: &str,
        family: Family,
        template: &'a EntityTemplate,
        next_index: &'a mut u64,
    ) -> Self {
        let head =
            signer.post(table, Content { media_type: "application/json", bytes: ENTITY_BYTES });
        Self { head, family, template, next_index }
    }
}

impl Source for InsertSource<'_> {
    fn next(&mut self, _previous: Option<Reply<'_>>, is_over: bool, out: &mut Vec<u8>) -> bool {
        if is_over {
            return false;
        }
        out.extend_from_slice(&self.head);
        self.template.render(self.family.key(*self.next_index), out);
        *self.next_index += 1;
        true
    }

    fn check(&self, reply: Reply<'_>) -> Result<u64> {
        expect_status(reply, 204)?;
        Ok(1)
    }
}
