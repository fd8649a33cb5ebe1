//! What was found: one line per check.

use serde_json::{Value, json};

use crate::exit::Failure;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Ok,
    /// Works, but somebody should look at it.
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
pub(in crate::commands) struct Report(Vec<Check>);

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

    fn add(&mut self, level: Level, subject: impl Into<String>, says: impl Into<String>, advice: impl Into<String>) {
        // Texts of servers have line breaks, and a check is one line.
        let line = |text: String| text.replace('\r', "").replace('\n', "\\n");
        self.0.push(Check { level, subject: subject.into(), says: line(says.into()), advice: line(advice.into()) });
    }

    pub(in crate::commands) fn print(&self, format: &str) {
        if format == "json" {
            println!("{:#}", self.to_json());
            return;
        }
        for Check { level, subject, says, advice } in &self.0 {
            let advice = if advice.is_empty() { String::new() } else { format!("; {advice}") };
            println!("{:<4}  {subject}: {says}{advice}", level.name());
        }
    }

    pub(in crate::commands) fn to_json(&self) -> Value {
        let checks: Vec<Value> = self
            .0
            .iter()
            .map(|check| {
                let advice = Some(&check.advice).filter(|advice| !advice.is_empty());
                json!({ "level": check.level.name(), "subject": check.subject, "says": check.says, "advice": advice })
            })
            .collect();
        json!({ "ok": self.failed() == 0, "checks": checks })
    }

    fn failed(&self) -> usize {
        self.0.iter().filter(|check| check.level == Level::Fail).count()
    }

    /// Exit code 1 if anything is wrong.
    pub(in crate::commands) fn verdict(&self) -> Result<(), Failure> {
        match self.failed() {
            0 => Ok(()),
            1 => Err(Failure::System("1 check failed".to_owned())),
            failed => Err(Failure::System(format!("{failed} checks failed"))),
        }
    }
}
