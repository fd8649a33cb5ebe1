//! What a failure is called: kind, outcome and one sentence.

use std::time::{Duration, SystemTime};

use time::OffsetDateTime;

use super::{Running, Subject};
use crate::error::{Error, ErrorKind, Observed, Outcome, Rule};
use crate::key::EntityKey;
use crate::store::{Cause, Failure};
use crate::unknown;

/// How long a request that was sent can still be applied.
const SERVER_TIME_MAX: Duration = Duration::from_secs(30);

impl Running<'_> {
    /// The error of a call that ended with `failure`.
    pub(super) fn error(&self, failure: &Failure, outcome: Outcome) -> Error {
        let (kind, text) = describe(failure, self.subject, &self.engine.traits.endpoint);
        self.located(Error::new(kind, outcome, text), failure)
    }

    /// The error of a write of which nobody knows whether it was applied.
    pub(super) fn undecided(
        &self,
        failure: Option<&Failure>,
        observed: unknown::Observed,
        sent: SystemTime,
    ) -> Error {
        let settles_at = settles_at(sent);
        let lost = failure.map_or("no reply".to_owned(), |failure| {
            describe(failure, self.subject, &self.engine.traits.endpoint).1
        });
        let (observed, found) = match observed {
            unknown::Observed::Equal => (Some(Observed::Equal), ", then found what was sent"),
            unknown::Observed::Different => {
                (Some(Observed::Different), ", then found another version")
            }
            unknown::Observed::Absent => (Some(Observed::Absent), ", then found no entity"),
            unknown::Observed::Nothing => (None, ""),
        };
        let until = settles_at.map(|at| {
            format!("; final after {:02}:{:02}:{:02} UTC", at.hour(), at.minute(), at.second())
        });
        let text = format!(
            "{lost}{found}: the write may or may not have been applied{}",
            until.unwrap_or_default()
        );
        let kind = ErrorKind::Unknown { observed, settles_at };
        let error = Error::new(kind, Outcome::Unknown, text);
        match failure {
            Some(failure) => self.located(error, failure),
            None => self.placed(error),
        }
    }

    fn located(&self, error: Error, failure: &Failure) -> Error {
        let mut error = self.placed(error);
        if let Some(head) = &failure.head {
            error = error.at(|context| context.request_id = head.request_id.clone());
        }
        match &*failure.cause {
            Cause::Service(service) => {
                let code = Some(service.code.clone()).filter(|code| !code.is_empty());
                error.with_answer(service.status.as_u16(), code)
            }
            _ => error,
        }
    }

    fn placed(&self, error: Error) -> Error {
        error.at(|context| {
            context.operation = Some(self.subject.operation);
            context.endpoint = Some(self.engine.traits.endpoint.clone());
            context.table = self.subject.table.as_ref().map(ToString::to_string);
            context.key = self.subject.key.clone().map(EntityKey::from_core);
            context.client_request_id = Some(self.client_request_id.clone());
            context.attempts = self.attempts;
            context.elapsed = self.elapsed();
        })
    }
}

fn settles_at(sent: SystemTime) -> Option<OffsetDateTime> {
    let since = (sent + SERVER_TIME_MAX).duration_since(SystemTime::UNIX_EPOCH).ok()?;
    OffsetDateTime::from_unix_timestamp(i64::try_from(since.as_secs()).ok()?).ok()
}

fn describe(failure: &Failure, subject: &Subject, endpoint: &str) -> (ErrorKind, String) {
    match &*failure.cause {
        Cause::Service(error) => {
            let said = words(&error.code, &error.message);
            if subject.operations.is_empty() {
                return (ErrorKind::Service, said);
            }
            let kind = ErrorKind::Transaction { index: error.operation };
            (kind, in_transaction(subject, error.operation, &said))
        }
        Cause::NotOurs { content_type, beginning } => {
            let status = failure.head.as_ref().map_or(0, |head| head.status.as_u16());
            let text = format!(
                "{endpoint} answered {status} {content_type}, not a table service; it begins \
                 {beginning:?}"
            );
            (ErrorKind::NotOurs { beginning: beginning.clone() }, text)
        }
        Cause::Connect { reason, .. } => {
            (ErrorKind::Connect, format!("no connection to {endpoint}: {reason}"))
        }
        Cause::Transport(reason) => (ErrorKind::Transport, format!("no reply ({reason})")),
        Cause::Invalid(reason) => {
            let kind = ErrorKind::Invalid { rule: Rule::Request, limit: None, found: None };
            (kind, reason.clone())
        }
        Cause::Credential(reason) => {
            (ErrorKind::Credential, format!("no credential could be had: {reason}"))
        }
        Cause::Deadline => {
            (ErrorKind::Deadline, "the call's time was over before a reply came".to_owned())
        }
    }
}

fn in_transaction(subject: &Subject, index: Option<usize>, said: &str) -> String {
    let count = subject.operations.len();
    let partition = subject.partition.as_deref().unwrap_or_default();
    let Some((index, (name, key))) =
        index.and_then(|index| Some((index, subject.operations.get(index)?)))
    else {
        return format!("'{partition}', {count} operations: {said}; nothing was applied");
    };
    let number = index + 1;
    let row = key.row_key.as_str();
    format!(
        "'{partition}', operation {number} of {count}, {name} '{row}': {said}; nothing was applied"
    )
}

/// Our words for what happens every day, the service's for the rest.
fn words(code: &str, message: &str) -> String {
    match code {
        "EntityAlreadyExists" => "an entity with this key exists".to_owned(),
        "UpdateConditionNotSatisfied" => "it was changed since it was read".to_owned(),
        "ResourceNotFound" => "there is none".to_owned(),
        "TableNotFound" => "there is no such table".to_owned(),
        "TableAlreadyExists" => "a table of this name exists".to_owned(),
        "ServerBusy" => "the service has no capacity now".to_owned(),
        _ => match message.lines().next().map(str::trim) {
            Some(line) if !line.is_empty() => line.trim_end_matches('.').to_owned(),
            _ => "the service refused".to_owned(),
        },
    }
}
