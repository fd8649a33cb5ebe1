//! The ledger: statement, tests and pages that carry it, result.
//!
//! Pure: it joins four texts (our lists of statements, the wire suite's results, the tests and
//! pages that name a statement, the reasons in `COMPATIBILITY.md`) and finds what does not fit.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::carriers::Carrier;
use crate::failure::{Context, Failure, Result};

#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) id: String,
    text: String,
    /// Of a line of the guide.
    part: Option<Part>,
}

/// What a line of the guide is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Server,
    Client,
    Patterns,
    Documents,
    /// A service that does not exist yet, with its name.
    Planned(&'static str),
}

impl Part {
    fn parse(letter: &str) -> Option<Self> {
        Some(match letter {
            "S" => Self::Server,
            "C" => Self::Client,
            "P" => Self::Patterns,
            "D" => Self::Documents,
            "Q" => Self::Planned("the queue service"),
            "B" => Self::Planned("the blob service"),
            "A" => Self::Planned("analytics"),
            "V" => Self::Planned("the advisor and the explorer"),
            "X" => Self::Planned("the scale-out of the cluster"),
            _ => return None,
        })
    }
}

impl Statement {
    /// Whether it concerns neither the server nor a planned service: only tests and pages of the
    /// repository carry it.
    pub(crate) fn is_of_the_library(&self) -> bool {
        matches!(self.part, Some(Part::Client | Part::Patterns | Part::Documents))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TestStatus {
    Passed,
    Failed,
    Skipped,
    /// A test or page of the repository that names the statement: other steps run and check it.
    Named,
}

#[derive(Debug)]
struct Test {
    name: String,
    statements: Vec<String>,
    status: TestStatus,
    detail: String,
}

/// How a reason begins if something carries a part of the statement.
const IN_PART: &str = "in part:";

/// Why a statement has no test: id to reason.
pub(crate) type Reasons = BTreeMap<String, String>;

/// The joined result, ready to print.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) text: String,
    pub(crate) problems: Vec<String>,
    pub(crate) tests_passed: usize,
    pub(crate) tests_failed: usize,
    /// Tests and pages of the repository that name a statement.
    pub(crate) named: usize,
}

/// Reads `number<TAB>text` lines; `#` begins a comment.
pub(crate) fn parse_statements(text: &str) -> Result<Vec<Statement>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let parsed = lines.map(|line| match line.split_once('\t') {
        Some((id, text)) => Ok(Statement { id: id.to_owned(), text: text.to_owned(), part: None }),
        None => Err(Failure::new(format!("statement without a tab: `{line}`"))),
    });
    parsed.collect()
}

/// Reads the lines `number<TAB>part<TAB>text` of the guide.
pub(crate) fn parse_guide(text: &str) -> Result<Vec<Statement>> {
    let mut statements = parse_statements(text)?;
    for statement in &mut statements {
        let parts = statement.text.split_once('\t');
        let parts = parts.and_then(|(letter, text)| Some((Part::parse(letter)?, text.to_owned())));
        let (part, text) = parts.ok_or_else(|| format!("no part in line {}", statement.id))?;
        (statement.part, statement.text) = (Some(part), text);
    }
    Ok(statements)
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

/// Joins them. Without a report of the wire suite, only the lines that the repository carries are
/// looked at. Fails only when the report cannot be read; what is wrong with it becomes a problem.
pub(crate) fn join(
    statements: &[Statement],
    report: Option<&Value>,
    carriers: &[Carrier],
    reasons: &Reasons,
) -> Result<Ledger> {
    let mut tests = report.map(parse_report).transpose()?.unwrap_or_default();
    tests.extend(carriers.iter().map(Test::named));
    let mut text = String::new();
    let mut problems = Vec::new();
    let is_shown = |statement: &&Statement| report.is_some() || statement.is_of_the_library();
    for statement in statements.iter().filter(is_shown) {
        let carriers: Vec<_> =
            tests.iter().filter(|test| test.statements.contains(&statement.id)).collect();
        let reason = reasons.get(&statement.id);
        let described = describe(statement, &carriers, reason);
        let _ = writeln!(text, "{:>5}  {:<72}  {described}", statement.id, statement.text);
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
        named: count(TestStatus::Named),
    })
}

impl Test {
    fn named(carrier: &Carrier) -> Self {
        let (name, statements) = (carrier.name.clone(), carrier.ids.clone());
        Self { name, statements, status: TestStatus::Named, detail: String::new() }
    }
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

/// So many carriers are shown; of the others only the number.
const SHOWN: usize = 4;

fn describe(statement: &Statement, carriers: &[&Test], reason: Option<&String>) -> String {
    let shown = carriers.iter().take(SHOWN);
    let mut parts: Vec<_> =
        shown.map(|test| format!("{}{}", test.name, word(test.status))).collect();
    if carriers.len() > SHOWN {
        parts.push(format!("{} more", carriers.len() - SHOWN));
    }
    parts.extend(reason.map(|reason| format!("({reason})")));
    match statement.part {
        _ if !parts.is_empty() => parts.join(", "),
        Some(Part::Planned(service)) => format!("(planned: {service})"),
        _ => "NO TEST".into(),
    }
}

fn word(status: TestStatus) -> &'static str {
    match status {
        TestStatus::Passed => ": passed",
        TestStatus::Failed => ": FAILED",
        TestStatus::Skipped => ": skipped",
        TestStatus::Named => "",
    }
}

fn problem_of(
    statement: &Statement,
    carriers: &[&Test],
    reason: Option<&String>,
) -> Option<String> {
    let is_proof = |test: &&Test| matches!(test.status, TestStatus::Passed | TestStatus::Named);
    let proved = carriers.iter().any(is_proof);
    let failed = carriers.iter().any(|test| test.status == TestStatus::Failed);
    let is_planned = matches!(statement.part, Some(Part::Planned(_)));
    let (id, text) = (&statement.id, &statement.text);
    match (proved, reason) {
        (true, Some(reason)) if reason.starts_with(IN_PART) => None,
        (false, Some(reason)) if reason.starts_with(IN_PART) => {
            Some(format!("statement {id} is said to be carried in part, but nothing names it"))
        }
        // A failed test is reported by its own name.
        (false, None) if !failed && !is_planned => Some(format!(
            "statement {id} ({text}) has neither a carrier nor a line in COMPATIBILITY.md"
        )),
        (true, Some(_)) => {
            Some(format!("statement {id} is carried: remove its line from COMPATIBILITY.md"))
        }
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
        join(&statements, Some(report), &[], &reasons).unwrap().problems
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

    const GUIDE: &str = "G1\tS\tone\nG2\tP\ttwo\nG3\tV\tthree\nG4\tD\tfour\n";

    fn guide(carriers: &[(&str, &str)], rows: &str) -> Vec<String> {
        let carrier = |(name, id): &(&str, &str)| Carrier::new(*name, vec![(*id).to_owned()]);
        let carriers: Vec<_> = carriers.iter().map(carrier).collect();
        let reasons = parse_reasons(&reasons(rows)).unwrap();
        join(&parse_guide(GUIDE).unwrap(), None, &carriers, &reasons).unwrap().problems
    }

    #[test]
    fn a_line_of_the_guide_needs_a_test_or_a_page() {
        let page = ("limits.md", "G4");
        assert_eq!(guide(&[("t", "G2"), page], ""), [""; 0]);
        assert_eq!(guide(&[page], "| G2 | planned: blobs |"), [""; 0]);
        assert_eq!(guide(&[("t", "G2")], "").len(), 1);
        assert_eq!(guide(&[("t", "G2"), page], "| G2 | planned: blobs |").len(), 1);
        assert_eq!(guide(&[("t", "G2"), page, ("t", "G5")], "").len(), 1, "no such line");
    }

    #[test]
    fn a_line_can_be_carried_in_part() {
        let row = "| G2, G4 | in part: the rest comes with blobs |";
        assert_eq!(guide(&[("t", "G2"), ("t", "G4")], row), [""; 0]);
        assert_eq!(guide(&[("t", "G2")], row).len(), 1);
    }

    #[test]
    fn the_lists_in_the_repository_are_complete() {
        let statements = parse_statements(include_str!("../statements.txt")).unwrap();
        let ids: Vec<_> = statements.iter().map(|one| one.id.parse::<u32>().unwrap()).collect();
        assert_eq!(ids, (1..=260).collect::<Vec<_>>());
        let guide = parse_guide(include_str!("../guide.txt")).unwrap();
        let ids: Vec<_> = guide.iter().map(|one| one.id.clone()).collect();
        assert_eq!(ids, (1..=194).map(|number| format!("G{number}")).collect::<Vec<_>>());
        assert!(parse_guide("G1\tZ\tno such part").is_err());
    }
}
