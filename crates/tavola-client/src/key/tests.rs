//! What key texts promise: order, round trips, legal characters, and ranges that hold exactly what
//! they say.

use std::fmt::Debug;
use std::ops::Bound;

use proptest::prelude::*;
use time::{Date, Duration, Month, OffsetDateTime};
use uuid::Uuid;

use super::escape::{lower, successor};
use super::{
    Cursor, Dec, DecDesc, Desc, KeyPart, KeyRange, KeyReader, KeyText, Lower, PartMeta, Plain,
    Span, TicksDesc,
};
use crate::error::{ErrorKind, Rule};

const META: PartMeta = PartMeta { field: "part", template: "{part}" };

fn text_of<F, T: KeyPart<F>>(value: &T) -> String {
    let mut text = KeyText::default();
    value.write(&mut text).unwrap();
    text.as_str().to_owned()
}

fn escaped(text: &str) -> String {
    text_of::<Plain, _>(&text.to_owned())
}

/// Reads a part and expects that nothing is left.
fn read_of<F, T: KeyPart<F>>(key: &str) -> Option<T> {
    let mut reader = KeyReader::new(key);
    let value = T::read(&mut reader).ok()?;
    reader.rest().is_empty().then_some(value)
}

fn is_legal(key: &str) -> bool {
    key.bytes().all(|byte| (0x21..=0x7e).contains(&byte) && !b"/\\#?\"%'+&,".contains(&byte))
}

fn check_codec<F, T: KeyPart<F> + PartialOrd + Debug>(left: &T, right: &T) {
    let (left_text, right_text) = (text_of::<F, T>(left), text_of::<F, T>(right));
    let order = left_text.cmp(&right_text);
    let expected = left.partial_cmp(right).unwrap();
    let expected = if T::DESCENDING { expected.reverse() } else { expected };
    assert_eq!(order, expected, "{left:?} {right:?}: {left_text} {right_text}");
    for (value, text) in [(left, &left_text), (right, &right_text)] {
        assert!(is_legal(text), "{text}");
        assert_eq!(read_of::<F, T>(text).as_ref(), Some(value), "{text}");
    }
    if T::FIXED {
        assert_eq!(left_text.len(), right_text.len());
    }
}

/// Texts in which every special byte is likely.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a./>?\\[\\\\!$}~|\"# ]{0,4}",
        "[\0a\u{7f}\u{80}é\u{ffff}\u{10000}😀]{0,4}",
        ".{0,8}"
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// G73, G75.
    #[test]
    fn unsigned_numbers(a: u64, b: u64, c: u8, d: u8, e: u16, f: u16, g: u32, h: u32) {
        check_codec::<Plain, _>(&a, &b);
        check_codec::<Desc, _>(&a, &b);
        check_codec::<Dec<20>, _>(&a, &b);
        check_codec::<DecDesc<20>, _>(&a, &b);
        check_codec::<Plain, _>(&c, &d);
        check_codec::<Desc, _>(&c, &d);
        check_codec::<Plain, _>(&e, &f);
        check_codec::<Desc, _>(&g, &h);
        check_codec::<Plain, _>(&g, &h);
    }

    /// G75.
    #[test]
    fn signed_numbers(a: i64, b: i64, c: i8, d: i8) {
        check_codec::<Plain, _>(&a, &b);
        check_codec::<Desc, _>(&a, &b);
        check_codec::<Plain, _>(&c, &d);
        check_codec::<Desc, _>(&c, &d);
    }

    /// G75.
    #[test]
    fn doubles(
        a in prop::num::f64::ANY.prop_filter("order", |number| !number.is_nan()),
        b in prop::num::f64::ANY.prop_filter("order", |number| !number.is_nan()),
    ) {
        check_codec::<Plain, _>(&a, &b);
    }

    /// G75, G76.
    #[test]
    fn times(a in 0..3_155_378_975_999_999_999_i64, b in 0..3_155_378_975_999_999_999_i64) {
        let at = |ticks: i64| {
            let nanos = (i128::from(ticks) - 621_355_968_000_000_000) * 100;
            OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap()
        };
        check_codec::<Plain, _>(&at(a), &at(b));
        check_codec::<Desc, _>(&at(a), &at(b));
    }

    #[test]
    fn dates_truths_identifiers(a in 0..3_600_000_i32, b in 0..3_600_000_i32, c: bool, d: bool, e: u128, f: u128) {
        let first = Date::from_calendar_date(0, Month::January, 1).unwrap().to_julian_day();
        let date = |day: i32| Date::from_julian_day(first + day).unwrap();
        check_codec::<Plain, _>(&date(a), &date(b));
        check_codec::<Plain, _>(&c, &d);
        check_codec::<Plain, _>(&Uuid::from_u128(e), &Uuid::from_u128(f));
    }

    /// G75, G80.
    #[test]
    fn plain_texts(a in texts(), b in texts()) {
        check_codec::<Plain, _>(&a, &b);
        let (a, b) = (lower(&a), lower(&b));
        // The lower case of a lower case may differ again; keys are written once.
        if lower(&a) == a && lower(&b) == b {
            check_codec::<Lower, _>(&a, &b);
        }
    }

    /// G74, G75.
    #[test]
    fn tuples_compare_as_tuples(a in texts(), b in texts(), c in texts(), d in texts(), x: u16, y: u16) {
        let two = |left: &str, right: &str| format!("{}!{}", escaped(left), escaped(right));
        prop_assert_eq!(two(&a, &b).cmp(&two(&c, &d)), (&a, &b).cmp(&(&c, &d)));
        let mixed = |text: &str, number: u16| format!("{}!{number:05}", escaped(text));
        prop_assert_eq!(mixed(&a, x).cmp(&mixed(&c, y)), (&a, x).cmp(&(&c, y)));
        let numbered = |number: u16, text: &str| format!("{number:05}{}", escaped(text));
        prop_assert_eq!(numbered(x, &a).cmp(&numbered(y, &c)), (x, &a).cmp(&(y, &c)));
    }

    #[test]
    fn the_order_of_utf16_is_the_same(a in texts(), b in texts()) {
        let (a, b) = (escaped(&a), escaped(&b));
        prop_assert_eq!(a.encode_utf16().cmp(b.encode_utf16()), a.cmp(&b));
    }

    #[test]
    fn what_is_read_is_what_is_written(key in "[!-~]{0,12}") {
        // A foreign key is refused, or it is exactly what we would write.
        if let Some(text) = read_of::<Plain, String>(&key) {
            prop_assert_eq!(escaped(&text), key.clone());
        }
        if let Some(number) = read_of::<Dec<6>, u32>(&key) {
            prop_assert_eq!(text_of::<Dec<6>, _>(&number), key.clone());
        }
        if let Some(number) = read_of::<Plain, f64>(&key) {
            prop_assert_eq!(text_of::<Plain, _>(&number), key);
        }
    }

    #[test]
    fn foreign_doubles_are_refused_or_ours(bits: u64) {
        let key = format!("{bits:016x}");
        if let Some(number) = read_of::<Plain, f64>(&key) {
            prop_assert_eq!(text_of::<Plain, _>(&number), key);
        }
    }
}

/// The rows of a range that a cursor with the row's leading literal gave.
fn row_span(range: &KeyRange<()>) -> Span {
    range.spans().unwrap().row.clone()
}

fn cursor() -> Cursor {
    Cursor::default().literal("p").row().literal("r_")
}

fn holds<T: PartialOrd>(bounds: &(Bound<T>, Bound<T>), value: &T) -> bool {
    use std::ops::RangeBounds;
    (bounds.start_bound(), bounds.end_bound()).contains(value)
}

fn bound<T: Debug + Clone>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Bound<T>> {
    value.prop_flat_map(|value| {
        prop_oneof![
            Just(Bound::Included(value.clone())),
            Just(Bound::Excluded(value)),
            Just(Bound::Unbounded),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6_000))]

    #[test]
    fn ranges_of_texts(from in bound(texts()), to in bound(texts()), value in texts(), next in texts()) {
        let bounds = (from.as_ref(), to.as_ref());
        let span = row_span(&cursor().between::<(), Plain, String>(bounds, &META));
        let expected = holds(&(from, to), &value);
        for key in [format!("r_{}", escaped(&value)), format!("r_{}!{}", escaped(&value), escaped(&next))] {
            prop_assert_eq!(span.contains(&key), expected, "{} {:?}", key, span);
        }
    }

    #[test]
    fn ranges_of_numbers(from in bound(0..300_u32), to in bound(0..300_u32), value in 0..300_u32, next in texts()) {
        let bounds = (from.as_ref(), to.as_ref());
        let up = row_span(&cursor().between::<(), Dec<3>, u32>(bounds, &META));
        let down = row_span(&cursor().between::<(), DecDesc<3>, u32>(bounds, &META));
        let expected = holds(&(from, to), &value);
        let next = escaped(&next);
        for key in [format!("r_{value:03}"), format!("r_{value:03}{next}"), format!("r_{value:03}!{next}")] {
            prop_assert_eq!(up.contains(&key), expected, "{} {:?}", key, up);
        }
        let key = format!("r_{:03}{next}", 999 - value);
        prop_assert_eq!(down.contains(&key), expected, "{} {:?}", key, down);
    }

    #[test]
    fn ranges_of_prefixes(prefix in texts(), value in texts(), how in 0..3, next in texts()) {
        // Also values that go on from the prefix, and from what follows it in the order.
        let neighbour = || {
            let mut text = prefix.clone();
            let above = text.pop().and_then(|last| char::from_u32(u32::from(last) + 1));
            format!("{text}{}{value}", above.map(String::from).unwrap_or_default())
        };
        let value = match how {
            0 => value,
            1 => format!("{prefix}{value}"),
            _ => neighbour(),
        };
        let span = row_span(&cursor().prefix(&prefix));
        let expected = value.starts_with(&prefix);
        for key in [format!("r_{}", escaped(&value)), format!("r_{}!{}", escaped(&value), escaped(&next))] {
            prop_assert_eq!(span.contains(&key), expected, "{} {:?}", key, span);
        }
    }

    #[test]
    fn the_lower_case_of_a_prefix_is_a_prefix(prefix in "[aΑΣσİß]{0,3}", value in "[aΑΣσİß]{0,3}") {
        let whole = format!("{prefix}{value}");
        prop_assert!(lower(&whole).starts_with(&lower(&prefix)));
    }

    #[test]
    fn successors_leave_nothing_out(
        text in r#"[!"$-.0->@-\[\]-~]{1,4}"#,
        other in r#"[!"$-.0->@-\[\]-~]{0,6}"#,
        extend: bool,
    ) {
        let other = if extend { format!("{text}{other}") } else { other };
        let legal = |text: &str| !text.contains(['/', '\\', '#', '?']);
        prop_assert!(legal(&text) && legal(&other));
        match successor(&text) {
            Some(next) => {
                prop_assert!(legal(&next));
                let inside = text.as_str() <= other.as_str() && other < next;
                prop_assert_eq!(inside, other.starts_with(&text), "{} {} {}", text, next, other);
            }
            None => prop_assert!(text.bytes().all(|byte| byte == b'~')),
        }
    }
}

/// G73, G80.
#[test]
fn each_type_has_its_text() {
    assert_eq!(text_of::<Plain, _>(&7_u8), "007");
    assert_eq!(text_of::<Plain, _>(&7_u16), "00007");
    assert_eq!(text_of::<Plain, _>(&7_u32), "0000000007");
    assert_eq!(text_of::<Plain, _>(&u64::MAX), "18446744073709551615");
    assert_eq!(text_of::<Dec<6>, _>(&212_u32), "000212");
    assert_eq!(text_of::<DecDesc<5>, _>(&0_u32), "99999");
    assert_eq!(text_of::<Plain, _>(&42_i32), "10000000000000000042");
    assert_eq!(text_of::<Plain, _>(&-1_i64), "09999999999999999999");
    assert_eq!(text_of::<Desc, _>(&0_i64), "09999999999999999999");
    assert_eq!(text_of::<Plain, _>(&0.0), "8000000000000000");
    assert_eq!(text_of::<Plain, _>(&-0.0), "8000000000000000");
    assert_eq!(text_of::<Plain, _>(&true), "1");
    assert_eq!(text_of::<Plain, _>(&Uuid::from_u128(0xab)), format!("{:032x}", 0xab));
    let date = Date::from_calendar_date(2024, Month::February, 29).unwrap();
    assert_eq!(text_of::<Plain, _>(&date), "20240229");
    for (text, code) in [
        ("Sales", "Sales"),
        ("a/b", "a.~b"),
        ("a?b", "a>~b"),
        ("a\\b", "a[~b"),
        ("R&D", "R$26D"),
        ("a b", "a$20b"),
        ("é", "}c3}a9"),
        ("中", "}e4}b8}ad"),
        ("}~", "}7d}7e"),
        ("!", "$21"),
    ] {
        assert_eq!(escaped(text), code);
    }
    assert_eq!(text_of::<Lower, _>(&"Ann@X.org".to_owned()), "ann@x.org");
}

/// G76.
#[test]
fn the_vectors_of_the_guide() {
    let date = Date::from_calendar_date(2014, Month::August, 22).unwrap();
    let at = |second| date.with_hms(0, 50, second).unwrap().assume_utc();
    assert_eq!(TicksDesc::encode(at(32), "at").unwrap(), "2519936321679999999");
    assert_eq!(TicksDesc::encode(at(44), "at").unwrap(), "2519936321559999999");
    assert_eq!(TicksDesc::decode("2519936321679999999", "at").unwrap(), (at(32), ""));
    let first = Date::from_calendar_date(1, Month::January, 1).unwrap().midnight().assume_utc();
    let last = Date::from_calendar_date(9999, Month::December, 31).unwrap();
    let last = last.with_hms_nano(23, 59, 59, 999_999_900).unwrap().assume_utc();
    assert_eq!(TicksDesc::encode(first, "at").unwrap(), "3155378975999999999");
    assert_eq!(TicksDesc::encode(last, "at").unwrap(), "0000000000000000000");
    assert_eq!(text_of::<Plain, _>(&first), "0000000000000000000");
    assert_eq!(text_of::<Plain, _>(&last), "3155378975999999999");
    assert!(TicksDesc::encode(first - Duration::nanoseconds(1), "at").is_err());
    // What is finer than a tick is cut, towards the past on both sides of 1970.
    for base in [at(32), OffsetDateTime::UNIX_EPOCH, first + Duration::days(1)] {
        let fine = base + Duration::nanoseconds(99);
        assert_eq!(text_of::<Plain, _>(&fine), text_of::<Plain, _>(&base));
    }
}

/// G80.
#[test]
fn what_shaped_the_escape() {
    // A separator above letters: ('JO', 1) must sort below ('JON', 1).
    assert!("JO_1" > "JON_1");
    assert!(format!("{}!1", escaped("JO")) < format!("{}!1", escaped("JON")));
    // Percent escapes would move `/` below `-`.
    assert!("a/" > "a-" && escaped("a/") > escaped("a-"));
    // UTF-8 and UTF-16 order these two differently; their codes have one order.
    let (low, high) = (escaped("\u{ffff}"), escaped("\u{10000}"));
    assert!(low < high && low.encode_utf16().lt(high.encode_utf16()));
    // `starts_with("a.")` must not hold `a/`.
    let span = row_span(&cursor().prefix("a."));
    assert_eq!(span, Span::Between(Some("r_a.".into()), Some("r_a.~".into())));
    for (prefix, above) in [("a.", "a/"), ("a>", "a?"), ("a[", "a\\")] {
        let span = row_span(&cursor().prefix(prefix));
        assert!(!span.contains(&format!("r_{}", escaped(above))), "{prefix}");
        assert!(span.contains(&format!("r_{}", escaped(&format!("{prefix}|")))), "{prefix}");
    }
    // A range up to `Jones` holds its rows, and no `Joneses`.
    let bounds = (Bound::Unbounded, Bound::Included(&"Jones".to_owned()));
    let span = row_span(&cursor().between::<(), Plain, String>(bounds, &META));
    assert_eq!(span, Span::Between(Some("r_".into()), Some("r_Jones\"".into())));
    assert!(!span.contains("r_Joneses") && span.contains("r_Jones!7"));
    // `/` is no key character, so nothing lies between `a.…` and `a0`.
    assert_eq!(successor("a.").as_deref(), Some("a0"));
    assert_eq!(successor("a.~").as_deref(), Some("a0"));
    assert_eq!(successor("~~"), None);
    // Descending parts turn the bounds round.
    let bounds = (Bound::Included(&100_u32), Bound::Excluded(&200_u32));
    let span = row_span(&cursor().between::<(), DecDesc<3>, u32>(bounds, &META));
    assert_eq!(span, Span::Between(Some("r_79:".into()), Some("r_89:".into())));
}

#[test]
fn foreign_texts_are_refused() {
    for key in [
        "R&D", "a b", "$2d", "$2C", "}7c", "}7D", "$2", "$", "a~", "~", "}ff", "a\"", "a/", "é",
        "}c3",
    ] {
        assert_eq!(read_of::<Plain, String>(key), None, "{key}");
    }
    for key in ["00021", "0002120", "+00212", "00 212", "000é2", "0x0212", "-00212"] {
        assert_eq!(read_of::<Dec<6>, u32>(key), None, "{key}");
    }
    assert_eq!(read_of::<Dec<20>, u8>("00000000000000000256"), None);
    assert_eq!(read_of::<Plain, i8>("10000000000000000128"), None);
    assert_eq!(read_of::<Plain, bool>("2"), None);
    assert_eq!(read_of::<Plain, Date>("20230229"), None);
    assert_eq!(read_of::<Plain, Uuid>("0000000000000000000000000000000A"), None);
    assert_eq!(read_of::<Plain, OffsetDateTime>("3155378976000000000"), None);
    assert_eq!(read_of::<Desc, OffsetDateTime>("9999999999999999999"), None);
    assert_eq!(read_of::<Lower, String>("Ann"), None);
    // The texts of NaN and of -0.
    assert_eq!(read_of::<Plain, f64>("fff8000000000000"), None);
    assert_eq!(read_of::<Plain, f64>("7fffffffffffffff"), None);
}

/// G14, G73.
#[test]
fn faults_wait_until_the_key_is_used() {
    let wide = PartMeta { field: "id", template: "empid_{id:06}" };
    let key = cursor().part::<Dec<6>, _>(&1_000_000_u32, &wide).point::<()>();
    let error = key.into_key().unwrap_err();
    assert_eq!(
        error.to_string(),
        "key part `id` = 1000000 has 7 digits, the template `empid_{id:06}` gives 6; \
         widen it (docs/patterns/rekey)"
    );
    assert_eq!(
        *error.kind(),
        ErrorKind::Invalid { rule: Rule::KeyPart, limit: Some(6), found: Some(7) }
    );
    let nan = cursor().part::<Plain, _>(&f64::NAN, &META).literal("!x").range::<()>();
    assert!(nan.spans().unwrap_err().to_string().contains("NaN"));
    let bounds = (Bound::Included(&7_u32), Bound::Excluded(&1_000_u32));
    assert!(cursor().between::<(), Dec<3>, u32>(bounds, &META).spans().is_err());
    let long = cursor().part::<Plain, _>(&"é".repeat(86), &META).point::<()>();
    let error = long.into_key().unwrap_err();
    let expected = ErrorKind::Invalid { rule: Rule::KeyLength, limit: Some(512), found: Some(518) };
    assert_eq!(*error.kind(), expected);
    assert!(cursor().prefix::<()>(&"é".repeat(86)).spans().is_err());
}

#[test]
fn keys_of_entities_are_apart_from_those_of_helpers() {
    let empty = Cursor::default().part::<Plain, _>(&String::new(), &META);
    assert!(empty.row().point::<()>().into_key().is_err());
    let all = Cursor::default().row().range::<()>();
    assert_eq!(row_span(&all), Span::Between(Some("\"".into()), None));
    assert!(!row_span(&all).contains("!ob!0"));
}
