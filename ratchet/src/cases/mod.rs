//! What is counted. Each case makes its input first and lets only the work itself be counted.

mod events;
mod filters;
mod input;
mod protocol;
mod rows;
mod whole;

use crate::counted::Run;
use crate::failure::Result;

/// One thing to count.
pub(crate) struct Case {
    /// As the file of counts has it.
    pub(crate) name: &'static str,
    pub(crate) way: Way,
    /// Does the work.
    pub(crate) run: fn(&Run<'_>) -> Result,
}

/// How a case is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    /// What so many calls do in the counted function, on their thread.
    Inside(usize),
    /// What the whole program does on all threads, with few calls and with many: the difference.
    Between { few: usize, many: usize },
}

pub(crate) const WHOLE_GET: &str = "whole-get";
/// The cases whose share of a point GET is shown: one event with what is always on, and with a line
/// of the access log.
pub(crate) const EVENTS: [&str; 2] = ["record-event", "record-event-logged"];

const fn inside(name: &'static str, run: fn(&Run<'_>) -> Result) -> Case {
    Case { name, way: Way::Inside(200), run }
}

/// Every case, by name.
pub(crate) const CASES: &[Case] = &[
    inside("authenticate-shared-key", protocol::authenticate_shared_key),
    inside("authenticate-table-sas", protocol::authenticate_table_sas),
    inside("batch-of-10", protocol::batch),
    inside("encode-row", rows::encode),
    inside("evaluate-filter", filters::evaluate),
    inside("parse-get", protocol::parse_get),
    inside("parse-insert", protocol::parse_insert),
    inside("plan-filter", filters::plan),
    inside("read-row", rows::read),
    inside(EVENTS[0], events::record),
    // The thread that writes the lines gives their memory back when it likes; in many calls this is
    // level.
    Case { way: Way::Inside(4_000), ..inside(EVENTS[1], events::record_logged) },
    inside("render-full-metadata", protocol::render_full_metadata),
    inside("render-minimal-metadata", protocol::render_minimal_metadata),
    inside("render-no-metadata", protocol::render_no_metadata),
    inside("render-page-of-100", protocol::render_page),
    inside("select-row", filters::select),
    inside("select-wide-row", filters::select_wide),
    inside(WHOLE_GET, whole::get),
    Case {
        name: "whole-insert",
        way: Way::Between { few: 200, many: whole::INSERTS_MAX },
        run: whole::insert,
    },
];

/// The case of this name.
pub(crate) fn find(name: &str) -> Result<&'static Case> {
    let names = || CASES.iter().map(|case| case.name).collect::<Vec<_>>().join(", ");
    let found = CASES.iter().find(|case| case.name == name);
    found.ok_or_else(|| format!("unknown case `{name}`: choose from {}", names()).into())
}
