//! The same clients and the same checks against servers with a defect. A mutant that is not reported means that the
//! checks are blind, and that is what this campaign reports.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{SHORT_SEEDS, judge, play};
use crate::torture::{Arena, Campaign, Tally, Violation};

/// Every mutant of the server must be reported within as many seeds as the short form of histories has.
pub(crate) const MUTANTS: Campaign = Campaign {
    name: "mutants",
    about: "servers with a defect on purpose: is each one reported?",
    short_seeds: 1,
    needs_cluster: false,
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
        tally.peak(mutant.figure, seeds_until_reported(mutant, arena, server)?);
    }
    Ok(tally)
}

fn seeds_until_reported(mutant: &Mutant, arena: &Arena, server: &Path) -> Result<u64, Violation> {
    for seed in 1..=SHORT_SEEDS {
        let race = Arena {
            // Other seeds of this campaign must not repeat the races of this one.
            seed: arena.seed * 1_000 + seed,
            is_short: arena.is_short,
            server: server.to_owned(),
            mutants: None,
            cluster: None,
            folder: arena.folder.join(format!("{}-{seed}", mutant.name)),
        };
        let made = fs::create_dir_all(&race.folder);
        made.map_err(|error| Violation::new(format!("{}: {error}", race.folder.display())))?;
        // Only what the checks say counts; a server that does not work at all is no mutant.
        if let Err(violation) = judge(&play(&race, mutant.choose)?) {
            let words = violation.to_string();
            println!("mutants: {}, seed {seed}: {}", mutant.name, words.lines().next().unwrap_or_default());
            return Ok(seed);
        }
    }
    Err(Violation::new(format!("{} was not reported within {SHORT_SEEDS} seeds", mutant.name)))
}
