//! Single requests outside the measured rounds: making tables, reading counters, the first sign of
//! life.

use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConnection, StreamOwned};

use crate::failure::{Context, Failure, Result};
use crate::reply::{Reply, ReplyReader};
use crate::request::{Content, Signer};
use crate::site::Site;
use crate::source::next_page;

const WAIT_MAX: Duration = Duration::from_secs(60);

/// A blocking connection.
pub struct Client {
    stream: Box<dyn Stream>,
    reader: ReplyReader,
}

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

impl Client {
    /// # Errors
    /// If nobody answers.
    pub fn connect(site: &Site) -> Result<Self> {
        let doing = || format!("cannot connect to {}", site.url());
        let stream = connect(site.address)?;
        let Some((config, name)) = &site.tls else { return Ok(Self::over(stream)) };
        let secure = ClientConnection::new(Arc::clone(config), name.clone()).context(doing)?;
        Ok(Self::over(StreamOwned::new(secure, stream)))
    }

    fn over(stream: impl Stream + 'static) -> Self {
        Self { stream: Box::new(stream), reader: ReplyReader::default() }
    }

    /// Sends a whole request and reads its whole reply.
    ///
    /// # Errors
    /// If the reply has another status; the failure shows its body.
    pub fn ask(&mut self, request: &[u8], expected_status: u16) -> Result<Reply<'_>> {
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
            return Err(Failure::wrong_status(reply, expected_status));
        }
        Ok(reply)
    }
}

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let doing = || format!("cannot connect to {address}");
    let stream = TcpStream::connect(address).context(doing)?;
    stream.set_nodelay(true).context(doing)?;
    stream.set_read_timeout(Some(WAIT_MAX)).context(doing)?;
    Ok(stream)
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// The first request that a new server answers.
///
/// # Errors
/// If it does not.
pub fn list_tables(site: &Site) -> Result {
    Client::connect(site)?.ask(&Signer::new(site).get("Tables", ""), 200)?;
    Ok(())
}

/// # Errors
/// If the service refuses.
pub fn create_table(site: &Site, table: &str) -> Result {
    let body = format!(r#"{{"TableName":"{table}"}}"#);
    let content = Content { media_type: "application/json", bytes: body.len() };
    let mut request = Signer::new(site).post("Tables", content);
    request.extend_from_slice(body.as_bytes());
    Client::connect(site)?.ask(&request, 204)?;
    Ok(())
}

/// # Errors
/// If the service refuses.
pub fn drop_table(site: &Site, table: &str) -> Result {
    Client::connect(site)?.ask(&Signer::new(site).delete(&format!("Tables('{table}')")), 204)?;
    Ok(())
}

/// The queries of all pages of a table, the first one's being empty.
///
/// # Errors
/// If a page does not come.
pub fn pages(site: &Site, table: &str) -> Result<Vec<String>> {
    let signer = Signer::new(site);
    let mut client = Client::connect(site)?;
    let mut pages = vec![String::new()];
    while let Some(query) = pages.last() {
        let reply = client.ask(&signer.get(&format!("{table}()"), query), 200)?;
        match next_page(reply.head) {
            Some(next) => pages.push(next),
            None => break,
        }
    }
    Ok(pages)
}

/// A figure among the metrics of an admin endpoint, if it has it.
///
/// # Errors
/// If there are no metrics at all.
pub fn metric(admin: SocketAddr, name: &str) -> Result<Option<f64>> {
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\n\r\n");
    let mut client = Client::over(connect(admin)?);
    let reply = client.ask(request.as_bytes(), 200)?;
    Ok(find_metric(&String::from_utf8_lossy(reply.body), name))
}

fn find_metric(metrics: &str, name: &str) -> Option<f64> {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
    metrics.lines().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::find_metric;

    #[test]
    fn a_counter_is_found_by_its_whole_name() {
        let metrics = "# TYPE a_total counter\na_total_more 3\na_total 17\nb 1\n";
        assert_eq!(find_metric(metrics, "a_total"), Some(17.0));
        assert_eq!(find_metric(metrics, "c"), None);
    }
}
