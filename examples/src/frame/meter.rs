//! What calls cost, by the server's own counters.

use std::ops::Sub;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use super::Checked;

/// What some calls took from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Cost {
    pub(crate) requests: u64,
    /// Rows that queries looked at.
    pub(crate) rows_read: u64,
    /// Bytes of the answers, without their heads.
    pub(crate) bytes: u64,
    pub(crate) time: Duration,
}

impl Sub for Cost {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            requests: self.requests - before.requests,
            rows_read: self.rows_read - before.rows_read,
            bytes: self.bytes - before.bytes,
            time: self.time,
        }
    }
}

/// The counters of the server whose metrics are at `admin`.
pub(super) async fn read(admin: &str) -> Checked<Cost> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let answer = client.get(format!("http://{admin}/metrics").parse()?).await?;
    let body = answer.into_body().collect().await?.to_bytes();
    Ok(parse(&String::from_utf8_lossy(&body)))
}

fn parse(text: &str) -> Cost {
    let sum = |metric: &str| {
        let values = text.lines().filter_map(|line| {
            let rest = line.strip_prefix(metric)?;
            let is_whole_name = rest.starts_with([' ', '{']);
            is_whole_name.then(|| line.rsplit(' ').next()?.parse::<u64>().ok()).flatten()
        });
        values.sum()
    };
    Cost {
        requests: sum("tavola_requests_total"),
        rows_read: sum("tavola_rows_read_total"),
        bytes: sum("tavola_response_bytes_total"),
        time: Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn counters_are_summed() {
        let text = "# TYPE tavola_requests counter\n\
                    tavola_requests_total{operation=\"Get\",status=\"200\"} 5\n\
                    tavola_requests_total{operation=\"Put\",status=\"204\"} 2\n\
                    tavola_rows_read_total 40\ntavola_response_bytes_total 1200\n# EOF\n";
        let cost = parse(text);
        assert_eq!((cost.requests, cost.rows_read, cost.bytes), (7, 40, 1200));
    }
}
