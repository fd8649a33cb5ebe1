//! Days and months as numbers, and as the digits in the names of tables.

use time::{Date, Month, OffsetDateTime, UtcOffset};

/// How long a table is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Period {
    Day,
    Month,
}

impl Period {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
        }
    }

    /// The number of the period that a time is in; the next one's is one more.
    pub(super) fn number(self, at: OffsetDateTime) -> i32 {
        self.number_of_date(at.to_offset(UtcOffset::UTC).date())
    }

    fn number_of_date(self, date: Date) -> i32 {
        match self {
            Self::Day => date.to_julian_day(),
            Self::Month => date.year() * 12 + i32::from(u8::from(date.month())) - 1,
        }
    }

    /// The digits of a period: `20140822`, `201408`.
    pub(super) fn digits(self, number: i32) -> String {
        match self {
            Self::Day => {
                let date = Date::from_julian_day(number).unwrap_or(Date::MIN);
                format!("{:04}{:02}{:02}", date.year(), u8::from(date.month()), date.day())
            }
            Self::Month => format!("{:04}{:02}", number.div_euclid(12), number.rem_euclid(12) + 1),
        }
    }

    /// The period with these digits; `None` if they are not exactly those of one.
    pub(super) fn parse(self, digits: &str) -> Option<i32> {
        let number = |from: usize, to: usize| digits.get(from..to)?.parse::<u16>().ok();
        let month = Month::try_from(u8::try_from(number(4, 6)?).ok()?).ok()?;
        let day = match self {
            Self::Day => u8::try_from(number(6, 8)?).ok()?,
            Self::Month => 1,
        };
        let date = Date::from_calendar_date(number(0, 4)?.into(), month, day).ok()?;
        let number = self.number_of_date(date);
        (self.digits(number) == digits).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use time::{OffsetDateTime, UtcOffset};

    use super::Period;

    #[test]
    fn periods_are_digits_and_back() {
        // Half past midnight in UTC, and still last year an hour to the west.
        let west = UtcOffset::from_hms(-1, 0, 0).unwrap();
        let new_year = OffsetDateTime::from_unix_timestamp(1_735_691_400).unwrap().to_offset(west);
        for (period, digits, before) in
            [(Period::Day, "20250101", "20241231"), (Period::Month, "202501", "202412")]
        {
            let number = period.number(new_year);
            assert_eq!(period.digits(number), digits);
            assert_eq!(period.digits(number - 1), before);
            assert_eq!(period.parse(digits), Some(number));
        }
    }

    #[test]
    fn other_names_are_not_ours() {
        for other in ["", "2014082", "201408221", "20140231", "20141301", "+0140822", "2014082x"] {
            assert_eq!(Period::Day.parse(other), None, "{other}");
        }
        for other in ["20140822", "201413", "201400", "2014é"] {
            assert_eq!(Period::Month.parse(other), None, "{other}");
        }
    }
}
