//! Which transactions of a group go into the next batch, and at which versions.

use std::collections::HashMap;

use tavola_core::Timestamp;
use tavola_store::{CommitResult, Row};

use super::Writer;
use super::attempt::Member;
use super::batch::BATCH_BYTES_MAX;
use crate::plan::{needs_rows, plan_blind, plan_on};
use crate::queue::PendingCommit;
use crate::stats::count;
use crate::versions::nth;

impl Writer {
    /// Plans what fits into one batch, at versions from `first` on. Answers the transactions that
    /// the domain refuses for the rows that were read; the second list is what did not fit.
    pub(super) fn assemble(
        &self,
        group: Vec<PendingCommit>,
        first: Timestamp,
        rows: &HashMap<Vec<u8>, Row>,
    ) -> (Vec<Member>, Vec<PendingCommit>) {
        let (mut members, mut left) = (Vec::new(), Vec::new());
        let (mut bytes, mut refused, size) = (0, 0, group.len());
        for pending in group {
            if bytes >= BATCH_BYTES_MAX {
                left.push(pending);
                continue;
            }
            // All of them were taken together: see `Versions::propose`.
            let Ok(version) = nth(first, members.len()) else {
                left.push(pending);
                continue;
            };
            let writes = if needs_rows(&pending.transaction, pending.now) {
                plan_on(&pending.transaction, version, pending.now, rows)
            } else {
                plan_blind(&pending.transaction, version)
            };
            match writes {
                Ok(writes) => {
                    let member = Member::new(pending, version, writes);
                    if bytes > 0 && bytes + member.bytes() > BATCH_BYTES_MAX {
                        left.push(member.pending);
                        continue;
                    }
                    bytes += member.bytes();
                    members.push(member);
                }
                Err(failed) => {
                    refused += 1;
                    self.refuse(pending, Err(failed));
                }
            }
        }
        assert_eq!(members.len() + left.len() + refused, size, "no transaction is lost");
        (members, left)
    }

    /// Answers a transaction that the domain refuses.
    pub(super) fn refuse(&self, pending: PendingCommit, result: CommitResult) {
        assert!(result.is_err(), "what is refused was not written");
        count(&self.cluster.counters.refusals, 1);
        pending.answer(Ok(result));
    }
}
