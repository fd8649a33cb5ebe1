//! Listing tables is a query over the catalogue: `TableName` becomes the RowKey of the table's row.

use tavola_core::filter::Comparison;
use tavola_core::request::{Continuation, TablesQuery};
use tavola_core::{AccountName, EdmValue, EntityKey, Filter};

use crate::catalog::{TABLE_PREFIX, TABLE_PREFIX_END};
use crate::record::{partition_key, row_key};

/// The filter and continuation that a query over tables means in the catalogue. Names compare
/// without case, so that a prefix range finds a table whatever case it was created in.
pub(crate) fn over_catalog(
    account: &AccountName,
    query: &TablesQuery,
) -> (Filter, Option<Continuation>) {
    let mut conditions = vec![
        compare("PartitionKey", Comparison::Equal, account.as_str().to_owned()),
        compare("RowKey", Comparison::GreaterOrEqual, TABLE_PREFIX.to_owned()),
        compare("RowKey", Comparison::Less, TABLE_PREFIX_END.to_owned()),
    ];
    conditions.extend(query.filter.as_ref().map(on_row_key));
    let from = query.from.as_ref().map(|name| Continuation {
        partition_key: partition_key(account),
        row_key: Some(row_key(format!("{TABLE_PREFIX}{}", name.folded()))),
    });
    (Filter::And(conditions), from)
}

/// The folded name of the table at `key`.
pub(crate) fn name_of(key: &EntityKey) -> Option<String> {
    key.row_key.as_str().strip_prefix(TABLE_PREFIX).map(str::to_owned)
}

fn compare(property: &str, comparison: Comparison, constant: String) -> Filter {
    Filter::Compare {
        property: property.to_owned(),
        comparison,
        constant: EdmValue::String(constant),
    }
}

fn on_row_key(filter: &Filter) -> Filter {
    match filter {
        Filter::Compare { property, comparison, constant } if property == "TableName" => {
            let constant = match constant {
                EdmValue::String(name) => {
                    EdmValue::String(format!("{TABLE_PREFIX}{}", name.to_ascii_lowercase()))
                }
                other => other.clone(),
            };
            Filter::Compare { property: "RowKey".to_owned(), comparison: *comparison, constant }
        }
        // A table has no other property, and what the catalogue keeps beside the name is nobody's
        // business.
        Filter::Compare { .. } | Filter::Property(_) => Filter::Constant(false),
        Filter::Constant(truth) => Filter::Constant(*truth),
        Filter::And(all) => Filter::And(all.iter().map(on_row_key).collect()),
        Filter::Or(any) => Filter::Or(any.iter().map(on_row_key).collect()),
        Filter::Not(inner) => Filter::Not(Box::new(on_row_key(inner))),
    }
}
