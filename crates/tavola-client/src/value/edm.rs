//! Our values and those of the core, each as the other.

use tavola_core::{DateTime, EdmRef, EdmValue, Guid};
use time::OffsetDateTime;
use uuid::Uuid;

use super::ValueRef;
use crate::error::{Error, Rule};

/// Nanoseconds in a tick of the service.
const NANOS_PER_TICK: i128 = 100;
/// 1970-01-01 in ticks since 1601-01-01.
const UNIX_EPOCH_TICKS: i128 = 116_444_736_000_000_000;

/// The service's point in time, cut to 100 ns; `None` before 1601. (Rust's type ends in 9999, as
/// the service does.)
pub(crate) fn date_time_to(at: OffsetDateTime) -> Option<DateTime> {
    let ticks = at.unix_timestamp_nanos().div_euclid(NANOS_PER_TICK) + UNIX_EPOCH_TICKS;
    u64::try_from(ticks).ok().and_then(DateTime::from_ticks)
}

/// The point in time as Rust has it, in UTC.
pub(crate) fn date_time_from(at: DateTime) -> OffsetDateTime {
    let nanos = (i128::from(at.ticks()) - UNIX_EPOCH_TICKS) * NANOS_PER_TICK;
    // Every DateTime lies between 1601 and 9999, which Rust's type holds.
    OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// The value as the core has it.
///
/// # Errors
/// If it is a point in time before 1601.
pub(crate) fn value_to_edm(name: &str, value: ValueRef<'_>) -> Result<EdmValue, Error> {
    Ok(match value {
        ValueRef::String(text) => EdmValue::String(text.to_owned()),
        ValueRef::Int32(number) => EdmValue::Int32(number),
        ValueRef::Int64(number) => EdmValue::Int64(number),
        ValueRef::Double(number) => EdmValue::double(number),
        ValueRef::Boolean(truth) => EdmValue::Boolean(truth),
        ValueRef::DateTime(at) => EdmValue::DateTime(date_time_to(at).ok_or_else(|| {
            let text = format!("property `{name}` is a time before 1601, which no property holds");
            Error::invalid(Rule::DateRange, text)
        })?),
        ValueRef::Guid(id) => EdmValue::Guid(Guid::from_bytes(id.into_bytes())),
        ValueRef::Binary(bytes) => EdmValue::Binary(bytes.to_vec()),
    })
}

/// The core's value as ours, still borrowed.
pub(crate) fn edm_to_ref(value: EdmRef<'_>) -> ValueRef<'_> {
    match value {
        EdmRef::String(text) => ValueRef::String(text.as_str()),
        EdmRef::Int32(number) => ValueRef::Int32(number),
        EdmRef::Int64(number) => ValueRef::Int64(number),
        EdmRef::Double(number) => ValueRef::Double(number),
        EdmRef::Boolean(truth) => ValueRef::Boolean(truth),
        EdmRef::DateTime(at) => ValueRef::DateTime(date_time_from(at)),
        EdmRef::Guid(id) => ValueRef::Guid(Uuid::from_bytes(*id.as_bytes())),
        EdmRef::Binary(bytes) => ValueRef::Binary(bytes),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use tavola_core::DateTime;
    use time::{Duration, OffsetDateTime};
    use uuid::Uuid;

    use super::{date_time_from, date_time_to, edm_to_ref, value_to_edm};
    use crate::value::Value;

    #[test]
    fn values_survive_the_way_to_the_core_and_back() {
        let epoch = OffsetDateTime::UNIX_EPOCH;
        for value in [
            Value::from("O'Brien"),
            Value::from(-1_i32),
            Value::from(i64::MIN),
            Value::from(f64::NAN),
            Value::from(f64::NEG_INFINITY),
            Value::from(true),
            Value::from(epoch + Duration::nanoseconds(100)),
            Value::from(Uuid::from_u128(7)),
            Value::from(Bytes::from_static(b"\0\xff")),
        ] {
            let edm = value_to_edm("p", value.as_ref()).unwrap();
            assert_eq!(edm_to_ref(edm.as_ref()).to_value(), value);
        }
    }

    #[test]
    fn times_are_cut_to_ticks_and_begin_in_1601() {
        let epoch = OffsetDateTime::UNIX_EPOCH;
        let text = |at| date_time_to(at).map(|at| at.to_string());
        let expected = |text: &str| Some(text.to_owned());
        assert_eq!(
            text(epoch + Duration::nanoseconds(199)),
            expected("1970-01-01T00:00:00.0000001Z")
        );
        assert_eq!(
            text(epoch - Duration::nanoseconds(1)),
            expected("1969-12-31T23:59:59.9999999Z")
        );
        assert_eq!(date_time_from(DateTime::MIN).to_string(), "1601-01-01 0:00:00.0 +00:00:00");
        assert_eq!(text(date_time_from(DateTime::MIN) - Duration::nanoseconds(1)), None);
        assert_eq!(text(date_time_from(DateTime::MAX)), expected("9999-12-31T23:59:59.9999999Z"));
    }

    proptest! {
        #[test]
        fn every_tick_is_a_time(ticks in 0..=DateTime::MAX.ticks()) {
            let at = DateTime::from_ticks(ticks).unwrap();
            prop_assert_eq!(date_time_to(date_time_from(at)), Some(at));
        }
    }
}
