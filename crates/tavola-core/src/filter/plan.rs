//! From a filter to what a query reads: key ranges, what remains to be checked, and a class that
//! people see.
//!
//! The filter's own constants cut the keys into cells, and the filter is evaluated on cells instead
//! of entities (see `grid`). The cells where it may hold become ranges of the one order that a
//! store reads in. Of the conditions that must all hold, those that hold wherever the ranges read
//! are dropped.

use crate::filter::Filter;
use crate::filter::axis::Edge;
use crate::filter::grid::{CellTruth, Cells, Grid};
use crate::key::{EntityKey, PartitionKey, RowKey};
use crate::limits::PLAN_RANGES_MAX;
use crate::range::{Cut, KeyRange};

/// How a query reaches its rows, from cheap to dear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessClass {
    /// Single entities by their keys.
    Point,
    /// Ranges of rows inside partitions.
    RowRange,
    /// Whole partitions.
    PartitionScan,
    /// A range of partitions.
    PartitionRange,
    /// Everything.
    TableScan,
}

impl AccessClass {
    /// The class of one range.
    #[must_use]
    pub fn of(range: &KeyRange) -> Self {
        use Cut::{After, AfterPartition, Before, End};
        let table_start = Cut::before_partition(PartitionKey::default());
        match (&range.start, &range.end) {
            (start, End) if *start <= table_start => Self::TableScan,
            (Before(first), After(last)) if first == last => Self::Point,
            (Before(first), AfterPartition(partition_key))
                if first.partition_key == *partition_key && first.row_key.as_str().is_empty() =>
            {
                Self::PartitionScan
            }
            (Before(first) | After(first), AfterPartition(partition_key))
                if first.partition_key == *partition_key =>
            {
                Self::RowRange
            }
            (Before(first) | After(first), Before(last) | After(last))
                if first.partition_key == last.partition_key =>
            {
                Self::RowRange
            }
            _ => Self::PartitionRange,
        }
    }
}

/// What a query reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Disjoint, in ascending order; none if no entity can match.
    pub ranges: Vec<KeyRange>,
    /// What each row in the ranges must still satisfy.
    pub residual: Option<Filter>,
    /// The dearest of the ranges; a point if there are none.
    pub class: AccessClass,
}

impl Plan {
    /// The same query, reading nothing outside `range`.
    #[must_use]
    pub fn within(self, range: &KeyRange) -> Self {
        if *range == KeyRange::ALL {
            return self;
        }
        let cut = self.ranges.iter().map(|own| own.intersection(range));
        let ranges: Vec<KeyRange> = cut.filter(|range| !range.is_empty()).collect();
        let class = class_of(&ranges);
        Self { ranges, class, ..self }
    }

    /// True if a page looks at no more rows than it returns, and at one that stands behind them.
    #[must_use]
    pub fn reads_what_it_returns(&self) -> bool {
        self.residual.is_none() && self.ranges.len() <= 1
    }

    /// The partition in which all ranges lie, if they lie in one.
    #[must_use]
    pub fn sole_partition(&self) -> Option<&PartitionKey> {
        let sole = self.ranges.first()?.sole_partition();
        sole.filter(|_| self.ranges.iter().all(|range| range.sole_partition() == sole))
    }
}

fn class_of(ranges: &[KeyRange]) -> AccessClass {
    ranges.iter().map(AccessClass::of).max().unwrap_or(AccessClass::Point)
}

/// Plans a query.
///
/// ```
/// use tavola_core::filter::{parse::parse, plan::plan};
///
/// let filter = parse("PartitionKey eq 'eu' and RowKey ge '5' and Age gt 30")?;
/// let plan = plan(filter.as_ref());
/// assert_eq!(plan.to_string(), "scan eu/[5..*) where Age gt 30");
/// assert_eq!(plan.class.name(), "row range");
/// # Ok::<(), tavola_core::DomainError>(())
/// ```
#[must_use]
pub fn plan(filter: Option<&Filter>) -> Plan {
    let grid = Grid::new(filter);
    let mut conditions = Vec::new();
    if let Some(filter) = filter {
        split(filter, false, &mut conditions);
    }
    let may =
        conditions.iter().fold(grid.all(), |may, condition| may.and(&condition.verdict(&grid).may));
    let (read, ranges) = readable(&grid, may);
    let unsaid =
        conditions.iter().filter(|condition| !read.is_within(&condition.verdict(&grid).must));
    let residual = conjunction(unsaid.map(|condition| condition.to_filter()).collect());
    let class = class_of(&ranges);
    Plan { ranges, residual, class }
}

/// A part of a filter, or its negation.
#[derive(Debug, Clone, Copy)]
struct Condition<'f> {
    filter: &'f Filter,
    negated: bool,
}

impl<'f> Condition<'f> {
    fn verdict(&self, grid: &Grid<'f>) -> CellTruth {
        let verdict = grid.verdict(self.filter);
        if self.negated { grid.negated(verdict) } else { verdict }
    }

    fn to_filter(self) -> Filter {
        let filter = self.filter.clone();
        if self.negated { Filter::Not(Box::new(filter)) } else { filter }
    }
}

/// Takes a filter apart into conditions that must all hold.
fn split<'f>(filter: &'f Filter, negated: bool, conditions: &mut Vec<Condition<'f>>) {
    match filter {
        Filter::And(terms) if !negated => {
            terms.iter().for_each(|term| split(term, negated, conditions))
        }
        Filter::Or(terms) if negated => {
            terms.iter().for_each(|term| split(term, negated, conditions))
        }
        Filter::Not(term) => split(term, !negated, conditions),
        _ => conditions.push(Condition { filter, negated }),
    }
}

fn conjunction(mut terms: Vec<Filter>) -> Option<Filter> {
    if terms.len() > 1 {
        return Some(Filter::And(terms));
    }
    terms.pop()
}

/// The least cells around these that can be read as few enough ranges, and the ranges.
fn readable(grid: &Grid<'_>, mut cells: Cells) -> (Cells, Vec<KeyRange>) {
    let (partitions, rows) = (grid.partitions.len(), grid.rows.len());
    // Rows are neighbours only inside one partition.
    for partition in 0..partitions {
        if grid.partitions.single(partition).is_none() && !cells.runs(partition).is_empty() {
            cells.fill(partition, 0..rows);
        }
    }
    let mut ranges = self::ranges(grid, &cells);
    if ranges.len() > PLAN_RANGES_MAX {
        for partition in 0..partitions {
            let runs = cells.runs(partition);
            if let (Some(first), Some(last)) = (runs.first(), runs.last()) {
                cells.fill(partition, first.start..last.end);
            }
        }
        ranges = self::ranges(grid, &cells);
    }
    if ranges.len() > PLAN_RANGES_MAX {
        let read = |partition: &usize| !cells.runs(*partition).is_empty();
        let first = (0..partitions).find(read).unwrap_or(0);
        let last = (0..partitions).rfind(read).unwrap_or(0);
        (first..=last).for_each(|partition| cells.fill(partition, 0..rows));
        ranges = self::ranges(grid, &cells);
    }
    (cells, ranges)
}

/// The ranges of readable cells, ascending and disjoint.
fn ranges(grid: &Grid<'_>, cells: &Cells) -> Vec<KeyRange> {
    let mut ranges = Vec::new();
    for partition in 0..grid.partitions.len() {
        let runs = cells.runs(partition);
        match grid.partitions.single(partition).map(partition_key) {
            Some(partition_key) => {
                ranges.extend(
                    runs.into_iter().map(|run| row_range(&partition_key, grid.rows.edges(run))),
                );
            }
            None if runs.is_empty() => {}
            None => ranges.push(partition_range(grid.partitions.edges(partition..partition + 1))),
        }
    }
    ranges.dedup_by(|right, left| {
        let touching = left.end == right.start;
        if touching {
            left.end = right.end.clone();
        }
        touching
    });
    ranges
}

fn row_range(partition_key: &PartitionKey, (start, end): (&Edge<'_>, &Edge<'_>)) -> KeyRange {
    let cut = |edge: &Edge<'_>| match edge {
        Edge::Before(text) => Cut::Before(EntityKey::new(partition_key.clone(), row_key(text))),
        Edge::After(text) => Cut::After(EntityKey::new(partition_key.clone(), row_key(text))),
        Edge::End => Cut::AfterPartition(partition_key.clone()),
    };
    KeyRange { start: cut(start), end: cut(end) }
}

fn partition_range((start, end): (&Edge<'_>, &Edge<'_>)) -> KeyRange {
    let cut = |edge: &Edge<'_>| match edge {
        Edge::Before(text) if text.is_empty() => Cut::Start,
        Edge::Before(text) => Cut::before_partition(partition_key(text)),
        Edge::After(text) => Cut::AfterPartition(partition_key(text)),
        Edge::End => Cut::End,
    };
    KeyRange { start: cut(start), end: cut(end) }
}

fn partition_key(text: &str) -> PartitionKey {
    PartitionKey::new(text).expect("the texts of edges are legal keys")
}

fn row_key(text: &str) -> RowKey {
    RowKey::new(text).expect("the texts of edges are legal keys")
}

#[cfg(test)]
mod tests {
    use super::plan;
    use crate::filter::testing::{cases, filter};
    use crate::limits::{FILTER_COMPARISONS_MAX, PLAN_RANGES_MAX};

    fn planned(text: &str) -> String {
        // Keys take most of the columns otherwise.
        let text = text.replace("PK", "PartitionKey").replace("RK", "RowKey");
        let plan = plan(Some(&filter(&text)));
        format!("{}: {plan}", plan.class).replace("PartitionKey", "PK").replace("RowKey", "RK")
    }

    fn check(table: &str) {
        for [text, expected] in cases(table) {
            assert_eq!(planned(text), expected, "{text}");
        }
    }

    #[test]
    fn access_classes() {
        assert_eq!(plan(None).to_string(), "scan *");
        check(
            r"
            PK eq 'eu' and RK eq '7'                 | point: point eu/7
            (PK eq 'eu') and (RK eq '7') and Age gt 30 | point: point eu/7 where Age gt 30
            PK eq '' and RK eq ''                    | point: point /
            PK eq 'eu' and RK ge 'a' and RK lt 'b'   | row range: scan eu/[a..b)
            PK eq 'eu' and RK gt 'a'                 | row range: scan eu/(a..*)
            PK eq 'eu' and RK le 'a'                 | row range: scan eu/(*..a]
            PK eq 'eu' and RK ne '5'                 | row range: scan eu/(*..5), eu/(5..*)
            PK eq 'eu'                               | partition scan: scan eu/*
            PK eq 'eu' and Age gt 30                 | partition scan: scan eu/* where Age gt 30
            PK eq 'eu' and RK ge ''                  | partition scan: scan eu/*
            PK eq ''                                 | partition scan: scan /*
            PK ge 'a' and PK lt 'b'                  | partition range: scan [a..b)
            PK gt 'a'                                | partition range: scan (a..*)
            PK le 'a'                                | partition range: scan (*..a]
            PK gt ''                                 | partition range: scan (..*)
            PK ne 'a'                                | partition range: scan (*..a), (a..*)
            PK ge ''                                 | table scan: scan *
            RK eq 'x'                                | table scan: scan * where RK eq 'x'
            Age gt 30                                | table scan: scan * where Age gt 30
            PK eq 'eu' or Age gt 30                  | table scan: scan * where PK eq 'eu' or Age gt 30
            PK eq 'eu' or RK eq '7'                  | table scan: scan * where PK eq 'eu' or RK eq '7'
            ",
        );
    }

    #[test]
    fn a_plan_can_be_cut_to_a_range() {
        let cut = |text: &str, range: &str| {
            let (inside, query) =
                (text.replace("PK", "PartitionKey"), range.replace("PK", "PartitionKey"));
            let range = plan(Some(&filter(&query))).ranges.remove(0);
            let plan = plan(Some(&filter(&inside))).within(&range);
            format!("{}: {plan}", plan.class)
        };
        assert_eq!(plan(None).within(&crate::range::KeyRange::ALL), plan(None));
        assert_eq!(cut("X", "PK ge 'b' and PK le 'c'"), "partition range: scan [b..c] where X");
        assert_eq!(cut("PK eq 'a' or PK eq 'b'", "PK gt 'a'"), "partition scan: scan b/*");
        assert_eq!(cut("PK eq 'a' and X", "PK gt 'a'"), "point: nothing");
    }

    #[test]
    fn several_ranges() {
        check(
            r"
            PK eq 'a' or PK eq 'b'                            | partition scan: scan a/*, b/*
            PK eq 'b' or PK eq 'a' or PK eq 'b'               | partition scan: scan a/*, b/*
            (PK eq 'a' and RK eq '1') or (PK eq 'a' and RK eq '2') | point: point a/1, a/2
            PK eq 'a' and (RK eq '2' or RK eq '1')            | point: point a/1, a/2
            (PK eq 'b' or PK eq 'a') and (RK eq '2' or RK eq '1') | point: point a/1, a/2, b/1, b/2
            PK eq 'a' and (RK le '3' or RK ge '2' and RK lt '5') | row range: scan a/(*..5)
            PK eq 'a' and (RK lt '3' or RK ge '3')            | partition scan: scan a/*
            PK lt 'b' or PK ge 'a'                            | table scan: scan *
            PK gt 'a' or PK eq 'a' and RK gt '5'              | partition range: scan (a/5..*)
            PK lt 'a' or PK eq 'a' and RK le '5'              | partition range: scan (*..a/5]
            PK eq 'a' and RK eq '1' or PK eq 'b'              | partition scan: scan a/1, b/*
            PK eq 'a' and RK eq '1' or PK le 'b'              | partition range: scan (*..b]
            (PK eq 'a' or PK eq 'b') and X                    | partition scan: scan a/*, b/* where X
            PK eq 'a' and X or PK eq 'b'                      | partition scan: scan a/*, b/* where PK eq 'a' and X or PK eq 'b'
            (PK eq 'a' or PK gt 'b') and RK eq '1'            | partition range: scan a/1, (b..*) where RK eq '1'
            ",
        );
    }

    #[test]
    fn what_the_ranges_say_is_not_checked_again() {
        check(
            r"
            PK gt 'a' and RK eq 'x'                  | partition range: scan (a..*) where RK eq 'x'
            PK gt 'a' and (RK eq 'x' and A)          | partition range: scan (a..*) where RK eq 'x' and A
            PK ge 'a' and PK lt 'b' and RK eq 'x'    | partition range: scan a/x, (a..b) where RK eq 'x'
            PK ge 'a' and PK lt 'b' and RK ge 'x'    | partition range: scan [a/x..b) where RK ge 'x'
            PK ge 'a' and PK le 'a' and RK eq 'x'    | point: point a/x
            PK eq 'a' and (A or B) and true          | partition scan: scan a/* where A or B
            PK eq 'a' and (A or true)                | partition scan: scan a/*
            PK eq 'a' and (A or PK ge '')            | partition scan: scan a/*
            PK eq 'a' and PK eq 'b' and A or PK eq 'c' | partition scan: scan c/*
            true                                     | table scan: scan *
            ",
        );
    }

    #[test]
    fn contradictions_read_nothing() {
        check(
            r"
            false                                    | point: nothing
            PK eq 'a' and PK eq 'b'                  | point: nothing
            PK eq 'a' and RK gt '5' and RK lt '5'    | point: nothing
            PK lt ''                                 | point: nothing
            A gt 5 and false                         | point: nothing
            PK eq 'a' and (RK eq '1' and RK eq '2' or PK eq 'b') and A | point: nothing
            PK                                       | point: nothing
            PK eq 5                                  | point: nothing
            ",
        );
    }

    #[test]
    fn negations_of_keys_are_exact_and_others_stay() {
        check(
            r"
            not PK eq 'a'                            | partition range: scan (*..a), (a..*)
            not PK ne 'a'                            | partition scan: scan a/*
            not (PK lt 'a' or PK gt 'a')             | partition scan: scan a/*
            not (PK lt 'b')                          | partition range: scan [b..*)
            not (PK ne 'a' or A)                     | partition scan: scan a/* where not (A)
            not (not (PK eq 'a' and A))              | partition scan: scan a/* where A
            not A                                    | table scan: scan * where not (A)
            not A eq 5                               | table scan: scan * where not (A eq 5)
            not (PK eq 'a' and A)                    | table scan: scan * where not (PK eq 'a' and A)
            not PK                                   | table scan: scan *
            not true                                 | point: nothing
            not (PK eq 'a' and RK eq '1')            | partition range: scan (*..a/1), (a/1..*)
            ",
        );
    }

    #[test]
    fn constants_of_foreign_types_are_settled_by_their_type() {
        check(
            r"
            PK ne 5                                  | table scan: scan *
            PK lt 5L                                 | table scan: scan *
            PK gt 5.0                                | point: nothing
            not (PK gt true)                         | table scan: scan *
            PK eq 'a' and RK le 5                    | partition scan: scan a/*
            PK eq 'a' and RK ge 5                    | point: nothing
            ",
        );
    }

    #[test]
    fn constants_that_are_no_keys_have_a_place_between_keys() {
        check(
            r"
            PK eq 'a/'                               | point: nothing
            PK ne 'a/'                               | table scan: scan *
            PK eq 'p' and RK lt 'a/'                 | row range: scan p/(*..a0)
            PK eq 'p' and RK le 'a/z'                | row range: scan p/(*..a0)
            PK eq 'p' and RK gt 'a?'                 | row range: scan p/[a@..*)
            PK eq 'p' and RK ge 'a#b'                | row range: scan p/[a$..*)
            PK ge '\'                               | partition range: scan []..*)
            ",
        );
        let long = "x".repeat(512);
        assert_eq!(
            planned(&format!("PK eq 'p' and RK gt '{long}y'")),
            format!("row range: scan p/({long}..*)")
        );
        assert_eq!(
            planned(&format!("PK eq 'p' and RK le '{long}y'")),
            format!("row range: scan p/(*..{long}]")
        );
        let odd = "x".repeat(511);
        let expected = format!("row range: scan p/[{odd}\u{e000}..*)");
        assert_eq!(planned(&format!("PK eq 'p' and RK gt '{odd}\u{10000}'")), expected);
    }

    fn any_of(count: usize, term: impl Fn(usize) -> String) -> String {
        (0..count).map(term).collect::<Vec<_>>().join(" or ")
    }

    #[test]
    fn too_many_ranges_become_the_range_around_them() {
        let partitions = |count| planned(&any_of(count, |n| format!("PK eq 'p{n:03}'")));
        assert!(partitions(PLAN_RANGES_MAX).starts_with("partition scan: scan p000/*, p001/*"));
        assert!(
            partitions(PLAN_RANGES_MAX + 1)
                .starts_with("partition range: scan [p000..p128] where PK eq 'p000' or")
        );
        let rows = any_of(200, |n| format!("RK eq 'r{n:03}'"));
        assert!(
            planned(&format!("PK eq 'p' and ({rows})"))
                .starts_with("row range: scan p/[r000..r199] where RK eq")
        );
        // Partitions are kept apart as long as they are few.
        let points = any_of(200, |n| format!("PK eq 'p{}' and RK eq 'r{n:03}'", n % 2));
        assert!(
            planned(&points).starts_with(
                "row range: scan p0/[r000..r198], p1/[r001..r199] where PK eq 'p0' and"
            )
        );
    }

    #[test]
    fn a_hostile_filter_costs_little() {
        let group = |size: usize| any_of(size, |n| format!("PK eq 'p{n}' and RK ne 'r{n}'"));
        let started = std::time::Instant::now();
        for size in [2, 5, 25, 125] {
            let text = vec![format!("({})", group(size)); FILTER_COMPARISONS_MAX / (2 * size)]
                .join(" and ");
            assert!(planned(&text).contains(": scan p0/"), "{size}");
            let negated =
                vec![format!("not ({})", group(size)); FILTER_COMPARISONS_MAX / (2 * size)]
                    .join(" or ");
            planned(&negated);
        }
        assert!(started.elapsed().as_secs() < 10, "a plan is a matter of milliseconds");
    }
}
