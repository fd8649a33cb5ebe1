//! Figures for people, and raw figures for later.

mod grid;
mod record;
mod svg;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) use record::{Record, is_ours};
pub(crate) use tables::{
    print_authentication, print_client, print_drop, print_opening, print_recovery, print_series,
    print_space, print_starts, print_targets,
};

use crate::args::Args;
use tavola_load::{Context, Result};

/// Writes the raw figures, and the picture if one is wanted.
pub(crate) fn save(args: &Args, record: &Record) -> Result {
    let path = args.json.clone().unwrap_or_else(|| default_path(record));
    let text = serde_json::to_string_pretty(record).context(|| "cannot write JSON".into())?;
    write(&path, &(text + "\n"))?;
    println!("Raw figures: {}", path.display());
    if let Some(path) = &args.svg {
        write(path, &svg::draw(record))?;
        println!("Picture: {}", path.display());
    }
    Ok(())
}

/// `bench/runs/2026-11-16-abc1234.json`, or with a number when there was a run before.
fn default_path(record: &Record) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("runs");
    let name = format!("{}-{}", record.date, record.commit);
    let numbered = (2..).map(|number| folder.join(format!("{name}-{number}.json")));
    let mut candidates = std::iter::once(folder.join(format!("{name}.json"))).chain(numbered);
    candidates.find(|path| !path.exists()).unwrap_or_default()
}

fn write(path: &Path, text: &str) -> Result {
    let doing = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).context(doing)?;
    }
    fs::write(path, text).context(doing)
}
