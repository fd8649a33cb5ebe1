//! Single requests outside the measured rounds: making tables, reading counters, the first sign of life.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::failure::{Context, Failure, Result};
use crate::reply::{Head, ReplyReader};
use crate::request::{Content, Signer};
use crate::source::next_page;

const WAIT_MAX: Duration = Duration::from_secs(60);

/// A blocking connection.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    reader: ReplyReader,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Result<Self> {
        let doing = || format!("cannot connect to {address}");
        let stream = TcpStream::connect(address).context(doing)?;
        stream.set_nodelay(true).context(doing)?;
        stream.set_read_timeout(Some(WAIT_MAX)).context(doing)?;
        Ok(Self { stream, reader: ReplyReader::default() })
    }

    pub(crate) fn ask(&mut self, request: &[u8], expected_status: u16) -> Result<(&Head, &[u8])> {
        self.stream.write_all(request).context(|| "cannot send".into())?;
        self.reader.reset();
        let mut buffer = [0; 64 * 1024];
        loop {
            let bytes = self.stream.read(&mut buffer).context(|| "cannot receive".into())?;
            if bytes == 0 {
                return Err(Failure::new("the server closed a connection that waits for a reply"));
            }
            if self.reader.feed(&buffer[..bytes])? {
                break;
            }
        }
        let reply = self.reader.reply().ok_or("no reply")?;
        if reply.head.status != expected_status {
            let body = String::from_utf8_lossy(reply.body);
            return Err(Failure::new(format!("status {} instead of {expected_status}: {body}", reply.head.status)));
        }
        Ok((reply.head, reply.body))
    }
}

/// The first request that a new server answers.
pub(crate) fn list_tables(address: SocketAddr) -> Result {
    Client::connect(address)?.ask(&Signer::new(address)?.get("Tables", ""), 200)?;
    Ok(())
}

pub(crate) fn create_table(address: SocketAddr, table: &str) -> Result {
    let body = format!(r#"{{"TableName":"{table}"}}"#);
    let content = Content { media_type: "application/json", bytes: body.len() };
    let mut request = Signer::new(address)?.post("Tables", content);
    request.extend_from_slice(body.as_bytes());
    Client::connect(address)?.ask(&request, 204)?;
    Ok(())
}

/// The queries of all pages of a table, the first one's being empty.
pub(crate) fn pages(address: SocketAddr, table: &str) -> Result<Vec<String>> {
    let signer = Signer::new(address)?;
    let mut client = Client::connect(address)?;
    let mut pages = vec![String::new()];
    while let Some(query) = pages.last() {
        let (head, _) = client.ask(&signer.get(&format!("{table}()"), query), 200)?;
        match next_page(head) {
            Some(next) => pages.push(next),
            None => break,
        }
    }
    Ok(pages)
}

/// A counter among the metrics of an admin endpoint, if it has it.
pub(crate) fn counter(admin: SocketAddr, name: &str) -> Result<Option<f64>> {
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\n\r\n");
    let mut client = Client::connect(admin)?;
    let (_, body) = client.ask(request.as_bytes(), 200)?;
    Ok(find_counter(&String::from_utf8_lossy(body), name))
}

fn find_counter(metrics: &str, name: &str) -> Option<f64> {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
    metrics.lines().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::find_counter;

    #[test]
    fn a_counter_is_found_by_its_whole_name() {
        let metrics = "# TYPE a_total counter\na_total_more 3\na_total 17\nb 1\n";
        assert_eq!(find_counter(metrics, "a_total"), Some(17.0));
        assert_eq!(find_counter(metrics, "c"), None);
    }
}
