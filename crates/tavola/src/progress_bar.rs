//! How far long work has come: a bar on a terminal, a line per part otherwise. On standard error,
//! so that what is printed for scripts stays clean.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tavola_embedded::check::{Progress, Unit};
use tavola_service::migration::Watch;

const BYTES: &str = "{msg:>18} [{bar:30}] {bytes}/{total_bytes}, {eta} left";
const ROWS: &str = "{msg:>18} [{bar:30}] {human_pos}/{human_len} rows, {eta} left";
/// The total is not known yet.
const COUNTED: &str = "{msg:>18} {spinner} {human_pos} rows";
const TIME: &str = "{msg:>18} [{bar:30}] {prefix}, {eta} left";

/// Shows progress on a terminal.
#[derive(Debug)]
pub(crate) struct Shown {
    bar: Option<ProgressBar>,
    is_terminal: bool,
}

impl Shown {
    pub(crate) fn new() -> Self {
        Self { bar: None, is_terminal: std::io::stderr().is_terminal() }
    }

    /// Work that lasts for a given time.
    pub(crate) fn begin_time(&mut self, what: &str, total: Duration) {
        self.show(what, total.as_millis() as u64, &format!("{} s", total.as_secs_f64()), TIME);
    }

    /// How much of its time has passed, and what came of it so far.
    pub(crate) fn pass_time(&mut self, passed: Duration, so_far: String) {
        if let Some(bar) = &self.bar {
            bar.set_prefix(so_far);
            bar.set_position(passed.as_millis() as u64);
        }
    }

    /// Work whose length nobody knows. Without a terminal nothing is said.
    pub(crate) fn begin_counted(&mut self, what: &str) {
        if self.is_terminal {
            self.show(what, 0, "", COUNTED);
        }
    }

    /// How far counted work has come.
    pub(crate) fn set_count(&mut self, count: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(count);
        }
    }

    fn show(&mut self, what: &str, total: u64, total_words: &str, template: &str) {
        self.end();
        if !self.is_terminal {
            eprintln!("{what}: {total_words}");
            return;
        }
        let style =
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        self.bar = Some(ProgressBar::new(total).with_style(style).with_message(what.to_owned()));
    }

    /// Removes the bar before results are printed.
    pub(crate) fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Shown {
    fn begin(&mut self, what: &str, total: u64, unit: Unit) {
        let (unit, template) = if unit == Unit::Bytes { ("bytes", BYTES) } else { ("rows", ROWS) };
        self.show(what, total, &format!("{total} {unit}"), template);
    }

    fn advance(&mut self, by: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(by);
        }
    }
}

impl Watch for Shown {
    fn begin(&mut self, what: &'static str, rows: Option<u64>) {
        match rows {
            Some(rows) => self.show(what, rows, &format!("{rows} rows"), ROWS),
            None => self.show(what, 0, "all rows", COUNTED),
        }
    }

    fn advance(&mut self, rows: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(rows);
        }
    }
}
