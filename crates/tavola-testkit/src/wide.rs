//! What a read that asks for too much needs: rows with as many properties as a row may have, and
//! filters with as many comparisons as a filter may have.

/// The name of a property of [`entity_json`].
#[must_use]
pub fn property_name(number: usize) -> String {
    format!("P{number:03}")
}

/// An entity as an insert sends it, with so many properties, each the number 0.
#[must_use]
pub fn entity_json(partition_key: &str, row_key: &str, properties: usize) -> String {
    let properties: String =
        (0..properties).map(|number| format!(",\"{}\":0", property_name(number))).collect();
    format!("{{\"PartitionKey\":\"{partition_key}\",\"RowKey\":\"{row_key}\"{properties}}}")
}

/// A filter of so many comparisons, each of which a server has to make: no such entity satisfies
/// any of them. They go round through the properties from the last to the first.
#[must_use]
pub fn filter(comparisons: usize, properties: usize) -> String {
    let term = |number: usize| {
        format!("{} eq {}", property_name(properties - 1 - number % properties), number + 1)
    };
    (0..comparisons).map(term).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::{entity_json, filter};

    #[test]
    fn texts() {
        assert_eq!(
            entity_json("p", "r", 2),
            r#"{"PartitionKey":"p","RowKey":"r","P000":0,"P001":0}"#
        );
        assert_eq!(filter(3, 2), "P001 eq 1 or P000 eq 2 or P001 eq 3");
    }
}
