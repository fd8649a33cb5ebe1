//! What was found: one line per check.

use serde_json::{Value, json};

use crate::exit::Failure;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Ok,
    /// Works, but needs attention.
    Warn,
    Fail,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

#[derive(Debug)]
struct Check {
    level: Level,
    subject: String,
    says: String,
    /// What to do about it; empty if nothing.
    advice: String,
}

/// All checks, in the order in which they were made.
#[derive(Debug, Default)]
pub(in crate::commands) struct Report {
    checks: Vec<Check>,
    /// The server has accepted the credential.
    is_accepted: bool,
}

/// Local checks of a credential. The answer of the server takes precedence over them.
const ABOUT_CREDENTIALS: [&str; 9] =
    ["server", "clock", "signature", "time", "protocol", "address", "service", "policy", "fields"];

impl Report {
    pub(in crate::commands) fn ok(&mut self, subject: impl Into<String>, says: impl Into<String>) {
        self.add(Level::Ok, subject, says, "");
    }

    pub(in crate::commands) fn warn(
        &mut self,
        subject: impl Into<String>,
        says: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.add(Level::Warn, subject, says, advice);
    }

    pub(in crate::commands) fn fail(
        &mut self,
        subject: impl Into<String>,
        says: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.add(Level::Fail, subject, says, advice);
    }

    fn add(
        &mut self,
        level: Level,
        subject: impl Into<String>,
        says: impl Into<String>,
        advice: impl Into<String>,
    ) {
        // Texts of servers have line breaks, and a check is one line.
        let line = |text: String| text.replace('\r', "").replace('\n', "\\n");
        self.checks.push(Check {
            level,
            subject: subject.into(),
            says: line(says.into()),
            advice: line(advice.into()),
        });
    }

    pub(in crate::commands) fn print(&self, format: &str) {
        if format == "json" {
            println!("{:#}", self.to_json());
            return;
        }
        let level = if self.failed() == 0 { Level::Ok } else { Level::Fail };
        println!("{:<4}  result: {}", level.name(), self.summary());
        for Check { level, subject, says, advice } in &self.checks {
            let advice = if advice.is_empty() { String::new() } else { format!("; {advice}") };
            println!("{:<4}  {subject}: {says}{advice}", level.name());
        }
    }

    pub(in crate::commands) fn to_json(&self) -> Value {
        let checks: Vec<Value> = self
            .checks
            .iter()
            .map(|check| {
                let advice = Some(&check.advice).filter(|advice| !advice.is_empty());
                json!({ "level": check.level.name(), "subject": check.subject, "says": check.says, "advice": advice })
            })
            .collect();
        let summary = self.summary();
        // `verdict` is the former name of `result`, kept for one release.
        json!({ "ok": self.failed() == 0, "result": summary, "verdict": summary, "checks": checks })
    }

    fn failed(&self) -> usize {
        self.count(Level::Fail)
    }

    fn count(&self, level: Level) -> usize {
        self.checks.iter().filter(|check| check.level == level).count()
    }

    /// The server accepts the credential, so failed checks of the credential become warnings.
    pub(in crate::commands) fn accepted(&mut self) {
        self.is_accepted = true;
        let disproved = |check: &&mut Check| {
            check.level == Level::Fail && ABOUT_CREDENTIALS.contains(&&*check.subject)
        };
        for check in self.checks.iter_mut().filter(disproved) {
            check.level = Level::Warn;
            check.says.push_str(" (the server accepts the credential nevertheless)");
        }
    }

    /// The result in one line.
    fn summary(&self) -> String {
        let (failed, warnings) = (self.failed(), self.count(Level::Warn));
        if failed > 0 {
            let mut subjects: Vec<&str> = Vec::new();
            for check in self.checks.iter().filter(|check| check.level == Level::Fail) {
                if !subjects.contains(&&*check.subject) {
                    subjects.push(&check.subject);
                }
            }
            return format!(
                "{failed} of {} checks failed: {}",
                self.checks.len(),
                subjects.join(", ")
            );
        }
        let passed = if self.is_accepted { "the credential works" } else { "nothing is wrong" };
        match warnings {
            0 => passed.to_owned(),
            1 => format!("{passed}, with 1 warning"),
            many => format!("{passed}, with {many} warnings"),
        }
    }

    /// Exit code 1 if anything is wrong.
    pub(in crate::commands) fn outcome(&self) -> Result<(), Failure> {
        match self.failed() {
            0 => Ok(()),
            1 => Err(Failure::System("1 check failed".to_owned())),
            failed => Err(Failure::System(format!("{failed} checks failed"))),
        }
    }
}
