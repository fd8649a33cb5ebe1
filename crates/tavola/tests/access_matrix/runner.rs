//! Runs cases: asks the server, reads the verdict off the tables, compares, and puts back what was
//! changed.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tavola_core::{EntityKey, TableId};
use tavola_testkit::watched_store::Activity;

use crate::credentials::{Credential, FROZEN, PLAIN, POLICY, Time};
use crate::expectations::{DomainError, Effect, Expectations, Expected};
use crate::http::{Answer, Request};
use crate::operations::{self, Action, NEW_TABLE, OLD_TABLE, Operation, Query, TABLE};
use crate::rows::{Key, MARK, Range, stored};
use crate::world::World;

/// What the store did for one request.
type Seen = BTreeMap<TableId, Activity>;

/// One world while cases are run in it.
#[derive(Debug)]
pub(crate) struct Runner<'a> {
    world: World,
    expectations: &'a Expectations,
    /// The access policies of the plain account's table, as they were set last.
    policies: String,
}

impl<'a> Runner<'a> {
    pub(crate) fn new(world: World, expectations: &'a Expectations) -> Self {
        Self { world, expectations, policies: String::new() }
    }

    /// Runs one case; what is wrong with it, in one line.
    pub(crate) fn run(
        &mut self,
        credential: &Credential,
        operation: &Operation,
    ) -> Result<(), String> {
        self.install_policy(credential);
        let request = operation.request(&self.world.continuations);
        let secondary = credential.secondary || operation.asks_secondary();
        let _of_the_last_case = self.world.watch.take();
        let answer = self.world.ask(credential, request, secondary);
        let seen = self.world.watch.take();
        let verdict = self.expectations.verdict(credential, operation);
        let case = Case {
            credential,
            operation,
            answer: &answer,
            seen: &seen,
            orders: self.world.orders[credential.account],
            expectations: self.expectations,
        };
        let mut problems = case.problems(&verdict);
        let work = shown(&seen);
        problems.extend(self.restore(credential, operation, &seen).err());
        if problems.is_empty() {
            return Ok(());
        }
        let code = if answer.code().is_empty() { "-" } else { answer.code() };
        let got = format!("got {} {code} parts {:?}, {work}", answer.status, answer.parts());
        Err(format!("{credential} | {} | {} | {got}", operation.name, problems.join("; ")))
    }

    /// What the rows are at the end, which is what they were in the beginning.
    pub(crate) fn check_rows(&mut self) -> Result<(), String> {
        for account in [PLAIN, FROZEN] {
            let answer =
                self.world.ask_as_owner(account, Request::new("GET", format!("/{TABLE}()")));
            let keys = keys_in(&answer);
            if keys != texts(stored()) || stored().any(|key| !answer.body.contains(&key.marker())) {
                return Err(format!("the rows of {account} are not what they were: {keys:?}"));
            }
        }
        Ok(())
    }

    /// Gives the table the policy that a signature refers to.
    fn install_policy(&mut self, credential: &Credential) {
        let Some((letters, time)) = credential.policy() else { return };
        let policies = policies(letters, time);
        if policies != self.policies {
            let answer =
                self.world.ask_as_owner(credential.account, operations::set_acl(&policies));
            assert_eq!(answer.status, 204, "{answer:?}");
            self.policies = policies;
        }
    }

    /// Puts back what the request changed, which may be what it should not have changed.
    fn restore(
        &mut self,
        credential: &Credential,
        operation: &Operation,
        seen: &Seen,
    ) -> Result<(), String> {
        if !seen.values().any(Activity::has_changed) {
            return Ok(());
        }
        let request = match &operation.action {
            Action::Whole("create-table") => operations::delete_table(NEW_TABLE),
            Action::Whole("delete-table") => operations::create_table(OLD_TABLE),
            Action::Whole("set-acl") => {
                self.policies.clear();
                return Ok(());
            }
            Action::Whole(_) => return Ok(()),
            _ => operations::restore(&operation.keys()),
        };
        let answer = self.world.ask_as_owner(credential.account, request);
        let restored = answer.status < 300 && answer.code().is_empty();
        if restored {
            Ok(())
        } else {
            Err(format!("cannot be put back: {} {}", answer.status, answer.code()))
        }
    }
}

/// `<SignedIdentifiers>` with one policy.
fn policies(letters: &str, time: Time) -> String {
    let (start, expiry) = time.bounds();
    let start = if start.is_empty() { String::new() } else { format!("<Start>{start}</Start>") };
    format!(
        "<SignedIdentifiers><SignedIdentifier><Id>{POLICY}</Id><AccessPolicy>{start}<Expiry>{expiry}</Expiry>\
         <Permission>{letters}</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>"
    )
}

/// A case that was asked.
struct Case<'a> {
    credential: &'a Credential,
    operation: &'a Operation,
    answer: &'a Answer,
    seen: &'a Seen,
    orders: TableId,
    expectations: &'a Expectations,
}

impl Case<'_> {
    fn problems(&self, verdict: &Expected<'_>) -> Vec<String> {
        match verdict {
            Expected::Allowed => {
                let effect = self.expectations.effect(self.operation.row());
                [self.done(effect), self.reads(effect), self.changes(effect), self.content()]
                    .concat()
            }
            Expected::Refused(domain_error) => {
                let plain = (self.answer.status, self.answer.code())
                    == (domain_error.status, domain_error.code);
                let problem = (!plain)
                    .then(|| format!("expected {} {}", domain_error.status, domain_error.code));
                problem.into_iter().chain(self.refused(domain_error)).collect()
            }
            Expected::OperationRefused(domain_error, index) => {
                let problem = self.operation_refused(domain_error, *index);
                problem.into_iter().chain(self.refused(domain_error)).collect()
            }
        }
    }

    /// An operation of a batch is refused in a part of its own, with its index if there are
    /// several.
    fn operation_refused(&self, domain_error: &DomainError, index: usize) -> Option<String> {
        let DomainError { status, code, .. } = domain_error;
        let answer = self.answer;
        let (in_batch, indexed) = match self.operation.action {
            Action::Batch(_) => (true, true),
            Action::BatchedGet(_) | Action::BatchedQuery(_) => (true, false),
            _ => (false, false),
        };
        let same = match in_batch {
            true => answer.status == 202 && answer.parts() == [*status],
            false => answer.status == *status,
        };
        let indexed_well = !indexed || answer.message().starts_with(&format!("{index}:"));
        let fine = same && answer.code() == *code && indexed_well;
        let place = if indexed { format!(" in a part that says {index}:") } else { String::new() };
        (!fine).then(|| format!("expected {status} {code}{place}"))
    }

    /// A refused request has changed nothing and read nothing, but perhaps the policy that it
    /// named, unless its table was remembered.
    fn refused(&self, domain_error: &DomainError) -> Vec<String> {
        let reads_policy = domain_error.reads_policy && self.credential.policy().is_some();
        let policy = Activity { reads: 1, rows_read: 1, ..Activity::default() };
        let only_policy = |seen: &Seen| {
            let blank =
                |activity: &Activity| Activity { keys_returned: Vec::new(), ..activity.clone() };
            seen.len() == 1 && seen.get(&TableId::CATALOG).map(blank) == Some(policy)
        };
        let fine = self.seen.is_empty() || reads_policy && only_policy(self.seen);
        let mut problems = Vec::new();
        if !fine {
            let allowed = if reads_policy { "at most the policy" } else { "nothing" };
            problems.push(format!("a refused request reads {allowed} and changes nothing"));
        }
        if self.answer.body.contains(MARK) {
            problems.push("a refusal shows a row".to_owned());
        }
        problems
    }

    fn done(&self, effect: Effect) -> Vec<String> {
        let answer = self.answer;
        let parts: Vec<u16> = match &self.operation.action {
            Action::Batch(steps) => {
                steps.iter().map(|step| self.expectations.effect(step.name).done).collect()
            }
            Action::BatchedGet(_) | Action::BatchedQuery(_) => vec![effect.done],
            _ => Vec::new(),
        };
        let status = if parts.is_empty() { effect.done } else { 202 };
        let fine = answer.status == status && answer.parts() == parts && answer.code().is_empty();
        if fine { Vec::new() } else { vec![format!("expected {status} parts {parts:?}")] }
    }

    /// Rows of users are read by who asks for them, and only those inside the credential's range.
    fn reads(&self, effect: Effect) -> Vec<String> {
        let none = Activity::default();
        let orders = self.seen.get(&self.orders).unwrap_or(&none);
        let returned: Vec<_> = orders.keys_returned.iter().map(text_of_stored).collect();
        let range = self.credential.range();
        let fine = match (&self.operation.action, effect.reads) {
            (Action::Entity(_) | Action::BatchedGet(_), "row") => {
                returned == texts(self.operation.keys().into_iter())
            }
            (Action::Query(query) | Action::BatchedQuery(query), "range") => {
                let inside: Vec<_> = stored().filter(|key| range.contains(*key)).collect();
                let bound = inside.len() as u64 + query.ranges;
                let inside = texts(inside.into_iter());
                orders.rows_read <= bound && returned.iter().all(|key| inside.contains(key))
            }
            (_, "none") => orders.reads == 0,
            (_, other) => panic!("operations.txt: {other} does not fit {}", self.operation.name),
        };
        let others = self
            .seen
            .iter()
            .filter(|(table, _)| table.number() >= TableId::FIRST_USER && **table != self.orders);
        let mut problems = Vec::new();
        if !fine {
            problems
                .push(format!("reads other rows than {} of range {}", effect.reads, range.name));
        }
        if others.count() > 0 {
            problems.push("touches another table".to_owned());
        }
        problems
    }

    fn changes(&self, effect: Effect) -> Vec<String> {
        let changed = |table| self.seen.get(&table).is_some_and(Activity::has_changed);
        let rows = match effect.changes {
            "row" => self.operation.keys().len() as u64,
            _ => 0,
        };
        let none = Activity::default();
        let orders = self.seen.get(&self.orders).unwrap_or(&none);
        let fine = (orders.commits, orders.rows_changed) == (u64::from(rows > 0), rows)
            && changed(TableId::CATALOG) == (effect.changes == "catalogue")
            && changed(TableId::SERVICE_PROPERTIES) == (effect.changes == "properties");
        if fine { Vec::new() } else { vec![format!("does not change {} ({rows})", effect.changes)] }
    }

    /// Who is answered sees the rows that were asked for and that the credential reaches: no more,
    /// no less.
    fn content(&self) -> Vec<String> {
        match &self.operation.action {
            Action::Entity(step) if step.name == "get" => self.shows_row(step.key),
            Action::BatchedGet(key) => self.shows_row(*key),
            Action::Query(query) | Action::BatchedQuery(query) => self.shows_page(query),
            _ => Vec::new(),
        }
    }

    fn shows_row(&self, key: Key) -> Vec<String> {
        if self.answer.body.contains(&key.marker()) {
            Vec::new()
        } else {
            vec!["does not show the row".to_owned()]
        }
    }

    fn shows_page(&self, query: &Query) -> Vec<String> {
        let range: Range = self.credential.range();
        let reached: Vec<_> =
            stored().filter(|key| range.contains(*key) && query.selects(*key)).collect();
        let (page, rest) = reached.split_at(query.top.unwrap_or(reached.len()).min(reached.len()));
        let mut problems = Vec::new();
        let page = texts(page.iter().copied());
        if keys_in(self.answer) != page {
            problems.push(format!("expected the rows {}", page.join(" ")));
        }
        let next = rest.first().map(|key| format!("{}/{}", key.partition, key.row));
        if continuation_in(self.answer) != next {
            problems.push(format!("expected to be told to go on at {next:?}"));
        }
        problems
    }
}

/// `partition/row`, as both the store's keys and the test's can be written.
fn texts(keys: impl Iterator<Item = Key>) -> Vec<String> {
    keys.map(|key| format!("{}/{}", key.partition, key.row)).collect()
}

fn text_of_stored(key: &EntityKey) -> String {
    format!("{}/{}", key.partition_key, key.row_key)
}

/// The keys of the entities in an answer, in a batch or not.
fn keys_in(answer: &Answer) -> Vec<String> {
    let value = |text: &str| text.split('"').next().unwrap_or_default().to_owned();
    let entities = answer.body.split("\"PartitionKey\":\"").skip(1);
    let key = |entity: &str| {
        let row = entity.split("\"RowKey\":\"").nth(1).unwrap_or_default();
        format!("{}/{}", value(entity), value(row))
    };
    entities.map(key).collect()
}

/// The row that a continuation names.
fn continuation_in(answer: &Answer) -> Option<String> {
    let named = |name: &str| answer.header(&format!("x-ms-continuation-{name}")).map(decoded_token);
    let partition = named("NextPartitionKey")?;
    Some(format!("{partition}/{}", named("NextRowKey").unwrap_or_default()))
}

/// `1!{length}!{base64}` with `-`, `*` and `_` for `=`, `+` and `/`.
fn decoded_token(token: &str) -> String {
    let encoded = token.splitn(3, '!').nth(2).unwrap_or_default();
    let encoded = encoded.replace('-', "=").replace('*', "+").replace('_', "/");
    let bytes = STANDARD.decode(encoded).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

/// The store's work in a few words.
fn shown(seen: &Seen) -> String {
    let of_table = |(table, activity): (&TableId, &Activity)| {
        let Activity { reads, rows_read, commits, rows_changed, .. } = activity;
        format!(
            "table {}: {reads} reads {rows_read} rows {commits} commits {rows_changed} changed",
            table.number()
        )
    };
    let tables: Vec<_> = seen.iter().map(of_table).collect();
    if tables.is_empty() { "the store was not asked".to_owned() } else { tables.join(", ") }
}
