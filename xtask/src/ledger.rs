//! The ledger of the wire suite: statement, tests that carry it, result.
//!
//! Pure: it joins three texts (our list of statements, the suite's results, the reasons in
//! `COMPATIBILITY.md`) and finds what does not fit.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::failure::{Context, Failure, Result};

#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) id: String,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TestStatus {
    Passed,
    Failed,
    Skipped,
}

#[derive(Debug)]
struct Test {
    name: String,
    statements: Vec<String>,
    status: TestStatus,
    detail: String,
}

/// Why a statement has no test: id to reason.
pub(crate) type Reasons = BTreeMap<String, String>;

/// The joined result, ready to print.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) text: String,
    pub(crate) problems: Vec<String>,
    pub(crate) tests_passed: usize,
    pub(crate) tests_failed: usize,
}

/// Reads `number<TAB>text` lines; `#` begins a comment.
pub(crate) fn parse_statements(text: &str) -> Result<Vec<Statement>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let parsed = lines.map(|line| match line.split_once('\t') {
        Some((id, text)) => Ok(Statement { id: id.to_owned(), text: text.to_owned() }),
        None => Err(Failure::new(format!("statement without a tab: `{line}`"))),
    });
    parsed.collect()
}

/// Reads the rows `| 61-92, G158 | reason |` under the heading "Statements without a test".
pub(crate) fn parse_reasons(compatibility: &str) -> Result<Reasons> {
    let section = compatibility.lines().skip_while(|line| !is_reasons_heading(line)).skip(1);
    let rows =
        section.take_while(|line| !line.starts_with("## ")).filter(|line| line.starts_with('|'));
    let mut reasons = Reasons::new();
    for row in rows {
        let cells: Vec<_> = row.trim().trim_matches('|').split('|').map(str::trim).collect();
        let Ok(ids) = parse_ids(cells[0]) else {
            // The heading of the table and the line below it.
            continue;
        };
        let reason = cells.get(1).copied().unwrap_or_default();
        if reason.is_empty() {
            return Err(Failure::new(format!("COMPATIBILITY.md: no reason in row `{row}`")));
        }
        reasons.extend(ids.into_iter().map(|id| (id, reason.to_owned())));
    }
    Ok(reasons)
}

fn is_reasons_heading(line: &str) -> bool {
    line.trim_end() == "## Statements without a test"
}

/// `56, 58-60, G158-G159` to single ids.
fn parse_ids(text: &str) -> Result<Vec<String>> {
    let mut ids = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (first, last) = part.split_once(['-', '–']).unwrap_or((part, part));
        let (prefix, first) = parse_id(first)?;
        let (_, last) = parse_id(last)?;
        ids.extend((first..=last).map(|number| format!("{prefix}{number}")));
    }
    Ok(ids)
}

fn parse_id(text: &str) -> Result<(&str, u32)> {
    let text = text.trim();
    let (prefix, digits) = text.split_at(usize::from(text.starts_with('G')));
    Ok((prefix, digits.parse().context(|| format!("statement number `{text}`"))?))
}

/// Joins the three. Fails only when the suite's report cannot be read; what is wrong with it
/// becomes a problem.
pub(crate) fn join(statements: &[Statement], report: &Value, reasons: &Reasons) -> Result<Ledger> {
    let tests = parse_report(report)?;
    let mut text = String::new();
    let mut problems = Vec::new();
    for statement in statements {
        let carriers: Vec<_> =
            tests.iter().filter(|test| test.statements.contains(&statement.id)).collect();
        let reason = reasons.get(&statement.id);
        let _ = writeln!(
            text,
            "{:>5}  {:<62}  {}",
            statement.id,
            statement.text,
            describe(&carriers, reason)
        );
        problems.extend(problem_of(statement, &carriers, reason));
    }
    problems.extend(failed_tests(&tests));
    problems.extend(unknown_ids(statements, &tests, reasons));
    let count = |status| tests.iter().filter(|test| test.status == status).count();
    Ok(Ledger {
        text,
        problems,
        tests_passed: count(TestStatus::Passed),
        tests_failed: count(TestStatus::Failed),
    })
}

fn parse_report(report: &Value) -> Result<Vec<Test>> {
    let tests = report.as_array().ok_or("the report of the wire suite is not a list")?;
    tests.iter().map(parse_test).collect()
}

fn parse_test(test: &Value) -> Result<Test> {
    let text = |field: &str| test[field].as_str().map(str::to_owned);
    let name = text("test").ok_or_else(|| format!("report entry without a test name: {test}"))?;
    let status = match test["result"].as_str() {
        Some("passed") => TestStatus::Passed,
        Some("failed") => TestStatus::Failed,
        Some("skipped") => TestStatus::Skipped,
        _ => {
            return Err(Failure::new(format!(
                "test {name} has no known result: {}",
                test["result"]
            )));
        }
    };
    let statements = test["statements"].as_array().map(Vec::as_slice).unwrap_or_default();
    let statements = statements.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    Ok(Test { name, statements, status, detail: text("detail").unwrap_or_default() })
}

fn describe(carriers: &[&Test], reason: Option<&String>) -> String {
    let mut parts: Vec<_> =
        carriers.iter().map(|test| format!("{}: {}", test.name, word(test.status))).collect();
    parts.extend(reason.map(|reason| format!("({reason})")));
    if parts.is_empty() { "NO TEST".into() } else { parts.join(", ") }
}

fn word(status: TestStatus) -> &'static str {
    match status {
        TestStatus::Passed => "passed",
        TestStatus::Failed => "FAILED",
        TestStatus::Skipped => "skipped",
    }
}

fn problem_of(
    statement: &Statement,
    carriers: &[&Test],
    reason: Option<&String>,
) -> Option<String> {
    let proved = carriers.iter().any(|test| test.status == TestStatus::Passed);
    let failed = carriers.iter().any(|test| test.status == TestStatus::Failed);
    match (proved, reason) {
        // A failed test is reported by its own name.
        (false, None) if !failed => {
            let (id, text) = (&statement.id, &statement.text);
            Some(format!(
                "statement {id} ({text}) has neither a passing test nor a line in COMPATIBILITY.md"
            ))
        }
        (true, Some(_)) => Some(format!(
            "statement {} has a passing test: remove its line from COMPATIBILITY.md",
            statement.id
        )),
        _ => None,
    }
}

fn failed_tests(tests: &[Test]) -> impl Iterator<Item = String> {
    let failed = tests.iter().filter(|test| test.status == TestStatus::Failed);
    failed.map(|test| format!("test {} failed: {}", test.name, test.detail))
}

fn unknown_ids(statements: &[Statement], tests: &[Test], reasons: &Reasons) -> Vec<String> {
    let is_known = |id: &str| statements.iter().any(|statement| statement.id == id);
    let named =
        tests.iter().flat_map(|test| test.statements.iter().map(|id| (id, test.name.as_str())));
    let named = named.chain(reasons.keys().map(|id| (id, "COMPATIBILITY.md")));
    let unknown = named.filter(|(id, _)| !is_known(id));
    unknown
        .map(|(id, place)| format!("{place} names statement {id}, which does not exist"))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const STATEMENTS: &str = "# a comment\n1\tone\n2\ttwo\nG40\tguide\n";

    fn problems(report: &Value, compatibility: &str) -> Vec<String> {
        let statements = parse_statements(STATEMENTS).unwrap();
        let reasons = parse_reasons(compatibility).unwrap();
        join(&statements, report, &reasons).unwrap().problems
    }

    fn reasons(rows: &str) -> String {
        format!(
            "# x\n| 1 | elsewhere |\n## Statements without a test\n\n| statements | why |\n| --- | --- |\n{rows}\n\n## More\n| 7 | no |\n"
        )
    }

    #[test]
    fn a_passing_test_or_a_reason_is_enough() {
        let report =
            json!([{"test": "t", "statements": ["1", "G40"], "result": "passed", "detail": ""}]);
        assert_eq!(problems(&report, &reasons("| 2 | planned: later |")), [""; 0]);
    }

    #[test]
    fn a_statement_without_either_is_a_problem() {
        let report =
            json!([{"test": "t", "statements": ["1", "2"], "result": "passed", "detail": ""}]);
        let problems = problems(&report, "");
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("statement G40"), "{problems:?}");
    }

    #[test]
    fn a_skipped_test_proves_nothing() {
        let report = json!([{"test": "t", "statements": ["1", "2", "G40"], "result": "skipped"}]);
        assert_eq!(problems(&report, "").len(), 3);
    }

    #[test]
    fn a_failed_test_is_a_problem_even_with_a_reason() {
        let report =
            json!([{"test": "t", "statements": ["1"], "result": "failed", "detail": "got 500"}]);
        assert_eq!(
            problems(&report, &reasons("| 1-2, G40 | planned |")),
            ["test t failed: got 500"]
        );
    }

    #[test]
    fn a_reason_that_is_no_longer_needed_is_a_problem() {
        let report = json!([{"test": "t", "statements": ["1"], "result": "passed"}]);
        assert_eq!(problems(&report, &reasons("| 1, 2, G40 | planned |")).len(), 1);
    }

    #[test]
    fn numbers_that_do_not_exist_are_problems() {
        let report =
            json!([{"test": "t", "statements": ["1", "2", "G40", "261"], "result": "passed"}]);
        assert_eq!(problems(&report, &reasons("| 300 | planned |")).len(), 2);
    }

    #[test]
    fn ranges_and_lists_are_read() {
        assert_eq!(
            parse_ids("56, 58-60, G158–G159").unwrap(),
            ["56", "58", "59", "60", "G158", "G159"]
        );
        assert!(parse_ids("statements").is_err());
        assert!(parse_reasons(&reasons("| 1 | |")).is_err());
    }

    #[test]
    fn the_list_in_the_repository_is_complete() {
        let statements = parse_statements(include_str!("../statements.txt")).unwrap();
        let numbered = statements.iter().take_while(|statement| !statement.id.starts_with('G'));
        let ids: Vec<_> = numbered.map(|statement| statement.id.parse::<u32>().unwrap()).collect();
        assert_eq!(ids, (1..=260).collect::<Vec<_>>());
        assert_eq!(statements.len() - ids.len(), 45);
    }
}
