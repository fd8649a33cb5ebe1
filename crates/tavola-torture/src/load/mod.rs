//! Load and noisy neighbours: whatever others do to the server, a polite client beside them gets
//! right answers, and the server's memory stays below a bound that follows from its configuration.
//!
//! Each neighbour has a server process of its own. Statuses, answers and memory are evaluated
//! always; latencies only in the long form, as ratios within one run, because the machine of a merge
//! may be busy with other things.
//!
//! Reading order: `scene` (what a neighbour is given), `polite`, `memory`, `wire`, then one file
//! per neighbour.

mod descriptors;
mod endless_heads;
mod fill;
mod idle;
mod large_bodies;
mod latency;
mod memory;
mod one_partition;
mod overload;
mod polite;
mod resets;
mod scans;
mod scene;
mod slow;
mod tenants;
mod unread;
mod wire;

use super::{Arena, Campaign, Tally, Violation};
use scene::Neighbour;

/// The campaign.
pub(super) const CAMPAIGN: Campaign = Campaign {
    name: "load",
    about: "idle, slow, huge, broken and greedy clients beside a polite one",
    short_seeds: 1,
    needs_cluster: false,
    must_happen: &[],
    attack,
};

const NEIGHBOURS: [Neighbour; 11] = [
    idle::NEIGHBOUR,
    descriptors::NEIGHBOUR,
    slow::NEIGHBOUR,
    large_bodies::NEIGHBOUR,
    endless_heads::NEIGHBOUR,
    resets::NEIGHBOUR,
    unread::NEIGHBOUR,
    one_partition::NEIGHBOUR,
    overload::NEIGHBOUR,
    scans::NEIGHBOUR,
    tenants::NEIGHBOUR,
];

/// Runs only the neighbour of this name; for a person who looks for the cause of a finding.
const ONLY_VARIABLE: &str = "TORTURE_NEIGHBOUR";

fn attack(arena: &Arena) -> Result<Tally, Violation> {
    let only = std::env::var(ONLY_VARIABLE).ok();
    let mut tally = Tally::default();
    for neighbour in
        NEIGHBOURS.iter().filter(|one| only.as_ref().is_none_or(|only| only == one.name))
    {
        let outcome = scene::run(neighbour, arena);
        tally.merge(
            &outcome
                .map_err(|violation| Violation::new(format!("{}: {violation}", neighbour.name)))?,
        );
    }
    Ok(tally)
}
