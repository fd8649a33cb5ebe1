//! An amount that is taken or refused at once.
//!
//! Half of a pool is guaranteed: each tenant has a part of it by its weight that nobody else can
//! take. The other half goes to whoever asks, by the dynamic threshold of shared-memory switches
//! (Choudhury and Hahne): a tenant may hold at most [`EAGERNESS`] times what is still free of it.
//! So one tenant alone gets nearly everything, several share evenly, and a newcomer always finds
//! its guarantee, and mostly more.
//!
//! Tenants by the thousand that come and go, such as connections, have another guarantee: what they
//! take while they hold nothing is never refused. A connection has one request at a time in any
//! case; the pool bounds what it has beyond that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::Stats;

/// What a tenant of weight 1 may hold for each unit that is free.
pub(crate) const EAGERNESS: u64 = 8;

/// A bounded amount of something.
#[derive(Debug)]
pub struct Pool {
    guarantee: Guarantee,
    /// What is for whoever asks.
    shared: u64,
    shared_used: AtomicU64,
    /// Of all members.
    weights: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
enum Guarantee {
    /// A part of so many units, by weight.
    Part(u64),
    /// Whatever the first thing takes.
    First,
}

impl Pool {
    /// A pool of `capacity` units for a few tenants that stay, such as accounts.
    #[must_use]
    pub fn new(capacity: u64) -> Arc<Self> {
        let guaranteed = capacity / 2;
        Self::with(Guarantee::Part(guaranteed), capacity - guaranteed)
    }

    /// A pool of `capacity` units for many tenants that come and go, beside what each takes while
    /// it holds nothing.
    #[must_use]
    pub fn for_many(capacity: u64) -> Arc<Self> {
        Self::with(Guarantee::First, capacity)
    }

    fn with(guarantee: Guarantee, shared: u64) -> Arc<Self> {
        Arc::new(Self {
            guarantee,
            shared,
            shared_used: AtomicU64::new(0),
            weights: AtomicU64::new(0),
        })
    }

    /// A new tenant. Whoever came in twice would have two shares: keep what you got.
    #[must_use]
    pub fn member(self: &Arc<Self>, weight: u32) -> Arc<Member> {
        let weight = u64::from(weight.max(1));
        self.weights.fetch_add(weight, Relaxed);
        Arc::new(Member {
            pool: Arc::clone(self),
            weight: AtomicU64::new(weight),
            guaranteed_used: AtomicU64::new(0),
            shared_used: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        })
    }
}

/// One tenant of a [`Pool`].
#[derive(Debug)]
pub struct Member {
    pool: Arc<Pool>,
    weight: AtomicU64,
    guaranteed_used: AtomicU64,
    shared_used: AtomicU64,
    refused: AtomicU64,
}

impl Member {
    /// Changes what the tenant may have in proportion to others.
    pub fn set_weight(&self, weight: u32) {
        let weight = u64::from(weight.max(1));
        let before = self.weight.swap(weight, Relaxed);
        self.pool.weights.fetch_add(weight, Relaxed);
        self.pool.weights.fetch_sub(before, Relaxed);
    }

    /// Takes `units`, or nothing.
    #[must_use]
    pub fn try_take(self: &Arc<Self>, units: u64) -> Option<Share> {
        let mut share = Share { member: Arc::clone(self), guaranteed: 0, shared: 0 };
        share.try_grow(units).then_some(share)
    }

    /// What it had so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let used = self.guaranteed_used.load(Relaxed) + self.shared_used.load(Relaxed);
        Stats { used, refused: self.refused.load(Relaxed), ..Stats::default() }
    }

    /// Takes as much as its guarantee has left of `units`; how much that was.
    fn take_guaranteed(&self, units: u64) -> u64 {
        let left = |used: u64| match self.pool.guarantee {
            Guarantee::First => {
                if used == 0 {
                    units
                } else {
                    0
                }
            }
            Guarantee::Part(of_all) => self.part(of_all).saturating_sub(used).min(units),
        };
        let before =
            self.guaranteed_used.fetch_update(Relaxed, Relaxed, |used| Some(used + left(used)));
        left(before.unwrap_or_else(|used| used))
    }

    fn part(&self, of_all: u64) -> u64 {
        let weights = self.pool.weights.load(Relaxed).max(1);
        of_all.saturating_mul(self.weight.load(Relaxed)) / weights
    }

    /// Takes first and looks then: of two that come at the same moment both may be refused, never
    /// both served with the last unit.
    fn try_take_shared(&self, units: u64) -> bool {
        let all = self.pool.shared_used.fetch_add(units, Relaxed).saturating_add(units);
        let mine = self.shared_used.fetch_add(units, Relaxed).saturating_add(units);
        let free = self.pool.shared.saturating_sub(all);
        let eagerness = EAGERNESS * self.weight.load(Relaxed);
        // The first thing is not held against what is left: of one unit nobody could ever take it
        // otherwise.
        let is_first = mine == units;
        let fits = all <= self.pool.shared && (is_first || mine <= free.saturating_mul(eagerness));
        if !fits {
            self.give_back_shared(units);
        }
        fits
    }

    fn give_back_shared(&self, units: u64) {
        self.shared_used.fetch_sub(units, Relaxed);
        self.pool.shared_used.fetch_sub(units, Relaxed);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.pool.weights.fetch_sub(self.weight.load(Relaxed), Relaxed);
    }
}

/// Units that a tenant holds; dropping gives them back.
#[derive(Debug)]
pub struct Share {
    member: Arc<Member>,
    guaranteed: u64,
    shared: u64,
}

impl Share {
    /// How many.
    #[must_use]
    pub fn units(&self) -> u64 {
        self.guaranteed + self.shared
    }

    /// Takes `more` units, or nothing.
    #[must_use]
    pub fn try_grow(&mut self, more: u64) -> bool {
        let guaranteed = self.member.take_guaranteed(more);
        let rest = more - guaranteed;
        if rest > 0 && !self.member.try_take_shared(rest) {
            self.member.guaranteed_used.fetch_sub(guaranteed, Relaxed);
            self.member.refused.fetch_add(1, Relaxed);
            return false;
        }
        self.guaranteed += guaranteed;
        self.shared += rest;
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.member.guaranteed_used.fetch_sub(self.guaranteed, Relaxed);
        if self.shared > 0 {
            self.member.give_back_shared(self.shared);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes single units until it is refused.
    fn take_all(member: &Arc<Member>) -> Vec<Share> {
        std::iter::from_fn(|| member.try_take(1)).collect()
    }

    #[test]
    fn alone_a_tenant_gets_nearly_everything() {
        let pool = Pool::new(1800);
        let member = pool.member(1);
        let held = take_all(&member);
        assert_eq!(held.len(), 1700);
        drop(held);
        assert_eq!(member.stats(), Stats { refused: 1, ..Stats::default() });
        assert_eq!(take_all(&member).len(), 1700, "everything came back");
    }

    #[test]
    fn everybody_has_a_guarantee_whatever_came_before() {
        let pool = Pool::new(2000);
        let members: Vec<_> = (0..10).map(|_| pool.member(1)).collect();
        let held: Vec<_> = members.iter().map(take_all).collect();
        let counts: Vec<_> = held.iter().map(Vec::len).collect();
        assert!(counts.iter().all(|count| *count >= 100), "{counts:?}");
        assert!(counts.iter().sum::<usize>() <= 2000, "{counts:?}");
        assert!(counts[0] > 900, "the first found the shared half unused: {counts:?}");
    }

    #[test]
    fn equals_that_ask_in_turns_get_equal_shares_and_a_heavier_one_more() {
        let pool = Pool::new(1000);
        let members = [pool.member(1), pool.member(1), pool.member(1)];
        members[2].set_weight(8);
        let mut held = [vec![], vec![], vec![]];
        for _ in 0..1000 {
            for (member, held) in members.iter().zip(&mut held) {
                held.extend(member.try_take(1));
            }
        }
        let counts = held.map(|held| held.len());
        assert!(counts[0].abs_diff(counts[1]) <= 1, "{counts:?}");
        assert!(counts[2] >= 400 && counts[2] > counts[0], "{counts:?}");
    }

    #[test]
    fn a_tenant_that_left_has_no_part_any_more() {
        let pool = Pool::new(1000);
        let stays = pool.member(1);
        let leaves: Vec<_> = (0..9).map(|_| pool.member(1)).collect();
        let before = take_all(&stays).len();
        drop(leaves);
        assert!(take_all(&stays).len() > before);
    }

    #[test]
    fn a_share_grows_and_what_does_not_fit_changes_nothing() {
        let pool = Pool::new(180);
        let member = pool.member(1);
        let mut share = member.try_take(60).unwrap();
        assert!(share.try_grow(110), "some of it of the shared half");
        assert!(!share.try_grow(1));
        assert_eq!((share.units(), member.stats().used), (170, 170));
        assert!(member.try_take(u64::MAX / 2).is_none());
        drop(share);
        assert_eq!(member.stats().used, 0);
    }

    #[test]
    fn a_pool_of_nothing_gives_nothing() {
        assert!(Pool::new(0).member(1).try_take(1).is_none());
        assert!(Pool::new(0).member(1).try_take(0).is_some());
        let (pool, other) = (Pool::new(1), Pool::new(1).member(1));
        let (only, second) = (pool.member(1), pool.member(1));
        let share = only.try_take(1);
        assert!(share.is_some() && other.try_take(1).is_some());
        assert!(only.try_take(1).is_none() && second.try_take(1).is_none());
    }

    #[test]
    fn of_many_each_has_one_thing_and_together_no_more_than_the_pool() {
        let pool = Pool::for_many(1000);
        let members: Vec<_> = (0..500).map(|_| pool.member(1)).collect();
        let held: Vec<_> =
            members.iter().map(|member| (member.try_take(30).unwrap(), take_all(member))).collect();
        assert!(held.iter().map(|(_, more)| more.len()).sum::<usize>() <= 1000);
        assert!(pool.member(1).try_take(30).is_some());
    }
}
