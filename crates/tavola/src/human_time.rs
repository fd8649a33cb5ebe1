//! Times as people say them, and durations as people type them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tavola_core::DateTime;
use tavola_core::time::TICKS_PER_SECOND;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const MONTH: u64 = 30 * DAY;
const YEAR: u64 = 365 * DAY;

/// The clock of this machine; one before 1970 reads as 1970.
pub(crate) fn now() -> DateTime {
    date_time(SystemTime::now())
}

/// Converts a time of the system into one of the service.
pub(crate) fn date_time(at: SystemTime) -> DateTime {
    DateTime::from_unix(at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO))
}

/// Converts a time of the service into one of the system. Times before 1970 do not occur here.
pub(crate) fn system_time(at: DateTime) -> SystemTime {
    let fraction = Duration::from_nanos(at.ticks() % TICKS_PER_SECOND * 100);
    UNIX_EPOCH
        + Duration::from_secs(u64::try_from(at.unix_seconds()).unwrap_or_default())
        + fraction
}

/// `an hour`, `3 days`: the nearest of the largest unit that fits.
pub(crate) fn words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let in_units = |unit: u64| (seconds + unit / 2) / unit;
    let units = [
        (1, 60, "a second", "seconds"),
        (MINUTE, 60, "a minute", "minutes"),
        (HOUR, 48, "an hour", "hours"),
        (DAY, 60, "a day", "days"),
        (MONTH, 24, "a month", "months"),
    ];
    let fitting = units.into_iter().find(|(unit, below, ..)| in_units(*unit) < *below);
    let (unit, _, one, many) = fitting.unwrap_or((YEAR, 0, "a year", "years"));
    match in_units(unit) {
        0 => "a moment".to_owned(),
        1 => one.to_owned(),
        count => format!("{count} {many}"),
    }
}

/// How far `at` is from `now`: `an hour ago`, `in 3 days`.
pub(crate) fn relative(at: DateTime, now: DateTime) -> String {
    let (earlier, later) = (at.min(now), at.max(now));
    let distance = words(between(earlier, later));
    if at < now { format!("{distance} ago") } else { format!("in {distance}") }
}

/// The time from one to the other, whichever is earlier.
pub(crate) fn between(one: DateTime, other: DateTime) -> Duration {
    Duration::from_secs(one.unix_seconds().abs_diff(other.unix_seconds()))
}

/// `90s`, `30m`, `1h`, `7d`, `2w`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("\"{text}\" is not a time; write a number and s, m, h, d or w: 30m, 1h, 7d");
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "s" => 1,
        "m" => MINUTE,
        "h" => HOUR,
        "d" => DAY,
        "w" => 7 * DAY,
        _ => return Err(wrong()),
    };
    let count: u64 = digits.parse().map_err(|_| wrong())?;
    let seconds = count.checked_mul(unit).filter(|seconds| *seconds > 0).ok_or_else(wrong)?;
    Ok(Duration::from_secs(seconds))
}

/// Parses a time of the command line.
pub(crate) fn parse_time(text: &str) -> Result<DateTime, String> {
    DateTime::parse(text).map_err(|_| {
        format!("\"{text}\" is not a time; write 2026-12-31, or 2026-12-31T18:00:00Z in UTC")
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tavola_core::DateTime;

    use super::{date_time, parse_duration, relative, system_time, words};

    #[test]
    fn durations_in_words() {
        for (seconds, expected) in [
            (0, "a moment"),
            (1, "a second"),
            (59, "59 seconds"),
            (60, "a minute"),
            (89, "a minute"),
            (90, "2 minutes"),
            (3_569, "59 minutes"),
            (3_570, "an hour"),
            (3 * 3_600 - 1, "3 hours"),
            (47 * 3_600, "47 hours"),
            (48 * 3_600, "2 days"),
            (59 * 86_400, "59 days"),
            (60 * 86_400, "2 months"),
            (365 * 86_400, "12 months"),
            (10 * 365 * 86_400, "10 years"),
        ] {
            assert_eq!(words(Duration::from_secs(seconds)), expected, "{seconds}");
        }
        let (early, late) =
            (DateTime::parse("2026-01-01").unwrap(), DateTime::parse("2026-01-04").unwrap());
        assert_eq!(relative(early, late), "3 days ago");
        assert_eq!(relative(late, early), "in 3 days");
    }

    #[test]
    fn no_tick_is_lost_between_the_two_clocks() {
        let at = DateTime::parse("2026-11-16T09:30:27.1234567Z").unwrap();
        assert_eq!(date_time(system_time(at)), at);
    }

    #[test]
    fn durations_typed() {
        for (text, seconds) in
            [("90s", 90), ("30m", 1_800), ("1h", 3_600), ("7d", 604_800), ("2w", 1_209_600)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in [
            "",
            "h",
            "1",
            "0m",
            "-1h",
            "1.5h",
            "1 h",
            "1y",
            "99999999999999999999d",
            "9999999999999999d",
            "é",
        ] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
