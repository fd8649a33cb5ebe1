//! Prints and keeps the figures.

use std::path::Path;

use crate::round::Round;

/// A ratio that somebody promised.
pub(crate) struct Goal {
    pub(crate) target: &'static str,
    pub(crate) against: &'static str,
    pub(crate) at_least: f64,
}

/// The rates of all targets of a workload, and their ratios to the first.
pub(crate) fn print(title: &str, rounds: &[Round], goals: &[Goal]) {
    println!("\n{title}");
    let mut targets: Vec<&str> = Vec::new();
    for round in rounds {
        if !targets.contains(&round.target.as_str()) {
            targets.push(&round.target);
        }
    }
    for name in &targets {
        let of = |value: fn(&Round) -> f64| {
            median(rounds.iter().filter(|round| round.target == *name).map(value))
        };
        let failed: u64 =
            rounds.iter().filter(|round| round.target == *name).map(|round| round.failed).sum();
        println!(
            "  {name:<26} {:>9.0}/s   p50 {:>7.2} ms   p99 {:>7.2} ms   failed {failed}",
            of(|round| round.per_second).1,
            of(|round| round.p50_ms).1,
            of(|round| round.p99_ms).1
        );
    }
    for goal in goals {
        let (least, middle, most) = ratio(rounds, goal.target, goal.against);
        let result = if middle >= goal.at_least { "reached" } else { "missed" };
        println!(
            "  {} / {}: {middle:.2} ({least:.2}–{most:.2}), wanted {}: {result}",
            goal.target, goal.against, goal.at_least
        );
    }
}

/// Round by round, because rounds that follow each other find the machine alike: least, median, most.
fn ratio(rounds: &[Round], one: &str, other: &str) -> (f64, f64, f64) {
    let rates = |name: &str| -> Vec<f64> {
        rounds.iter().filter(|round| round.target == name).map(|round| round.per_second).collect()
    };
    let (ones, others) = (rates(one), rates(other));
    median(ones.iter().zip(&others).map(|(one, other)| one / other))
}

fn median(values: impl Iterator<Item = f64>) -> (f64, f64, f64) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.as_slice() {
        [] => (f64::NAN, f64::NAN, f64::NAN),
        [first, .., last] => (*first, values[values.len() / 2], *last),
        [only] => (*only, *only, *only),
    }
}

pub(crate) fn keep(file: &Path, rounds: &[Round]) -> Result<(), String> {
    let text = serde_json::to_string_pretty(rounds).map_err(|error| error.to_string())?;
    std::fs::write(file, text + "\n")
        .map_err(|error| format!("cannot write {}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::{Round, ratio};

    #[test]
    fn ratios_are_of_neighbours() {
        let round = |target: &str, per_second| Round {
            workload: "w".into(),
            target: target.into(),
            per_second,
            p50_ms: 1.0,
            p99_ms: 1.0,
            failed: 0,
        };
        let rounds = [
            round("a", 10.0),
            round("b", 20.0),
            round("a", 100.0),
            round("b", 100.0),
            round("a", 30.0),
            round("b", 10.0),
        ];
        assert_eq!(ratio(&rounds, "a", "b"), (0.5, 1.0, 3.0));
    }
}
