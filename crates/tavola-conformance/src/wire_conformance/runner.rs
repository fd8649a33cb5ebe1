//! Runs cases side by side and says what became of each.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fmt, thread};

use serde_json::{Value, json};

use super::{Case, Endpoint, Failure};

/// What became of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaseStatus {
    Passed,
    Failed,
    Skipped,
}

impl CaseStatus {
    /// The word for reports.
    pub fn word(self) -> &'static str {
        match self {
            CaseStatus::Passed => "passed",
            CaseStatus::Failed => "failed",
            CaseStatus::Skipped => "skipped",
        }
    }
}

/// One case with its result. Displayed as the line that the program prints.
#[derive(Debug, Clone)]
pub struct Report {
    /// The name of the case.
    pub test: &'static str,
    /// The statements that it carries.
    pub statements: &'static [&'static str],
    /// What became of it.
    pub status: CaseStatus,
    /// Why it failed or was skipped; empty when it passed.
    pub detail: String,
}

impl Report {
    fn new(case: &Case, outcome: Result<(), Failure>) -> Self {
        let (status, detail) = match outcome {
            Ok(()) => (CaseStatus::Passed, String::new()),
            Err(Failure::Mismatch(detail)) => (CaseStatus::Failed, detail),
            Err(Failure::Skipped(reason)) => (CaseStatus::Skipped, reason),
        };
        Report { test: case.name, statements: case.statements, status, detail }
    }

    /// The entry of the JSON report.
    pub fn to_json(&self) -> Value {
        json!({
            "test": self.test,
            "statements": self.statements,
            "result": self.status.word(),
            "detail": self.detail,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            CaseStatus::Passed => write!(formatter, "ok {}{}", self.test, labels(self.statements)),
            CaseStatus::Failed => write!(formatter, "FAILED {}: {}", self.test, self.detail),
            CaseStatus::Skipped => write!(formatter, "skipped {}: {}", self.test, self.detail),
        }
    }
}

/// Runs the cases on `jobs` threads and calls `on_report` as each ends. Gives the reports in the
/// order of the cases.
pub fn run(
    endpoint: &Endpoint,
    cases: &[Case],
    jobs: usize,
    on_report: impl Fn(&Report) + Sync,
) -> Vec<Report> {
    let next = AtomicUsize::new(0);
    let reports = Mutex::new(Vec::with_capacity(cases.len()));
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some((index, case)) = take(&next, cases) {
                    let report = Report::new(case, case.execute(endpoint));
                    let mut reports = reports.lock().expect("no thread panics while it reports");
                    on_report(&report);
                    reports.push((index, report));
                }
            });
        }
    });
    let mut reports = reports.into_inner().expect("no thread panics while it reports");
    reports.sort_by_key(|(index, _)| *index);
    reports.into_iter().map(|(_, report)| report).collect()
}

fn take<'c>(next: &AtomicUsize, cases: &'c [Case]) -> Option<(usize, &'c Case)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    Some((index, cases.get(index)?))
}

/// The sections of the reference's checklist, each with its last statement.
const SECTIONS: [(&str, u16); 14] = [
    ("16.1", 21),
    ("16.2", 33),
    ("16.3", 40),
    ("16.4", 55),
    ("16.5", 60),
    ("16.6", 92),
    ("16.7", 107),
    ("16.8", 141),
    ("16.9", 155),
    ("16.10", 178),
    ("16.11", 209),
    ("16.12", 234),
    ("16.13", 250),
    ("16.14", 260),
];
const GUIDE_LINES: u16 = 173;

/// The section that a statement is in: `16.7` for `"105"`, `guide` for `"G12"`. Nothing for an
/// unknown number.
pub fn section_of(statement: &str) -> Option<&'static str> {
    if let Some(line) = statement.strip_prefix('G') {
        let line: u16 = line.parse().ok()?;
        return (1..=GUIDE_LINES).contains(&line).then_some("guide");
    }
    let number: u16 = statement.parse().ok().filter(|number| *number > 0)?;
    SECTIONS.iter().find(|(_, last)| number <= *last).map(|(section, _)| *section)
}

/// ` [16.1: 4, 5; guide: G7]`, or nothing.
fn labels(statements: &[&str]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for statement in statements {
        let section = section_of(statement).unwrap_or("unknown");
        match groups.iter_mut().find(|(known, _)| *known == section) {
            Some((_, group)) => group.push(statement),
            None => groups.push((section, vec![statement])),
        }
    }
    if groups.is_empty() {
        return String::new();
    }
    let groups: Vec<_> = groups
        .iter()
        .map(|(section, statements)| format!("{section}: {}", statements.join(", ")))
        .collect();
    format!(" [{}]", groups.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections() {
        assert_eq!(section_of("1"), Some("16.1"));
        assert_eq!(section_of("22"), Some("16.2"));
        assert_eq!(section_of("260"), Some("16.14"));
        assert_eq!(section_of("261"), None);
        assert_eq!(section_of("0"), None);
        assert_eq!(section_of("G173"), Some("guide"));
        assert_eq!(section_of("G174"), None);
    }

    #[test]
    fn statements_are_grouped_by_section() {
        assert_eq!(labels(&["4", "5", "G7"]), " [16.1: 4, 5; guide: G7]");
        assert_eq!(labels(&[]), "");
    }
}
