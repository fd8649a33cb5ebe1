//! `$filter`: from its text to a plan, and rows against it.

use std::hint::black_box;
use std::sync::Arc;

use tavola_core::filter::eval::matches;
use tavola_core::filter::parse::parse;
use tavola_core::filter::plan as planner;
use tavola_core::{CompiledFilter, EntityView, Filter};
use tavola_store::{Row, RowFilter};

use super::input;
use crate::counted::Run;
use crate::failure::{Result, refused};

/// A range of rows in one partition, with three conditions that each of its rows must be asked
/// about.
const FILTER: &str = "PartitionKey eq 'p000001' and RowKey ge 'r000001000' and RowKey lt 'r000002000' and Count gt 100000 \
                      and Active eq true and (Price lt 20.5 or Text eq 'none')";

fn planned() -> Result<planner::Plan> {
    let filter = parse(FILTER).map_err(|domain_error| refused("a filter")(&domain_error))?;
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

/// What a scan does with one row of many: checks it and holds it against the compiled filter.
pub(super) fn select(run: &Run<'_>) -> Result {
    select_row(
        run,
        &planned()?.residual.ok_or("the plan asks nothing of its rows")?,
        &input::row(1_500)?,
        true,
    )
}

/// Properties of the wide row, and terms of the filter over it: all of them are asked, and none
/// holds.
const WIDE_PROPERTIES: usize = 250;
const WIDE_TERMS: usize = 50;

/// The same with many terms over many properties, the last of them first.
pub(super) fn select_wide(run: &Run<'_>) -> Result {
    let term = |number: usize| {
        format!(
            "P{:03} eq {number}",
            WIDE_PROPERTIES - 1 - (number - 1) * WIDE_PROPERTIES / WIDE_TERMS
        )
    };
    let text = (1..=WIDE_TERMS).map(term).collect::<Vec<_>>().join(" or ");
    let filter = parse(&text)
        .map_err(|domain_error| refused("a filter")(&domain_error))?
        .ok_or("the text is not empty")?;
    select_row(run, &filter, &input::wide_row(WIDE_PROPERTIES)?, false)
}

fn select_row(run: &Run<'_>, filter: &Filter, row: &Row, expected: bool) -> Result {
    let mut compiled = RowFilter::new(Arc::new(CompiledFilter::new(filter)));
    let (partition_key, row_key) = (row.partition_key().as_str(), row.row_key().as_str());
    let mut is_selected = || {
        let selected =
            compiled.select(black_box(partition_key), black_box(row_key), black_box(row.value()));
        selected.map(|selected| selected.is_some())
    };
    // The first row of a scan teaches the filter what rows look like.
    if is_selected()? != expected {
        return Err("the row is selected, or not, against the filter".into());
    }
    run.count(is_selected)
}
