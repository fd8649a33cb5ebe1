//! `$filter`: from its text to a plan, and one row against it.

use std::hint::black_box;

use tavola_core::filter::eval::matches;
use tavola_core::filter::parse::parse;
use tavola_core::filter::plan as planner;

use super::input;
use crate::counted::Run;
use crate::failure::{Result, refused};

/// A range of rows in one partition, with three conditions that each of its rows must be asked about.
const FILTER: &str = "PartitionKey eq 'p000001' and RowKey ge 'r000001000' and RowKey lt 'r000002000' and Count gt 100000 \
                      and Active eq true and (Price lt 20.5 or Text eq 'none')";

fn planned() -> Result<planner::Plan> {
    let filter = parse(FILTER).map_err(|refusal| refused("a filter")(&refusal))?;
    Ok(planner::plan(filter.as_ref()))
}

pub(super) fn plan(run: &Run<'_>) -> Result {
    planned()?;
    run.count(|| parse(black_box(FILTER)).map(|filter| planner::plan(filter.as_ref())))
}

/// The row satisfies all of it, so that nothing is left out.
pub(super) fn evaluate(run: &Run<'_>) -> Result {
    let residual = planned()?.residual.ok_or("the plan asks nothing of its rows")?;
    let row = input::row(1_500)?;
    let row = row.as_row_ref();
    if !matches(&residual, &row) {
        return Err("the row does not satisfy the filter".into());
    }
    run.count(|| matches(black_box(&residual), black_box(&row)))
}
