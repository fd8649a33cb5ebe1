//! How much work there is, and how old it is.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use time::OffsetDateTime;

use super::Outbox;
use super::rows::{self, WorkRow, now};
use crate::call::Call;

/// What is in an outbox.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OutboxStatus {
    /// Pieces of work that are not done.
    pub waiting: usize,
    /// When the oldest of them was added, by the clock of its writer.
    pub oldest: Option<OffsetDateTime>,
    /// Its age; nothing if there is none.
    pub lag: Duration,
    /// How often the most tried of them was begun.
    pub attempts_max: u32,
    /// Pieces of work that are parked.
    pub poisoned: usize,
}

impl Outbox {
    /// What is in the outbox: two requests, and one for each hinted partition.
    pub fn status(&self) -> Call<'_, OutboxStatus> {
        Call::new(self.table.engine().settings(), move |settings| async move {
            let mut status = OutboxStatus::default();
            for partition in self.hints(None, &settings).await?.into_keys() {
                let mut rows = rows::query(&self.table, &partition, &settings).stream();
                while let Some(row) = rows.try_next().await? {
                    let row = WorkRow::read(&row)?;
                    status.waiting += 1;
                    status.oldest = Some(status.oldest.map_or(row.added, |at| at.min(row.added)));
                    status.attempts_max = status.attempts_max.max(row.attempts);
                }
            }
            status.lag = status.oldest.map_or(Duration::ZERO, |at| age(at, now(&self.table)));
            status.poisoned = self.poisoned().with_settings(settings).await?.len();
            Ok(status)
        })
    }
}

/// How old it is; nothing if a clock is slow.
pub(super) fn age(at: OffsetDateTime, now: OffsetDateTime) -> Duration {
    Duration::try_from(now - at).unwrap_or_default()
}
