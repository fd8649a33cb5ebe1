//! What is counted. Each case makes its input first and lets only the work itself be counted.

mod events;
mod filters;
mod input;
mod protocol;
mod rows;
mod whole;

use std::path::Path;

use crate::failure::Result;

/// One thing to count.
pub(crate) struct Case {
    /// As the file of counts has it.
    pub(crate) name: &'static str,
    pub(crate) work: Work,
}

/// How a case is counted.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    /// On the thread that calls: [`crate::counted::CALLS`] calls in the counted function.
    Calls(fn() -> Result),
    /// The same, with a folder for its data.
    CallsInFolder(fn(&Path) -> Result),
    /// On all threads: the whole program is counted twice, with so many calls and with more.
    Difference { run: fn(&Path, usize) -> Result, few: usize, many: usize },
}

pub(crate) const WHOLE_GET: &str = "whole-get";
/// The cases whose share of a point GET is shown: one event with what is always on, and with a line of the access log.
pub(crate) const EVENTS: [&str; 2] = ["record-event", "record-event-logged"];

const fn calls(name: &'static str, run: fn() -> Result) -> Case {
    Case { name, work: Work::Calls(run) }
}

/// Every case, by name.
pub(crate) const CASES: &[Case] = &[
    calls("authenticate-shared-key", protocol::authenticate_shared_key),
    calls("authenticate-table-sas", protocol::authenticate_table_sas),
    calls("batch-of-10", protocol::batch),
    calls("encode-row", rows::encode),
    calls("evaluate-filter", filters::evaluate),
    calls("parse-get", protocol::parse_get),
    calls("parse-insert", protocol::parse_insert),
    calls("plan-filter", filters::plan),
    calls("read-row", rows::read),
    calls(EVENTS[0], events::record),
    calls(EVENTS[1], events::record_logged),
    calls("render-full-metadata", protocol::render_full_metadata),
    calls("render-minimal-metadata", protocol::render_minimal_metadata),
    calls("render-no-metadata", protocol::render_no_metadata),
    calls("render-page-of-100", protocol::render_page),
    Case { name: WHOLE_GET, work: Work::CallsInFolder(whole::get) },
    Case {
        name: "whole-insert",
        work: Work::Difference { run: whole::insert, few: whole::INSERTS_MIN, many: whole::INSERTS_MAX },
    },
];

/// The case of this name.
pub(crate) fn find(name: &str) -> Result<&'static Case> {
    let names = || CASES.iter().map(|case| case.name).collect::<Vec<_>>().join(", ");
    CASES
        .iter()
        .find(|case| case.name == name)
        .ok_or_else(|| format!("unknown case `{name}`: choose from {}", names()).into())
}
