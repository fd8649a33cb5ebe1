//! Servers with a defect on purpose, for any campaign that can play a race against them.

use std::fs;

use super::{Arena, Tally, Violation};

/// A defect that must be reported.
pub(super) struct Mutant<How> {
    pub(super) name: &'static str,
    /// What the tally calls the number of seeds that it took.
    pub(super) figure: &'static str,
    /// What a race needs to know of it.
    pub(super) how: How,
}

/// What the checks say of one race, if it could be played.
type Played = Result<Result<Tally, Violation>, Violation>;

/// Races against one mutant after another until it is reported; `play` says what the checks say of
/// one race.
///
/// # Errors
/// If a mutant is not reported within so many seeds, or a race cannot be played: a server that does
/// not work at all is no mutant.
pub(super) fn report_all<How>(
    campaign: &str,
    arena: &Arena,
    mutants: &[Mutant<How>],
    seeds_max: u64,
    play: impl Fn(&Arena, &Mutant<How>) -> Played,
) -> Result<Tally, Violation> {
    let Some(server) = &arena.mutants else {
        return Err(Violation::new(
            "there is no server with defects; `cargo xtask torture` builds one",
        ));
    };
    let mut tally = Tally::default();
    for mutant in mutants {
        let race = |seed: u64| Arena {
            // Other seeds of this campaign must not repeat the races of this one.
            seed: arena.seed * 1_000 + seed,
            is_short: arena.is_short,
            server: server.clone(),
            mutants: None,
            cluster: arena.cluster.clone(),
            folder: arena.folder.join(format!("{}-{seed}", mutant.name)),
        };
        let seeds = (1..=seeds_max).map(|seed| (seed, race(seed)));
        tally.peak(mutant.figure, seeds_until_reported(campaign, mutant, seeds, &play)?);
    }
    Ok(tally)
}

fn seeds_until_reported<How>(
    campaign: &str,
    mutant: &Mutant<How>,
    races: impl Iterator<Item = (u64, Arena)>,
    play: impl Fn(&Arena, &Mutant<How>) -> Played,
) -> Result<u64, Violation> {
    let mut played = 0;
    for (seed, race) in races {
        let made = fs::create_dir_all(&race.folder);
        made.map_err(|error| Violation::new(format!("{}: {error}", race.folder.display())))?;
        let begin = format!("{campaign}: {}, seed {seed}", mutant.name);
        match play(&race, mutant)? {
            Ok(tally) => println!("{begin}: not reported ({tally})"),
            Err(violation) => {
                println!("{begin}: {}", violation.to_string().lines().next().unwrap_or_default());
                return Ok(seed);
            }
        }
        played = seed;
    }
    Err(Violation::new(format!("{} was not reported within {played} seeds", mutant.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MUTANTS: [Mutant<u64>; 2] = [
        Mutant { name: "early", figure: "seeds until early was reported", how: 1 },
        Mutant { name: "late", figure: "seeds until late was reported", how: 3 },
    ];

    fn run(seeds_max: u64, play: fn(&Arena, &Mutant<u64>) -> Played) -> String {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let arena = Arena {
            seed: 2,
            is_short: true,
            server: "real".into(),
            mutants: Some("mutants".into()),
            cluster: None,
            folder: folder.path().to_owned(),
        };
        match report_all("test", &arena, &MUTANTS, seeds_max, play) {
            Ok(tally) => tally.to_string(),
            Err(violation) => format!("refused: {violation}"),
        }
    }

    /// Reported by the seed that `how` says.
    fn by_seed(arena: &Arena, mutant: &Mutant<u64>) -> Played {
        assert_eq!(arena.server.to_str(), Some("mutants"));
        assert!(arena.folder.is_dir());
        let is_reported = arena.seed == 2_000 + mutant.how;
        Ok(if is_reported { Err(Violation::new("broken")) } else { Ok(Tally::default()) })
    }

    #[test]
    fn each_mutant_must_be_reported_in_time() {
        assert_eq!(
            run(3, by_seed),
            "1 seeds until early was reported, 3 seeds until late was reported"
        );
        assert_eq!(run(2, by_seed), "refused: late was not reported within 2 seeds");
    }

    #[test]
    fn a_race_that_cannot_be_played_reports_nothing() {
        assert_eq!(
            run(3, |_, _| Err(Violation::new("it does not start"))),
            "refused: it does not start"
        );
    }
}
