//! A child and the numbers of its parent in one transaction.

use super::OneToMany;
use crate::call::Call;
use crate::client::{ATTEMPTS_MAX, Modified, Transaction};
use crate::engine::CallSettings;
use crate::entity::{Entity, Stored};
use crate::error::{Error, Rule};
use crate::key::{EntityKey, PointKey};
use crate::patterns::stamped::{Stamped, first, refused_at};
use crate::written::Written;

impl<P: Entity, C: Entity> OneToMany<P, C> {
    /// Adds a child; its parent must be there.
    pub fn insert<'a>(&'a self, child: &'a C) -> Call<'a, Written> {
        Call::new(self.table.engine().settings(), move |settings| async move {
            let parent = self.parent_beside(child)?;
            let new = Stamped::insert(child, self.table.engine().runtime.random())?;
            let add = |all: &mut Transaction<'_>| new.add_to(all);
            self.write(&parent, &self.amounts(child), add, &settings).await
        })
    }

    /// Deletes a child as it was read, if nobody changed it since.
    pub fn delete<'a>(&'a self, child: &'a Stored<C>) -> Call<'a, Written> {
        Call::new(self.table.engine().settings(), move |settings| async move {
            let parent = self.parent_beside(child)?;
            let less: Vec<i64> = self.amounts(child).iter().map(|amount| -amount).collect();
            let add = |all: &mut Transaction<'_>| all.delete(child).map(drop);
            self.write(&parent, &less, add, &settings).await
        })
    }

    /// Reads a child, lets `change` change it, and writes it with the numbers of its parent; begins
    /// anew if somebody else was faster, ten times at most.
    pub fn modify<'a>(
        &'a self,
        key: impl Into<PointKey<C>>,
        mut change: impl FnMut(&mut C) + Send + 'a,
    ) -> Call<'a, Modified<C>> {
        let key = key.into().into_key();
        Call::new(self.table.engine().settings(), move |settings| async move {
            let key = key?;
            for attempt in 0..ATTEMPTS_MAX {
                let get = self.table.get::<C>(&key).with_settings(settings.clone());
                let mut child = get.await?.ok_or_else(|| self.table.missing(&key))?;
                let (parent, before) = (self.parent_beside(&child)?, self.amounts(&child));
                change(&mut child);
                if self.parent_of(&child)? != parent {
                    let text = "the change gave the child another parent; move it";
                    return Err(Error::invalid(Rule::Request, text));
                }
                let after = self.amounts(&child);
                let more: Vec<i64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
                let new = Stamped::replace(&child, self.table.engine().runtime.random())?;
                let add = |all: &mut Transaction<'_>| new.add_to(all);
                match self.write(&parent, &more, add, &settings).await {
                    Ok(written) => {
                        new.accept(&mut child, &written);
                        return Ok(Modified { entity: child, written: Some(written) });
                    }
                    Err(error) if refused_at(&error) == Some(0) => {}
                    Err(error) => return Err(error),
                }
                self.table.pause_after_conflict(attempt).await;
            }
            Err(self.table.contended(&key))
        })
    }

    /// Sends one operation on a child with what it adds to the numbers of its parent. If somebody
    /// else changed the parent, it is read again, ten times at most.
    async fn write(
        &self,
        parent: &EntityKey,
        more: &[i64],
        add: impl Fn(&mut Transaction<'_>) -> Result<(), Error> + Send + Sync,
        settings: &CallSettings,
    ) -> Result<Written, Error> {
        for attempt in 0..ATTEMPTS_MAX {
            let mut all = self.table.transaction(parent.partition());
            add(&mut all)?;
            self.add_numbers(&mut all, parent, more, settings).await?;
            match all.send(settings.clone()).await {
                Ok(written) => return first(written),
                Err(error) if refused_at(&error) == Some(1) => {}
                Err(error) => return Err(error),
            }
            self.table.pause_after_conflict(attempt).await;
        }
        Err(self.table.contended(parent))
    }

    /// Adds to a transaction the write of a parent with its new numbers, if one changes.
    pub(super) async fn add_numbers(
        &self,
        all: &mut Transaction<'_>,
        parent: &EntityKey,
        more: &[i64],
        settings: &CallSettings,
    ) -> Result<(), Error> {
        if more.iter().all(|more| *more == 0) {
            return Ok(());
        }
        let get = self.table.get::<P>(parent).with_settings(settings.clone());
        let mut found = get.await?.ok_or_else(|| self.table.missing(parent))?;
        let numbers = self.numbers(&mut found);
        let sums: Vec<i64> = numbers.iter().zip(more).map(|(sum, one)| sum + one).collect();
        self.set_numbers(&mut found, &sums);
        Stamped::replace(&found, self.table.engine().runtime.random())?.add_to(all)
    }
}
