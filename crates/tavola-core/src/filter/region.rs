//! Sets of keys as the planner computes with them: unions of areas, an area being an interval of partition keys times an
//! interval of row keys.
//!
//! Everything here is about *legal* keys. A constant that cannot be a key still has a place among the legal ones (no key
//! lies between `a/` and `a0`, as none contains `/`), so every comparison of a key has an exact interval.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::filter::Comparison;
use crate::key::{is_forbidden, utf16_order};
use crate::limits::{KEY_UTF16_UNITS_MAX, PLAN_RANGES_MAX};

/// A place between legal keys on one axis. The texts are legal keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edge<'f> {
    /// Before this key; before the empty one is before all.
    Before(Cow<'f, str>),
    /// After this key.
    After(Cow<'f, str>),
    /// After all keys.
    End,
}

impl<'f> Edge<'f> {
    pub(super) const START: Self = Self::Before(Cow::Borrowed(""));

    /// The places before and after `text`; the same place if it cannot be a key.
    fn around(text: &'f str) -> (Self, Self) {
        let mut units = 0;
        for (at, character) in text.char_indices() {
            let room = KEY_UTF16_UNITS_MAX - units;
            let place = if room == 0 {
                // Only the key that ends here begins like this, and it is smaller.
                Some(Self::After(Cow::Borrowed(&text[..at])))
            } else if room < character.len_utf16() {
                // A surrogate pair that no longer fits: the next key has the first character behind the surrogates.
                Some(Self::Before(Cow::Owned(format!("{}\u{e000}", &text[..at]))))
            } else {
                after_forbidden(character).map(|next| Self::Before(Cow::Owned(format!("{}{next}", &text[..at]))))
            };
            if let Some(place) = place {
                return (place.clone(), place);
            }
            units += character.len_utf16();
        }
        (Self::Before(Cow::Borrowed(text)), Self::After(Cow::Borrowed(text)))
    }

    fn rank(&self) -> Option<(&str, u8)> {
        match self {
            Self::Before(text) => Some((text, 0)),
            Self::After(text) => Some((text, 1)),
            Self::End => None,
        }
    }
}

/// The first character behind a forbidden one that a key may contain; `None` if `character` is not forbidden.
fn after_forbidden(character: char) -> Option<char> {
    is_forbidden(character).then(|| (character..='\u{a0}').find(|&next| !is_forbidden(next))).flatten()
}

impl Ord for Edge<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.rank(), other.rank()) {
            (Some((left, left_side)), Some((right, right_side))) => {
                utf16_order(left, right).then(left_side.cmp(&right_side))
            }
            (left, right) => left.is_none().cmp(&right.is_none()),
        }
    }
}

impl PartialOrd for Edge<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The keys between two edges, the first before the second.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Interval<'f> {
    pub(super) start: Edge<'f>,
    pub(super) end: Edge<'f>,
}

impl<'f> Interval<'f> {
    pub(super) const ALL: Self = Self { start: Edge::START, end: Edge::End };

    /// The keys that stand in this relation to `text`, as up to two intervals.
    pub(super) fn satisfying(comparison: Comparison, text: &'f str) -> impl Iterator<Item = Self> {
        let (before, after) = Edge::around(text);
        let below = |end| Some(Self { start: Edge::START, end });
        let above = |start| Some(Self { start, end: Edge::End });
        let intervals = match comparison {
            Comparison::Equal => [Some(Self { start: before, end: after }), None],
            Comparison::NotEqual => [below(before), above(after)],
            Comparison::Less => [below(before), None],
            Comparison::LessOrEqual => [below(after), None],
            Comparison::Greater => [above(after), None],
            Comparison::GreaterOrEqual => [above(before), None],
        };
        intervals.into_iter().flatten().filter(|interval| interval.start < interval.end)
    }

    /// The key, if the interval is that of a single one.
    pub(super) fn single(&self) -> Option<&str> {
        match (&self.start, &self.end) {
            (Edge::Before(first), Edge::After(last)) if first == last => Some(first),
            _ => None,
        }
    }

    fn intersection(&self, other: &Self) -> Option<Self> {
        let start = (&self.start).max(&other.start);
        let end = (&self.end).min(&other.end);
        (start < end).then(|| Self { start: start.clone(), end: end.clone() })
    }

    fn hull(&self, other: &Self) -> Self {
        let start = (&self.start).min(&other.start).clone();
        let end = (&self.end).max(&other.end).clone();
        Self { start, end }
    }

    fn contains(&self, other: &Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    fn touches(&self, other: &Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }
}

/// All keys with a partition key in one interval and a row key in another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Area<'f> {
    pub(super) partitions: Interval<'f>,
    pub(super) rows: Interval<'f>,
}

impl<'f> Area<'f> {
    pub(super) const ALL: Self = Self { partitions: Interval::ALL, rows: Interval::ALL };

    fn intersection(&self, other: &Self) -> Option<Self> {
        let partitions = self.partitions.intersection(&other.partitions)?;
        let rows = self.rows.intersection(&other.rows)?;
        Some(Self { partitions, rows })
    }

    fn hull(&self, other: &Self) -> Self {
        Self { partitions: self.partitions.hull(&other.partitions), rows: self.rows.hull(&other.rows) }
    }

    fn contains(&self, other: &Self) -> bool {
        self.partitions.contains(&other.partitions) && self.rows.contains(&other.rows)
    }
}

/// Keys that include all keys of the entities that a condition can hold for.
#[derive(Debug, Clone)]
pub(super) struct Cover<'f> {
    /// At most [`PLAN_RANGES_MAX`]; they may overlap.
    pub(super) areas: Vec<Area<'f>>,
    /// True if the condition holds for every entity with such a key.
    pub(super) exact: bool,
}

impl<'f> Cover<'f> {
    /// Exactly these keys.
    pub(super) fn exactly(areas: impl IntoIterator<Item = Area<'f>>) -> Self {
        Self::bounded(areas.into_iter().collect(), true)
    }

    /// The cover of a condition that says nothing about keys.
    pub(super) fn anything() -> Self {
        Self { areas: vec![Area::ALL], exact: false }
    }

    /// What both conditions together can hold for.
    pub(super) fn and(self, other: &Self) -> Self {
        // Both sides are bounded, so their product is too, whatever the filter.
        let overlaps = |left: &Area<'f>| other.areas.iter().filter_map(|right| left.intersection(right)).collect();
        let areas = self.areas.iter().flat_map::<Vec<_>, _>(overlaps).collect();
        let mut cover = Self::bounded(areas, self.exact && other.exact);
        // Nothing is exactly nothing, whatever else the conditions say.
        cover.exact |= cover.areas.is_empty();
        cover
    }

    /// What at least one of the conditions can hold for.
    pub(super) fn any(covers: Vec<Self>) -> Self {
        let says_everything = |cover: &Self| cover.exact && cover.areas == [Area::ALL];
        if covers.iter().any(says_everything) {
            return Self::exactly([Area::ALL]);
        }
        let exact = covers.iter().all(|cover| cover.exact);
        Self::bounded(covers.into_iter().flat_map(|cover| cover.areas).collect(), exact)
    }

    /// True if the condition is known to hold for all entities in these areas.
    pub(super) fn implied_by(&self, areas: &[Area<'f>]) -> bool {
        self.exact && areas.iter().all(|area| self.areas.iter().any(|own| own.contains(area)))
    }

    /// Joins areas where that loses nothing, and if they are still too many, where it does.
    fn bounded(mut areas: Vec<Area<'f>>, exact: bool) -> Self {
        areas.sort_unstable_by(|left, right| (&left.rows, &left.partitions).cmp(&(&right.rows, &right.partitions)));
        join_neighbours(&mut areas, |left, right| {
            left.rows == right.rows && left.partitions.touches(&right.partitions)
        });
        areas.sort_unstable();
        join_neighbours(&mut areas, |left, right| {
            left.partitions == right.partitions && left.rows.touches(&right.rows)
        });
        if areas.len() <= PLAN_RANGES_MAX {
            return Self { areas, exact };
        }
        join_neighbours(&mut areas, |left, right| left.partitions == right.partitions);
        if areas.len() > PLAN_RANGES_MAX {
            join_neighbours(&mut areas, |_, _| true);
        }
        Self { areas, exact: false }
    }
}

/// Replaces neighbours by their hull wherever `joinable` says so.
fn join_neighbours<'f>(areas: &mut Vec<Area<'f>>, joinable: impl Fn(&Area<'f>, &Area<'f>) -> bool) {
    areas.dedup_by(|right, left| {
        let joined = joinable(left, right);
        if joined {
            *left = left.hull(right);
        }
        joined
    });
}
