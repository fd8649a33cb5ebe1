//! A store that fails as a distributed one does: it loses races, does not know whether it wrote,
//! and takes its time.
//!
//! What it does is drawn from a seed, so that a failing test fails again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tavola_core::{EntityAddress, EntityGroupTransaction, TableId, Timestamp};
use tavola_store::{Blocking, CommitResult, Row, Scan, ScanPage, Store, StoreError};

/// How often what happens, in percent of the calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// A commit loses its race: [`StoreError::Contended`], and nothing was written.
    pub contended: u8,
    /// A commit is written, and the answer is [`StoreError::UnknownOutcome`].
    pub unknown_written: u8,
    /// A commit is not written, and the answer is [`StoreError::UnknownOutcome`].
    pub unknown_not_written: u8,
    /// A call is not carried out: [`StoreError::Unavailable`].
    pub unavailable: u8,
    /// Every call waits for up to so long.
    pub delay_max: Duration,
}

/// A decorator that makes a store fail.
#[derive(Debug)]
pub struct FaultyStore<S> {
    store: S,
    faults: Faults,
    random: AtomicU64,
    injected: AtomicU64,
}

/// What happens to a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Contended,
    UnknownWritten,
    UnknownNotWritten,
    Unavailable,
    Fine,
}

impl<S: Store> FaultyStore<S> {
    /// Makes `store` fail as the seed says.
    pub fn new(store: S, faults: Faults, seed: u64) -> Self {
        Self { store, faults, random: AtomicU64::new(seed), injected: AtomicU64::new(0) }
    }

    /// How many calls have failed on purpose.
    pub fn injected(&self) -> u64 {
        self.injected.load(Ordering::Relaxed)
    }

    /// The next number below `bound`, by the generator SplitMix64.
    fn draw(&self, bound: u64) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut bits = self.random.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % bound.max(1)
    }

    async fn delay(&self) {
        let micros = u64::try_from(self.faults.delay_max.as_micros()).unwrap_or(u64::MAX);
        if micros > 0 {
            tokio::time::sleep(Duration::from_micros(self.draw(micros))).await;
        }
    }

    /// Delays a read, and perhaps refuses it.
    async fn before_read(&self) -> Result<(), StoreError> {
        self.delay().await;
        if self.draw(100) < u64::from(self.faults.unavailable) {
            return Err(self.inject(unavailable()));
        }
        Ok(())
    }

    fn fate(&self) -> Fate {
        let faults = [
            (self.faults.contended, Fate::Contended),
            (self.faults.unknown_written, Fate::UnknownWritten),
            (self.faults.unknown_not_written, Fate::UnknownNotWritten),
            (self.faults.unavailable, Fate::Unavailable),
        ];
        let mut drawn = self.draw(100);
        for (percent, fate) in faults {
            match drawn.checked_sub(u64::from(percent)) {
                Some(rest) => drawn = rest,
                None => return fate,
            }
        }
        Fate::Fine
    }

    fn inject(&self, error: StoreError) -> StoreError {
        self.injected.fetch_add(1, Ordering::Relaxed);
        error
    }
}

fn unavailable() -> StoreError {
    StoreError::Unavailable { reason: "a fault that a test asked for".to_owned(), source: None }
}

#[async_trait]
impl<S: Store> Store for FaultyStore<S> {
    async fn get(
        &self,
        address: &EntityAddress,
        blocking: Blocking,
    ) -> Result<Option<Row>, StoreError> {
        self.before_read().await?;
        self.store.get(address, blocking).await
    }

    async fn scan(&self, scan: &Scan) -> Result<ScanPage, StoreError> {
        self.before_read().await?;
        self.store.scan(scan).await
    }

    async fn commit(
        &self,
        table: TableId,
        transaction: &EntityGroupTransaction,
        now: Timestamp,
    ) -> Result<CommitResult, StoreError> {
        self.delay().await;
        let fate = self.fate();
        let written = match fate {
            Fate::Fine | Fate::UnknownWritten => self.store.commit(table, transaction, now).await,
            Fate::Contended => return Err(self.inject(StoreError::Contended)),
            Fate::UnknownNotWritten => return Err(self.inject(StoreError::UnknownOutcome)),
            Fate::Unavailable => return Err(self.inject(unavailable())),
        };
        self.delay().await;
        if fate == Fate::UnknownWritten {
            Err(self.inject(StoreError::UnknownOutcome))
        } else {
            written
        }
    }

    async fn purge(&self, table: TableId) -> Result<(), StoreError> {
        self.before_read().await?;
        self.store.purge(table).await
    }
}
