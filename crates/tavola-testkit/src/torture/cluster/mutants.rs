//! The same faults, clients and checks against servers with a defect. A mutant that is not reported means that the checks
//! are blind, and that is what this campaign reports.

use std::fs;
use std::path::Path;

use super::fault::Fault;
use super::front_ends::Defect;
use super::scene::play;
use crate::torture::{Arena, Campaign, Tally, Violation};

/// Every mutant of the store must be reported within few seeds.
pub(in crate::torture) const MUTANTS: Campaign = Campaign {
    name: "cluster-mutants",
    about: "servers with a defect on purpose before a cluster: is each one reported?",
    short_seeds: 1,
    needs_cluster: true,
    attack,
};

struct Mutant {
    name: &'static str,
    /// What the tally calls the number of seeds that it took.
    figure: &'static str,
    /// Under which it must show.
    fault: Fault,
}

const ALL: [Mutant; 3] = [
    Mutant { name: "no-fence", figure: "seeds until no-fence was reported", fault: Fault::HastyFrontEnds },
    Mutant { name: "plain-write", figure: "seeds until plain-write was reported", fault: Fault::HastyFrontEnds },
    Mutant {
        name: "timeout-means-no",
        figure: "seeds until timeout-means-no was reported",
        fault: Fault::HastyFrontEnds,
    },
];

/// Luck has its part in which writes land late.
const SEEDS_MAX: u64 = 8;

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
    for seed in 1..=SEEDS_MAX {
        let race = Arena {
            // Other seeds of this campaign must not repeat the races of this one.
            seed: arena.seed * 1_000 + seed,
            is_short: arena.is_short,
            server: server.to_owned(),
            mutants: None,
            cluster: arena.cluster.clone(),
            folder: arena.folder.join(format!("{}-{seed}", mutant.name)),
        };
        let made = fs::create_dir_all(&race.folder);
        made.map_err(|error| Violation::new(format!("{}: {error}", race.folder.display())))?;
        // Only what the checks say counts; a server that does not work at all is no mutant.
        match play(&race, server, mutant.fault, Defect::Mutant(mutant.name))? {
            Ok(tally) => println!("cluster-mutants: {}, seed {seed}: not reported ({tally})", mutant.name),
            Err(violation) => {
                let words = violation.to_string();
                println!("cluster-mutants: {}, seed {seed}: {}", mutant.name, words.lines().next().unwrap_or_default());
                return Ok(seed);
            }
        }
    }
    Err(Violation::new(format!("{} was not reported within {SEEDS_MAX} seeds", mutant.name)))
}
