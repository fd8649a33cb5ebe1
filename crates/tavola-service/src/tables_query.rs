//! Listing tables is a query over the catalogue: `TableName` becomes the RowKey of the table's row.

use tavola_core::filter::Comparison;
use tavola_core::{AccountName, EdmValue, Filter};

use crate::catalog::{ResourceKind, Tables};

const TABLE_PREFIX: &str = Tables::PREFIX;
/// Just behind every living table.
const TABLE_PREFIX_END: &str = "t;";

/// What a filter of tables means in the catalogue. Names compare without case, so that a prefix
/// range finds a table whatever case it was created in.
pub(crate) fn over_catalog(account: &AccountName, filter: Option<&Filter>) -> Filter {
    let mut conditions = vec![
        compare("PartitionKey", Comparison::Equal, account.as_str().to_owned()),
        compare("RowKey", Comparison::GreaterOrEqual, TABLE_PREFIX.to_owned()),
        compare("RowKey", Comparison::Less, TABLE_PREFIX_END.to_owned()),
    ];
    conditions.extend(filter.map(on_row_key));
    Filter::And(conditions)
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
                    EdmValue::String(format!("{TABLE_PREFIX}{}", Tables::fold(name)))
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
