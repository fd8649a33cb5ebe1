//! A row: written, and read in place.

use std::hint::black_box;

use tavola_core::EntityView;
use tavola_store::{Row, RowRef};

use super::input;
use crate::counted::Run;
use crate::failure::Result;

pub(super) fn encode(run: &Run<'_>) -> Result {
    let (partition_key, new) = input::new_entity(1)?;
    let timestamp = input::timestamp();
    run.count(|| {
        Row::encode(
            black_box(&partition_key),
            new.row_key(),
            black_box(new.properties()),
            timestamp,
        )
    })
}

/// Checks the bytes, then walks over every property.
pub(super) fn read(run: &Run<'_>) -> Result {
    let row = input::row(1)?;
    let (partition_key, row_key) = (row.partition_key().as_str(), row.row_key().as_str());
    run.count(|| {
        let read = RowRef::new(partition_key, row_key, black_box(row.value()));
        read.map(|read| {
            read.visit(&mut |name, value| {
                black_box((name, value));
            });
        })
    })
}
