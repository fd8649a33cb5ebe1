//! What a Cassandra node says of the others.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};

/// Which nodes are up and normal according to node `number`; none if it does not answer.
pub(super) fn seen_by(nodetool: &Path, number: u32) -> Vec<Ipv4Addr> {
    let output =
        Command::new(nodetool).args([&number.to_string(), "status"]).stdin(Stdio::null()).output();
    output.map(|output| up_and_normal(&String::from_utf8_lossy(&output.stdout))).unwrap_or_default()
}

/// `UN  127.0.0.1  75.2 KiB  4  100.0%  2ecc…  rack1`: the first letter is the state, the second
/// what the node does.
fn up_and_normal(status: &str) -> Vec<Ipv4Addr> {
    let address = |line: &str| line.strip_prefix("UN ")?.split_whitespace().next()?.parse().ok();
    status.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_that_are_up_and_normal_count() {
        let status = "Datacenter: datacenter1\n=======================\nStatus=Up/Down\n\
            |/ State=Normal/Leaving/Joining/Moving\n\
            --  Address    Load       Tokens  Owns (effective)  Host ID  Rack\n\
            UN  127.0.0.1  75.2 KiB   4       100.0%            2ecc     rack1\n\
            DN  127.0.0.2  ?          4       100.0%            3ecc     rack1\n\
            UJ  127.0.0.3  ?          4       ?                 4ecc     rack1\n\
            UN  127.0.0.4  1 MiB      4       100.0%            5ecc     rack1\n\n";
        assert_eq!(
            up_and_normal(status),
            [Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 0, 4)]
        );
        assert!(up_and_normal("nodetool: Failed to connect").is_empty());
    }
}
