//! The text of a time in 28 bytes on the stack.
//!
//! Every entity of a page has one, twice: as its Timestamp and in its ETag.

use crate::time::{DateTime, TICKS_PER_SECOND};

const SECONDS_PER_DAY: u64 = 86_400;
/// 1601-01-01 counted from 0000-03-01, the day from which years are easy to count: leap days come
/// last.
const EPOCH_DAYS: u64 = 584_694;
/// `2020-07-23T16:43:14` and what may follow: a dot, seven digits, and the `Z`.
const WHOLE_SECONDS_BYTES: usize = 19;
const BYTES_MAX: usize = WHOLE_SECONDS_BYTES + 1 + 7 + 1;
/// Where the colons stand, which an ETag escapes.
const COLONS: [usize; 2] = [13, 16];

/// The text of one point in time.
#[derive(Debug)]
pub struct DateText {
    bytes: [u8; BYTES_MAX],
    length: usize,
    /// Whose text the bytes up to the fraction are.
    second: u64,
}

impl DateText {
    /// No text yet, for whoever prints many times one after the other.
    #[must_use]
    pub const fn blank() -> Self {
        Self { bytes: *b"0000-00-00T00:00:00.0000000Z", length: 0, second: u64::MAX }
    }

    /// Prints a time, without trailing zeros in its fraction.
    #[must_use]
    pub fn of(at: DateTime) -> Self {
        let mut text = Self::blank();
        text.print(at);
        text
    }

    /// Prints another time in its place. Entities that were written together have times of the same
    /// second, and only their fractions are printed anew.
    pub fn print(&mut self, at: DateTime) {
        let (second, fraction) = (at.ticks() / TICKS_PER_SECOND, at.ticks() % TICKS_PER_SECOND);
        if second != self.second {
            self.put_second(second);
            self.second = second;
        }
        self.put_fraction(fraction as u32);
    }

    fn put_second(&mut self, second: u64) {
        let (year, month, day) = civil(second / SECONDS_PER_DAY);
        let of_day = second % SECONDS_PER_DAY;
        for (at, number) in [
            (0, year / 100),
            (2, year % 100),
            (5, month),
            (8, day),
            (11, of_day / 3600),
            (14, of_day / 60 % 60),
            (17, of_day % 60),
        ] {
            put_pair(&mut self.bytes, at, number as u32);
        }
    }

    fn put_fraction(&mut self, fraction: u32) {
        let mut length = WHOLE_SECONDS_BYTES;
        if fraction != 0 {
            self.bytes[WHOLE_SECONDS_BYTES] = b'.';
            for (at, unit) in [(20, 100_000), (22, 1_000), (24, 10)] {
                put_pair(&mut self.bytes, at, fraction / unit % 100);
            }
            self.bytes[26] = b'0' + (fraction % 10) as u8;
            length = BYTES_MAX - 1;
            while self.bytes[length - 1] == b'0' {
                length -= 1;
            }
        }
        self.bytes[length] = b'Z';
        self.length = length + 1;
    }

    /// The text's bytes, all of them ASCII.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("digits and marks are ASCII")
    }

    /// The pieces of the text between which an ETag has an escaped colon.
    #[must_use]
    pub fn between_colons(&self) -> [&str; 3] {
        let text = self.as_str();
        [&text[..COLONS[0]], &text[COLONS[0] + 1..COLONS[1]], &text[COLONS[1] + 1..]]
    }
}

/// Two digits at once: a page has thousands of times.
fn put_pair(bytes: &mut [u8; BYTES_MAX], at: usize, number: u32) {
    bytes[at] = b'0' + (number / 10) as u8;
    bytes[at + 1] = b'0' + (number % 10) as u8;
}

/// Year, month and day of the day that is `days` after 1601-01-01, in the proleptic Gregorian
/// calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + EPOCH_DAYS;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::DateText;
    use crate::time::DateTime;

    /// What the calendar of another library says.
    fn expected(at: DateTime) -> String {
        let days =
            i32::try_from(at.ticks() / super::TICKS_PER_SECOND / super::SECONDS_PER_DAY).unwrap();
        let (second, fraction) =
            (at.ticks() / super::TICKS_PER_SECOND % 86_400, at.ticks() % super::TICKS_PER_SECOND);
        let first = time::Date::from_calendar_date(1601, time::Month::January, 1).unwrap();
        let (year, month, day) =
            time::Date::from_julian_day(first.to_julian_day() + days).unwrap().to_calendar_date();
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let text =
            format!("{year:04}-{:02}-{day:02}T{hour:02}:{minute:02}:{second:02}", u8::from(month));
        match format!("{fraction:07}").trim_end_matches('0') {
            "" => format!("{text}Z"),
            fraction => format!("{text}.{fraction}Z"),
        }
    }

    fn check(at: DateTime) {
        let text = DateText::of(at);
        assert_eq!(text.as_str(), expected(at));
        assert_eq!(text.between_colons().join(":"), expected(at));
    }

    #[test]
    fn edges() {
        for text in [
            "1601-01-01",
            "1600-12-31T23:59:59.9999999-01:00",
            "2000-02-29",
            "2000-03-01",
            "2100-02-28T23:59:59.9999999",
            "9999-12-31T23:59:59.9999999Z",
            "2020-07-23T16:43:14.0000001Z",
            "2020-07-23T16:43:14.1Z",
        ] {
            check(DateTime::parse(text).unwrap());
        }
    }

    proptest! {
        /// Whatever was printed before, also within the same second and with a shorter or longer
        /// fraction.
        #[test]
        fn printing_over_another(times in proptest::collection::vec((0_u64..3, 0_u64..10_000_000, 0_u32..8), 1..20)) {
            let mut text = DateText::blank();
            for (second, fraction, zeros) in times {
                let unit = 10_u64.pow(zeros);
                let ticks = 132_400_000_000_000_000 + second * super::TICKS_PER_SECOND + fraction / unit * unit;
                let at = DateTime::from_ticks(ticks).unwrap();
                text.print(at);
                prop_assert_eq!(text.as_str(), expected(at));
            }
        }

        #[test]
        fn the_text_is_that_of_the_calendar(ticks in 0..=DateTime::MAX.ticks(), zeros in 0_u32..8) {
            let unit = 10_u64.pow(zeros);
            check(DateTime::from_ticks(ticks / unit * unit).unwrap());
        }
    }
}
