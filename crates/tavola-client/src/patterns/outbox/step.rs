//! What is done with work.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use time::OffsetDateTime;

use super::rows::WorkRow;
use crate::client::TableClient;
use crate::error::{Error, Rule};
use crate::key::EntityKey;
use crate::runtime::BoxFuture;

/// Why a step failed. Every error becomes one by `?`.
pub type StepError = Box<dyn StdError + Send + Sync>;

/// What a step came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// The work is done.
    Done,
    /// There was nothing to do, for this reason. It is reported, and the work is over.
    Skipped(String),
}

/// What is done with work of one name. It is done at least once, perhaps by two workers at a time, so
/// doing it again must change nothing.
pub trait Step: Send + Sync + 'static {
    /// The name under which the work is added. It is stored.
    fn name(&self) -> &str;

    /// Does the work. If it fails, it is tried again later.
    fn run(&self, work: Work) -> BoxFuture<'_, Result<Progress, StepError>>;
}

impl<S: Step + ?Sized> Step for Arc<S> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn run(&self, work: Work) -> BoxFuture<'_, Result<Progress, StepError>> {
        (**self).run(work)
    }
}

/// A step that is a closure: see [`step`].
pub struct FnStep<F> {
    name: String,
    run: F,
}

impl<F> fmt::Debug for FnStep<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnStep").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A step that is a closure.
pub fn step<F, R>(name: impl Into<String>, run: F) -> FnStep<F>
where
    F: Fn(Work) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Progress, StepError>> + Send + 'static,
{
    FnStep { name: name.into(), run }
}

impl<F, R> Step for FnStep<F>
where
    F: Fn(Work) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Progress, StepError>> + Send + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&self, work: Work) -> BoxFuture<'_, Result<Progress, StepError>> {
        Box::pin((self.run)(work))
    }
}

/// One piece of work, as a step is given it.
#[derive(Clone)]
pub struct Work {
    table: TableClient,
    row: WorkRow,
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("key", &self.row.key)
            .field("step", &self.row.step)
            .field("attempts", &self.row.attempts)
            .finish_non_exhaustive()
    }
}

impl Work {
    pub(super) fn new(table: &TableClient, row: &WorkRow) -> Self {
        Self { table: table.clone(), row: row.clone() }
    }

    /// What was given to [`super::Outbox::add`].
    ///
    /// # Errors
    /// If the JSON is not one of this type.
    pub fn job<J: DeserializeOwned>(&self) -> Result<J, Error> {
        serde_json::from_str(&self.row.job).map_err(|error| {
            let text = format!("the job of the step `{}` is not as expected", self.row.step);
            Error::invalid(Rule::PropertyText, text).with_source(error)
        })
    }

    /// The partition of the change.
    #[must_use]
    pub fn partition(&self) -> &str {
        self.row.key.partition()
    }

    /// The table of the change.
    #[must_use]
    pub fn table(&self) -> &TableClient {
        &self.table
    }

    /// The row of the work. No other work ever has it, so that a foreign system can recognise by it
    /// what it did already.
    #[must_use]
    pub fn id(&self) -> &EntityKey {
        &self.row.key
    }

    /// How often it was begun, this time included.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.row.attempts
    }

    /// When it was added, by the clock of the writer.
    #[must_use]
    pub fn added(&self) -> OffsetDateTime {
        self.row.added
    }
}
