//! A bounded cache of what was read from a store, entry by entry, each for the length of a lease.
//!
//! Exact for changes through this process: a look-up that begins after a change was answered finds
//! nothing of before. Entries belong to groups (an account); a change of a group forgets the whole
//! group before it commits, and while it is under way nothing of the group is put in. A look-up
//! that began before or during a change is not remembered either, because it may have read what was
//! there before. What another process changes is seen when the lease ends.
//!
//! [`BoundedCache`] bounds it: a full cache evicts one entry at a time.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::bounded_cache::{BoundedCache, Equivalent};

/// What was read lately, by group and name.
pub struct LeasedCache<V> {
    entries: BoundedCache<Key, Entry<V>>,
    /// Groups share stripes: a change of one may forget another too, which costs a read.
    stripes: [Stripe; STRIPES],
    lease: Duration,
}

/// A power of two, so that a stripe is found without a division.
const STRIPES: usize = 64;

/// The changes of the groups of one stripe.
#[derive(Debug, Default)]
struct Stripe {
    /// Counts beginnings and ends.
    generation: AtomicU64,
    under_way: AtomicUsize,
}

impl Stripe {
    /// The generation, unless a change is under way. One that begins after the first look is seen
    /// by the second, or has raised the generation when the entry is put in.
    fn quiet_generation(&self) -> Option<u64> {
        let generation = self.generation.load(Ordering::SeqCst);
        (self.under_way.load(Ordering::SeqCst) == 0).then_some(generation)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    group: String,
    name: String,
}

#[derive(Clone, Copy)]
struct KeyRef<'a> {
    group: &'a str,
    name: &'a str,
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        KeyRef { group: &self.group, name: &self.name }.hash(state);
    }
}

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.group, self.name).hash(state);
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.group == key.group && self.name == key.name
    }
}

struct Entry<V> {
    value: Arc<V>,
    /// Of its stripe, when it was looked up.
    generation: u64,
    since: Instant,
}

impl<V> Clone for Entry<V> {
    fn clone(&self) -> Self {
        Self { value: Arc::clone(&self.value), ..*self }
    }
}

/// A look-up in the store that may be remembered if nothing changes meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct LookUp {
    /// None if a change was under way when it began.
    generation: Option<u64>,
    /// The lease runs from here: what the store answers may be as old.
    begun: Instant,
}

impl<V> LeasedCache<V> {
    /// At most `entries_max`, each for the length of `lease`.
    #[must_use]
    pub fn new(entries_max: usize, lease: Duration) -> Self {
        let stripes = std::array::from_fn(|_| Stripe::default());
        Self { entries: BoundedCache::new(entries_max), stripes, lease }
    }

    /// What is remembered under a name, if it still applies.
    #[must_use]
    pub fn get(&self, group: &str, name: &str) -> Option<Arc<V>> {
        let entry = self.entries.get(&KeyRef { group, name })?;
        let applies = entry.since.elapsed() < self.lease
            && self.stripe(group).generation.load(Ordering::SeqCst) == entry.generation;
        applies.then_some(entry.value)
    }

    /// To be called before the store is asked.
    #[must_use]
    pub fn begin_look_up(&self, group: &str) -> LookUp {
        LookUp { generation: self.stripe(group).quiet_generation(), begun: Instant::now() }
    }

    /// Remembers what a look-up found, unless its group was changed since it began.
    pub fn remember(&self, look_up: LookUp, group: &str, name: &str, value: &Arc<V>) {
        let Some(generation) = look_up.generation else { return };
        if self.stripe(group).quiet_generation() != Some(generation) {
            return;
        }
        // A change that begins right here raises the generation, so that the entry never applies.
        let since = look_up.begun;
        let key = Key { group: group.to_owned(), name: name.to_owned() };
        self.entries.insert(key, Entry { value: Arc::clone(value), generation, since });
    }

    /// Forgets a group. To be held from before a change of it until its outcome is known, by
    /// something that outlives the caller: a client that leaves does not end a commit.
    #[must_use]
    pub fn begin_change(self: &Arc<Self>, group: &str) -> Change<V> {
        let at = stripe_of(group);
        self.stripes[at].under_way.fetch_add(1, Ordering::SeqCst);
        self.stripes[at].generation.fetch_add(1, Ordering::SeqCst);
        Change { cache: Arc::clone(self), stripe: at }
    }

    /// How many entries there are, those that apply no more among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn stripe(&self, group: &str) -> &Stripe {
        &self.stripes[stripe_of(group)]
    }
}

/// Where the changes of a group are counted. Names of accounts are short, and few.
fn stripe_of(group: &str) -> usize {
    let mix = |sum: usize, byte: u8| sum.wrapping_mul(31).wrapping_add(usize::from(byte));
    group.bytes().fold(0, mix) % STRIPES
}

impl<V> fmt::Debug for LeasedCache<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (len, lease) = (self.len(), self.lease);
        f.debug_struct("LeasedCache").field("len", &len).field("lease", &lease).finish()
    }
}

/// A change under way; dropping it ends it.
#[derive(Debug)]
pub struct Change<V> {
    cache: Arc<LeasedCache<V>>,
    stripe: usize,
}

impl<V> Drop for Change<V> {
    fn drop(&mut self) {
        let stripe = &self.cache.stripes[self.stripe];
        stripe.generation.fetch_add(1, Ordering::SeqCst);
        let before = stripe.under_way.fetch_sub(1, Ordering::SeqCst);
        assert!(before > 0, "a change ends once");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEASE: Duration = Duration::from_secs(2);

    fn cache_with_people() -> Arc<LeasedCache<&'static str>> {
        let cache = Arc::new(LeasedCache::new(100, LEASE));
        cache.remember(cache.begin_look_up("one"), "one", "people", &Arc::new("People"));
        cache
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_ends() {
        let cache = cache_with_people();
        assert!(cache.get("one", "people").is_some());
        assert!(cache.get("one", "others").is_none());
        tokio::time::advance(LEASE).await;
        assert!(cache.get("one", "people").is_none());
    }

    #[tokio::test]
    async fn a_change_forgets_its_group() {
        let cache = cache_with_people();
        cache.remember(cache.begin_look_up("two"), "two", "people", &Arc::new("People"));
        let change = cache.begin_change("one");
        assert!(cache.get("one", "people").is_none());
        assert!(cache.get("two", "people").is_some());
        drop(change);
        assert!(cache.get("one", "people").is_none());
    }

    /// Each of them may have read the row that the change replaces.
    #[tokio::test]
    async fn a_look_up_that_meets_a_change_is_not_remembered() {
        let cache = cache_with_people();
        let remember = |look_up| cache.remember(look_up, "one", "people", &Arc::new("People"));
        let before = cache.begin_look_up("one");
        let change = cache.begin_change("one");
        let during = cache.begin_look_up("one");
        remember(before);
        remember(during);
        assert!(cache.get("one", "people").is_none());
        drop(change);
        remember(before);
        remember(during);
        assert!(cache.get("one", "people").is_none());
        remember(cache.begin_look_up("one"));
        assert!(cache.get("one", "people").is_some());
    }

    #[tokio::test]
    async fn a_full_cache_keeps_most_of_what_it_has() {
        let cache = Arc::new(LeasedCache::new(100, LEASE));
        for number in 0..1_000 {
            let name = number.to_string();
            cache.remember(cache.begin_look_up("one"), "one", &name, &Arc::new(number));
        }
        assert!(cache.len() <= 100);
        let kept = (0..1_000).filter(|number| cache.get("one", &number.to_string()).is_some());
        assert!(kept.count() >= 50, "one entry more costs one entry, not all of them");
    }

    proptest! {
        /// A reader never sees a value of before a change that had ended when it began.
        #[test]
        fn no_old_value_is_ever_found(
            steps in proptest::collection::vec((0..4_u8, 0..2_usize, 0..3_usize), 1..60)
        ) {
            let groups = ["one", "two"];
            let cache = Arc::new(LeasedCache::new(4, Duration::from_secs(3600)));
            // What the store has, and look-ups and changes that are under way.
            let mut stored = [[0_u32; 3]; 2];
            let (mut look_ups, mut changes) = (Vec::new(), Vec::new());
            for (step, group, name) in steps {
                let label = name.to_string();
                match step {
                    0 => {
                        let look_up = cache.begin_look_up(groups[group]);
                        look_ups.push((look_up, group, label, stored[group][name]));
                    }
                    1 => if let Some((look_up, group, label, value)) = look_ups.pop() {
                        cache.remember(look_up, groups[group], &label, &Arc::new(value));
                    },
                    2 => {
                        changes.push(cache.begin_change(groups[group]));
                        stored[group][name] += 1;
                    }
                    _ => drop(changes.pop()),
                }
                for (group, values) in stored.iter().enumerate() {
                    for (name, value) in values.iter().enumerate() {
                        if let Some(found) = cache.get(groups[group], &name.to_string()) {
                            prop_assert_eq!(*found, *value);
                        }
                    }
                }
            }
        }
    }
}
