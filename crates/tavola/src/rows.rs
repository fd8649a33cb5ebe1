//! Entities as they are printed: for people, for scripts, for spreadsheets. One page is in memory at
//! a time.

mod csv;
mod text_table;

use std::collections::BTreeSet;
use std::io::Write;

use tavola_client::{DynEntity, Error, Projected, Stored, Value};

use crate::exit::Failure;
use crate::tables::Stop;

/// What people get first.
pub(crate) const FORMATS: &[&str] = &["table", "json", "ndjson", "csv"];
/// The properties that every entity has.
const SYSTEM: [&str; 3] = ["PartitionKey", "RowKey", "Timestamp"];

/// How entities are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Table,
    Json,
    Ndjson,
    Csv,
}

impl Format {
    /// By its name in [`FORMATS`].
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "json" => Self::Json,
            "ndjson" => Self::Ndjson,
            "csv" => Self::Csv,
            _ => Self::Table,
        }
    }
}

/// An entity that was read.
#[derive(Debug)]
pub(crate) struct Row {
    entity: DynEntity,
    etag: String,
    timestamp: String,
}

impl From<Stored<DynEntity>> for Row {
    fn from(stored: Stored<DynEntity>) -> Self {
        let (etag, timestamp) = (stored.etag().to_string(), stored.timestamp());
        Self { entity: stored.into_inner(), etag, timestamp: Value::from(timestamp).to_string() }
    }
}

impl From<Projected<DynEntity>> for Row {
    fn from(read: Projected<DynEntity>) -> Self {
        let (etag, timestamp) = (read.etag().to_string(), read.timestamp());
        Self { entity: read.into_inner(), etag, timestamp: Value::from(timestamp).to_string() }
    }
}

impl Row {
    /// As the service writes it: what `entity put` reads.
    pub(crate) fn json(&self) -> Result<String, Error> {
        let own = self.entity.to_json()?;
        let etag = serde_json::Value::from(self.etag.as_str());
        let members = own.trim_start_matches('{');
        Ok(format!("{{\"odata.etag\":{etag},\"Timestamp\":\"{}\",{members}", self.timestamp))
    }

    /// The text of a property; `None` if it is absent.
    fn text(&self, name: &str) -> Option<String> {
        match name {
            "PartitionKey" => Some(self.entity.partition().to_owned()),
            "RowKey" => Some(self.entity.row().to_owned()),
            "Timestamp" => Some(self.timestamp.clone()),
            _ => self.entity.value(name).map(ToString::to_string),
        }
    }
}

/// Prints pages of entities.
#[derive(Debug)]
pub(crate) struct RowWriter<W> {
    out: W,
    format: Format,
    selected: Option<Vec<String>>,
    layout: Option<Layout>,
    rows: u64,
    /// Properties that came after the columns were printed, and have none.
    left_out: BTreeSet<String>,
}

/// The columns, as the first page and the selection have them.
#[derive(Debug)]
struct Layout {
    columns: Vec<String>,
    widths: Vec<usize>,
}

impl<W: Write> RowWriter<W> {
    /// Prints entities with these properties, or with all.
    pub(crate) fn new(out: W, format: Format, selected: Option<Vec<String>>) -> Self {
        let left_out = BTreeSet::new();
        Self { out, format, selected, layout: None, rows: 0, left_out }
    }

    /// Prints a page. What is printed is sent on at once.
    pub(crate) fn page(&mut self, rows: &[Row]) -> Result<(), Stop> {
        if rows.is_empty() {
            return Ok(());
        }
        match self.format {
            Format::Json | Format::Ndjson => self.objects(rows)?,
            Format::Table | Format::Csv => self.lines(rows)?,
        }
        Ok(self.out.flush()?)
    }

    /// Ends the output; gives the names of properties that were not printed.
    pub(crate) fn end(mut self) -> Result<BTreeSet<String>, Stop> {
        match self.format {
            Format::Json if self.rows == 0 => writeln!(self.out, "[]")?,
            Format::Json => writeln!(self.out, "\n]")?,
            Format::Ndjson => {}
            Format::Table | Format::Csv if self.layout.is_none() => self.begin(&[])?,
            Format::Table | Format::Csv => {}
        }
        self.out.flush()?;
        Ok(self.left_out)
    }

    fn objects(&mut self, rows: &[Row]) -> Result<(), Stop> {
        for row in rows {
            let json = row.json()?;
            match (self.format, self.rows) {
                (Format::Ndjson, _) => writeln!(self.out, "{json}")?,
                (_, 0) => write!(self.out, "[\n{json}")?,
                _ => write!(self.out, ",\n{json}")?,
            }
            self.rows += 1;
        }
        Ok(())
    }

    fn lines(&mut self, rows: &[Row]) -> Result<(), Stop> {
        if self.layout.is_none() {
            self.begin(rows)?;
        }
        let Some(layout) = &self.layout else { return Ok(()) };
        for row in rows {
            let has_column = |name: &str| layout.columns.iter().any(|column| column == name);
            for (name, _) in row.entity.iter().filter(|(name, _)| !has_column(name)) {
                if self.format == Format::Csv {
                    return Err(Failure::System(no_column(row, name)).into());
                }
                self.left_out.insert(name.to_owned());
            }
            let cells = layout.columns.iter().map(|column| row.text(column));
            let line = match self.format {
                Format::Csv => csv::line(cells),
                _ => text_table::line(cells, &layout.widths),
            };
            writeln!(self.out, "{line}")?;
        }
        Ok(())
    }

    /// Decides on the columns, and prints their names.
    fn begin(&mut self, rows: &[Row]) -> Result<(), Stop> {
        let mut columns: Vec<String> = SYSTEM.map(str::to_owned).to_vec();
        let mut add = |name: &str| {
            if !columns.iter().any(|column| column == name) {
                columns.push(name.to_owned());
            }
        };
        match &self.selected {
            Some(names) => names.iter().for_each(|name| add(name)),
            None => {
                let names = rows.iter().flat_map(|row| row.entity.iter());
                names.for_each(|(name, _)| add(name));
            }
        }
        let of_rows = |column: &String| rows.iter().filter_map(|row| row.text(column)).collect();
        let widths = columns.iter().map(|column| text_table::width(column, of_rows(column)));
        let layout = Layout { widths: widths.collect(), columns };
        let names = layout.columns.iter().cloned().map(Some);
        let line = match self.format {
            Format::Csv => csv::line(names),
            _ => text_table::line(names, &layout.widths),
        };
        writeln!(self.out, "{line}")?;
        self.layout = Some(layout);
        Ok(())
    }
}

fn no_column(row: &Row, name: &str) -> String {
    format!(
        "the entity ('{}', '{}') has the property {name}, which no entity of the first page has, \
         so that there is no column for it; name the columns with --select, or use -o ndjson",
        row.entity.partition(),
        row.entity.row()
    )
}
