//! What people see of a comparison.

use std::fmt::Write as _;
use std::path::Path;

use crate::callgrind::out_file;
use crate::cases::{EVENTS, WHOLE_GET};
use crate::compare::{CountChange, GROWTH_PERCENT_MAX, Line};
use crate::counts::ByCase;
use crate::failure::Result;

/// Of a point GET; see the design of telemetry.
const EVENT_PERCENT_MAX: f64 = 3.0;

pub(crate) fn table(lines: &[Line]) -> String {
    let mut text = format!("{:<26} {:>12} {:>12} {:>9}\n", "case", "stored", "measured", "change");
    let number =
        |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    for line in lines {
        let change =
            line.percent().map_or_else(|| "-".to_owned(), |percent| format!("{percent:+.2} %"));
        let (stored, measured) = (number(line.stored), number(line.measured));
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{:<26} {stored:>12} {measured:>12} {change:>9}", line.case);
    }
    text
}

/// What of a point GET its event costs, without and with a line in the access log.
pub(crate) fn event_shares(measured: &ByCase) -> String {
    let [plain, logged] = EVENTS.map(|case| measured.get(case));
    let (Some(&get), Some(&plain), Some(&logged)) = (measured.get(WHOLE_GET), plain, logged) else {
        return String::new();
    };
    let percent = |event: u64, get: u64| event as f64 / get as f64 * 100.0;
    format!(
        "The event of a point GET is {:.1} % of it; with the access log {:.1} %. Wanted: below {EVENT_PERCENT_MAX} %.\n",
        percent(plain, get),
        percent(logged, (get + logged).saturating_sub(plain)),
    )
}

pub(crate) fn foreign_counts(differences: &[String]) -> String {
    format!(
        "the stored counts were counted with something else, so single ones cannot be replaced; store all of them:\n  {}",
        differences.join("\n  ")
    )
}

/// Fails if a count must not stay as it is.
pub(crate) fn judge(lines: &[Line], elsewhere: &[String], output: &Path) -> Result {
    if !elsewhere.is_empty() {
        println!(
            "Counted with something else than the stored counts, so growth is shown but does not fail:"
        );
        elsewhere.iter().for_each(|difference| println!("  {difference}"));
    }
    let with = |verdict: CountChange| lines.iter().filter(move |line| line.verdict == verdict);
    for line in with(CountChange::Shrunk) {
        println!(
            "{} shrank by {:.1} %: please store the better count, so that it stays (cargo xtask ratchet --update).",
            line.case,
            -line.percent().unwrap_or_default()
        );
    }
    let new = with(CountChange::New).map(|line| format!("{} has no stored count", line.case));
    let gone = with(CountChange::Gone)
        .map(|line| format!("{} is stored, but there is no such case", line.case));
    let grown =
        with(CountChange::Grown).filter(|_| elsewhere.is_empty()).map(|line| grown(line, output));
    let problems: Vec<String> = grown.chain(new).chain(gone).collect();
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{}\nIf this is meant, run `cargo xtask ratchet --update` and say in the commit message why.",
        problems.join("\n")
    )
    .into())
}

fn grown(line: &Line, output: &Path) -> String {
    format!(
        "{} grew by {:.1} %, from {} to {} instructions; {GROWTH_PERCENT_MAX} % are free. What they are spent on:\n  \
         callgrind_annotate --inclusive=yes {}",
        line.case,
        line.percent().unwrap_or_default(),
        line.stored.unwrap_or_default(),
        line.measured.unwrap_or_default(),
        out_file(output, &line.case).display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare;

    fn lines(stored: &[(&str, u64)], measured: &[(&str, u64)]) -> Vec<Line> {
        let [stored, measured] = [stored, measured].map(|cases| {
            cases.iter().map(|(case, count)| ((*case).to_owned(), *count)).collect::<ByCase>()
        });
        compare(&stored, &measured, |case| case != "gone")
    }

    fn judged(
        stored: &[(&str, u64)],
        measured: &[(&str, u64)],
        elsewhere: &[String],
    ) -> Option<String> {
        judge(&lines(stored, measured), elsewhere, Path::new("out"))
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn growth_fails_and_says_where_to_look() {
        let said = judged(&[("get", 1_000)], &[("get", 1_100)], &[]).unwrap();
        for word in [
            "get grew by 10.0 %",
            "from 1000 to 1100",
            "callgrind_annotate",
            "out/get.out",
            "--update",
        ] {
            assert!(said.contains(word), "{word}: {said}");
        }
    }

    #[test]
    fn another_machine_excuses_growth_and_nothing_else() {
        let elsewhere = ["rustc: 2; stored: 1".to_owned()];
        assert_eq!(judged(&[("get", 1_000)], &[("get", 1_100)], &elsewhere), None);
        assert!(
            judged(&[], &[("new", 1)], &elsewhere)
                .is_some_and(|said| said.contains("new has no stored count"))
        );
        assert!(
            judged(&[("gone", 1)], &[], &elsewhere)
                .is_some_and(|said| said.contains("gone is stored"))
        );
    }

    #[test]
    fn a_smaller_count_is_no_failure() {
        assert_eq!(judged(&[("get", 1_000), ("put", 10)], &[("get", 500), ("put", 10)], &[]), None);
    }

    #[test]
    fn the_table_has_a_line_for_each() {
        let text = table(&lines(&[("gone", 5), ("get", 1_000)], &[("get", 1_100), ("new", 7)]));
        let rows: Vec<Vec<&str>> =
            text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            rows,
            [
                vec!["get", "1000", "1100", "+10.00", "%"],
                vec!["new", "-", "7", "-"],
                vec!["gone", "5", "-", "-"]
            ]
        );
    }

    #[test]
    fn the_share_of_an_event_is_that_of_a_get_with_it() {
        let measured = |cases: &[(&str, u64)]| {
            cases.iter().map(|(case, count)| ((*case).to_owned(), *count)).collect()
        };
        let text =
            event_shares(&measured(&[(WHOLE_GET, 1_000), (EVENTS[0], 20), (EVENTS[1], 270)]));
        assert!(text.contains("2.0 % of it") && text.contains("21.6 %"), "{text}");
        assert_eq!(event_shares(&measured(&[(WHOLE_GET, 1_000)])), "");
    }
}
