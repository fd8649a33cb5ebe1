//! Numbers for people.

use std::time::Duration;

/// Three digits are as many as a noisy machine can vouch for; above a thousand all are shown, in
/// groups.
pub fn number(value: f64) -> String {
    match value {
        v if v >= 999.5 => group(v.round() as u64),
        v if v >= 99.5 => format!("{v:.0}"),
        v if v >= 9.95 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

fn group(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `10k`, `1M`.
pub fn size(entities: u64) -> String {
    match entities {
        n if n >= 1_000_000 && n.is_multiple_of(1_000_000) => format!("{}M", n / 1_000_000),
        n if n >= 1_000 && n.is_multiple_of(1_000) => format!("{}k", n / 1_000),
        n => n.to_string(),
    }
}

/// A latency from microseconds.
pub fn latency(microseconds: f64) -> String {
    match microseconds {
        us if us < 999.5 => format!("{} µs", number(us)),
        us if us < 999_500.0 => format!("{} ms", number(us / 1e3)),
        us => format!("{} s", number(us / 1e6)),
    }
}

pub fn megabytes(bytes: f64) -> String {
    format!("{} MB", number(bytes / 1e6))
}

pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// `4.2 s` below ten seconds, `48 s` below two minutes, then `6 min 03 s`.
pub fn seconds(duration: Duration) -> String {
    let whole = duration.as_secs();
    match whole {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..120 => format!("{whole} s"),
        _ => format!("{} min {:02} s", whole / 60, whole % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let shown = [0.123, 1.5, 45.67, 345.6, 999.6, 1234.4, 1_234_567.0].map(number);
        assert_eq!(shown, ["0.12", "1.50", "45.7", "346", "1,000", "1,234", "1,234,567"]);
    }

    #[test]
    fn sizes_and_times() {
        assert_eq!([10_000, 1_000_000, 1_500_000, 12].map(size), ["10k", "1M", "1500k", "12"]);
        assert_eq!([81.2, 1_520.0, 2_100_000.0].map(latency), ["81.2 µs", "1.52 ms", "2.10 s"]);
        assert_eq!(seconds(Duration::from_secs(363)), "6 min 03 s");
    }
}
