//! New entities, 100 per entity group transaction; also how tables are filled before measuring.

use super::{Source, count, expect_status};
use crate::entity::{BATCH_ENTITIES, ENTITY_BYTES, EntityTemplate, Family};
use crate::failure::{Failure, Result};
use crate::reply::Reply;
use crate::request::{Content, Signer};

const MEDIA_TYPE: &str = "multipart/mixed; boundary=batch_5e5f2a5e-0d0c-4b9c-8e4e-6a1f6b3c2d10";
const OPENING: &str = "--batch_5e5f2a5e-0d0c-4b9c-8e4e-6a1f6b3c2d10\r\n\
    Content-Type: multipart/mixed; boundary=changeset_77a9f4ae-3d34-4c5a-9c4a-0f2d2b1c7e11\r\n\r\n";
const CLOSING: &str = "--changeset_77a9f4ae-3d34-4c5a-9c4a-0f2d2b1c7e11--\r\n\
    --batch_5e5f2a5e-0d0c-4b9c-8e4e-6a1f6b3c2d10--\r\n";

#[derive(Debug)]
pub struct BatchSource<'a> {
    family: Family,
    head: Vec<u8>,
    part: String,
    template: &'a EntityTemplate,
    /// Kept by the caller from round to round: an entity can be inserted once.
    next_index: &'a mut u64,
    /// Where to stop whatever the time, when loading.
    end_index: u64,
}

impl<'a> BatchSource<'a> {
    /// Batches for as long as the round lasts.
    pub fn new(
        signer: &Signer<'_>,
        table: &str,
        template: &'a EntityTemplate,
        next_index: &'a mut u64,
    ) -> Self {
        let part = part(signer, table);
        let entity_bytes = part.len() + ENTITY_BYTES + "\r\n".len();
        let bytes = OPENING.len() + BATCH_ENTITIES as usize * entity_bytes + CLOSING.len();
        let head = signer.post("$batch", Content { media_type: MEDIA_TYPE, bytes });
        Self { family: Family::Batched, head, part, template, next_index, end_index: u64::MAX }
    }

    /// Fills a table with a family, up to `entities`, which is a multiple of 100.
    pub fn load(self, family: Family, entities: u64) -> Self {
        Self { family, end_index: entities, ..self }
    }
}

/// What stands before each entity.
fn part(signer: &Signer<'_>, table: &str) -> String {
    format!(
        "--changeset_77a9f4ae-3d34-4c5a-9c4a-0f2d2b1c7e11\r\n\
         Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
         POST {}/{table} HTTP/1.1\r\nContent-Type: application/json\r\n\
         Accept: application/json;odata=minimalmetadata\r\nPrefer: return-no-content\r\nDataServiceVersion: 3.0\r\n\
         Content-Length: {ENTITY_BYTES}\r\n\r\n",
        signer.site().url()
    )
}

impl Source for BatchSource<'_> {
    fn next(&mut self, _previous: Option<Reply<'_>>, is_over: bool, out: &mut Vec<u8>) -> bool {
        if is_over || *self.next_index >= self.end_index {
            return false;
        }
        out.extend_from_slice(&self.head);
        out.extend_from_slice(OPENING.as_bytes());
        for _ in 0..BATCH_ENTITIES {
            out.extend_from_slice(self.part.as_bytes());
            self.template.render(self.family.key(*self.next_index), out);
            out.extend_from_slice(b"\r\n");
            *self.next_index += 1;
        }
        out.extend_from_slice(CLOSING.as_bytes());
        true
    }

    fn check(&self, reply: Reply<'_>) -> Result<u64> {
        expect_status(reply, 202)?;
        let done = count("HTTP/1.1 204", reply.body);
        if done == BATCH_ENTITIES {
            return Ok(done);
        }
        let body: String = String::from_utf8_lossy(reply.body).chars().take(1_000).collect();
        Err(Failure::new(format!("{done} of {BATCH_ENTITIES} operations were carried out: {body}")))
    }
}
