//! The picture for the README: how many times Azurite's rate, one bar per workload and size.
//!
//! The axis is logarithmic, since ratios lie orders of magnitude apart; its lines are named so that nobody is misled.

use std::fmt::Write as _;

use super::record::{Ratio, Record, is_ours};
use crate::series::Series;
use tavola_load::text;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 330.0;
const RIGHT: f64 = 70.0;
const TOP: f64 = 56.0;
const ROW: f64 = 30.0;
const BAR: f64 = 18.0;
const BOTTOM: f64 = 34.0;

/// Colours follow the reader's own theme.
const STYLE: &str = "<style>text{font:13px sans-serif;fill:#24292f}.title{font-weight:bold;font-size:15px}\
    .note{font-size:11px;fill:#57606a}.bar{fill:#2f7ed8}.line{stroke:#d0d7de}\
    @media(prefers-color-scheme:dark){text{fill:#e6edf3}.note{fill:#9198a1}.line{stroke:#3d444d}}</style>";

pub(super) fn draw(record: &Record) -> String {
    let bars: Vec<&Ratio> = record.ratios.iter().filter(|ratio| !is_ours(&ratio.theirs)).collect();
    let largest = bars.iter().map(|ratio| ratio.spread.median).fold(10.0, f64::max);
    let scale = Scale { decades: largest.log10().ceil() };
    let height = TOP + bars.len() as f64 * ROW + BOTTOM;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" role=\"img\" \
         aria-label=\"Rate of Tavola as a multiple of Azurite's\">\n{STYLE}\n\
         <text class=\"title\" x=\"12\" y=\"24\">Tavola’s rate as a multiple of Azurite’s</text>\n"
    );
    draw_axis(&mut svg, &scale, height);
    for (number, ratio) in bars.into_iter().enumerate() {
        draw_bar(&mut svg, &scale, number, ratio);
    }
    let size = text::size(record.settings.azurite_entities);
    let note = format!("{}, {} cores; Azurite’s table has {size} entities", record.date, record.machine.cores);
    line(&mut svg, &format!("<text class=\"note\" x=\"12\" y=\"{}\">{note}</text>", height - 10.0));
    svg + "</svg>\n"
}

struct Scale {
    decades: f64,
}

impl Scale {
    /// Where a ratio lies; what is below 1 lies at the axis.
    fn x(&self, ratio: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * ratio.max(1.0).log10() / self.decades
    }
}

fn draw_axis(svg: &mut String, scale: &Scale, height: f64) {
    for decade in 0..=scale.decades as i32 {
        let value = 10_f64.powi(decade);
        let x = scale.x(value);
        let end = height - BOTTOM;
        line(svg, &format!("<line class=\"line\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{end}\"/>"));
        let label = text::number(value).trim_end_matches(".00").trim_end_matches(".0").to_owned();
        let y = TOP - 8.0;
        line(svg, &format!("<text class=\"note\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{label}×</text>"));
    }
}

fn draw_bar(svg: &mut String, scale: &Scale, number: usize, ratio: &Ratio) {
    let y = TOP + number as f64 * ROW + (ROW - BAR) / 2.0;
    let (end, baseline) = (scale.x(ratio.spread.median), y + BAR - 4.0);
    let label = label(ratio);
    line(svg, &format!("<text x=\"{}\" y=\"{baseline}\" text-anchor=\"end\">{label}</text>", LEFT - 10.0));
    let width = end - LEFT;
    line(svg, &format!("<rect class=\"bar\" x=\"{LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR}\" rx=\"2\"/>"));
    let value = text::number(ratio.spread.median);
    line(svg, &format!("<text x=\"{:.1}\" y=\"{baseline}\">{value}×</text>", end + 6.0));
}

fn label(ratio: &Ratio) -> String {
    let series = Series::ALL.into_iter().find(|series| series.name() == ratio.series);
    let title = series.map_or(ratio.series, Series::short_title);
    format!("{title}, {} entities", ratio.ours.rsplit(' ').next().unwrap_or_default())
}

fn line(svg: &mut String, text: &str) {
    // Writing to a `String` cannot fail.
    let _ = writeln!(svg, "{text}");
}
