//! What a query would read, said without sending it.

use std::fmt;

use tavola_core::Filter as CoreFilter;
use tavola_core::filter::Comparison;
use tavola_core::filter::plan::{AccessClass, plan};

use crate::error::{Error, ErrorKind, Outcome};

/// How a query reaches its rows, from cheap to expensive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Access {
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

impl Access {
    fn of_class(class: AccessClass) -> Self {
        match class {
            AccessClass::Point => Self::Point,
            AccessClass::RowRange => Self::RowRange,
            AccessClass::PartitionScan => Self::PartitionScan,
            AccessClass::PartitionRange => Self::PartitionRange,
            AccessClass::TableScan => Self::TableScan,
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Point => "point",
            Self::RowRange => "row range",
            Self::PartitionScan => "partition scan",
            Self::PartitionRange => "partition range",
            Self::TableScan => "table scan",
        })
    }
}

/// What a query would read.
///
/// ```
/// use tavola_client::{Access, prop};
///
/// let rows = prop("RowKey").eq("000121").or(prop("RowKey").eq("000322"));
/// let explain = prop("PartitionKey").eq("Sales").and(rows).explain()?;
/// assert_eq!(explain.here, Access::Point);
/// assert_eq!(explain.azure, Access::PartitionScan);
/// assert_eq!(explain.plan, "point Sales/000121, Sales/000322");
/// # Ok::<(), tavola_client::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Explain {
    /// The filter as it is sent.
    pub filter: Option<String>,
    /// The names that are asked for; `None` is all.
    pub select: Option<Vec<String>>,
    /// How Tavola reaches the rows.
    pub here: Access,
    /// How Azure reaches the rows: it looks only at key comparisons that must all hold.
    pub azure: Access,
    /// The ranges that Tavola reads, and what it checks for each row.
    pub plan: String,
    /// What could be better.
    pub advice: Vec<Advice>,
}

/// Something that could be better.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advice {
    /// A short name of the problem.
    pub lint: &'static str,
    /// What was seen.
    pub evidence: String,
    /// Why that is a problem.
    pub reason: &'static str,
    /// What to do.
    pub cure: &'static str,
}

/// Whose planner a decision goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "the half of the library that sends uses it")]
pub(crate) enum Dialect {
    Tavola,
    Azure,
}

impl Explain {
    pub(crate) fn of(filter: Option<&CoreFilter>, select: Option<Vec<String>>) -> Self {
        let planned = plan(filter);
        let here = Access::of_class(planned.class);
        let azure = azure(filter);
        let advice = advice(filter, here, azure);
        let filter = filter.map(ToString::to_string);
        Self { filter, select, here, azure, plan: planned.to_string(), advice }
    }

    /// Refuses what reads a whole partition or more.
    #[allow(dead_code, reason = "the half of the library that sends uses it")]
    pub(crate) fn deny_scans(&self, dialect: Dialect) -> Result<(), Error> {
        let access = match dialect {
            Dialect::Tavola => self.here,
            Dialect::Azure => self.azure,
        };
        if access < Access::PartitionScan {
            return Ok(());
        }
        let filter = self.filter.as_deref().unwrap_or("no filter");
        let text = format!("the query is a {access} ({filter}); give keys, or allow the scan");
        Err(Error::new(ErrorKind::ScanDenied { access }, Outcome::NotSent, text))
    }
}

/// The key comparisons that Azure makes use of.
#[derive(Debug, Default)]
struct Bounds {
    partition_equal: bool,
    partition_range: bool,
    row_equal: bool,
    row_range: bool,
}

fn azure(filter: Option<&CoreFilter>) -> Access {
    let mut bounds = Bounds::default();
    if let Some(filter) = filter {
        collect(filter, &mut bounds);
    }
    match bounds {
        Bounds { partition_equal: true, row_equal: true, .. } => Access::Point,
        Bounds { partition_equal: true, row_range: true, .. } => Access::RowRange,
        Bounds { partition_equal: true, .. } => Access::PartitionScan,
        Bounds { partition_range: true, .. } => Access::PartitionRange,
        _ => Access::TableScan,
    }
}

/// Looks at the terms that must all hold.
fn collect(filter: &CoreFilter, bounds: &mut Bounds) {
    match filter {
        CoreFilter::And(terms) => terms.iter().for_each(|term| collect(term, bounds)),
        CoreFilter::Compare { property, comparison, .. } => {
            let (equal, range) = match property.as_str() {
                "PartitionKey" => (&mut bounds.partition_equal, &mut bounds.partition_range),
                "RowKey" => (&mut bounds.row_equal, &mut bounds.row_range),
                _ => return,
            };
            match comparison {
                Comparison::Equal => *equal = true,
                Comparison::NotEqual => {}
                _ => *range = true,
            }
        }
        _ => {}
    }
}

/// Comparisons that the service documents as its limit.
const COMPARISONS_DOCUMENTED: usize = 15;

fn comparisons(filter: &CoreFilter) -> usize {
    match filter {
        CoreFilter::And(terms) | CoreFilter::Or(terms) => terms.iter().map(comparisons).sum(),
        CoreFilter::Not(term) => comparisons(term),
        CoreFilter::Compare { .. } | CoreFilter::Property(_) => 1,
        CoreFilter::Constant(_) => 0,
    }
}

fn advice(filter: Option<&CoreFilter>, here: Access, azure: Access) -> Vec<Advice> {
    let mut advice = Vec::new();
    if here < azure {
        advice.push(Advice {
            lint: "or-of-keys",
            evidence: format!("a {here} here is a {azure} on Azure"),
            reason: "Azure looks only at key comparisons that must all hold",
            cure: "ask for each key or range on its own",
        });
    }
    if here >= Access::PartitionScan {
        advice.push(Advice {
            lint: "scan",
            evidence: format!("the query is a {here}"),
            reason: "it reads rows that it does not return, more of them with each row that is \
                     added",
            cure: match here {
                Access::PartitionScan => "bound the RowKey, or keep an index in the partition",
                _ => "give the PartitionKey, or keep an index in another partition",
            },
        });
    }
    let count = filter.map_or(0, comparisons);
    if count > COMPARISONS_DOCUMENTED {
        advice.push(Advice {
            lint: "comparisons",
            evidence: format!("{count} comparisons; Azure documents {COMPARISONS_DOCUMENTED}"),
            reason: "Azure may refuse the query",
            cure: "split the query",
        });
    }
    advice
}
