//! Columns of text: the first one left, the others right.

/// Rows of cells; the first row is the heading.
pub(super) fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    rows.iter().map(|row| line(row, &widths)).collect()
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
        0 => format!("{cell:<width$}"),
        _ => format!("{cell:>width$}"),
    });
    format!("  {}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
}

#[cfg(test)]
mod tests {
    use super::align;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["", "p50"], ["tavola 10k", "1 µs"], ["a", "120 µs"]]
            .map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(
            align(&rows),
            "                 p50\n  tavola 10k    1 µs\n  a           120 µs\n"
        );
    }
}
