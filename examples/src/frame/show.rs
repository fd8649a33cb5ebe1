//! Numbers, tables and bars for a terminal.

use std::fmt::{Display, Write as _};

const BAR_WIDTH: usize = 40;

/// `4213` as `4,213`.
pub(crate) fn number(number: impl Display) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// How often.
pub(crate) fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{} times", number(count)) }
}

/// A table: the first column to the left, the others to the right.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..head.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let mut text = String::from(" ");
        for (column, (cell, width)) in cells.into_iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(text, " {cell:<width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.trim_end().to_owned()
    };
    let rule: Vec<_> = widths.iter().map(|width| "─".repeat(*width)).collect();
    let mut lines = vec![line(head.to_vec()), line(rule.iter().map(String::as_str).collect())];
    lines.extend(rows.iter().map(|row| line(row.iter().map(String::as_str).collect())));
    lines.join("\n")
}

/// A line with a bar for each value.
pub(crate) fn bars(values: &[(String, u64)]) -> String {
    let most = values.iter().map(|(_, value)| *value).max().unwrap_or_default().max(1);
    let label = values.iter().map(|(label, _)| label.chars().count()).max().unwrap_or_default();
    let line = |(name, value): &(String, u64)| {
        let filled = usize::try_from(value * BAR_WIDTH as u64 / most).unwrap_or(BAR_WIDTH);
        format!("  {name:<label$}  {:<BAR_WIDTH$}  {}", "█".repeat(filled), number(value))
    };
    values.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::{bars, number, table};

    #[test]
    fn numbers_have_commas() {
        let shown = [0, 12, 123, 1_234, 123_456, 1_234_567].map(number);
        assert_eq!(shown, ["0", "12", "123", "1,234", "123,456", "1,234,567"]);
    }

    #[test]
    fn columns_are_aligned() {
        let rows =
            [vec!["Ops".to_owned(), "7".to_owned()], vec!["É".to_owned(), "1,000".to_owned()]];
        let expected = "  dept   rows\n  ────  ─────\n  Ops       7\n  É     1,000";
        assert_eq!(table(&["dept", "rows"], &rows), expected);
        let bars = bars(&[("a".to_owned(), 20), ("bb".to_owned(), 10)]);
        assert_eq!(
            bars.lines().map(|line| line.matches('█').count()).collect::<Vec<_>>(),
            [40, 20]
        );
    }
}
