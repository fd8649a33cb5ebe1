//! The picture for the README: above, how many times Azurite's rate; below, which share of the
//! baselines.
//!
//! The upper axis is logarithmic, since those ratios lie orders of magnitude apart; the lower one
//! is not. Lines are named so as not to mislead, and what we want to reach is marked whether or
//! not we do.

use std::fmt::Write as _;

use tavola_load::text;

use super::record::{Ratio, Record, is_ours, target_name};
use crate::series::Series;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 330.0;
const RIGHT: f64 = 70.0;
const ROW: f64 = 26.0;
const BAR: f64 = 15.0;
/// Above the bars of a part: its title and the names of the lines.
const TITLE: f64 = 58.0;
const BOTTOM: f64 = 34.0;

/// Colours follow the reader's own theme.
const STYLE: &str = "<style>text{font:13px sans-serif;fill:#24292f}.title{font-weight:bold;font-size:15px}\
    .note{font-size:11px;fill:#57606a}.bar{fill:#2f7ed8}.line{stroke:#d0d7de}.goal{stroke:#d1242f;stroke-width:2}\
    @media(prefers-color-scheme:dark){text{fill:#e6edf3}.note{fill:#9198a1}.line{stroke:#3d444d}}</style>";

pub(super) fn draw(record: &Record) -> String {
    let of = |rivals: &[&str]| -> Vec<&Ratio> {
        let counts = |ratio: &&Ratio| {
            !is_ours(&ratio.theirs) && rivals.contains(&target_name(&ratio.theirs))
        };
        record.ratios.iter().filter(counts).collect()
    };
    let parts = [
        Part {
            title: "Tavola’s rate as a multiple of Azurite’s",
            bars: of(&["azurite"]),
            is_logarithmic: true,
        },
        Part {
            title: "As a share of what the machine allows",
            bars: of(&["null", "engine"]),
            is_logarithmic: false,
        },
    ];
    let (mut body, mut top) = (String::new(), 0.0);
    for part in parts.iter().filter(|part| !part.bars.is_empty()) {
        top = part.draw(&mut body, top);
    }
    let height = top + BOTTOM;
    let size = text::size(record.settings.azurite_entities);
    let note = format!(
        "{}, {} cores; red: what we want to reach. Azurite’s table has {size} entities. Null: hyper and tokio without any \
         work. Engine: RocksDB alone.",
        record.date, record.machine.cores
    );
    line(
        &mut body,
        &format!("<text class=\"note\" x=\"12\" y=\"{}\">{note}</text>", height - 10.0),
    );
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" role=\"img\" \
         aria-label=\"Rates of Tavola compared with Azurite's and with the limits of the machine\">\n{STYLE}\n{body}</svg>\n"
    )
}

struct Part<'a> {
    title: &'static str,
    bars: Vec<&'a Ratio>,
    is_logarithmic: bool,
}

impl Part<'_> {
    /// Draws from `top` on; where it ends.
    fn draw(&self, svg: &mut String, top: f64) -> f64 {
        line(
            svg,
            &format!("<text class=\"title\" x=\"12\" y=\"{}\">{}</text>", top + 24.0, self.title),
        );
        let (first, end) = (top + TITLE, top + TITLE + self.bars.len() as f64 * ROW);
        for value in self.lines() {
            let (x, y) = (self.x(value), first - 8.0);
            line(
                svg,
                &format!(
                    "<line class=\"line\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{first}\" y2=\"{end}\"/>"
                ),
            );
            let label = self.label(value);
            line(
                svg,
                &format!(
                    "<text class=\"note\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{label}</text>"
                ),
            );
        }
        for (number, ratio) in self.bars.iter().enumerate() {
            self.draw_bar(svg, first + number as f64 * ROW, ratio);
        }
        end
    }

    fn lines(&self) -> Vec<f64> {
        match self.is_logarithmic {
            true => (0..=self.decades() as i32).map(|decade| 10_f64.powi(decade)).collect(),
            false => vec![0.0, 0.25, 0.5, 0.75, 1.0],
        }
    }

    fn label(&self, value: f64) -> String {
        match self.is_logarithmic {
            true => format!("{value}×"),
            false => text::percent(value),
        }
    }

    fn decades(&self) -> f64 {
        let goals = self.bars.iter().filter_map(|ratio| ratio.goal);
        self.bars
            .iter()
            .map(|ratio| ratio.spread.median)
            .chain(goals)
            .fold(10.0, f64::max)
            .log10()
            .ceil()
    }

    /// Where a ratio lies; on the logarithmic axis what is below 1 lies at its beginning.
    fn x(&self, ratio: f64) -> f64 {
        let share = match self.is_logarithmic {
            true => ratio.max(1.0).log10() / self.decades(),
            false => ratio.clamp(0.0, 1.0),
        };
        LEFT + (WIDTH - LEFT - RIGHT) * share
    }

    fn draw_bar(&self, svg: &mut String, top: f64, ratio: &Ratio) {
        let y = top + (ROW - BAR) / 2.0;
        let (end, baseline) = (self.x(ratio.spread.median), y + BAR - 3.0);
        let name = name(ratio, !self.is_logarithmic);
        line(
            svg,
            &format!(
                "<text x=\"{}\" y=\"{baseline}\" text-anchor=\"end\">{name}</text>",
                LEFT - 10.0
            ),
        );
        let width = end - LEFT;
        line(
            svg,
            &format!(
                "<rect class=\"bar\" x=\"{LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR}\"/>"
            ),
        );
        let mut label_x = end + 6.0;
        if let Some(goal) = ratio.goal {
            let (x, bottom) = (self.x(goal), y + BAR);
            line(
                svg,
                &format!(
                    "<line class=\"goal\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{y}\" y2=\"{bottom}\"/>"
                ),
            );
            label_x = label_x.max(if (x - end).abs() < 40.0 { x + 6.0 } else { end + 6.0 });
        }
        let value = match self.is_logarithmic {
            true => format!("{}×", text::number(ratio.spread.median)),
            false => text::percent(ratio.spread.median),
        };
        line(svg, &format!("<text x=\"{label_x:.1}\" y=\"{baseline}\">{value}</text>"));
    }
}

fn name(ratio: &Ratio, with_rival: bool) -> String {
    let title = Series::named(ratio.series).map_or(ratio.series, Series::short_title);
    let size = ratio.ours.rsplit(' ').next().unwrap_or_default();
    match with_rival {
        true => format!("{title}, {size}, of {}", target_name(&ratio.theirs)),
        false => format!("{title}, {size} entities"),
    }
}

fn line(svg: &mut String, text: &str) {
    // Writing to a `String` cannot fail.
    let _ = writeln!(svg, "{text}");
}
