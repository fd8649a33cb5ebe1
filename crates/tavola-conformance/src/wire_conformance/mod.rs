//! The black-box suite of the Table protocol: named cases that speak HTTP over a real socket to any
//! endpoint.
//!
//! The suite is an independent witness. It has its own HTTP client, its own signer and its own
//! reading of the protocol reference, and shares no line with the server under test; so it can be
//! pointed at Tavola, at Azurite or at Azure. Every case names the statements of the reference
//! (`"1"` to `"260"`) and of the design guide (`"G1"` …) that it carries.
//!
//! ```no_run
//! use tavola_conformance::wire_conformance::{Endpoint, Failure, cases};
//!
//! # fn main() -> Result<(), String> {
//! let endpoint = Endpoint::new("http://127.0.0.1:10002/devstoreaccount1", "devstoreaccount1", "c2VjcmV0")?;
//! for case in cases() {
//!     match case.execute(&endpoint) {
//!         Ok(()) => println!("ok {}", case.name),
//!         Err(Failure::Skipped(reason)) => println!("skipped {}: {reason}", case.name),
//!         Err(Failure::Mismatch(detail)) => println!("FAILED {}: {detail}", case.name),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Read [`Case`] and [`cases`] first. Below them: `endpoint` (address and keys), `request` and `http`
//! (bytes out, bytes in), `signer` (SharedKey and SharedKeyLite), `sas` (shared access signatures),
//! `check` (what was expected), `table` (a table of one's own), `multipart` (batches); then one
//! file per section of the checklist.

mod check;
mod endpoint;
mod http;
mod multipart;
mod request;
mod runner;
mod sas;
mod signer;
mod table;

mod addressing;
mod bad_input;
mod batch;
mod batch_rules;
mod credentials;
mod data_model;
mod data_types;
mod design_guide;
mod errors;
mod filters;
mod framing;
mod headers;
mod imports;
mod misaddressed;
mod queries;
mod representations;
mod sas_account;
mod sas_bad_input;
mod sas_batches;
mod sas_fields;
mod sas_permissions;
mod sas_policies;
mod sas_ranges;
mod sas_signatures;
mod sdk_batches;
mod sdk_shapes;
mod service;
mod service_cors;
mod shared_key;
mod tables;
mod writes;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use endpoint::{Endpoint, Observer};
pub use runner::{CaseStatus, Report, run, section_of};

/// What a case hands back: nothing, or why it did not pass.
pub type Outcome = Result<(), Failure>;

/// Why a case did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The endpoint answered something else than the statement says; the text shows the exchange.
    Mismatch(String),
    /// The case cannot be asked of this endpoint; the text says what is missing.
    Skipped(String),
}

impl Failure {
    fn mismatch(detail: impl Into<String>) -> Self {
        Failure::Mismatch(detail.into())
    }

    fn skipped(reason: impl Into<String>) -> Self {
        Failure::Skipped(reason.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Mismatch(detail) => formatter.write_str(detail),
            Failure::Skipped(reason) => write!(formatter, "skipped: {reason}"),
        }
    }
}

impl std::error::Error for Failure {}

/// Whether other cases may run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The case only touches tables that it created: any number of such cases may run at once.
    Shared,
    /// The case changes or measures something that the whole account shares: it runs alone.
    Exclusive,
}

/// One named question to an endpoint.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Unique in the suite, in words joined by underscores.
    pub name: &'static str,
    /// Numbers of the checklist that this case carries: `"105"` of the reference, `"G12"` of the
    /// design guide. Empty for a rule of the protocol that the checklist does not number.
    pub statements: &'static [&'static str],
    /// Whether other cases may run at the same time; [`Case::execute`] sees to it.
    pub access: Access,
    /// The question itself. Call [`Case::execute`], which also takes the lock.
    pub run: fn(&Endpoint) -> Outcome,
}

impl Case {
    const fn shared(
        name: &'static str,
        statements: &'static [&'static str],
        run: fn(&Endpoint) -> Outcome,
    ) -> Self {
        Case { name, statements, access: Access::Shared, run }
    }

    const fn exclusive(
        name: &'static str,
        statements: &'static [&'static str],
        run: fn(&Endpoint) -> Outcome,
    ) -> Self {
        Case { name, statements, access: Access::Exclusive, run }
    }

    /// Asks the endpoint, alone or among others as [`Case::access`] demands. A panic is a failure
    /// like any other.
    pub fn execute(&self, endpoint: &Endpoint) -> Outcome {
        let _guard = endpoint.lock(self.access);
        catch_unwind(AssertUnwindSafe(|| (self.run)(endpoint))).unwrap_or_else(|panic| {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            Err(Failure::mismatch(format!("the case panicked: {text}")))
        })
    }
}

/// All cases, in the order of the checklist.
pub fn cases() -> Vec<Case> {
    [
        addressing::CASES,
        misaddressed::CASES,
        headers::CASES,
        errors::CASES,
        shared_key::CASES,
        credentials::CASES,
        sas_signatures::CASES,
        sas_fields::CASES,
        sas_permissions::CASES,
        sas_account::CASES,
        sas_ranges::CASES,
        sas_policies::CASES,
        sas_batches::CASES,
        tables::CASES,
        data_types::CASES,
        data_model::CASES,
        imports::CASES,
        representations::CASES,
        writes::CASES,
        queries::CASES,
        filters::CASES,
        batch::CASES,
        batch_rules::CASES,
        service::CASES,
        service_cors::CASES,
        bad_input::CASES,
        sas_bad_input::CASES,
        framing::CASES,
        sdk_shapes::CASES,
        sdk_batches::CASES,
        design_guide::CASES,
    ]
    .concat()
}

/// Returns a mismatch with the formatted text unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::wire_conformance::Failure::Mismatch(format!($($text)+)));
        }
    };
}
use ensure;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_words() {
        let mut seen = BTreeSet::new();
        for case in cases() {
            assert!(seen.insert(case.name), "{} occurs twice", case.name);
            assert!(
                case.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'),
                "{} is not in words",
                case.name
            );
        }
    }

    #[test]
    fn statements_exist_in_the_checklists() {
        for case in cases() {
            for statement in case.statements {
                assert!(section_of(statement).is_some(), "{}: no statement {statement}", case.name);
            }
        }
    }
}
