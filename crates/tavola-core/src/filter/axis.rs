//! One axis of keys, PartitionKey or RowKey, cut at every constant of a filter. Between two
//! neighbouring cuts all keys answer every comparison of the filter alike.
//!
//! Everything here is about *legal* keys. A constant that cannot be a key still has a place among
//! the legal ones (no key lies between `a/` and `a0`, as none contains `/`), so every comparison of
//! a key with a text is exact.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use crate::filter::Comparison;
use crate::key::{is_forbidden, utf16_order};
use crate::limits::KEY_UTF16_UNITS_MAX;

/// A place between legal keys. The texts are legal keys.
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
    const START: Self = Self::Before(Cow::Borrowed(""));

    /// The places before and after `text`; the same place if it cannot be a key.
    fn around(text: &'f str) -> (Self, Self) {
        let mut units = 0;
        for (at, character) in text.char_indices() {
            if let Some(place) =
                Self::of_illegal(&text[..at], character, KEY_UTF16_UNITS_MAX - units)
            {
                return (place.clone(), place);
            }
            units += character.len_utf16();
        }
        (Self::Before(Cow::Borrowed(text)), Self::After(Cow::Borrowed(text)))
    }

    /// The place of all texts that begin with `prefix`, which is legal, and `character`, if none of
    /// them is a key; `room` is how many code units a key can have behind `prefix`.
    fn of_illegal(prefix: &'f str, character: char, room: usize) -> Option<Self> {
        if room == 0 {
            // The one key that begins with the prefix is the prefix.
            return Some(Self::After(Cow::Borrowed(prefix)));
        }
        let next_legal = if room < character.len_utf16() {
            // A surrogate pair that does not fit: the next key has the first character behind the
            // surrogates.
            '\u{e000}'
        } else if is_forbidden(character) {
            (character..).find(|&next| !is_forbidden(next))?
        } else {
            return None;
        };
        Some(Self::Before(Cow::Owned(format!("{prefix}{next_legal}"))))
    }

    fn rank(&self) -> Option<(&str, u8)> {
        match self {
            Self::Before(text) => Some((text, 0)),
            Self::After(text) => Some((text, 1)),
            Self::End => None,
        }
    }
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

/// Up to two runs of neighbouring pieces.
pub(super) type Pieces = [Range<usize>; 2];

/// The pieces of an axis: the keys between neighbouring edges.
#[derive(Debug)]
pub(super) struct Axis<'f> {
    /// Ascending, from before all keys to after all keys.
    edges: Vec<Edge<'f>>,
}

impl<'f> Axis<'f> {
    /// The axis cut around each of these texts.
    pub(super) fn new(texts: &[&'f str]) -> Self {
        let around = texts.iter().flat_map(|text| <[_; 2]>::from(Edge::around(text)));
        let mut edges: Vec<Edge<'f>> = around.chain([Edge::START, Edge::End]).collect();
        edges.sort_unstable();
        edges.dedup();
        Self { edges }
    }

    /// How many pieces there are; at least one.
    pub(super) fn len(&self) -> usize {
        self.edges.len() - 1
    }

    /// Every piece.
    pub(super) fn all(&self) -> Pieces {
        [0..self.len(), 0..0]
    }

    /// The edges around some neighbouring pieces.
    pub(super) fn edges(&self, pieces: Range<usize>) -> (&Edge<'f>, &Edge<'f>) {
        (&self.edges[pieces.start], &self.edges[pieces.end])
    }

    /// The key of a piece that has room for only one.
    pub(super) fn single(&self, piece: usize) -> Option<&str> {
        match self.edges(piece..piece + 1) {
            (Edge::Before(first), Edge::After(last)) if first == last => Some(first),
            _ => None,
        }
    }

    /// The pieces whose keys stand in this relation to `text`, or `None` if the axis was not cut
    /// there.
    pub(super) fn satisfying(&self, comparison: Comparison, text: &'f str) -> Option<Pieces> {
        let (before, after) = Edge::around(text);
        let before = self.edges.binary_search(&before).ok()?;
        let after = self.edges.binary_search(&after).ok()?;
        let (none, end) = (0..0, self.len());
        Some(match comparison {
            Comparison::Equal => [before..after, none],
            Comparison::NotEqual => [0..before, after..end],
            Comparison::Less => [0..before, none],
            Comparison::LessOrEqual => [0..after, none],
            Comparison::Greater => [after..end, none],
            Comparison::GreaterOrEqual => [before..end, none],
        })
    }
}
