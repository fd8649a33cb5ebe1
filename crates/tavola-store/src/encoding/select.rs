//! Evaluates a filter on the bytes of rows in place.
//!
//! One walk over a row's value checks it and notes where the properties that the filter names have
//! their values. The rows of a table tend to have the same properties in the same order, so the
//! walk expects the names of the row before: a property then costs one comparison of bytes, however
//! many the filter names.

use std::sync::Arc;

use tavola_core::filter::compile::{CompiledFilter, SlotView};
use tavola_core::{EdmRef, EntityView, Text, Timestamp};

use super::value::{Head, Place, Reader, ValueRef, put_bytes};
use super::{Row, RowRef};
use crate::error::StoreError;

/// A filter, and the memory that it needs to look at one row after another.
#[derive(Debug)]
pub struct RowFilter {
    filter: Arc<CompiledFilter>,
    layout: Layout,
    /// Where the row at hand has the value of each slot.
    places: Vec<Option<Place>>,
}

impl RowFilter {
    /// No row was seen yet.
    #[must_use]
    pub fn new(filter: Arc<CompiledFilter>) -> Self {
        let places = vec![None; filter.slots()];
        Self { filter, layout: Layout::default(), places }
    }

    /// Checks a whole row, as [`RowRef::new`] does; `None` if it does not satisfy the filter.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the bytes are no row.
    pub fn select<'a>(
        &mut self,
        partition_key: &'a str,
        row_key: &'a str,
        value: &'a [u8],
    ) -> Result<Option<RowRef<'a>>, StoreError> {
        let value = self
            .resolve(value)
            .map_err(|damage| RowRef::damaged(partition_key, row_key, damage))?;
        let row = RowRef { partition_key: partition_key.into(), row_key: row_key.into(), value };
        Ok(self.filter.matches(&Resolved { row: &row, places: &self.places }).then_some(row))
    }

    /// True if a row satisfies the filter.
    #[must_use]
    pub fn accepts(&mut self, row: &Row) -> bool {
        let resolved = self.resolve(row.value());
        debug_assert!(resolved.is_ok(), "a row is checked when it is made");
        resolved.is_ok()
            && self.filter.matches(&Resolved { row: &row.as_row_ref(), places: &self.places })
    }

    /// Checks a value and fills the slots.
    fn resolve<'a>(&mut self, value: &'a [u8]) -> Result<ValueRef<'a>, &'static str> {
        self.places.fill(None);
        let mut index = 0;
        ValueRef::checked(value, |reader, tag| {
            let slot = self.layout.read_name(index, reader, &self.filter)?;
            index += 1;
            if let Some(place) = slot.and_then(|slot| self.places.get_mut(slot as usize)) {
                // The first of a name counts, as for a lookup by name.
                *place = place.or_else(|| Place::of(value, reader, tag));
            }
            Some(())
        })
    }
}

/// A row and where it has what the filter asks for.
struct Resolved<'a> {
    row: &'a RowRef<'a>,
    places: &'a [Option<Place>],
}

impl SlotView for Resolved<'_> {
    fn partition_key(&self) -> Text<'_> {
        self.row.partition_key
    }

    fn row_key(&self) -> Text<'_> {
        self.row.row_key
    }

    fn timestamp(&self) -> Timestamp {
        self.row.timestamp()
    }

    #[inline]
    fn property(&self, slot: usize) -> Option<EdmRef<'_>> {
        self.places[slot].map(|place| self.row.value.at(place))
    }
}

/// The names of the row before, in order, and which slot each fills.
#[derive(Debug, Default)]
struct Layout {
    /// One after another, as they are encoded.
    names: Vec<u8>,
    properties: Vec<Known>,
}

#[derive(Debug)]
struct Known {
    name_start: u32,
    name_end: u32,
    slot: Option<u32>,
    /// How the encoded name begins, for a comparison without a call; whole names are mostly
    /// shorter.
    head: Head,
}

impl Layout {
    /// The slot of the property at `index`, whose name is next; `None` if it is no text.
    #[inline]
    fn read_name(
        &mut self,
        index: usize,
        reader: &mut Reader<'_>,
        filter: &CompiledFilter,
    ) -> Option<Option<u32>> {
        if let Some(known) = self.properties.get(index) {
            let is_next = match reader.skip_head(&known.head) {
                Some(is_next) => is_next,
                None => reader
                    .skip_prefix(&self.names[known.name_start as usize..known.name_end as usize]),
            };
            if is_next {
                return Some(known.slot);
            }
        }
        self.learn(index, reader.bytes()?, filter)
    }

    /// From here on the row before is forgotten.
    #[cold]
    fn learn(&mut self, index: usize, name: &[u8], filter: &CompiledFilter) -> Option<Option<u32>> {
        Text::from_utf8(name)?;
        let slot = filter.slot(name).map(|slot| slot as u32);
        self.properties.truncate(index);
        self.names.truncate(self.properties.last().map_or(0, |last| last.name_end as usize));
        let name_start = self.names.len();
        put_bytes(&mut self.names, name);
        let head = Head::of(&self.names[name_start..]);
        self.properties.push(Known {
            name_start: name_start as u32,
            name_end: self.names.len() as u32,
            slot,
            head,
        });
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use tavola_core::filter::eval::matches;
    use tavola_core::filter::parse::parse;
    use tavola_core::{
        CompiledFilter, EdmValue, Filter, PartitionKey, Properties, PropertyName, RowKey, Timestamp,
    };

    use super::RowFilter;
    use crate::encoding::{Row, RowRef};

    const NAMES: [&str; 6] = ["A", "B", "Ab", "Größe", "Count", "Z"];

    fn row(properties: &[(&str, EdmValue)]) -> Row {
        let named = properties
            .iter()
            .map(|(name, value)| (PropertyName::new(*name).unwrap(), value.clone()));
        let (partition_key, row_key) = (PartitionKey::new("p").unwrap(), RowKey::new("r").unwrap());
        Row::encode(
            &partition_key,
            &row_key,
            &Properties::new(named.collect()).unwrap(),
            Timestamp::MIN,
        )
    }

    fn parsed(text: &str) -> Filter {
        parse(text).unwrap().unwrap()
    }

    fn row_filter(filter: &Filter) -> RowFilter {
        RowFilter::new(Arc::new(CompiledFilter::new(filter)))
    }

    fn any_value() -> impl Strategy<Value = EdmValue> {
        prop_oneof![
            (0..3_i32).prop_map(EdmValue::Int32),
            (0..3_i64).prop_map(EdmValue::Int64),
            any::<bool>().prop_map(EdmValue::Boolean),
            "[a-c]{0,3}".prop_map(EdmValue::String),
            prop::sample::select(vec![f64::NAN, 1.0, 2.5]).prop_map(EdmValue::double),
        ]
    }

    /// Properties in any order, so that one row's layout says little about the next one's.
    fn any_row() -> impl Strategy<Value = Row> {
        let names = prop::sample::subsequence(NAMES.to_vec(), 0..=NAMES.len()).prop_shuffle();
        (names, prop::collection::vec(any_value(), NAMES.len()))
            .prop_map(|(names, values)| row(&names.into_iter().zip(values).collect::<Vec<_>>()))
    }

    fn any_filter() -> impl Strategy<Value = Filter> {
        let name =
            || prop::sample::select([&NAMES[..], &["absent", "RowKey", "Timestamp"]].concat());
        let literal = prop::sample::select(vec![
            "1",
            "1L",
            "2",
            "1.0",
            "NaN",
            "true",
            "'b'",
            "'r'",
            "datetime'2024-01-01'",
        ]);
        let operator = prop::sample::select(vec!["eq", "ne", "lt", "ge"]);
        let term = prop_oneof![
            4 => (name(), operator, literal).prop_map(|(name, operator, literal)| format!("{name} {operator} {literal}")),
            1 => name().prop_map(str::to_owned),
        ];
        let tree = term.prop_recursive(4, 24, 3, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone())
                    .prop_map(|(left, right)| format!("({left} and {right})")),
                (inner.clone(), inner.clone())
                    .prop_map(|(left, right)| format!("({left} or {right})")),
                inner.prop_map(|term| format!("not ({term})")),
            ]
        });
        tree.prop_map(|text| parsed(&text))
    }

    proptest! {
        #[test]
        fn rows_are_selected_as_the_definition_says(
            filter in any_filter(),
            rows in prop::collection::vec(any_row(), 1..12),
        ) {
            let mut selects = row_filter(&filter);
            for row in &rows {
                let wanted = matches(&filter, row);
                let selected = selects.select("p", "r", row.value()).unwrap();
                prop_assert_eq!(selected.is_some(), wanted, "{} on {:?}", filter, row);
                prop_assert!(selected.is_none_or(|selected| selected == row.as_row_ref()));
                prop_assert_eq!(selects.accepts(row), wanted);
            }
        }

        /// Whatever the rows before looked like, bytes are taken for a row exactly if they are one.
        #[test]
        fn damage_is_found_as_without_a_filter(
            rows in prop::collection::vec(any_row(), 1..6),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let filter = parsed("Count eq 1 or Ab eq 'b'");
            let mut selects = row_filter(&filter);
            for row in &rows {
                selects.select("p", "r", row.value()).unwrap();
                let mut value = row.value().to_vec();
                for (at, byte) in &flips {
                    let at = at.index(value.len());
                    value[at] = *byte;
                }
                match (RowRef::new("p", "r", &value), selects.select("p", "r", &value)) {
                    (Ok(row), Ok(selected)) => prop_assert_eq!(selected.is_some(), matches(&filter, &row)),
                    (Err(plain), Err(selecting)) => prop_assert_eq!(plain.to_string(), selecting.to_string()),
                    (plain, selecting) => prop_assert!(false, "{:?} and {:?}", plain, selecting),
                }
            }
        }
    }

    #[test]
    fn a_layout_is_learnt_again_when_it_changes() {
        let one = |name| (name, EdmValue::Int32(1));
        let mut selects = row_filter(&parsed("Count eq 1"));
        for (names, expected) in [
            (&["A", "Count", "Z"][..], true),
            (&["A", "Count", "Z"], true),
            (&["Count", "A", "Z"], true),
            (&["A", "Z"], false),
            (&[], false),
            (&["A", "Z", "B", "Count"], true),
            (&["A", "Z", "B", "Coun"], false),
            (&["A", "Z", "B", "Count2"], false),
        ] {
            assert_eq!(
                selects.accepts(&row(&names.iter().copied().map(one).collect::<Vec<_>>())),
                expected,
                "{names:?}"
            );
        }
    }
}
