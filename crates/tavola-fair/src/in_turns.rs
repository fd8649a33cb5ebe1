//! Long work that passes its place on between two steps.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::Turn;

/// Runs `work` while it has a turn. Whenever the work pauses (it yielded, or waits for something)
/// and another tenant has a better claim, the place is passed on, and the work goes on with the
/// next one it gets.
///
/// So work must yield now and then; how long others wait is the time between two of its pauses.
pub struct InTurns<F> {
    place: Place,
    work: Pin<Box<F>>,
}

enum Place {
    Held(Turn),
    Waiting(Pin<Box<dyn Future<Output = Turn> + Send>>),
    /// Only while it changes from one to the other.
    None,
}

impl<F: Future> InTurns<F> {
    /// Work that begins with this turn.
    #[must_use]
    pub fn new(turn: Turn, work: F) -> Self {
        Self { place: Place::Held(turn), work: Box::pin(work) }
    }
}

impl<F> fmt::Debug for InTurns<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_turn = matches!(self.place, Place::Held(_));
        formatter.debug_struct("InTurns").field("has_turn", &has_turn).finish_non_exhaustive()
    }
}

impl<F: Future> Future for InTurns<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        loop {
            match &mut self.place {
                Place::Held(_) => {
                    if let Poll::Ready(output) = self.work.as_mut().poll(cx) {
                        self.place = Place::None;
                        return Poll::Ready(output);
                    }
                    if !self.pass_if_wanted() {
                        return Poll::Pending;
                    }
                }
                Place::Waiting(waiting) => match waiting.as_mut().poll(cx) {
                    Poll::Ready(turn) => self.place = Place::Held(turn),
                    Poll::Pending => return Poll::Pending,
                },
                Place::None => unreachable!("work that ended is polled again"),
            }
        }
    }
}

impl<F> InTurns<F> {
    /// True if it waits now for another place, or got one at once: then the work must be polled
    /// again, because whatever woke it meanwhile was not heard.
    fn pass_if_wanted(&mut self) -> bool {
        match std::mem::replace(&mut self.place, Place::None) {
            Place::Held(turn) if turn.is_wanted() => {
                self.place = match turn.pass() {
                    Ok(turn) => Place::Held(turn),
                    Err(waiting) => Place::Waiting(Box::pin(waiting.granted())),
                };
                true
            }
            place => {
                self.place = place;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::InTurns;
    use crate::{Line, Turns};

    /// Takes a turn and yields `steps` times.
    async fn work(line: Arc<Line>, steps: usize, done: Arc<AtomicUsize>) {
        let turn = line.take(1, Duration::from_secs(3600)).await.unwrap();
        let steps = async {
            for _ in 0..steps {
                done.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        };
        InTurns::new(turn, steps).await;
    }

    #[tokio::test]
    async fn long_work_lets_others_go_first() {
        let turns = Turns::new(4);
        let (greedy, polite) = (turns.line(1), turns.line(1));
        let (slow, quick) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let greed: Vec<_> = (0..50)
            .map(|_| tokio::spawn(work(Arc::clone(&greedy), 10_000, Arc::clone(&slow))))
            .collect();
        tokio::task::yield_now().await;
        let courtesy: Vec<_> = (0..4)
            .map(|_| tokio::spawn(work(Arc::clone(&polite), 10, Arc::clone(&quick))))
            .collect();
        for one in courtesy {
            one.await.unwrap();
        }
        assert_eq!(quick.load(Ordering::SeqCst), 40);
        // Three greedy ones were under way, none of which was near its end.
        assert!(slow.load(Ordering::SeqCst) < 30_000, "{slow:?}");
        assert_eq!(turns.line(1).stats().used, 0);
        for one in &greed {
            one.abort();
        }
        for one in greed {
            assert!(one.await.unwrap_err().is_cancelled());
        }
        assert_eq!((greedy.stats().used, polite.stats().used), (0, 0));
    }

    #[tokio::test]
    async fn alone_it_keeps_its_turn() {
        let turns = Turns::new(4);
        let line = turns.line(1);
        let done = Arc::new(AtomicUsize::new(0));
        work(Arc::clone(&line), 100, Arc::clone(&done)).await;
        assert_eq!((done.load(Ordering::SeqCst), line.stats().waits), (100, 0));
    }
}
