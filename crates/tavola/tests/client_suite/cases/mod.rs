//! The cases, each on a table of its own.

mod entities;
mod patterns;
mod queries;
mod service;
mod writes;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tavola_client::DynEntity;

use crate::site::Site;

pub(crate) type Case = fn(Arc<Site>) -> Pin<Box<dyn Future<Output = ()>>>;

/// Names each case by its module and function.
macro_rules! cases {
    ($($module:ident: $($name:ident),+;)+) => {
        vec![$($((
            concat!(stringify!($module), "::", stringify!($name)),
            (|site| Box::pin(async move { $module::$name(&site).await })) as Case,
        )),+),+]
    };
}

pub(crate) fn all() -> Vec<(&'static str, Case)> {
    cases! {
        entities: every_type, dynamic_types, any_key, kinds_in_one_table;
        patterns: indexed, log_tail, series;
        queries: filters, in_pages, resumed_elsewhere, projections, many_reads, deletes;
        service: tables, policies, properties, signatures, refused_signatures;
        writes: one_entity, limits, modify, transactions, whole_transactions, bulk;
    }
}

fn person(row: &str, age: i32) -> DynEntity {
    let mut person = DynEntity::new("Smith", row);
    person.set("Age", age);
    person.set("Näme", "O'Brien");
    person
}
