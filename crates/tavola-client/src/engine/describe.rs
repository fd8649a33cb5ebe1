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
        let is_refused = matches!(kind, ErrorKind::Transaction { .. });
        let is_undone = is_refused && outcome == Outcome::NotApplied;
        let error = Error::new(kind, outcome, text);
        self.located(error.ending(is_undone.then_some("nothing was applied")), failure)
    }

    /// The error of a write of which nobody knows whether it was applied; `can_have_id` if an id of
    /// the write would decide it.
    pub(super) fn undecided(
        &self,
        failure: Option<&Failure>,
        observed: unknown::Observed,
        sent: SystemTime,
        can_have_id: bool,
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
        let cure = can_have_id.then_some("#[entity(write_id)] would decide it");
        let error = Error::new(kind, Outcome::Unknown, text).ending(cure);
        match failure {
            Some(failure) => self.located(error, failure),
            None => self.placed(error, None),
        }
    }

    fn located(&self, error: Error, failure: &Failure) -> Error {
        let Cause::Service(service) = &*failure.cause else {
            return self.placed(error, None).at(|context| context.request_id = request_id(failure));
        };
        let code = Some(service.code.clone()).filter(|code| !code.is_empty());
        let error = self.placed(error, service.operation);
        let error = error.at(|context| context.request_id = request_id(failure));
        error.with_answer(service.status.as_u16(), code)
    }

    /// Says what the call was, and which operation of a transaction failed.
    fn placed(&self, error: Error, index: Option<usize>) -> Error {
        let subject = self.subject;
        let failed = index.and_then(|index| subject.operations.get(index)).map(|(_, key)| key);
        let key = failed.or(subject.key.as_ref()).cloned().map(EntityKey::from_core);
        error.in_place(transaction_place(subject, index)).at(|context| {
            context.operation = Some(subject.operation);
            context.endpoint = Some(self.engine.traits.endpoint.clone());
            context.table = subject.table.as_ref().map(ToString::to_string);
            context.key = key;
            context.client_request_id = Some(self.client_request_id.clone());
            context.attempts = self.attempts;
            context.elapsed = self.elapsed();
        })
    }
}

fn request_id(failure: &Failure) -> Option<String> {
    failure.head.as_ref().and_then(|head| head.request_id.clone())
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
            (ErrorKind::Transaction { index: error.operation }, said)
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

/// Which transaction, and which of its operations.
fn transaction_place(subject: &Subject, index: Option<usize>) -> Option<String> {
    let count = subject.operations.len();
    let partition = subject.partition.as_deref().filter(|_| count > 0)?;
    let named = index.and_then(|index| Some((index + 1, subject.operations.get(index)?)));
    Some(match named {
        Some((number, (name, key))) => {
            let row = key.row_key.as_str();
            format!("'{partition}', operation {number} of {count}, {name} '{row}'")
        }
        None => format!("'{partition}', {count} operations"),
    })
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
