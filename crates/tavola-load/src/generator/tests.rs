use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::*;
use crate::reply::Reply;

/// A server that answers every head after a pause, on as many connections as come.
fn server(pause: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while let Some(Ok(line)) = lines.next() {
                    if line.is_empty() {
                        thread::sleep(pause);
                        (&stream)
                            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                            .unwrap();
                    }
                }
            });
        }
    });
    address
}

#[derive(Default)]
struct Asker {
    asked: u64,
    end: Option<u64>,
    checked: AtomicU64,
}

impl Source for Asker {
    fn next(&mut self, _previous: Option<Reply<'_>>, is_over: bool, out: &mut Vec<u8>) -> bool {
        if is_over || self.end == Some(self.asked) {
            return false;
        }
        self.asked += 1;
        out.extend_from_slice(b"GET / HTTP/1.1\r\n\r\n");
        true
    }

    fn check(&self, reply: Reply<'_>) -> Result<u64> {
        assert_eq!(reply.body, b"ok");
        self.checked.fetch_add(1, Ordering::Relaxed);
        Ok(1)
    }
}

fn press(pause: Duration, connections: usize, pace: Pace, source: &mut Asker) -> Outcome {
    let site = Site::development(server(pause)).unwrap();
    run(
        &site,
        Load { connections, duration: Duration::from_millis(300), pace },
        source,
        &mut |_| {},
    )
    .unwrap()
}

#[test]
fn a_closed_loop_gets_an_answer_to_everything() {
    let mut source = Asker::default();
    let outcome = press(Duration::ZERO, 3, Pace::Closed, &mut source);
    assert!(source.asked > 3);
    assert_eq!((outcome.requests, source.checked.into_inner()), (source.asked, source.asked));
    assert_eq!(outcome.latency.len(), source.asked);
    assert!(outcome.generator_cpu > Duration::ZERO);
}

#[test]
fn a_source_that_ends_ends_the_round() {
    for pace in [Pace::Closed, Pace::PerSecond(1000.0)] {
        let mut source = Asker { end: Some(7), ..Asker::default() };
        assert_eq!(press(Duration::ZERO, 2, pace, &mut source).requests, 7);
    }
}

#[test]
fn an_open_loop_sends_what_its_rate_says() {
    let mut source = Asker::default();
    assert_eq!(press(Duration::ZERO, 4, Pace::PerSecond(100.0), &mut source).requests, 30);
}

/// Thirty are due within 300 ms, and one connection gets an answer every 50 ms. A generator that
/// counted from when it got to send them would see 50 ms each.
#[test]
fn an_open_loop_counts_from_when_a_request_was_due() {
    let mut source = Asker::default();
    let outcome = press(Duration::from_millis(50), 1, Pace::PerSecond(100.0), &mut source);
    assert_eq!(outcome.requests, 30);
    assert!(
        outcome.latency.max() >= 30 * 50_000_000 - 290_000_000 - 1_000_000,
        "{}",
        outcome.latency.max()
    );
}
