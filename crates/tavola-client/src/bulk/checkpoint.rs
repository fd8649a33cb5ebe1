//! What of an input was written.

use std::fmt;
use std::ops::Range;

/// Which inputs of a bulk write were written: keep it, and give it to a later run over the same
/// input ([`crate::Bulk::resume`]). With the feature `json` serde writes and reads it, as a list of
/// ranges.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tavola_client::{Checkpoint, DynEntity, Mode, TableServiceClient};
///
/// # let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client("people");
/// # table.create().await?;
/// let people = || (0..250).map(|number| DynEntity::new("Smith", format!("{number:03}")));
/// let report = table.bulk().upsert_all(people().take(200), Mode::Replace).await?;
/// let kept = serde_json::to_string(&report.checkpoint)?;
/// assert_eq!(kept, "[[0,200]]");
///
/// let checkpoint: Checkpoint = serde_json::from_str(&kept)?;
/// let rest = table.bulk().resume(checkpoint).upsert_all(people(), Mode::Replace).await?;
/// assert_eq!((rest.written, rest.checkpoint.len()), (50, 250));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "json", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "json", serde(from = "Vec<(usize, usize)>", into = "Vec<(usize, usize)>"))]
pub struct Checkpoint {
    /// First and one behind the last; ascending, neither empty nor touching.
    ranges: Vec<(usize, usize)>,
}

impl Checkpoint {
    /// The places of the inputs that were written, ascending.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.ranges.iter().map(|(begin, end)| *begin..*end)
    }

    /// True if the input at this place was written.
    #[must_use]
    pub fn contains(&self, at: usize) -> bool {
        let after = self.ranges.partition_point(|(begin, _)| *begin <= at);
        let before = after.checked_sub(1).and_then(|index| self.ranges.get(index));
        before.is_some_and(|(_, end)| at < *end)
    }

    /// How many inputs were written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges().map(|range| range.len()).sum()
    }

    /// True if none was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Adds places, most of them next to each other.
    pub(super) fn add(&mut self, places: &[usize]) {
        for run in places.chunk_by(|one, next| one + 1 == *next) {
            if let (Some(first), Some(last)) = (run.first(), run.last()) {
                self.add_range(*first, last + 1);
            }
        }
    }

    fn add_range(&mut self, mut begin: usize, mut end: usize) {
        if begin >= end {
            return;
        }
        // Those that overlap or touch become one.
        let from = self.ranges.partition_point(|(_, other)| *other < begin);
        let to = self.ranges.partition_point(|(other, _)| *other <= end);
        if let Some(merged) = self.ranges.get(from..to).filter(|merged| !merged.is_empty()) {
            begin = merged.first().map_or(begin, |(other, _)| begin.min(*other));
            end = merged.last().map_or(end, |(_, other)| end.max(*other));
        }
        self.ranges.splice(from..to.max(from), [(begin, end)]);
    }
}

impl From<Vec<(usize, usize)>> for Checkpoint {
    fn from(ranges: Vec<(usize, usize)>) -> Self {
        let mut checkpoint = Self::default();
        for (begin, end) in ranges {
            checkpoint.add_range(begin, end);
        }
        checkpoint
    }
}

impl From<Checkpoint> for Vec<(usize, usize)> {
    fn from(checkpoint: Checkpoint) -> Self {
        checkpoint.ranges
    }
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ranges()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::Checkpoint;

    proptest! {
        /// A set of places is the model.
        #[test]
        fn ranges_are_a_set(added in prop::collection::vec((0_usize..60, 0_usize..9), 0..30)) {
            let (mut checkpoint, mut model) = (Checkpoint::default(), BTreeSet::new());
            for (begin, length) in added {
                let places: Vec<_> = (begin..begin + length).collect();
                checkpoint.add(&places);
                model.extend(places);
            }
            prop_assert_eq!(checkpoint.len(), model.len());
            prop_assert_eq!(checkpoint.is_empty(), model.is_empty());
            for at in 0..80 {
                prop_assert_eq!(checkpoint.contains(at), model.contains(&at), "{}", at);
            }
            let ranges: Vec<_> = checkpoint.ranges().collect();
            prop_assert!(ranges.is_sorted_by(|one, next| one.end < next.start), "{:?}", ranges);
            let listed: Vec<(usize, usize)> = checkpoint.clone().into();
            prop_assert_eq!(Checkpoint::from(listed), checkpoint);
        }
    }
}
