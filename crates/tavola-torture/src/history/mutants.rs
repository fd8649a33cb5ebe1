//! The same clients and the same checks against servers with a defect. A mutant that is not
//! reported means that the checks are blind, and that is what this campaign reports.

use std::process::Command;

use super::{SHORT_SEEDS, evaluate, play};
use crate::mutants::{Mutant, report_all};
use crate::{Arena, Campaign, Tally, Violation};

/// Every mutant of the server must be reported within as many seeds as the short form of histories
/// has.
pub(crate) const MUTANTS: Campaign = Campaign {
    name: "mutants",
    about: "servers with a defect on purpose: is each one reported?",
    short_seeds: 1,
    needs_cluster: false,
    must_happen: &[],
    attack,
};

type Choose = fn(&mut Command) -> &mut Command;

const VARIABLE: &str = "TAVOLA_MUTANT";

const ALL: [Mutant<Choose>; 3] = [
    Mutant {
        name: "ack-before-sync",
        figure: "seeds until ack-before-sync was reported",
        how: |command| command.env(VARIABLE, "ack-before-sync"),
    },
    Mutant {
        name: "etag-outside-commit",
        figure: "seeds until etag-outside-commit was reported",
        how: |command| command.env(VARIABLE, "etag-outside-commit"),
    },
    Mutant {
        name: "split-batch",
        figure: "seeds until split-batch was reported",
        how: |command| command.env(VARIABLE, "split-batch"),
    },
];

fn attack(arena: &Arena) -> Result<Tally, Violation> {
    report_all(MUTANTS.name, arena, &ALL, SHORT_SEEDS, |race, mutant| {
        Ok(evaluate(&play(race, mutant.how)?))
    })
}
