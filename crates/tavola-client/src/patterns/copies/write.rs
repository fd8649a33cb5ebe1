//! Sources and copies in one transaction.

use super::{COPIES_MAX, Copies, OnDelete, Sourced};
use crate::call::Call;
use crate::client::ATTEMPTS_MAX;
use crate::engine::CallSettings;
use crate::entity::{Entity, Stored};
use crate::error::{Error, ErrorKind, Outcome, Rule};
use crate::key::{EntityKey, PointKey};
use crate::patterns::stamped::{Stamped, all_of, first, refused_at};
use crate::written::Written;

impl<S: Entity, D: Entity> Copies<S, D> {
    /// Reads a source and then its copies; `None` if there is no source. Two requests; one more for
    /// each further 1,000 entities of the copies' kind.
    pub fn source(&self, key: impl Into<PointKey<S>>) -> Call<'_, Option<Sourced<S, D>>> {
        let key = key.into().into_key();
        Call::new(self.table.engine().settings(), move |settings| async move {
            self.read_source(&key?, &settings).await
        })
    }

    /// Writes a source and its copies, if nobody changed any of them since they were read: one
    /// transaction. The new versions are left in `sourced`.
    pub fn replace_source<'a>(&'a self, sourced: &'a mut Sourced<S, D>) -> Call<'a, Written> {
        Call::new(self.table.engine().settings(), move |settings| async move {
            self.write_source(sourced, &settings).await
        })
    }

    /// Reads a source, lets `change` change it, and writes it with its copies; begins anew if
    /// somebody else was faster, ten times at most.
    pub fn modify_source<'a>(
        &'a self,
        key: impl Into<PointKey<S>>,
        mut change: impl FnMut(&mut S) + Send + 'a,
    ) -> Call<'a, Sourced<S, D>> {
        let key = key.into().into_key();
        Call::new(self.table.engine().settings(), move |settings| async move {
            let key = key?;
            for attempt in 0..ATTEMPTS_MAX {
                let found = self.read_source(&key, &settings).await?;
                let mut found = found.ok_or_else(|| self.table.missing(&key))?;
                change(&mut found);
                match self.write_source(&mut found, &settings).await {
                    Ok(_) => return Ok(found),
                    Err(error) if refused_at(&error).is_some() => {}
                    Err(error) => return Err(error),
                }
                self.table.pause_after_conflict(attempt).await;
            }
            Err(self.table.contended(&key))
        })
    }

    /// Adds an entity with what its source says now, which is left in `copy`.
    pub fn insert<'a>(&'a self, copy: &'a mut D) -> Call<'a, Written> {
        Call::new(self.table.engine().settings(), move |settings| async move {
            for attempt in 0..ATTEMPTS_MAX {
                let source = self.fill(copy, &settings).await?;
                let new = Stamped::insert(copy, self.table.engine().runtime.random())?;
                if let Some(written) = self.write_copy(&new, source, &settings).await? {
                    return Ok(written);
                }
                self.table.pause_after_conflict(attempt).await;
            }
            Err(self.table.contended(&copy.entity_key()?))
        })
    }

    /// Writes an entity that may have got another link, with what its source says now, if nobody
    /// changed it since it was read.
    pub fn repoint<'a>(&'a self, copy: &'a mut Stored<D>) -> Call<'a, Written> {
        Call::new(self.table.engine().settings(), move |settings| async move {
            for attempt in 0..ATTEMPTS_MAX {
                let source = self.fill(copy, &settings).await?;
                let new = Stamped::replace(copy, self.table.engine().runtime.random())?;
                if let Some(written) = self.write_copy(&new, source, &settings).await? {
                    new.accept(copy, &written);
                    return Ok(written);
                }
                self.table.pause_after_conflict(attempt).await;
            }
            Err(self.table.contended(copy.key()))
        })
    }

    /// Deletes a source, if nobody changed it since it was read, and does with its copies what was
    /// said: [`Copies::clearing`], [`Copies::deleting_copies`]. By default it must have none.
    pub fn delete_source<'a>(&'a self, sourced: &'a mut Sourced<S, D>) -> Call<'a, Written> {
        Call::new(self.table.engine().settings(), move |settings| async move {
            let count = check_count(sourced)?;
            let random = self.table.engine().runtime.random();
            let mut all = self.table.transaction(sourced.source.key().partition());
            all.delete(&sourced.source)?;
            for copy in &mut sourced.copies {
                match &*self.on_delete {
                    OnDelete::Refuse => return Err(has_copies(sourced.source.key(), count)),
                    OnDelete::DeleteCopies => drop(all.delete(copy)?),
                    OnDelete::Clear(clear) => {
                        clear(copy);
                        Stamped::replace(copy, random)?.add_to(&mut all)?;
                    }
                }
            }
            first(all.send(settings).await?)
        })
    }

    pub(super) async fn read_source(
        &self,
        key: &EntityKey,
        settings: &CallSettings,
    ) -> Result<Option<Sourced<S, D>>, Error> {
        // Making a copy writes the source: while its version stays, there is no new copy.
        let get = self.table.get::<S>(key).with_settings(settings.clone());
        let Some(source) = get.await? else { return Ok(None) };
        let (all, _) = all_of::<D>(&self.table, key.partition(), settings).await?;
        let mut copies = Vec::new();
        for copy in all {
            if self.source_of(&copy)?.as_ref() == Some(key) {
                copies.push(copy);
            }
        }
        Ok(Some(Sourced { source, copies }))
    }

    async fn write_source(
        &self,
        sourced: &mut Sourced<S, D>,
        settings: &CallSettings,
    ) -> Result<Written, Error> {
        check_count(sourced)?;
        let random = self.table.engine().runtime.random();
        let mut all = self.table.transaction(sourced.source.key().partition());
        let source = Stamped::replace(&sourced.source, random)?;
        source.add_to(&mut all)?;
        let mut copies = Vec::with_capacity(sourced.copies.len());
        for copy in &mut sourced.copies {
            (self.copy)(&sourced.source, copy);
            let copy = Stamped::replace(copy, random)?;
            copy.add_to(&mut all)?;
            copies.push(copy);
        }
        let written = all.send(settings.clone()).await?;
        let rows = copies.iter().zip(&mut sourced.copies).zip(written.iter().skip(1));
        rows.for_each(|((new, copy), written)| new.accept(copy, written));
        let written = first(written)?;
        source.accept(&mut sourced.source, &written);
        Ok(written)
    }

    /// Repeats in an entity what its source says, and returns the source.
    async fn fill(
        &self,
        copy: &mut D,
        settings: &CallSettings,
    ) -> Result<Option<Stored<S>>, Error> {
        let Some(key) = self.source_of(copy)? else { return Ok(None) };
        if key.partition() != copy.entity_key()?.partition() {
            let text = format!("the source {key} is not in the partition of its copy");
            return Err(Error::invalid(Rule::Transaction, text));
        }
        let get = self.table.get::<S>(&key).with_settings(settings.clone());
        let source = get.await?.ok_or_else(|| self.table.missing(&key))?;
        (self.copy)(&source, copy);
        Ok(Some(source))
    }

    /// Writes a copy, guarded by its source; `None` if that was changed meanwhile.
    async fn write_copy(
        &self,
        copy: &Stamped,
        source: Option<Stored<S>>,
        settings: &CallSettings,
    ) -> Result<Option<Written>, Error> {
        let mut all = self.table.transaction(copy.partition());
        copy.add_to(&mut all)?;
        if let Some(source) = &source {
            all.guard(source)?;
        }
        match all.send(settings.clone()).await {
            Ok(written) => first(written).map(Some),
            Err(error) if refused_at(&error) == Some(1) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn check_count<S, D>(sourced: &Sourced<S, D>) -> Result<usize, Error> {
    let count = sourced.copies.len();
    if count <= COPIES_MAX {
        return Ok(count);
    }
    let text = format!(
        "{} has {count} copies; one transaction writes it with {COPIES_MAX}, more go in \
         chunks by the outbox (chunked)",
        sourced.source.key()
    );
    Err(Error::beyond(Rule::Transaction, COPIES_MAX, count, text))
}

fn has_copies(key: &EntityKey, count: usize) -> Error {
    let text = format!(
        "{key} has {count} copies; point them at another source first, or say what becomes of them \
         (clearing, deleting_copies)"
    );
    Error::new(ErrorKind::Pattern, Outcome::NotSent, text)
}
