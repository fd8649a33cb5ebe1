//! How far long work has come: a bar on a terminal, a line per part otherwise. On standard error, so that what is
//! printed for scripts stays clean.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};
use tavola_embedded::check::{Progress, Unit};

const BYTES: &str = "{msg:>18} [{bar:30}] {bytes}/{total_bytes}, {eta} left";
const ROWS: &str = "{msg:>18} [{bar:30}] {human_pos}/{human_len} rows, {eta} left";

/// Shows progress to whoever looks.
#[derive(Debug)]
pub(crate) struct Shown {
    bar: Option<ProgressBar>,
    is_terminal: bool,
}

impl Shown {
    pub(crate) fn new() -> Self {
        Self { bar: None, is_terminal: std::io::stderr().is_terminal() }
    }

    /// Takes the bar away, so that what was found stands alone.
    pub(crate) fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Shown {
    fn begin(&mut self, what: &str, total: u64, unit: Unit) {
        self.end();
        if !self.is_terminal {
            let unit = if unit == Unit::Bytes { "bytes" } else { "rows" };
            eprintln!("{what}: {total} {unit}");
            return;
        }
        let template = if unit == Unit::Bytes { BYTES } else { ROWS };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        self.bar = Some(ProgressBar::new(total).with_style(style).with_message(what.to_owned()));
    }

    fn advance(&mut self, by: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(by);
        }
    }
}
