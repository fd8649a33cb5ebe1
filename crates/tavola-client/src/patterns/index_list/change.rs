//! Changes of entities and of the lists that name them, in one transaction.

use super::held::prepared;
use super::{IndexList, Place};
use crate::call::Call;
use crate::client::{ATTEMPTS_MAX, Transaction};
use crate::engine::CallSettings;
use crate::entity::Entity;
use crate::error::{Error, ErrorKind, Outcome, Rule};
use crate::key::{EntityKey, PointKey};
use crate::patterns::housekeeping::core;
use crate::prepare;
use crate::written::{IfMatch, Mode, Written};

/// One change of one list.
struct Edit {
    value: String,
    /// The escaped id of the member.
    code: String,
    is_add: bool,
}

impl<E: Entity> IndexList<E> {
    /// Sends `change` with the addition of a member to the list of `value`; one that is there
    /// stays. If somebody else changed the list, it is read again and all is sent anew, ten times
    /// at most.
    ///
    /// The list is right if `change` is: let it insert the entity, or write it under its version.
    /// One [`Written`] for each operation of `change`.
    pub fn add_with<'a>(
        &'a self,
        change: Transaction<'a>,
        value: impl Into<String>,
        member: impl Into<PointKey<E>>,
    ) -> Call<'a, Vec<Written>> {
        self.change(change, member.into(), vec![(value.into(), true)])
    }

    /// Sends `change` with the removal of a member from the list of `value`; one that is not there
    /// need not go.
    pub fn remove_with<'a>(
        &'a self,
        change: Transaction<'a>,
        value: impl Into<String>,
        member: impl Into<PointKey<E>>,
    ) -> Call<'a, Vec<Written>> {
        self.change(change, member.into(), vec![(value.into(), false)])
    }

    /// Sends `change` with the move of a member from the list of `old` to that of `new`.
    pub fn rename_with<'a>(
        &'a self,
        change: Transaction<'a>,
        old: impl Into<String>,
        new: impl Into<String>,
        member: impl Into<PointKey<E>>,
    ) -> Call<'a, Vec<Written>> {
        let (old, new) = (old.into(), new.into());
        let removal = (old != new).then_some((old, false));
        let edits = removal.into_iter().chain([(new, true)]).collect();
        self.change(change, member.into(), edits)
    }

    fn change<'a>(
        &'a self,
        change: Transaction<'a>,
        member: PointKey<E>,
        edits: Vec<(String, bool)>,
    ) -> Call<'a, Vec<Written>> {
        Call::new(self.table.engine().settings(), move |settings| async move {
            let member = member.into_key()?;
            if member.partition() != change.partition() || change.table() != self.table.name() {
                let text =
                    format!("{member} is not where the transaction is: one partition has both");
                return Err(Error::invalid(Rule::Transaction, text));
            }
            let code = Self::code(&member)?;
            let edit = |(value, is_add)| Edit { value, code: code.clone(), is_add };
            let edits = edits.into_iter().map(edit).collect();
            match self.place {
                Place::List => self.change_lists(&change, edits, &settings).await,
                Place::Rows => self.change_rows(&change, edits, &settings).await,
            }
        })
    }

    async fn change_lists(
        &self,
        change: &Transaction<'_>,
        edits: Vec<Edit>,
        settings: &CallSettings,
    ) -> Result<Vec<Written>, Error> {
        for attempt in 0..ATTEMPTS_MAX {
            let mut all = change.again();
            for edit in &edits {
                let (mut held, _) = self.load(change.partition(), &edit.value, settings).await?;
                match edit.is_add {
                    true => held.add(&edit.code)?,
                    false => held.remove(&edit.code),
                }
                held.stage(&mut all, self.table.engine().runtime.random())?;
            }
            match all.send(settings.clone()).await {
                Ok(written) => return Ok(own(written, change)),
                Err(error) => match failed_behind(&error, change) {
                    Some(_) => self.table.pause_after_conflict(attempt).await,
                    None => return Err(error),
                },
            }
        }
        let value = edits.last().map_or("", |edit| edit.value.as_str());
        let key = EntityKey::new(change.partition(), format!("{}00", self.base(value)))?;
        Err(self.table.contended(&key))
    }

    /// Rows of members are written whatever is there: nobody else writes them without the entity.
    async fn change_rows(
        &self,
        change: &Transaction<'_>,
        mut edits: Vec<Edit>,
        settings: &CallSettings,
    ) -> Result<Vec<Written>, Error> {
        loop {
            let mut all = change.again();
            for edit in &edits {
                let row = format!("{}{}", self.base(&edit.value), edit.code);
                let key = EntityKey::new(change.partition(), row)?;
                let (name, operation) = if edit.is_add {
                    let random = self.table.engine().runtime.random();
                    ("upsert", prepared(&key, None, random)?.upsert(Mode::Replace))
                } else {
                    ("delete", prepare::delete(&core(&key), &IfMatch::Any)?)
                };
                all.add(name, core(&key), operation)?;
            }
            match all.send(settings.clone()).await {
                Ok(written) => return Ok(own(written, change)),
                Err(error) => match failed_behind(&error, change) {
                    // What is to go is not there.
                    Some(at) if at < edits.len() && error.is_not_found() => {
                        edits.remove(at);
                    }
                    _ => return Err(error),
                },
            }
        }
    }
}

fn own(mut written: Vec<Written>, change: &Transaction<'_>) -> Vec<Written> {
    written.truncate(change.len());
    written
}

/// Which operation behind those of `change` was refused because its row is not as it was read;
/// nothing was applied.
fn failed_behind(error: &Error, change: &Transaction<'_>) -> Option<usize> {
    let ErrorKind::Transaction { index: Some(index) } = *error.kind() else { return None };
    let is_conflict = matches!(error.status(), Some(404 | 409 | 412));
    let is_settled = is_conflict && error.outcome() == Outcome::NotApplied;
    index.checked_sub(change.len()).filter(|_| is_settled)
}
