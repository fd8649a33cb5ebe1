//! The same faults, clients and checks against servers with a defect. A mutant that is not reported
//! means that the checks are blind, and that is what this campaign reports.

use super::fault::Fault;
use super::nodes::Defect;
use super::scene::play;
use crate::mutants::{Mutant, report_all};
use crate::{Arena, Campaign, Tally, Violation};

/// Every mutant of the store must be reported within few seeds.
pub(crate) const MUTANTS: Campaign = Campaign {
    name: "cluster-mutants",
    about: "servers with a defect on purpose before a cluster: is each one reported?",
    short_seeds: 1,
    needs_cluster: true,
    must_happen: &[],
    attack,
};

/// With the fault under which it must show.
const ALL: [Mutant<Fault>; 3] = [
    Mutant {
        name: "no-fence",
        figure: "seeds until no-fence was reported",
        how: Fault::HastyServers,
    },
    Mutant {
        name: "plain-write",
        figure: "seeds until plain-write was reported",
        how: Fault::HastyServers,
    },
    Mutant {
        name: "timeout-means-no",
        figure: "seeds until timeout-means-no was reported",
        how: Fault::HastyServers,
    },
];

/// Which writes arrive late is random.
const SEEDS_MAX: u64 = 8;

fn attack(arena: &Arena) -> Result<Tally, Violation> {
    report_all(MUTANTS.name, arena, &ALL, SEEDS_MAX, |race, mutant| {
        play(race, &race.server, mutant.how, Defect::Mutant(mutant.name))
    })
}
