//! A filter made ready for many rows.
//!
//! [`super::eval::matches`] is the definition; this is the same condition in a form whose cost per
//! term depends neither on the row's properties nor on the tree around the term. Every property
//! that the filter names has a slot, which a store fills in one walk over the row. The terms are a
//! list of tests, each of which names the test that follows it when it holds and when it does not:
//! a row takes one path through them and leaves as soon as its fate is known.

use std::cmp::Ordering;

use crate::edm::{EdmRef, EdmType, EdmValue, Guid};
use crate::entity::is_system_property;
use crate::etag::Timestamp;
use crate::filter::{Comparison, Filter, eval};
use crate::key::bytes_in_utf16_order;
use crate::text::Text;
use crate::time::DateTime;

/// One entity as a compiled filter sees it.
pub trait SlotView {
    /// The partition's key.
    fn partition_key(&self) -> Text<'_>;
    /// The row's key.
    fn row_key(&self) -> Text<'_>;
    /// When the entity was last written.
    fn timestamp(&self) -> Timestamp;
    /// The property that [`CompiledFilter::slot`] gave this slot, if the entity has it.
    fn property(&self, slot: usize) -> Option<EdmRef<'_>>;
}

/// A filter compiled for one query.
#[derive(Debug, Clone)]
pub struct CompiledFilter {
    /// The properties that the filter names, system properties apart, by length and then by bytes.
    /// A slot is a place here.
    names: Box<[Box<str>]>,
    tests: Box<[Test]>,
    first: Step,
}

/// What to do next.
#[derive(Debug, Clone, Copy)]
enum Step {
    Test(usize),
    Decided(bool),
}

#[derive(Debug, Clone)]
struct Test {
    source: Source,
    operand: Operand,
    /// Which of the relations below satisfy the test.
    accepted: u8,
    held: Step,
    failed: Step,
}

/// Where a test's value comes from.
#[derive(Debug, Clone, Copy)]
enum Source {
    PartitionKey,
    RowKey,
    Timestamp,
    Slot(usize),
}

/// How a stored value relates to a constant, one bit each.
mod relation {
    pub(super) const LESS: u8 = 1;
    pub(super) const EQUAL: u8 = 2;
    pub(super) const GREATER: u8 = 4;
    /// One of them is NaN.
    pub(super) const UNORDERED: u8 = 8;
    /// The types do not meet.
    pub(super) const FOREIGN: u8 = 16;
}

/// A constant, in every type that it is widened to.
#[derive(Debug, Clone)]
enum Operand {
    String(Box<[u8]>),
    Int32(i32, i64, f64),
    Int64(i64, f64),
    Double(f64),
    Boolean(bool),
    DateTime(DateTime),
    Guid(Guid),
    Binary(Box<[u8]>),
}

impl CompiledFilter {
    /// Compiles `filter`.
    #[must_use]
    pub fn new(filter: &Filter) -> Self {
        let mut names = Vec::new();
        collect_names(filter, &mut names);
        names.sort_unstable_by(|left, right| by_length(left.as_bytes(), right.as_bytes()));
        names.dedup();
        let names: Box<[Box<str>]> = names.into_iter().map(Box::from).collect();
        let mut compiler = Compiler { names: &names, tests: Vec::new() };
        let first = compiler.compile(filter, Step::Decided(true), Step::Decided(false));
        let tests = compiler.tests.into();
        Self { names, tests, first }
    }

    /// How many slots there are.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.names.len()
    }

    /// How many tests a row meets at most.
    #[must_use]
    pub fn tests(&self) -> usize {
        self.tests.len()
    }

    /// The slot of the property with this name.
    #[must_use]
    pub fn slot(&self, name: &[u8]) -> Option<usize> {
        slot(&self.names, name)
    }

    /// True if the entity satisfies the filter. Allocates nothing.
    #[must_use]
    pub fn matches<E: SlotView + ?Sized>(&self, entity: &E) -> bool {
        let mut step = self.first;
        loop {
            match step {
                Step::Decided(truth) => return truth,
                Step::Test(index) => step = self.tests[index].follow(entity),
            }
        }
    }
}

/// Slots are found by length first, so that few names are compared byte by byte.
fn by_length(left: &[u8], right: &[u8]) -> Ordering {
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

fn slot(names: &[Box<str>], name: &[u8]) -> Option<usize> {
    names.binary_search_by(|candidate| by_length(candidate.as_bytes(), name)).ok()
}

fn collect_names<'f>(filter: &'f Filter, names: &mut Vec<&'f str>) {
    match filter {
        Filter::Constant(_) => {}
        Filter::Property(name) | Filter::Compare { property: name, .. } => {
            if !is_system_property(name) {
                names.push(name);
            }
        }
        Filter::And(terms) | Filter::Or(terms) => {
            terms.iter().for_each(|term| collect_names(term, names))
        }
        Filter::Not(term) => collect_names(term, names),
    }
}

struct Compiler<'n> {
    names: &'n [Box<str>],
    tests: Vec<Test>,
}

impl Compiler<'_> {
    /// The first step of `filter`, where `held` and `failed` are the steps after it. Whatever
    /// follows is compiled before.
    fn compile(&mut self, filter: &Filter, held: Step, failed: Step) -> Step {
        match filter {
            Filter::Constant(true) => held,
            Filter::Constant(false) => failed,
            // Only a Boolean that is true equals true: the definition of a bare property.
            Filter::Property(name) => {
                self.test(name, Comparison::Equal, &EdmValue::Boolean(true), held, failed)
            }
            Filter::Compare { property, comparison, constant } => {
                self.test(property, *comparison, constant, held, failed)
            }
            Filter::And(terms) => {
                terms.iter().rev().fold(held, |next, term| self.compile(term, next, failed))
            }
            Filter::Or(terms) => {
                terms.iter().rev().fold(failed, |next, term| self.compile(term, held, next))
            }
            Filter::Not(term) => self.compile(term, failed, held),
        }
    }

    fn test(
        &mut self,
        name: &str,
        comparison: Comparison,
        constant: &EdmValue,
        held: Step,
        failed: Step,
    ) -> Step {
        let source = match name {
            "PartitionKey" => Source::PartitionKey,
            "RowKey" => Source::RowKey,
            "Timestamp" => Source::Timestamp,
            _ => Source::Slot(slot(self.names, name.as_bytes()).expect("every name was collected")),
        };
        let (operand, accepted) = (Operand::of(constant), accepted(comparison));
        self.tests.push(Test { source, operand, accepted, held, failed });
        Step::Test(self.tests.len() - 1)
    }
}

/// The relations that satisfy an operator.
fn accepted(comparison: Comparison) -> u8 {
    let bit = |holds: bool, relation: u8| if holds { relation } else { 0 };
    bit(comparison.accepts(Ordering::Less), relation::LESS)
        | bit(comparison.accepts(Ordering::Equal), relation::EQUAL)
        | bit(comparison.accepts(Ordering::Greater), relation::GREATER)
        | bit(comparison.accepts_unordered(), relation::UNORDERED)
        | bit(comparison.accepts_foreign_type(), relation::FOREIGN)
}

impl Test {
    #[inline]
    fn follow<E: SlotView + ?Sized>(&self, entity: &E) -> Step {
        let relation = match self.source {
            Source::PartitionKey => {
                self.operand.relation_of(EdmRef::String(entity.partition_key()))
            }
            Source::RowKey => self.operand.relation_of(EdmRef::String(entity.row_key())),
            Source::Timestamp => {
                self.operand.relation_of(EdmRef::DateTime(entity.timestamp().date_time()))
            }
            Source::Slot(slot) => match entity.property(slot) {
                Some(stored) => self.operand.relation_of(stored),
                // No comparison with an absent property holds.
                None => return self.failed,
            },
        };
        if self.accepted & relation != 0 { self.held } else { self.failed }
    }
}

impl Operand {
    fn of(constant: &EdmValue) -> Self {
        let as_int64 = match eval::widened(constant.as_ref(), EdmType::Int64) {
            EdmRef::Int64(number) => number,
            _ => 0,
        };
        let as_double = match eval::widened(constant.as_ref(), EdmType::Double) {
            EdmRef::Double(number) => number,
            _ => 0.0,
        };
        match constant {
            EdmValue::String(text) => Self::String(text.as_bytes().into()),
            EdmValue::Int32(number) => Self::Int32(*number, as_int64, as_double),
            EdmValue::Int64(number) => Self::Int64(*number, as_double),
            EdmValue::Double(number) => Self::Double(*number),
            EdmValue::Boolean(truth) => Self::Boolean(*truth),
            EdmValue::DateTime(at) => Self::DateTime(*at),
            EdmValue::Guid(guid) => Self::Guid(*guid),
            EdmValue::Binary(bytes) => Self::Binary(bytes.as_slice().into()),
        }
    }

    /// How `stored` relates to this constant.
    #[inline]
    fn relation_of(&self, stored: EdmRef<'_>) -> u8 {
        let order = match (stored, self) {
            (EdmRef::String(stored), Self::String(text)) => {
                bytes_in_utf16_order(stored.as_bytes(), text)
            }
            (EdmRef::Int32(stored), Self::Int32(number, ..)) => stored.cmp(number),
            (EdmRef::Int64(stored), Self::Int32(_, number, _) | Self::Int64(number, _)) => {
                stored.cmp(number)
            }
            (
                EdmRef::Double(stored),
                Self::Int32(.., number) | Self::Int64(_, number) | Self::Double(number),
            ) => match stored.partial_cmp(number) {
                Some(order) => order,
                None => return relation::UNORDERED,
            },
            (EdmRef::Boolean(stored), Self::Boolean(truth)) => stored.cmp(truth),
            (EdmRef::DateTime(stored), Self::DateTime(at)) => stored.cmp(at),
            (EdmRef::Guid(stored), Self::Guid(guid)) => stored.cmp(guid),
            (EdmRef::Binary(stored), Self::Binary(bytes)) => stored.cmp(bytes),
            _ => return relation::FOREIGN,
        };
        match order {
            Ordering::Less => relation::LESS,
            Ordering::Equal => relation::EQUAL,
            Ordering::Greater => relation::GREATER,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{CompiledFilter, SlotView};
    use crate::edm::EdmRef;
    use crate::entity::{Entity, EntityView, Properties, PropertyName};
    use crate::etag::Timestamp;
    use crate::filter::eval::matches;
    use crate::filter::testing::{any_constant, entity, filter, filter_tree};
    use crate::filter::{Comparison, Filter};
    use crate::text::Text;

    /// An entity whose slots are looked up by name, as the definition does.
    struct ByName<'e>(&'e Entity, &'e CompiledFilter);

    impl SlotView for ByName<'_> {
        fn partition_key(&self) -> Text<'_> {
            self.0.partition_key()
        }

        fn row_key(&self) -> Text<'_> {
            self.0.row_key()
        }

        fn timestamp(&self) -> Timestamp {
            self.0.timestamp()
        }

        fn property(&self, slot: usize) -> Option<EdmRef<'_>> {
            self.0.property(&self.1.names[slot])
        }
    }

    fn compiled_matches(filter: &Filter, entity: &Entity) -> bool {
        let compiled = CompiledFilter::new(filter);
        compiled.matches(&ByName(entity, &compiled))
    }

    #[test]
    fn every_pair_of_types_relates_as_defined() {
        let literals = [
            "''",
            "'B'",
            "'a'",
            "'\u{10000}'",
            "'\u{e000}'",
            "-7",
            "3",
            "2147483647",
            "3L",
            "4L",
            "9007199254740993L",
            "-INF",
            "3.0",
            "3.5",
            "9007199254740992.0",
            "NaN",
            "INF",
            "false",
            "true",
            "datetime'2024-01-01'",
            "datetime'2024-01-02'",
            "guid'00000000-0000-0000-0000-0000000000ff'",
            "X''",
            "X'01FF'",
            "X'02'",
        ];
        for stored in literals {
            let entity = entity(&format!("p/r P={stored}"));
            for literal in literals {
                for text in Comparison::ALL.map(|comparison| format!("P {comparison} {literal}")) {
                    assert_eq!(
                        compiled_matches(&filter(&text), &entity),
                        matches(&filter(&text), &entity),
                        "{text} on {stored}"
                    );
                }
            }
        }
    }

    #[test]
    fn each_property_has_one_slot() {
        let compiled = CompiledFilter::new(&filter(
            "bb eq 1 or a eq 1 or not bb or RowKey eq 'a' or c lt 5 and Timestamp lt 5",
        ));
        assert_eq!((compiled.slots(), compiled.tests()), (3, 6));
        assert_eq!(
            ["a", "c", "bb"].map(|name| compiled.slot(name.as_bytes())),
            [Some(0), Some(1), Some(2)]
        );
        assert_eq!(
            ["", "b", "RowKey", "bbb"].map(|name| compiled.slot(name.as_bytes())),
            [None; 4]
        );
    }

    #[test]
    fn lists_may_be_empty() {
        for filter in
            [Filter::And(vec![]), Filter::Or(vec![]), Filter::Not(Box::new(Filter::Or(vec![])))]
        {
            assert_eq!(
                compiled_matches(&filter, &entity("p/r")),
                matches(&filter, &entity("p/r")),
                "{filter:?}"
            );
        }
    }

    /// A row takes one path: a test behind one that decides is never asked.
    #[test]
    fn nothing_is_asked_once_the_answer_is_known() {
        struct Asked<'c>(&'c CompiledFilter, std::cell::RefCell<Vec<String>>);
        impl SlotView for Asked<'_> {
            fn partition_key(&self) -> Text<'_> {
                "p".into()
            }
            fn row_key(&self) -> Text<'_> {
                "r".into()
            }
            fn timestamp(&self) -> Timestamp {
                Timestamp::MIN
            }
            fn property(&self, slot: usize) -> Option<EdmRef<'_>> {
                let name = self.0.names[slot].to_string();
                let truth = name.starts_with('t');
                self.1.borrow_mut().push(name);
                Some(EdmRef::Boolean(truth))
            }
        }
        for (text, expected, asked) in [
            ("f1 and t1", false, "f1"),
            ("t1 or f1", true, "t1"),
            ("(f1 or t1) and (t2 or f2) and (f3 and t3) or t4", true, "f1 t1 t2 f3 t4"),
            ("not (f1 and t1) and not (t2 or f2)", false, "f1 t2"),
        ] {
            let compiled = CompiledFilter::new(&filter(text));
            let view = Asked(&compiled, Vec::new().into());
            assert_eq!(
                (compiled.matches(&view), view.1.into_inner().join(" ")),
                (expected, asked.to_owned()),
                "{text}"
            );
        }
    }

    fn any_entity() -> impl Strategy<Value = Entity> {
        let names =
            prop::sample::subsequence(vec!["a", "_b", "Größe", "X", "mod", "true1", "other"], 0..7);
        (names, prop::collection::vec(any_constant(), 7)).prop_map(|(names, values)| {
            let named = names
                .into_iter()
                .map(|name| PropertyName::new(name).unwrap())
                .zip(values)
                .collect();
            Entity { properties: Properties::new(named).unwrap(), ..entity("p/r") }
        })
    }

    proptest! {
        #[test]
        fn compiling_changes_no_answer(filter in filter_tree(), entities in prop::collection::vec(any_entity(), 1..8)) {
            for entity in entities {
                prop_assert_eq!(compiled_matches(&filter, &entity), matches(&filter, &entity), "{} on {:?}", filter, entity);
            }
        }
    }
}
