//! `tavola table stats`: what a table consists of. One page is in memory at a time, and the names
//! of properties up to a bound.

use std::collections::BTreeMap;

use clap::ArgMatches;
use futures_util::TryStreamExt as _;
use serde_json::json;
use tavola_client::{DynEntity, Stored, Value};
use time::OffsetDateTime;

use crate::commands::wants;
use crate::exit::Failure;
use crate::progress_bar::Shown;
use crate::tables::{self, Stop};

/// Names and types beyond it are counted together.
const PROPERTIES_MAX: usize = 1_000;

/// What was found.
#[derive(Debug, Default)]
struct Stats {
    entities: u64,
    partitions: u64,
    /// Key and entities of the partition that is being read, and of the largest so far.
    current: Option<(String, u64)>,
    largest: Option<(String, u64)>,
    oldest: Option<OffsetDateTime>,
    newest: Option<OffsetDateTime>,
    /// By name and type, how many entities have it.
    properties: BTreeMap<(String, &'static str), u64>,
    other_properties: u64,
}

impl Stats {
    /// Counts an entity. They come in the order of their keys, so that a partition comes once.
    fn add(&mut self, entity: &Stored<DynEntity>) {
        self.entities += 1;
        match &mut self.current {
            Some((partition, count)) if partition == entity.partition() => *count += 1,
            _ => {
                self.end_partition();
                self.partitions += 1;
                self.current = Some((entity.partition().to_owned(), 1));
            }
        }
        let written = Some(entity.timestamp());
        self.oldest = self.oldest.min(written).or(written);
        self.newest = self.newest.max(written);
        for (name, value) in entity.iter() {
            let key = (name.to_owned(), value.edm_type().name());
            if self.properties.len() < PROPERTIES_MAX || self.properties.contains_key(&key) {
                *self.properties.entry(key).or_default() += 1;
            } else {
                self.other_properties += 1;
            }
        }
    }

    fn end_partition(&mut self) {
        if let Some(ended) = self.current.take()
            && self.largest.as_ref().is_none_or(|(_, count)| *count < ended.1)
        {
            self.largest = Some(ended);
        }
    }

    fn text(&self) -> String {
        let mut lines = vec![
            format!("entities            {}", self.entities),
            format!("partitions          {}", self.partitions),
        ];
        if let Some((partition, count)) = &self.largest {
            lines.push(format!("largest partition   {partition:?}, {count} entities"));
        }
        let times = [("oldest Timestamp", self.oldest), ("newest Timestamp", self.newest)];
        for (name, at) in times {
            lines.extend(at.map(|at| format!("{name:18}  {}", Value::from(at))));
        }
        let properties = self.properties.iter();
        lines.extend(properties.map(|((name, edm), count)| {
            format!("property            {name} ({edm}), {count} entities")
        }));
        if self.other_properties > 0 {
            lines.push(format!("other properties    {}", self.other_properties));
        }
        lines.join("\n")
    }

    fn json(&self) -> String {
        let text = |at: Option<OffsetDateTime>| at.map(|at| Value::from(at).to_string());
        let largest = self.largest.as_ref();
        let properties = self
            .properties
            .iter()
            .map(|((name, edm), count)| json!({ "name": name, "type": edm, "entities": count }));
        let object = json!({
            "entities": self.entities,
            "partitions": self.partitions,
            "largest_partition":
                largest.map(|(key, count)| json!({ "key": key, "entities": count })),
            "oldest": text(self.oldest),
            "newest": text(self.newest),
            "properties": properties.collect::<Vec<_>>(),
            "other_properties": self.other_properties,
        });
        format!("{object:#}")
    }
}

pub(super) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    tables::with_tables(matches, |service| async move {
        let table = service.table_client(tables::named_table(matches));
        let mut shown = Shown::new();
        shown.begin_counted("reading");
        let mut pages = table.scan::<DynEntity>().pages();
        let mut stats = Stats::default();
        let read: Result<(), Stop> = async {
            while let Some(page) = pages.try_next().await? {
                page.items.iter().for_each(|entity| stats.add(entity));
                shown.set_count(stats.entities);
            }
            Ok(())
        }
        .await;
        shown.end();
        read?;
        stats.end_partition();
        tables::say(if wants(matches, "json") { stats.json() } else { stats.text() })
    })
}
