//! The same clients and the same checks against servers with a defect. A mutant that is not reported means that the
//! checks are blind, and that is what this campaign reports.

use std::process::Command;

use super::{SHORT_SEEDS, judge, play};
use crate::torture::{Arena, Campaign, Tally, Violation};

/// Every mutant of the server must be reported within as many seeds as the short form of histories has.
pub(crate) const MUTANTS: Campaign = Campaign {
    name: "mutants",
    about: "servers with a defect on purpose: is each one reported?",
    short_seeds: 1,
    attack,
};

struct Mutant {
    name: &'static str,
    /// What the tally calls the number of seeds that it took.
    figure: &'static str,
    choose: fn(&mut Command) -> &mut Command,
}

const VARIABLE: &str = "TAVOLA_MUTANT";

const ALL: [Mutant; 3] = [
    Mutant {
        name: "ack-before-sync",
        figure: "seeds until ack-before-sync was reported",
        choose: |command| command.env(VARIABLE, "ack-before-sync"),
    },
    Mutant {
        name: "etag-outside-commit",
        figure: "seeds until etag-outside-commit was reported",
        choose: |command| command.env(VARIABLE, "etag-outside-commit"),
    },
    Mutant {
        name: "split-batch",
        figure: "seeds until split-batch was reported",
        choose: |command| command.env(VARIABLE, "split-batch"),
    },
];

fn attack(arena: &Arena) -> Result<Tally, Violation> {
    let Some(server) = &arena.mutants else {
        return Err(Violation::new("there is no server with defects; `cargo xtask torture` builds one"));
    };
    let mut tally = Tally::default();
    for mutant in &ALL {
        let mut reported = None;
        for seed in 1..=SHORT_SEEDS {
            // Other seeds of this campaign must not repeat the races of this one.
            let race = Arena {
                seed: arena.seed * 1_000 + seed,
                is_short: arena.is_short,
                server: server.clone(),
                mutants: None,
                folder: arena.folder.join(format!("{}-{seed}", mutant.name)),
            };
            std::fs::create_dir_all(&race.folder)
                .map_err(|error| Violation::new(format!("{}: {error}", race.folder.display())))?;
            // Only what the checks say counts; a server that does not work at all is no mutant.
            if let Err(violation) = judge(&play(&race, mutant.choose)?) {
                println!("mutants: {} was reported with seed {seed}: {violation}", mutant.name);
                reported = Some(seed);
                break;
            }
        }
        let Some(seeds) = reported else {
            return Err(Violation::new(format!("{} was not reported within {SHORT_SEEDS} seeds", mutant.name)));
        };
        tally.peak(mutant.figure, seeds);
    }
    Ok(tally)
}
