//! `cassandra.yaml` of a Cassandra node: what tests need, and small enough for several nodes on one
//! machine.

use std::path::Path;

use super::address::{CQL_PORT, Place, STORAGE_PORT};
use super::node::node_folder;
use super::shape::Shape;
use super::tls;

const TOKENS_OF_A_NODE: u32 = 4;

/// What must not change between the nodes of a cluster.
const COMMON: [(&str, &str); 44] = [
    ("partitioner", "org.apache.cassandra.dht.Murmur3Partitioner"),
    ("endpoint_snitch", "SimpleSnitch"),
    // It learns from times, which say nothing where all nodes share the cores.
    ("dynamic_snitch", "false"),
    ("start_native_transport", "true"),
    // Lightweight transactions as the store needs them.
    ("paxos_variant", "v2"),
    ("paxos_state_purging", "gc_grace"),
    ("paxos_on_linearizability_violations", "log"),
    ("cas_contention_timeout", "3s"),
    // Acknowledged means on disk: the default, `periodic`, loses the last seconds with a power
    // failure or kill of all.
    ("commitlog_sync", "batch"),
    // Half of it bounds a mutation and a message: 8 MiB would refuse an entity group of 4 MiB.
    ("commitlog_segment_size", "32MiB"),
    ("commitlog_total_space", "256MiB"),
    // A node that waits longer for its peers than a client for the node makes tests slow and shows
    // nothing new. Reads may take longer than writes: they merge what several tables on a slow disk
    // hold.
    ("write_request_timeout", "2s"),
    ("counter_write_request_timeout", "2s"),
    ("read_request_timeout", "5s"),
    ("range_request_timeout", "5s"),
    // Everything else, as changes of the schema. Truncating flushes every table.
    ("request_timeout", "10s"),
    ("truncate_request_timeout", "30s"),
    // Small memtables, caches and pools: half a gigabyte for a node.
    ("memtable_allocation_type", "heap_buffers"),
    ("memtable_heap_space", "64MiB"),
    ("memtable_offheap_space", "64MiB"),
    ("file_cache_size", "32MiB"),
    ("networking_cache_size", "32MiB"),
    ("key_cache_size", "4MiB"),
    ("counter_cache_size", "0MiB"),
    ("row_cache_size", "0MiB"),
    ("prepared_statements_cache_size", "4MiB"),
    ("index_summary_capacity", "4MiB"),
    ("concurrent_compactors", "1"),
    ("concurrent_reads", "16"),
    ("concurrent_writes", "16"),
    ("concurrent_counter_writes", "4"),
    ("concurrent_materialized_view_writes", "4"),
    ("concurrent_materialized_view_builders", "1"),
    ("concurrent_validations", "1"),
    ("memtable_flush_writers", "1"),
    // A dropped table would stay on the disk.
    ("auto_snapshot", "false"),
    ("snapshot_before_compaction", "false"),
    ("incremental_backups", "false"),
    ("cdc_enabled", "false"),
    // A failure must be seen.
    ("disk_failure_policy", "die"),
    ("commit_failure_policy", "die"),
    ("hinted_handoff_enabled", "true"),
    ("user_defined_functions_enabled", "false"),
    ("storage_compatibility_mode", "CASSANDRA_4"),
];

/// A way of `commitlog_sync` is refused without the setting that belongs to it.
const COMPANIONS: [(&str, &str, &str, &str); 2] = [
    ("commitlog_sync", "periodic", "commitlog_sync_period", "10s"),
    ("commitlog_sync", "group", "commitlog_sync_group_window", "5ms"),
];

/// The whole file of node `number`, which counts from one.
pub(super) fn text(shape: &Shape, places: &[Place], number: u32, cluster: &Path) -> String {
    let mut lines = own_lines(shape, places, number, &node_folder(cluster, number));
    lines.extend(COMMON.map(|(key, value)| (key.to_owned(), value.to_owned())));
    lines.extend(client_lines(shape, cluster));
    for (key, value) in &shape.settings {
        set(&mut lines, key, value);
    }
    for (key, value, companion, default) in COMPANIONS {
        if shape.settings.get(key).is_some_and(|set| set == value)
            && !shape.settings.contains_key(companion)
        {
            set(&mut lines, companion, default);
        }
    }
    let lines: String = lines.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
    format!(
        "# Written by `cargo xtask cassandra up`; `--setting KEY=VALUE` replaces or adds a line.\n{lines}"
    )
}

fn set(lines: &mut Vec<(String, String)>, key: &str, value: &str) {
    match lines.iter_mut().find(|(present, _)| present == key) {
        Some((_, present)) => value.clone_into(present),
        None => lines.push((key.to_owned(), value.to_owned())),
    }
}

/// The identity of the node, where it listens and keeps its files, and how it joins the ring.
fn own_lines(shape: &Shape, places: &[Place], number: u32, folder: &Path) -> Vec<(String, String)> {
    let addresses: Vec<_> = places.iter().map(|place| place.address.to_string()).collect();
    let address = addresses.get(number as usize - 1).cloned().unwrap_or_default();
    let seeds = addresses.iter().take(shape.nodes as usize).cloned().collect::<Vec<_>>().join(",");
    let below = |name: &str| quoted(&folder.join("data").join(name).display().to_string());
    let is_in_ring = number <= shape.nodes;
    let mut lines = vec![
        ("cluster_name", quoted(&format!("tavola {}", shape.name))),
        ("num_tokens", TOKENS_OF_A_NODE.to_string()),
        // The first nodes come into an empty ring all at once; a spare node fetches its share of
        // the data.
        ("auto_bootstrap", (!is_in_ring).to_string()),
        ("listen_address", address.clone()),
        ("rpc_address", address),
        ("storage_port", STORAGE_PORT.to_string()),
        ("native_transport_port", CQL_PORT.to_string()),
        ("seed_provider", seed_provider(&seeds)),
        ("data_file_directories", format!("[{}]", below("tables"))),
        ("commitlog_directory", below("commitlog")),
        ("hints_directory", below("hints")),
        ("saved_caches_directory", below("saved_caches")),
        ("cdc_raw_directory", below("cdc_raw")),
    ];
    if is_in_ring {
        lines.push(("initial_token", quoted(&tokens(number, shape.nodes))));
    }
    lines.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn seed_provider(seeds: &str) -> String {
    format!(
        "[{{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{{seeds: \"{seeds}\"}}]}}]"
    )
}

/// What clients must do to be served.
fn client_lines(shape: &Shape, cluster: &Path) -> Vec<(String, String)> {
    let (authenticator, authorizer) = match shape.password {
        true => ("PasswordAuthenticator", "CassandraAuthorizer"),
        false => ("AllowAllAuthenticator", "AllowAllAuthorizer"),
    };
    let mut lines = vec![
        ("authenticator".to_owned(), authenticator.to_owned()),
        ("authorizer".to_owned(), authorizer.to_owned()),
    ];
    if shape.tls {
        lines.push(("client_encryption_options".to_owned(), tls::setting(cluster)));
    }
    lines
}

/// Evenly spread over the ring, adjacent tokens on different nodes. They are known before the nodes
/// start, so that all can start at the same time.
fn tokens(number: u32, nodes: u32) -> String {
    let (number, nodes) = (i128::from(number), i128::from(nodes));
    let step = (1_i128 << 64) / (i128::from(TOKENS_OF_A_NODE) * nodes);
    let token = |i: i128| i128::from(i64::MIN) + step * (i * nodes + number - 1) + 1;
    (0..i128::from(TOKENS_OF_A_NODE)).map(|i| token(i).to_string()).collect::<Vec<_>>().join(",")
}

/// In YAML only a quote must be doubled between single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cassandra::address::places;
    use std::collections::BTreeSet;

    fn yaml(shape: &Shape, number: u32) -> String {
        text(shape, &places(shape), number, Path::new("/cache/it's"))
    }

    #[test]
    fn tokens_are_all_different_and_evenly_spread() {
        assert_eq!(tokens(1, 1), "-9223372036854775807,-4611686018427387903,1,4611686018427387905");
        for nodes in [1, 2, 3, 5, 16] {
            let all: Vec<String> = (1..=nodes).map(|number| tokens(number, nodes)).collect();
            let all: BTreeSet<i64> = all
                .iter()
                .flat_map(|tokens| tokens.split(','))
                .map(|t| t.parse().unwrap())
                .collect();
            assert_eq!(all.len(), 4 * nodes as usize);
            let step = (1_i128 << 64) / (4 * i128::from(nodes));
            let sorted: Vec<i128> = all.into_iter().map(i128::from).collect();
            assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] == step), "{nodes}");
        }
    }

    #[test]
    fn a_node_of_the_ring_is_a_seed_with_tokens() {
        let mut shape = Shape::new("dev", 3).unwrap();
        shape.spares = 1;
        let text = yaml(&shape, 2);
        for line in [
            "\nlisten_address: 127.0.0.2\n",
            "\nrpc_address: 127.0.0.2\n",
            "seeds: \"127.0.0.1,127.0.0.2,127.0.0.3\"",
            "\nauto_bootstrap: false\n",
            "\nnum_tokens: 4\n",
            "\ncommitlog_directory: '/cache/it''s/node2/data/commitlog'\n",
            "\npaxos_variant: v2\n",
            "\ncommitlog_sync: batch\n",
            "\ncas_contention_timeout: 3s\n",
            "\nauthenticator: AllowAllAuthenticator\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(text.contains(&format!("\ninitial_token: '{}'\n", tokens(2, 3))));
    }

    #[test]
    fn a_spare_node_joins_later() {
        let mut shape = Shape::new("dev", 3).unwrap();
        shape.spares = 1;
        let text = yaml(&shape, 4);
        assert!(text.contains("\nlisten_address: 127.0.0.4\n"));
        assert!(text.contains("seeds: \"127.0.0.1,127.0.0.2,127.0.0.3\""));
        assert!(text.contains("\nauto_bootstrap: true\n"));
        assert!(!text.contains("initial_token"));
    }

    #[test]
    fn a_setting_replaces_its_line_and_brings_what_it_needs() {
        let mut shape = Shape::new("dev", 1).unwrap();
        shape.settings.insert("commitlog_sync".into(), "periodic".into());
        shape.settings.insert("tombstone_failure_threshold".into(), "1000".into());
        let text = yaml(&shape, 1);
        assert_eq!(text.matches("\ncommitlog_sync: ").count(), 1);
        for line in [
            "commitlog_sync: periodic",
            "commitlog_sync_period: 10s",
            "tombstone_failure_threshold: 1000",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line}");
        }
    }

    #[test]
    fn no_key_is_there_twice() {
        let mut shape = Shape::new("dev", 1).unwrap();
        shape.password = true;
        shape.tls = true;
        let text = yaml(&shape, 1);
        let keys: Vec<_> = text.lines().skip(1).filter_map(|line| line.split(':').next()).collect();
        assert_eq!(keys.len(), keys.iter().collect::<BTreeSet<_>>().len());
        assert!(text.contains("\nauthenticator: PasswordAuthenticator\n"));
        assert!(text.contains("\nauthorizer: CassandraAuthorizer\n"));
        assert!(text.contains("\nclient_encryption_options: {enabled: true, "));
    }
}
