//! File descriptors: each connection takes one, and the store must never lack one.
//!
//! A usual soft limit is 1,024, far below what a server may need, and a store that cannot open a
//! file stops taking writes. So the limit is raised as far as it may be, and connections get only
//! what is left beside everything else.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tavola_server::config::Limits;

use crate::exit::Failure;

/// The engine's tables (`open_files_max`), with its logs, its folders and what a compaction writes.
const STORE: u64 = 256 + 64;
/// Health, metrics, refusals of surplus connections, certificates, issuers of tokens, standard
/// streams.
const OTHERS: u64 = 64 + 64 + 64;
/// However few there are, some clients must be able to connect.
const CONNECTIONS_MIN: u64 = 16;

/// With fewer a server would fail somewhere in its start, and say something about that place only.
const DESCRIPTORS_MIN: u64 = 64;

/// The limits with as many connections as there are descriptors for, after asking the system for
/// more.
pub(crate) fn within_descriptors(limits: Limits) -> Result<Limits, Failure> {
    let wanted = limits.connections as u64;
    let available = raise(wanted.saturating_add(STORE + OTHERS));
    if available < DESCRIPTORS_MIN {
        return Err(Failure::System(format!(
            "Too many open files: this process may have {available} open at a time, and a server \
             needs {DESCRIPTORS_MIN} to start and {} to run normally. Raise the hard limit (ulimit \
             -Hn, LimitNOFILE)",
            STORE + OTHERS + CONNECTIONS_MIN
        )));
    }
    let connections = connections_for(available).min(wanted);
    if connections < wanted {
        tracing::warn!(
            descriptors = available,
            connections,
            wanted,
            "too few file descriptors for limits.connections: raise the hard limit (ulimit -Hn, \
             LimitNOFILE)"
        );
    }
    Ok(Limits { connections: usize::try_from(connections).unwrap_or(usize::MAX), ..limits })
}

fn connections_for(descriptors: u64) -> u64 {
    descriptors.saturating_sub(STORE + OTHERS).max(CONNECTIONS_MIN)
}

/// Raises the soft limit to what is needed, or to the hard limit; the descriptors that there are
/// then.
fn raise(needed: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    let goal = needed.min(limit.maximum.unwrap_or(u64::MAX));
    if current >= goal {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(goal), maximum: limit.maximum }) {
        Ok(()) => {
            tracing::info!(from = current, to = goal, "raised the limit of open files");
            goal
        }
        Err(error) => {
            tracing::warn!(%error, current, "cannot raise the limit of open files");
            current
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_get_what_the_store_leaves() {
        assert_eq!(connections_for(1024), 1024 - 512);
        assert_eq!(connections_for(20_000), 20_000 - 512);
        assert_eq!(connections_for(300), CONNECTIONS_MIN);
    }
}
