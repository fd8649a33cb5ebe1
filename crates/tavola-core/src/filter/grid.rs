//! All keys of a table as a grid of cells, a piece of the partition axis times a piece of the row
//! axis, and what a filter says about each cell.
//!
//! A condition on other properties may or may not hold for the entities of a cell. So a filter's
//! answer is two sets: the cells where it *may* hold and those where it *must*. Keys are always
//! present, so `not` exchanges the two exactly. The size of a set depends on how many different
//! keys the filter names, never on how its `and`s and `or`s are nested; this is what keeps the
//! planning of a hostile filter cheap.

use std::ops::Range;

use crate::edm::EdmValue;
use crate::filter::axis::{Axis, Pieces};
use crate::filter::{Comparison, Filter};

/// Cells of the largest grid, 16 KiB per set. The row axis is left whole if its pieces would make
/// it larger.
const GRID_CELLS_MAX: usize = 1 << 17;

/// The keys of a table, cut at the constants of a filter.
#[derive(Debug)]
pub(super) struct Grid<'f> {
    pub(super) partitions: Axis<'f>,
    pub(super) rows: Axis<'f>,
}

/// A set of cells: a bit for each, the bits of one partition piece in whole words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cells {
    words: Vec<u64>,
    words_per_partition: usize,
}

/// What a filter says about the cells.
#[derive(Debug, Clone)]
pub(super) struct CellTruth {
    /// Outside of these it holds for no entity.
    pub(super) may: Cells,
    /// Here it holds for every entity.
    pub(super) must: Cells,
}

impl<'f> Grid<'f> {
    /// The grid for all comparisons of keys in `filter`.
    pub(super) fn new(filter: Option<&'f Filter>) -> Self {
        let (mut partition_texts, mut row_texts) = (Vec::new(), Vec::new());
        if let Some(filter) = filter {
            collect_texts(filter, &mut partition_texts, &mut row_texts);
        }
        let mut grid =
            Self { partitions: Axis::new(&partition_texts), rows: Axis::new(&row_texts) };
        if grid.partitions.len() * grid.rows.len() > GRID_CELLS_MAX {
            grid.rows = Axis::new(&[]);
        }
        if grid.partitions.len() > GRID_CELLS_MAX {
            grid.partitions = Axis::new(&[]);
        }
        grid
    }

    pub(super) fn all(&self) -> Cells {
        self.cells(self.partitions.all(), self.rows.all())
    }

    fn none(&self) -> Cells {
        self.cells([0..0, 0..0], [0..0, 0..0])
    }

    /// The cells in any of these partition pieces and any of these row pieces.
    fn cells(&self, partitions: Pieces, rows: Pieces) -> Cells {
        let words_per_partition = self.rows.len().div_ceil(64);
        let mut row_words = vec![0_u64; words_per_partition];
        for row in rows.into_iter().flatten() {
            row_words[row / 64] |= 1 << (row % 64);
        }
        let mut words = vec![0; self.partitions.len() * words_per_partition];
        for pieces in partitions {
            let words =
                &mut words[pieces.start * words_per_partition..pieces.end * words_per_partition];
            words
                .iter_mut()
                .zip(row_words.iter().cycle())
                .for_each(|(word, row_word)| *word = *row_word);
        }
        Cells { words, words_per_partition }
    }

    /// Where `filter` may and must hold.
    pub(super) fn verdict(&self, filter: &'f Filter) -> CellTruth {
        match filter {
            Filter::Constant(truth) => self.always(*truth),
            // A bare key is not a Boolean.
            Filter::Property(name) if is_key(name) => self.always(false),
            Filter::Compare { property, comparison, constant } if is_key(property) => {
                self.key_verdict(property, *comparison, constant)
            }
            Filter::Property(_) | Filter::Compare { .. } => self.unknown(),
            Filter::And(terms) => terms.iter().fold(self.always(true), |all, term| {
                let term = self.verdict(term);
                CellTruth { may: all.may.and(&term.may), must: all.must.and(&term.must) }
            }),
            Filter::Or(terms) => terms.iter().fold(self.always(false), |any, term| {
                let term = self.verdict(term);
                CellTruth { may: any.may.or(&term.may), must: any.must.or(&term.must) }
            }),
            Filter::Not(term) => self.negated(self.verdict(term)),
        }
    }

    /// What the negation of a filter says.
    pub(super) fn negated(&self, verdict: CellTruth) -> CellTruth {
        let all = self.all();
        CellTruth { may: all.clone().without(&verdict.must), must: all.without(&verdict.may) }
    }

    fn key_verdict(&self, key: &str, comparison: Comparison, constant: &'f EdmValue) -> CellTruth {
        let EdmValue::String(text) = constant else {
            return self.always(comparison.accepts_foreign_type());
        };
        let cells = if key == "PartitionKey" {
            self.partitions
                .satisfying(comparison, text)
                .map(|pieces| self.cells(pieces, self.rows.all()))
        } else {
            self.rows
                .satisfying(comparison, text)
                .map(|pieces| self.cells(self.partitions.all(), pieces))
        };
        cells.map_or_else(|| self.unknown(), |cells| CellTruth { may: cells.clone(), must: cells })
    }

    fn always(&self, truth: bool) -> CellTruth {
        let cells = if truth { self.all() } else { self.none() };
        CellTruth { may: cells.clone(), must: cells }
    }

    fn unknown(&self) -> CellTruth {
        CellTruth { may: self.all(), must: self.none() }
    }
}

fn is_key(property: &str) -> bool {
    matches!(property, "PartitionKey" | "RowKey")
}

fn collect_texts<'f>(filter: &'f Filter, partitions: &mut Vec<&'f str>, rows: &mut Vec<&'f str>) {
    match filter {
        Filter::Compare { property, constant: EdmValue::String(text), .. } => {
            match property.as_str() {
                "PartitionKey" => partitions.push(text),
                "RowKey" => rows.push(text),
                _ => {}
            }
        }
        Filter::And(terms) | Filter::Or(terms) => {
            terms.iter().for_each(|term| collect_texts(term, partitions, rows));
        }
        Filter::Not(term) => collect_texts(term, partitions, rows),
        Filter::Constant(_) | Filter::Property(_) | Filter::Compare { .. } => {}
    }
}

impl Cells {
    pub(super) fn and(self, other: &Self) -> Self {
        self.combine(other, |left, right| left & right)
    }

    fn or(self, other: &Self) -> Self {
        self.combine(other, |left, right| left | right)
    }

    fn without(self, other: &Self) -> Self {
        self.combine(other, |left, right| left & !right)
    }

    fn combine(mut self, other: &Self, operation: impl Fn(u64, u64) -> u64) -> Self {
        for (left, right) in self.words.iter_mut().zip(&other.words) {
            *left = operation(*left, *right);
        }
        self
    }

    pub(super) fn is_within(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(own, others)| own & !others == 0)
    }

    /// The row pieces of one partition piece, as runs of neighbours.
    pub(super) fn runs(&self, partition: usize) -> Vec<Range<usize>> {
        let words = &self.words[partition * self.words_per_partition..][..self.words_per_partition];
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (index, &word) in words.iter().enumerate() {
            let mut rest = word;
            while rest != 0 {
                let row = index * 64 + rest.trailing_zeros() as usize;
                rest &= rest - 1;
                match runs.last_mut() {
                    Some(run) if run.end == row => run.end = row + 1,
                    _ => runs.push(row..row + 1),
                }
            }
        }
        runs
    }

    /// Adds row pieces of one partition piece.
    pub(super) fn fill(&mut self, partition: usize, rows: Range<usize>) {
        let words =
            &mut self.words[partition * self.words_per_partition..][..self.words_per_partition];
        for row in rows {
            words[row / 64] |= 1 << (row % 64);
        }
    }
}
