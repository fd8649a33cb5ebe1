//! The one cache with a bound on its entries: a full cache evicts one entry for a new one.
//!
//! It only bounds. Why nobody reads an old value is a rule of its user: [`LeasedCache`] has a lease
//! and generations, hints of a cluster are checked by the condition of the write that uses them,
//! verified tokens carry the generation of their keys.
//!
//! Which entry goes is the policy of `quick_cache` (S3-FIFO): one that was read again outlives one
//! that was read once. Memory grows with the entries, not with the bound.
//!
//! [`LeasedCache`]: crate::LeasedCache

use std::fmt;
use std::hash::Hash;

pub use quick_cache::Equivalent;
use quick_cache::sync::Cache;

/// At most a fixed number of entries. Each access locks one part of the cache for a moment.
pub struct BoundedCache<K, V> {
    entries: Cache<K, V>,
}

impl<K: Eq + Hash, V: Clone> BoundedCache<K, V> {
    /// An empty cache of at most `entries_max` entries.
    #[must_use]
    pub fn new(entries_max: usize) -> Self {
        assert!(entries_max > 0, "a cache without entries is none");
        Self { entries: Cache::new(entries_max) }
    }

    /// A copy of the value under a key.
    #[must_use]
    pub fn get<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<V> {
        self.entries.get(key)
    }

    /// Replaces the value under a key, or adds it. A full cache evicts another entry.
    pub fn insert(&self, key: K, value: V) {
        self.entries.insert(key, value);
    }

    /// Removes all entries that do not satisfy `keep`. It visits every entry.
    pub fn retain(&self, keep: impl Fn(&K, &V) -> bool) {
        self.entries.retain(keep);
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<K: Eq + Hash, V: Clone> fmt::Debug for BoundedCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundedCache").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::BoundedCache;

    #[test]
    fn a_full_cache_evicts_some_and_not_all() {
        const ENTRIES_MAX: usize = 1024;
        let cache = BoundedCache::new(ENTRIES_MAX);
        for number in 0..10 * ENTRIES_MAX {
            let before = cache.len();
            cache.insert(number, number);
            assert_eq!(cache.get(&number), Some(number), "the newest is there");
            assert!(cache.len() <= ENTRIES_MAX);
            assert!(cache.len() >= before, "one entry more costs one entry at most");
        }
        assert!(cache.len() >= ENTRIES_MAX * 3 / 4, "{} are left", cache.len());
    }

    #[test]
    fn the_last_value_of_a_key_is_found() {
        let cache = BoundedCache::new(8);
        cache.insert("a".to_owned(), 1);
        cache.insert("a".to_owned(), 2);
        assert_eq!((cache.get("a"), cache.len()), (Some(2), 1));
        cache.insert("b".to_owned(), 3);
        cache.retain(|key, _| key != "a");
        assert_eq!((cache.get("a"), cache.get("b")), (None, Some(3)));
    }
}
