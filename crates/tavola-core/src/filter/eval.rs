//! Whether an entity satisfies a filter: the definition, as plain as it can be said. Stores ask the
//! same of many rows in compiled form ([`super::compile`]).
//!
//! The rules of the service that one would not guess:
//! - The constant is widened to the stored type (Int32 to Int64 and Double, Int64 to Double), never
//!   narrowed. What the service does with an Int64 constant and a stored Double is unsettled;
//!   widening is the more useful of the two reports.
//! - Between types that do not meet, `ne`, `lt` and `le` hold, the others do not.
//! - No comparison with an absent property holds, not even `ne`; its negation therefore does.

use crate::edm::{EdmRef, EdmType};
use crate::entity::EntityView;
use crate::filter::{Comparison, Filter};

/// True if `entity` satisfies `filter`. Allocates nothing.
#[must_use]
pub fn matches(filter: &Filter, entity: &dyn EntityView) -> bool {
    match filter {
        Filter::Constant(truth) => *truth,
        Filter::Property(name) => matches!(value(entity, name), Some(EdmRef::Boolean(true))),
        Filter::Compare { property, comparison, constant } => value(entity, property)
            .is_some_and(|stored| holds(stored, *comparison, constant.as_ref())),
        Filter::And(terms) => terms.iter().all(|term| matches(term, entity)),
        Filter::Or(terms) => terms.iter().any(|term| matches(term, entity)),
        Filter::Not(term) => !matches(term, entity),
    }
}

/// The value that a name in a filter stands for, system properties included.
fn value<'e>(entity: &'e dyn EntityView, name: &str) -> Option<EdmRef<'e>> {
    match name {
        "PartitionKey" => Some(EdmRef::String(entity.partition_key())),
        "RowKey" => Some(EdmRef::String(entity.row_key())),
        "Timestamp" => Some(EdmRef::DateTime(entity.timestamp().date_time())),
        _ => entity.property(name),
    }
}

/// True if `stored` stands in the relation `comparison` to `constant`.
fn holds(stored: EdmRef<'_>, comparison: Comparison, constant: EdmRef<'_>) -> bool {
    let constant = widened(constant, stored.edm_type());
    if stored.edm_type() != constant.edm_type() {
        return comparison.accepts_foreign_type();
    }
    match stored.compare(&constant) {
        Some(order) => comparison.accepts(order),
        None => comparison.accepts_unordered(),
    }
}

/// The constant as a value of the stored type, if it widens to that.
pub(super) fn widened(constant: EdmRef<'_>, stored: EdmType) -> EdmRef<'_> {
    match (constant, stored) {
        (EdmRef::Int32(number), EdmType::Int64) => EdmRef::Int64(i64::from(number)),
        (EdmRef::Int32(number), EdmType::Double) => EdmRef::Double(f64::from(number)),
        // Beyond 2^53 this rounds to the nearest double, as the usual arithmetic conversion does.
        (EdmRef::Int64(number), EdmType::Double) => EdmRef::Double(number as f64),
        _ => constant,
    }
}

#[cfg(test)]
mod tests {
    use super::matches;
    use crate::filter::Comparison;
    use crate::filter::testing::{cases, constant, entity, filter};

    fn check(table: &str) {
        for [text, stored, expected] in cases(table) {
            assert_eq!(
                matches(&filter(text), &entity(stored)).to_string(),
                expected,
                "{text} on {stored}"
            );
        }
    }

    /// For each operator: does it hold for `stored` and `literal`? In the order `eq ne gt ge lt
    /// le`.
    fn truths(stored: &str, literal: &str) -> String {
        let entity = entity(&format!("p/r P={stored}"));
        let truth = |comparison: Comparison| {
            matches(&filter(&format!("P {comparison} {literal}")), &entity)
        };
        Comparison::ALL.map(|comparison| if truth(comparison) { 'y' } else { '-' }).iter().collect()
    }

    const EQUAL: &str = "y--y-y";
    const GREATER: &str = "-yyy--";
    const LESS: &str = "-y--yy";
    /// As if less: how the service treats a foreign type.
    const FOREIGN: &str = LESS;
    const NAN: &str = "-y----";

    /// Three ascending values of each type.
    const SAMPLES: [[&str; 3]; 8] = [
        ["''", "'B'", "'a'"],
        ["-7", "0", "2147483647"],
        ["-9223372036854775808L", "5L", "9007199254740993L"],
        ["-INF", "-1.5", "1e300"],
        ["false", "true", "true"],
        [
            "datetime'1601-01-01'",
            "datetime'2024-01-01T00:00:00.0000001Z'",
            "datetime'2024-01-01T00:00:00.0000002Z'",
        ],
        [
            "guid'00000000-0000-0000-0000-0000000000ff'",
            "guid'0a000000-0000-0000-0000-000000000000'",
            "guid'A0000000-0000-0000-0000-000000000000'",
        ],
        ["X''", "X'01FF'", "X'02'"],
    ];

    #[test]
    fn every_operator_on_every_type() {
        for samples in SAMPLES {
            for stored in samples {
                for literal in samples {
                    let order =
                        constant(stored).as_ref().compare(&constant(literal).as_ref()).unwrap();
                    let expected = [LESS, EQUAL, GREATER][(order as i8 + 1) as usize];
                    assert_eq!(truths(stored, literal), expected, "{stored} and {literal}");
                }
            }
            let [first, second, _] = samples;
            assert_eq!(truths(first, second), LESS, "the samples of {first} ascend");
        }
    }

    #[test]
    fn foreign_types_are_as_if_the_stored_value_were_less() {
        let widens =
            |stored: usize, literal: usize| matches!((stored, literal), (2, 1) | (3, 1) | (3, 2));
        for (stored, stored_samples) in SAMPLES.iter().enumerate() {
            for (literal, literal_samples) in SAMPLES.iter().enumerate() {
                if stored != literal && !widens(stored, literal) {
                    assert_eq!(
                        truths(stored_samples[1], literal_samples[1]),
                        FOREIGN,
                        "{stored} and {literal}"
                    );
                }
            }
        }
        assert_eq!(truths("5", "'5'"), FOREIGN);
        assert_eq!(truths("'x'", "5"), FOREIGN);
    }

    #[test]
    fn constants_widen_and_never_narrow() {
        for (stored, literal, expected) in [
            ("3L", "3", EQUAL),
            ("4L", "3", GREATER),
            ("2L", "3", LESS),
            ("3.0", "3", EQUAL),
            ("3.5", "3", GREATER),
            ("-INF", "3", LESS),
            ("3.0", "3L", EQUAL),
            ("3.5", "3L", GREATER),
            // 2^53 + 1 is no double; it widens to 2^53.
            ("9007199254740992.0", "9007199254740993L", EQUAL),
            ("3", "3L", FOREIGN),
            ("4", "3L", FOREIGN),
            ("3", "3.0", FOREIGN),
            ("4L", "3.0", FOREIGN),
        ] {
            assert_eq!(truths(stored, literal), expected, "{stored} and {literal}");
        }
    }

    #[test]
    fn not_a_number() {
        for (stored, literal) in
            [("NaN", "NaN"), ("NaN", "1.0"), ("1.0", "NaN"), ("NaN", "1"), ("INF", "NaN")]
        {
            assert_eq!(truths(stored, literal), NAN, "{stored} and {literal}");
        }
        assert_eq!(truths("INF", "INF"), EQUAL);
        assert_eq!(truths("NaN", "'x'"), FOREIGN);
    }

    #[test]
    fn strings_compare_by_utf16_code_unit() {
        for (stored, literal, expected) in [
            ("'B'", "'a'", LESS),
            ("'a'", "'ab'", LESS),
            ("'é'", "'z'", GREATER),
            ("'\u{10000}'", "'\u{e000}'", LESS),
            ("'O''Brien'", "'O''Brien'", EQUAL),
            ("'a'", "'A'", GREATER),
        ] {
            assert_eq!(truths(stored, literal), expected, "{stored} and {literal}");
        }
    }

    #[test]
    fn absent_properties_fail_every_comparison() {
        for comparison in Comparison::ALL {
            for literal in ["1", "1L", "1.0", "true", "''", "X''"] {
                let text = format!("Q {comparison} {literal}");
                assert!(!matches(&filter(&text), &entity("p/r P=1")), "{text}");
                assert!(
                    matches(&filter(&format!("not ({text})")), &entity("p/r P=1")),
                    "not {text}"
                );
            }
        }
    }

    #[test]
    fn the_rest() {
        check(
            r"
            P                                   | p/r P=true    | true
            P                                   | p/r P=false   | false
            P                                   | p/r P='true'  | false
            P                                   | p/r P=1       | false
            P                                   | p/r           | false
            not P                               | p/r           | true
            p                                   | p/r P=true    | false
            PartitionKey                        | p/r           | false
            true                                | p/r           | true
            false                               | p/r           | false
            PartitionKey eq 'p'                 | p/r           | true
            RowKey eq ''                        | p/            | true
            RowKey gt 'q' and RowKey lt 's'     | p/r           | true
            RowKey eq 5                         | p/5           | false
            RowKey lt 5                         | p/5           | true
            Timestamp eq datetime'2024-01-01'   | p/r           | true
            Timestamp gt datetime'2024-01-01'   | p/r           | false
            Timestamp ge datetime'2023-12-31T23:59:59.9999999Z' | p/r | true
            Timestamp lt '2025'                 | p/r           | true
            3 lt P                              | p/r P=4       | true
            P eq 1 and Q eq 2                   | p/r P=1 Q=2   | true
            P eq 1 and Q eq 2                   | p/r P=1 Q=3   | false
            P eq 0 or Q eq 2                    | p/r P=1 Q=2   | true
            P eq 0 or Q eq 0                    | p/r P=1 Q=2   | false
            P eq 1 or P eq 2 and Q eq 3         | p/r P=1 Q=2   | true
            (P eq 1 or P eq 2) and Q eq 3       | p/r P=1 Q=2   | false
            not P eq 0 and Q eq 2               | p/r P=1 Q=2   | true
            ",
        );
    }
}
