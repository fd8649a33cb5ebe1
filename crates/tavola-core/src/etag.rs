//! Timestamp and ETag: one value in two texts.

use std::fmt;

use crate::date_text::DateText;
use crate::time::DateTime;

/// When an entity was last written, as the store decided: strictly increasing in a partition
/// whatever the clock does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(DateTime);

impl Timestamp {
    /// The smallest timestamp, below every one that was ever given to an entity.
    pub const MIN: Self = Self(DateTime::MIN);

    /// The timestamp of a point in time.
    #[must_use]
    pub const fn new(at: DateTime) -> Self {
        Self(at)
    }

    /// The point in time.
    #[must_use]
    pub const fn date_time(self) -> DateTime {
        self.0
    }

    /// Ticks of 100 ns since 1601.
    #[must_use]
    pub const fn ticks(self) -> u64 {
        self.0.ticks()
    }

    /// The timestamp of a tick count, if it is one.
    #[must_use]
    pub fn from_ticks(ticks: u64) -> Option<Self> {
        DateTime::from_ticks(ticks).map(Self)
    }

    /// The version that follows both the clock and the last version given out.
    #[must_use]
    pub fn next_after(now: Self, last: Self) -> Self {
        let next = now.ticks().max(last.ticks().saturating_add(1));
        Self::from_ticks(next).unwrap_or(Self(DateTime::MAX))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// An entity tag as a client sent it: opaque text of the right shape, compared with the current
/// entity's own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ETag(String);

impl ETag {
    /// Takes `W/"…"`, or `w/"…"` for the same tag; `None` for anything else. All tags of the
    /// service are weak, and it refuses a strong one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (weak, quoted) = text.split_at_checked(WEAK.len())?;
        let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
        let legal = weak.eq_ignore_ascii_case(WEAK) && !inner.contains('"');
        legal.then(|| Self([WEAK, quoted].concat()))
    }

    /// The tag of the version written at `timestamp`: `W/"datetime'…'"` with the colons escaped.
    #[must_use]
    pub fn of(timestamp: Timestamp) -> Self {
        let mut tag = String::with_capacity(BYTES_MAX);
        push_tag(&mut tag, timestamp);
        Self(tag)
    }

    /// The text as it stands in a header.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if this is the tag of the version written at `timestamp`.
    #[must_use]
    pub fn names(&self, timestamp: Timestamp) -> bool {
        *self == Self::of(timestamp)
    }

    /// The version that the tag names, if it is the tag of one.
    #[must_use]
    pub fn version(&self) -> Option<Timestamp> {
        let text = self.0.strip_prefix(OPENING)?.strip_suffix(CLOSING)?.replace(COLON, ":");
        let version = Timestamp(DateTime::parse(&text).ok()?);
        // A tag is compared by its text: another way to write the same time is another tag.
        self.names(version).then_some(version)
    }

    /// The text, for whoever needs it as its own.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

/// Every point read answers with a tag, so it is put together by hand.
fn push_tag(tag: &mut String, timestamp: Timestamp) {
    let text = DateText::of(timestamp.date_time());
    let [hours, minutes, seconds] = text.between_colons();
    for piece in [OPENING, hours, COLON, minutes, COLON, seconds, CLOSING] {
        tag.push_str(piece);
    }
}

const WEAK: &str = "W/";
const OPENING: &str = "W/\"datetime'";
const COLON: &str = "%3A";
const CLOSING: &str = "'\"";
/// Of a tag with a fraction of seven digits.
const BYTES_MAX: usize = 46;

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{ETag, Timestamp};
    use crate::time::DateTime;

    #[test]
    fn tag_and_timestamp_convert() {
        let timestamp = Timestamp::new(DateTime::parse("2020-11-07T01:23:13.377335Z").unwrap());
        let tag = ETag::of(timestamp);
        assert_eq!(tag.as_str(), "W/\"datetime'2020-11-07T01%3A23%3A13.377335Z'\"");
        assert!(tag.names(timestamp));
        assert!(!tag.names(Timestamp::MIN));
        assert_eq!(tag.version(), Some(timestamp));
        assert_eq!(ETag::of(Timestamp::MIN).version(), Some(Timestamp::MIN));
    }

    #[test]
    fn a_tag_that_no_version_has_names_none() {
        for text in [
            "W/\"wrong\"",
            "W/\"datetime'2020-11-07T01:23:13.377335Z'\"",
            "W/\"datetime'2020-11-07T01%3A23%3A13.3773350Z'\"",
            "W/\"datetime'2020-11-07'\"",
        ] {
            assert_eq!(ETag::parse(text).unwrap().version(), None, "{text}");
        }
    }

    #[test]
    fn shapes() {
        for good in ["W/\"wrong\"", "W/\"\""] {
            assert_eq!(ETag::parse(good).unwrap().as_str(), good);
        }
        assert_eq!(ETag::parse("w/\"x\""), ETag::parse("W/\"x\""));
        for bad in [
            "garbage",
            "*",
            "",
            "W",
            "W/",
            "W/x",
            "W/\"",
            "\"",
            "\"x\"",
            "\"a\"b\"",
            "W/\"a\", W/\"b\"",
            "Wé\"x\"",
            "é",
        ] {
            assert!(ETag::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn versions_never_go_back() {
        let at = |ticks| Timestamp::from_ticks(ticks).unwrap();
        assert_eq!(Timestamp::next_after(at(10), at(3)), at(10));
        assert_eq!(Timestamp::next_after(at(10), at(10)), at(11));
        assert_eq!(Timestamp::next_after(at(2), at(10)), at(11));
    }
}
