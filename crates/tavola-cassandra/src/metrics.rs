//! The counters of the store as metrics.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use tavola_store::backend::{encode_counter, encode_gauge};

use crate::stats::{LATENCY_EDGES_MS, Stats, WIDTH_EDGES};
use crate::store::CassandraStore;

impl CassandraStore {
    /// Encodes what the store has counted, for a collector.
    ///
    /// # Errors
    /// If the text cannot be written.
    pub fn encode_metrics(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        self.stats().encode(encoder)
    }
}

impl Stats {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, value) in self.counters() {
            encode_counter(encoder, name, help, value)?;
        }
        let waiting = "Transactions that wait for their partition.";
        encode_gauge(encoder, "tavola_store_waiting", waiting, self.waiting)?;
        self.encode_widths(encoder)?;
        self.encode_latencies(encoder)
    }

    fn counters(&self) -> [(&'static str, &'static str, u64); 11] {
        [
            ("tavola_store_commits", "Transactions that were written.", self.commits),
            ("tavola_store_refusals", "Transactions that the domain refused.", self.refusals),
            (
                "tavola_store_contended",
                "Transactions that found their partition's queue full.",
                self.contended,
            ),
            ("tavola_store_attempts", "Conditional batches that were sent.", self.attempts),
            (
                "tavola_store_attempts_refused",
                "Conditional batches that were refused.",
                self.attempts_refused,
            ),
            ("tavola_store_retries", "Conditional batches that were repeated.", self.retries),
            (
                "tavola_store_unknown",
                "Conditional batches whose outcome was unknown at first.",
                self.unknown,
            ),
            ("tavola_store_fences", "Fences that were written to find out.", self.fences),
            (
                "tavola_store_unresolved",
                "Transactions answered with an unknown outcome.",
                self.unresolved,
            ),
            (
                "tavola_store_registrations",
                "Partitions entered into the directory.",
                self.registrations,
            ),
            (
                "tavola_store_retirements",
                "Empty partitions removed from the directory.",
                self.retirements,
            ),
        ]
    }

    fn encode_widths(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let edges = WIDTH_EDGES.map(|edge| edge as f64);
        let (buckets, count) = buckets(&edges, &self.widths);
        let help = "Transactions that share a conditional batch.";
        encoder
            .encode_descriptor("tavola_store_batch_width", help, None, MetricType::Histogram)?
            .encode_histogram::<NoLabelSet>(self.width_total as f64, count, &buckets, None)
    }

    fn encode_latencies(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let edges = LATENCY_EDGES_MS.map(|edge| edge as f64 / 1e3);
        let help = "Time until the cluster answered a statement.";
        let name = "tavola_store_statement_seconds";
        let mut seconds = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for latency in &self.latencies {
            let (buckets, count) = buckets(&edges, &latency.buckets);
            let labels = [("statement", latency.statement)];
            let mut family = seconds.encode_family(&labels)?;
            let total = latency.total.as_secs_f64();
            family.encode_histogram::<NoLabelSet>(total, count, &buckets, None)?;
        }
        let help = "Statements that the cluster did not carry out, or did not say so.";
        let name = "tavola_store_statement_failures";
        let mut failures = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for latency in &self.latencies {
            let labels = [("statement", latency.statement)];
            ConstCounter::new(latency.failed).encode(failures.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// Counts with their upper edges, and their sum. The last count has no edge.
fn buckets(edges: &[f64], counts: &[u64]) -> (Vec<(f64, u64)>, u64) {
    assert_eq!(edges.len() + 1, counts.len(), "one bucket is above all edges");
    let edges = edges.iter().copied().chain([f64::INFINITY]);
    (edges.zip(counts.iter().copied()).collect(), counts.iter().sum())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::DescriptorEncoder;
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use crate::stats::{Counters, Kind, Stats};

    #[derive(Debug)]
    struct Snapshot(Stats);

    impl Collector for Snapshot {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
            self.0.encode(&mut encoder)
        }
    }

    fn exposition(stats: Stats) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Snapshot(stats)));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn buckets_are_cumulative() {
        let counters = Counters::default();
        for (millis, failed) in [(1, false), (1, false), (2, false), (9000, true)] {
            counters.timed(Kind::Get, Duration::from_millis(millis), failed);
        }
        for width in [1, 1, 7] {
            counters.width(width);
        }
        let text = exposition(counters.read());
        for line in [
            "tavola_store_statement_seconds_bucket{le=\"0.001\",statement=\"get\"} 2",
            "tavola_store_statement_seconds_bucket{le=\"0.002\",statement=\"get\"} 3",
            "tavola_store_statement_seconds_bucket{le=\"5.0\",statement=\"get\"} 3",
            "tavola_store_statement_seconds_bucket{le=\"+Inf\",statement=\"get\"} 4",
            "tavola_store_statement_seconds_count{statement=\"get\"} 4",
            "tavola_store_statement_seconds_sum{statement=\"get\"} 9.004",
            "tavola_store_statement_failures_total{statement=\"get\"} 1",
            "tavola_store_batch_width_bucket{le=\"1.0\"} 2",
            "tavola_store_batch_width_bucket{le=\"10.0\"} 3",
            "tavola_store_batch_width_count 3",
            "tavola_store_batch_width_sum 9.0",
            "tavola_store_waiting 0",
            "tavola_store_commits_total 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
    }
}
