//! A message, and what an event does to it: the one place that knows.
//!
//! Stores keep a message as rows; what they read becomes a [`MessageState`], [`decide`] says what it
//! becomes, and the store writes that if nothing changed meanwhile. It may be asked again after a
//! lost race.

use std::fmt;

use crate::time::{DateTime, TICKS_PER_SECOND};

/// Identifies a message in its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(u128);

impl MessageId {
    /// The id of a random number.
    #[must_use]
    pub const fn new(number: u128) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u128 {
        self.0
    }

    /// Reads a GUID, in either case; `None` if the text is none of ours.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() != 36 {
            return None;
        }
        let mut number: u128 = 0;
        for (at, byte) in bytes.iter().enumerate() {
            if matches!(at, 8 | 13 | 18 | 23) {
                if *byte != b'-' {
                    return None;
                }
                continue;
            }
            let digit = char::from(*byte).to_digit(16)?;
            number = (number << 4) | u128::from(digit);
        }
        Some(Self(number))
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        let (a, rest) = hex.split_at(8);
        let (b, rest) = rest.split_at(4);
        let (c, rest) = rest.split_at(4);
        let (d, e) = rest.split_at(4);
        write!(f, "{a}-{b}-{c}-{d}-{e}")
    }
}

/// How long a message lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeToLive {
    /// So many seconds; a sum beyond the last date is that date.
    Seconds(u64),
    /// For ever.
    Never,
}

impl TimeToLive {
    /// If a Put does not say: seven days.
    pub const DEFAULT: Self = Self::Seconds(604_800);

    fn expires(self, now: DateTime) -> DateTime {
        match self {
            Self::Seconds(seconds) => later(now, seconds).min(NEVER),
            Self::Never => NEVER,
        }
    }
}

/// The last second there is: the expiry of what never expires.
pub(super) const NEVER: DateTime = match DateTime::from_ticks(DateTime::MAX.ticks() - 9_999_999) {
    Some(never) => never,
    None => DateTime::MAX,
};

/// A time so many seconds later, or the last one there is.
fn later(now: DateTime, seconds: u64) -> DateTime {
    let ticks = seconds.saturating_mul(TICKS_PER_SECOND).saturating_add(now.ticks());
    DateTime::from_ticks(ticks).unwrap_or(DateTime::MAX)
}

/// What is known of a message beside its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageState {
    /// When it was put.
    pub inserted: DateTime,
    /// When it is gone.
    pub expires: DateTime,
    /// When it is visible next.
    pub visible_at: DateTime,
    /// Tells apart what is visible at the same time, in the order of the events.
    pub sequence: u64,
    /// How often it was taken.
    pub dequeue_count: u32,
}

/// What a message is for consumers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It can be taken.
    Visible,
    /// Somebody has it, or it is delayed.
    Hidden,
    /// It does not exist any more, whether or not its rows are still there.
    Expired,
}

impl MessageState {
    /// What the message is now.
    #[must_use]
    pub fn phase(&self, now: DateTime) -> Phase {
        if self.expires <= now {
            Phase::Expired
        } else if self.visible_at <= now {
            Phase::Visible
        } else {
            Phase::Hidden
        }
    }

    /// True if this is the version that a receipt was given out for.
    #[must_use]
    pub fn is_of(&self, visible_at: DateTime, sequence: u64) -> bool {
        (self.visible_at, self.sequence) == (visible_at, sequence)
    }
}

/// What happens to a message. Times are in seconds from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It is put into the queue.
    Put {
        /// How long it lives.
        time_to_live: TimeToLive,
        /// For how long nobody can take it.
        hidden_for: u32,
    },
    /// A consumer takes it.
    Take {
        /// For how long nobody else can.
        hidden_for: u32,
    },
    /// Somebody looks at it.
    Peek,
    /// Its holder keeps it for longer, or releases it.
    Update {
        /// `visible_at` of the receipt.
        visible_at: DateTime,
        /// `sequence` of the receipt.
        sequence: u64,
        /// For how long nobody else can take it; 0 releases it.
        hidden_for: u32,
    },
    /// Its holder is done with it.
    Delete {
        /// `visible_at` of the receipt.
        visible_at: DateTime,
        /// `sequence` of the receipt.
        sequence: u64,
    },
}

/// What an event does to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageChange {
    /// Its row becomes this one.
    Write(MessageState),
    /// It stays as it is and is shown.
    Show,
    /// It goes.
    Remove,
}

/// Why an event cannot happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageError {
    /// There is no such message, or it has expired.
    NotFound,
    /// There is one, and the receipt is of an earlier time.
    StaleReceipt,
    /// It cannot be taken now.
    Hidden,
}

/// What an event does to a message at a time. `sequence` is the number of the event in its shard.
///
/// # Errors
/// Why it does nothing.
pub fn decide(
    event: Event,
    current: Option<&MessageState>,
    now: DateTime,
    sequence: u64,
) -> Result<MessageChange, MessageError> {
    if let Event::Put { time_to_live, hidden_for } = event {
        return Ok(MessageChange::Write(MessageState {
            inserted: now,
            expires: time_to_live.expires(now),
            visible_at: later(now, u64::from(hidden_for)),
            sequence,
            dequeue_count: 0,
        }));
    }
    let current = current.ok_or(MessageError::NotFound)?;
    let phase = current.phase(now);
    if phase == Phase::Expired {
        return Err(MessageError::NotFound);
    }
    let hidden = |hidden_for: u32, dequeue_count: u32| {
        let visible_at = later(now, u64::from(hidden_for));
        MessageChange::Write(MessageState { visible_at, sequence, dequeue_count, ..*current })
    };
    let is_held = |visible_at, sequence| match current.is_of(visible_at, sequence) {
        true => Ok(()),
        false => Err(MessageError::StaleReceipt),
    };
    match event {
        Event::Put { .. } => unreachable!("a put was decided above"),
        Event::Take { .. } | Event::Peek if phase == Phase::Hidden => Err(MessageError::Hidden),
        Event::Take { hidden_for } => {
            Ok(hidden(hidden_for, current.dequeue_count.saturating_add(1)))
        }
        Event::Peek => Ok(MessageChange::Show),
        // A message may become visible again and its receipt stays good until somebody takes it.
        Event::Update { visible_at, sequence, hidden_for } => {
            is_held(visible_at, sequence)?;
            Ok(hidden(hidden_for, current.dequeue_count))
        }
        Event::Delete { visible_at, sequence } => {
            is_held(visible_at, sequence)?;
            Ok(MessageChange::Remove)
        }
    }
}

#[cfg(test)]
mod tests;
