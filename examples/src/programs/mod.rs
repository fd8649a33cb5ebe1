//! The programs.

mod contoso;
mod expenses;
mod find;
mod im_chart;
mod logins;
mod reviews;
mod transfer;

use futures_util::future::LocalBoxFuture;

use crate::frame::{Checked, Failure, Stage};

/// A line for each program: its name, and what there is to see.
pub(crate) const LIST: &str = include_str!("../../programs.txt");

/// One of the programs.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// What it checks. Each must be checked at least once, and hold each time.
    pub(crate) invariants: &'static [&'static str],
    /// Because a server checks signatures, or is killed.
    pub(crate) needs_server: bool,
    pub(crate) run: fn(Stage) -> LocalBoxFuture<'static, Checked>,
}

const PROGRAMS: &[Program] = &[
    contoso::PROGRAM,
    find::PROGRAM,
    reviews::PROGRAM,
    expenses::PROGRAM,
    transfer::PROGRAM,
    logins::PROGRAM,
    im_chart::PROGRAM,
];

/// The program of this name.
pub(crate) fn named(name: &str) -> Result<&'static Program, Failure> {
    let found = PROGRAMS.iter().find(|program| program.name == name);
    found.ok_or_else(|| format!("there is no such program; these are:\n\n{LIST}").into())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::{LIST, PROGRAMS};
    use crate::frame::{Options, Stage};

    #[test]
    fn the_list_is_the_programs() {
        let listed: Vec<_> = LIST.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(listed, PROGRAMS.iter().map(|program| program.name).collect::<Vec<_>>());
    }

    /// Those that need no server, with workers that are killed.
    #[tokio::test(flavor = "multi_thread")]
    async fn invariants_hold_in_this_process() {
        for program in PROGRAMS.iter().filter(|program| !program.needs_server) {
            let words = ["tavola-example", "--in-memory", "--chaos", "--clean", "--seconds", "0.5"];
            let options = Options::parse_from(words);
            let stage = Stage::open(program.name, program.invariants, options).await.unwrap();
            let played = (program.run)(stage.clone()).await;
            assert!(stage.close(played).await.unwrap(), "{}", program.name);
        }
    }
}
