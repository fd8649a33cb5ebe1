//! Points in time as the service counts them: ticks of 100 ns from 1601 to the end of 9999, always
//! UTC.

use std::fmt;

use time::{Date, Month};

use crate::date_text::DateText;

/// Ticks of 100 ns in one second.
pub const TICKS_PER_SECOND: u64 = 10_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
/// 1601-01-01 as a Julian day.
const EPOCH_JULIAN_DAY: i32 = 2_305_814;
/// 1970-01-01 counted from 1601-01-01.
const UNIX_EPOCH_SECONDS: u64 = 11_644_473_600;

/// A point in time, 1601-01-01T00:00:00Z to 9999-12-31T23:59:59.9999999Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DateTime(u64);

/// Why a text is not a [`DateTime`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DateTimeError {
    /// Not a date at all.
    #[error("not a date and time")]
    Malformed,
    /// A date before 1601 or after 9999; printed as the service prints it in its refusal,
    /// `MM/dd/yyyy HH:mm:ss`.
    #[error("{0} is out of range")]
    OutOfRange(String),
}

impl DateTime {
    /// 1601-01-01T00:00:00Z.
    pub const MIN: Self = Self(0);
    /// 9999-12-31T23:59:59.9999999Z.
    pub const MAX: Self = Self(2_650_467_743_999_999_999);

    /// The time that is `ticks` after 1601-01-01.
    #[must_use]
    pub const fn from_ticks(ticks: u64) -> Option<Self> {
        if ticks <= Self::MAX.0 { Some(Self(ticks)) } else { None }
    }

    /// Ticks of 100 ns since 1601-01-01.
    #[must_use]
    pub const fn ticks(self) -> u64 {
        self.0
    }

    /// The time `since_epoch` after 1970-01-01, cut to a tick; a clock beyond 9999 reads as the end
    /// of 9999.
    #[must_use]
    pub fn from_unix(since_epoch: std::time::Duration) -> Self {
        let seconds = UNIX_EPOCH_SECONDS.saturating_add(since_epoch.as_secs());
        let ticks = seconds
            .saturating_mul(TICKS_PER_SECOND)
            .saturating_add(u64::from(since_epoch.subsec_nanos()) / 100);
        Self(ticks.min(Self::MAX.0))
    }

    /// Whole seconds since 1970-01-01; negative before it.
    #[must_use]
    pub fn unix_seconds(self) -> i64 {
        (self.0 / TICKS_PER_SECOND) as i64 - UNIX_EPOCH_SECONDS as i64
    }

    /// Reads ISO 8601: a date, optionally a time with up to seven fraction digits (more are cut),
    /// optionally a zone. No zone means UTC.
    ///
    /// # Errors
    /// If the text is malformed or the time is outside the service's range.
    pub fn parse(text: &str) -> Result<Self, DateTimeError> {
        let civil = Civil::parse(text).ok_or(DateTimeError::Malformed)?;
        let ticks = civil.ticks();
        match u64::try_from(ticks).ok().and_then(Self::from_ticks) {
            Some(at) => Ok(at),
            None => Err(DateTimeError::OutOfRange(civil.as_service_prints_it())),
        }
    }

    /// The text with always seven fraction digits, `2020-07-23T16:43:14.3010508Z`.
    #[must_use]
    pub fn to_text_full(self) -> String {
        let (date_and_time, fraction) = self.split();
        format!("{date_and_time}.{fraction:07}Z")
    }

    fn split(self) -> (String, u64) {
        let seconds = (self.0 / TICKS_PER_SECOND) as i64;
        let (day, second) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
        let date = Date::from_julian_day(EPOCH_JULIAN_DAY + day as i32)
            .expect("a DateTime lies between 1601 and 9999");
        let text = format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            date.year(),
            u8::from(date.month()),
            date.day(),
            second / 3600,
            second / 60 % 60,
            second % 60
        );
        (text, self.0 % TICKS_PER_SECOND)
    }
}

/// The text with trailing zeros of the fraction removed, and no dot if it is zero.
impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(DateText::of(*self).as_str())
    }
}

impl fmt::Debug for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A calendar text taken apart, before the service's range is applied: years 1 to 9999.
struct Civil {
    date: Date,
    second: i64,
    fraction: i64,
    offset_seconds: i64,
}

impl Civil {
    fn parse(text: &str) -> Option<Self> {
        let mut reader = Reader { rest: text.as_bytes() };
        let year = reader.digits(4)?;
        reader.expect(b'-')?;
        let month = reader.digits(2)?;
        reader.expect(b'-')?;
        let day = reader.digits(2)?;
        let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
        if year == 0 {
            return None;
        }
        let date = Date::from_calendar_date(year as i32, month, u8::try_from(day).ok()?).ok()?;
        let (second, fraction) = if reader.take_if(b"Tt ") { reader.time()? } else { (0, 0) };
        let offset_seconds = reader.zone()?;
        reader.rest.is_empty().then_some(Self { date, second, fraction, offset_seconds })
    }

    fn ticks(&self) -> i64 {
        let days = i64::from(self.date.to_julian_day() - EPOCH_JULIAN_DAY);
        let seconds = days * SECONDS_PER_DAY + self.second - self.offset_seconds;
        seconds * TICKS_PER_SECOND as i64 + self.fraction
    }

    fn as_service_prints_it(&self) -> String {
        format!(
            "{:02}/{:02}/{:04} {:02}:{:02}:{:02}",
            u8::from(self.date.month()),
            self.date.day(),
            self.date.year(),
            self.second / 3600,
            self.second / 60 % 60,
            self.second % 60
        )
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn digits(&mut self, count: usize) -> Option<i64> {
        let (digits, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        digits.iter().try_fold(0, |value, &digit| {
            digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0'))
        })
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.take_if(&[byte]).then_some(())
    }

    fn take_if(&mut self, any_of: &[u8]) -> bool {
        match self.rest.split_first() {
            Some((first, rest)) if any_of.contains(first) => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// `hh:mm[:ss[.f…]]` as seconds of the day and ticks of the fraction.
    fn time(&mut self) -> Option<(i64, i64)> {
        let hour = self.digits(2)?;
        self.expect(b':')?;
        let minute = self.digits(2)?;
        let (mut second, mut fraction) = (0, 0);
        if self.take_if(b":") {
            second = self.digits(2)?;
            if self.take_if(b".") {
                fraction = self.fraction()?;
            }
        }
        let legal = hour < 24 && minute < 60 && second < 60;
        legal.then_some((hour * 3600 + minute * 60 + second, fraction))
    }

    fn fraction(&mut self) -> Option<i64> {
        let length = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if length == 0 {
            return None;
        }
        let kept = self.digits(length.min(7))?;
        self.rest = &self.rest[length.saturating_sub(7)..];
        Some(kept * 10_i64.pow(7 - length.min(7) as u32))
    }

    /// `Z`, `±hh:mm`, or nothing, as seconds east of UTC.
    fn zone(&mut self) -> Option<i64> {
        if self.rest.is_empty() || self.take_if(b"Zz") {
            return Some(0);
        }
        let sign = if self.take_if(b"-") {
            -1
        } else {
            self.expect(b'+')?;
            1
        };
        let hours = self.digits(2)?;
        self.take_if(b":");
        let minutes = self.digits(2)?;
        (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{DateTime, DateTimeError};

    #[test]
    fn texts() {
        for (text, trimmed) in [
            ("1601-01-01T00:00:00Z", "1601-01-01T00:00:00Z"),
            ("9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.9999999Z"),
            ("2020-11-07T01:23:13.3773350Z", "2020-11-07T01:23:13.377335Z"),
            ("2020-11-07T01:23:13.37733501234Z", "2020-11-07T01:23:13.377335Z"),
            ("2024-02-29", "2024-02-29T00:00:00Z"),
            ("2024-02-29T10:20Z", "2024-02-29T10:20:00Z"),
            ("2024-02-29T00:30:00+01:00", "2024-02-28T23:30:00Z"),
            ("2024-02-29T23:30:00-01:00", "2024-03-01T00:30:00Z"),
            ("2024-02-29T23:30:00.5", "2024-02-29T23:30:00.5Z"),
        ] {
            assert_eq!(
                DateTime::parse(text).map(|at| at.to_string()),
                Ok(trimmed.to_owned()),
                "{text}"
            );
        }
        assert_eq!(
            DateTime::parse("2020-07-23T16:43:14Z").unwrap().to_text_full(),
            "2020-07-23T16:43:14.0000000Z"
        );
        assert_eq!(DateTime::MIN.to_string(), "1601-01-01T00:00:00Z");
        assert_eq!(DateTime::MAX.to_string(), "9999-12-31T23:59:59.9999999Z");
    }

    #[test]
    fn refusals() {
        for text in [
            "",
            "x",
            "2024-13-01",
            "2024-02-30",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:00:00.Z",
            "2024-01-01Q",
            "2024-01-01T00:00:00+1",
            "0000-01-01",
            "2024-1-1",
            "２024-01-01",
        ] {
            assert_eq!(DateTime::parse(text), Err(DateTimeError::Malformed), "{text}");
        }
        assert_eq!(
            DateTime::parse("0001-01-01T00:00:00Z"),
            Err(DateTimeError::OutOfRange("01/01/0001 00:00:00".into()))
        );
        assert!(matches!(
            DateTime::parse("1600-12-31T23:59:59.9999999Z"),
            Err(DateTimeError::OutOfRange(_))
        ));
    }

    #[test]
    fn the_unix_epoch_meets_ours() {
        let at = DateTime::from_unix(std::time::Duration::new(1, 234_567_890));
        assert_eq!(at.to_string(), "1970-01-01T00:00:01.2345678Z");
        assert_eq!(at.unix_seconds(), 1);
    }

    proptest! {
        #[test]
        fn text_round_trips(ticks in 0..=DateTime::MAX.ticks()) {
            let at = DateTime::from_ticks(ticks).unwrap();
            prop_assert_eq!(DateTime::parse(&at.to_string()), Ok(at));
            prop_assert_eq!(DateTime::parse(&at.to_text_full()), Ok(at));
        }
    }
}
