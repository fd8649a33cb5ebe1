//! The tables of expectations, which are data, and the little that it takes to read a case off
//! them.
//!
//! Nothing here calls the server's own rules: the tables are written from the protocol reference,
//! and so is this.

use std::collections::BTreeMap;

use crate::credentials::{
    Credential, FROZEN, Ip, Key as SigningKey, Kind, Policy, Protocol, Time, WALLED,
};
use crate::operations::{Operation, TABLE};
use crate::rows::{Key, Range};

/// All tables.
#[derive(Debug)]
pub(crate) struct Expectations {
    operations: BTreeMap<&'static str, Effect>,
    table_sas: BTreeMap<&'static str, Need>,
    account_sas: BTreeMap<&'static str, (Need, Need)>,
    roles: BTreeMap<&'static str, BTreeMap<&'static str, &'static str>>,
    refusals: Vec<DomainError>,
}

/// What an operation does when it is allowed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effect {
    pub(crate) done: u16,
    pub(crate) reads: &'static str,
    pub(crate) changes: &'static str,
}

/// One line of `refusals.txt`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DomainError {
    reason: &'static str,
    asked: &'static str,
    pub(crate) status: u16,
    pub(crate) code: &'static str,
    /// The store may be asked for the access policy that the credential names.
    pub(crate) reads_policy: bool,
}

/// The letters that open an operation.
#[derive(Debug, Clone)]
enum Need {
    Never,
    Free,
    /// Asked of each operation of a batch.
    Each,
    /// One of these sets, whole.
    Letters(Vec<&'static str>),
}

/// What a case must come to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expected<'a> {
    Allowed,
    /// The request as a whole.
    Refused(&'a DomainError),
    /// One operation: its index.
    OperationRefused(&'a DomainError, usize),
}

impl Need {
    fn parse(text: &'static str) -> Self {
        match text {
            "never" => Self::Never,
            "free" => Self::Free,
            "each" => Self::Each,
            letters => Self::Letters(letters.split('|').collect()),
        }
    }

    /// `a&u` and letters as a credential has them.
    fn is_met_by(&self, given: &str) -> bool {
        match self {
            Self::Letters(sets) => {
                sets.iter().any(|set| set.split('&').all(|letter| given.contains(letter)))
            }
            Self::Free => true,
            Self::Never | Self::Each => false,
        }
    }
}

impl Expectations {
    pub(crate) fn read() -> Self {
        let operations = lines(include_str!("operations.txt")).map(|line| {
            let [name, done, reads, changes] = columns(line);
            (name, Effect { done: number(done), reads, changes })
        });
        let table_sas = lines(include_str!("table_sas.txt")).map(|line| {
            let [name, letters] = columns(line);
            (name, Need::parse(letters))
        });
        let account_sas = lines(include_str!("account_sas.txt")).map(|line| {
            let [name, types, letters] = columns(line);
            (name, (Need::parse(types), Need::parse(letters)))
        });
        let refusals = lines(include_str!("refusals.txt")).map(|line| {
            let [reason, asked, status, code, reads] = columns(line);
            assert!(matches!(reads, "nothing" | "policy"), "{line}");
            DomainError {
                reason,
                asked,
                status: number(status),
                code,
                reads_policy: reads == "policy",
            }
        });
        Self {
            operations: operations.collect(),
            table_sas: table_sas.collect(),
            account_sas: account_sas.collect(),
            roles: lines(include_str!("roles.txt")).map(role_row).collect(),
            refusals: refusals.collect(),
        }
    }

    /// The names of all operations, which every table must have.
    pub(crate) fn complete_rows(&self) -> Vec<&'static str> {
        let rows: Vec<_> = self.operations.keys().copied().collect();
        assert_eq!(rows, self.table_sas.keys().copied().collect::<Vec<_>>(), "table_sas.txt");
        assert_eq!(rows, self.account_sas.keys().copied().collect::<Vec<_>>(), "account_sas.txt");
        assert_eq!(rows, self.roles.keys().copied().collect::<Vec<_>>(), "roles.txt");
        rows
    }

    pub(crate) fn effect(&self, row: &str) -> Effect {
        self.operations[row]
    }

    /// Reads one case off the tables: the first line of `refusals.txt` that applies, or success.
    pub(crate) fn verdict(&self, credential: &Credential, operation: &Operation) -> Expected<'_> {
        let is_free = matches!(self.table_sas[operation.row()], Need::Free);
        let writes = self.effect(operation.row()).changes != "none";
        let asked = |asked: &'static str| {
            self.refusals.iter().filter(move |domain_error| domain_error.asked == asked)
        };
        let of_request = asked("all").chain(asked("request").filter(|_| !is_free));
        if let Some(domain_error) = of_request
            .into_iter()
            .find(|domain_error| applies_to_request(domain_error.reason, credential))
        {
            return Expected::Refused(domain_error);
        }
        for (index, (row, key)) in operation.demands().into_iter().enumerate().filter(|_| !is_free)
        {
            let applies = |domain_error: &&DomainError| {
                self.applies_to_operation(domain_error.reason, credential, row, key)
            };
            if let Some(domain_error) = asked("operation").find(applies) {
                return Expected::OperationRefused(domain_error, index);
            }
        }
        let applies =
            |domain_error: &&DomainError| applies_to_request(domain_error.reason, credential);
        asked("write").filter(|_| writes).find(applies).map_or(Expected::Allowed, Expected::Refused)
    }

    fn applies_to_operation(
        &self,
        reason: &str,
        credential: &Credential,
        row: &str,
        key: Option<Key>,
    ) -> bool {
        match (&credential.kind, reason) {
            (Kind::TableSas(_), "never") => matches!(self.table_sas[row], Need::Never),
            (Kind::TableSas(sas), "table") => sas.table != TABLE,
            (Kind::TableSas(sas), "permission") => !self.table_sas[row].is_met_by(&sas.letters),
            (Kind::TableSas(sas), "range") => key.is_some_and(|key| !sas.range.contains(key)),
            (Kind::AccountSas(_), "never") => matches!(self.account_sas[row].0, Need::Never),
            (Kind::AccountSas(sas), "resource-type") => {
                !self.account_sas[row].0.is_met_by(&sas.types)
            }
            (Kind::AccountSas(sas), "permission") => {
                !self.account_sas[row].1.is_met_by(&sas.letters)
            }
            (Kind::Bearer { column, .. }, "unknown-to-tokens") => {
                self.roles[row][column] == "unknown"
            }
            (Kind::Bearer { column, .. }, "role") => self.roles[row][column] == "no",
            (
                _,
                "never" | "table" | "resource-type" | "permission" | "range" | "unknown-to-tokens"
                | "role",
            ) => false,
            (_, other) => panic!("refusals.txt: nobody knows what {other} is about"),
        }
    }
}

fn applies_to_request(reason: &str, credential: &Credential) -> bool {
    let terms = match &credential.kind {
        Kind::TableSas(sas) => Some(&sas.terms),
        Kind::AccountSas(sas) => Some(&sas.terms),
        _ => None,
    };
    match (reason, &credential.kind) {
        ("source-shut-out", _) => credential.account == WALLED,
        ("read-only", _) => credential.secondary || credential.account == FROZEN,
        ("no-credentials", Kind::Nothing { version }) => *version < CHALLENGING_VERSION,
        ("challenge", Kind::Nothing { version }) => *version >= CHALLENGING_VERSION,
        ("header", kind) => matches!(kind, Kind::Unparsable),
        ("signature", Kind::SharedKey(shared_key)) => {
            shared_key.key == SigningKey::Strangers || shared_key.misnamed
        }
        ("date", Kind::SharedKey(shared_key)) => shared_key.stale,
        ("signature", _) => terms.is_some_and(|terms| !terms.signature_holds()),
        ("policy", Kind::TableSas(sas)) => matches!(sas.policy, Policy::Unknown | Policy::Twice),
        ("time", _) => terms.is_some_and(|terms| terms.time != Time::Now),
        ("ip", _) => terms.is_some_and(|terms| terms.ip == Ip::Elsewhere),
        ("protocol", _) => terms.is_some_and(|terms| terms.protocol == Protocol::HttpsOnly),
        ("service", Kind::AccountSas(sas)) => !sas.services.contains('t'),
        ("no-credentials" | "challenge" | "date" | "policy" | "service", _) => false,
        (other, _) => panic!("refusals.txt: nobody knows what {other} is about"),
    }
}

/// Section 4.2 of the protocol reference.
const CHALLENGING_VERSION: &str = "2020-12-06";

impl Credential {
    /// The rows that it can reach at all.
    pub(crate) fn range(&self) -> Range {
        match &self.kind {
            Kind::TableSas(sas) => sas.range,
            _ => Range::NONE,
        }
    }
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn columns<const N: usize>(line: &'static str) -> [&'static str; N] {
    let columns: Vec<_> = line.split_whitespace().collect();
    columns.try_into().unwrap_or_else(|_| panic!("not {N} columns: {line}"))
}

fn number(text: &str) -> u16 {
    text.parse().unwrap_or_else(|_| panic!("not a status: {text}"))
}

/// The columns of `roles.txt`.
pub(crate) const ROLES: [&str; 6] = [
    "none",
    "reader",
    "contributor",
    "reader-of-orders",
    "contributor-of-orders",
    "contributor-of-other",
];

fn role_row(line: &'static str) -> (&'static str, BTreeMap<&'static str, &'static str>) {
    let [name, cells @ ..]: [&str; ROLES.len() + 1] = columns(line);
    let legal = |cell: &&str| matches!(*cell, "yes" | "no" | "unknown" | "each" | "free");
    assert!(cells.iter().all(legal), "{line}");
    (name, ROLES.into_iter().zip(cells).collect())
}
