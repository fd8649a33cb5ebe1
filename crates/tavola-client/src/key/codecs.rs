//! How each type is written in keys.

use time::{Date, Month, OffsetDateTime};
use uuid::Uuid;

use super::escape;
use super::part::{
    Dec, DecDesc, Descending, KeyPart, KeyPartError, KeyReader, KeyText, Lower, PartMeta,
};
use crate::error::Error;

const fn power_of_ten(digits: usize) -> u128 {
    let mut power = 1;
    let mut at = 0;
    while at < digits {
        power *= 10;
        at += 1;
    }
    power
}

/// Checks that a number has its place, and returns it.
fn fitting(number: u64, width: usize) -> Result<u128, KeyPartError> {
    let fits = u128::from(number) < power_of_ten(width);
    fits.then_some(u128::from(number)).ok_or_else(|| KeyPartError::wide(number, width))
}

fn out_of_range<T>(_: T) -> KeyPartError {
    KeyPartError::malformed("a number of its type")
}

macro_rules! unsigned {
    ($($rust:ty: $width:literal;)+) => {$(
        impl KeyPart for $rust {
            const FIXED: bool = true;

            fn write(&self, text: &mut KeyText) -> Result<(), KeyPartError> {
                <Self as KeyPart<Dec<$width>>>::write(self, text)
            }

            fn read(text: &mut KeyReader<'_>) -> Result<Self, KeyPartError> {
                <Self as KeyPart<Dec<$width>>>::read(text)
            }
        }

        impl Descending for $rust {
            fn write_descending(&self, text: &mut KeyText) -> Result<(), KeyPartError> {
                <Self as KeyPart<DecDesc<$width>>>::write(self, text)
            }

            fn read_descending(text: &mut KeyReader<'_>) -> Result<Self, KeyPartError> {
                <Self as KeyPart<DecDesc<$width>>>::read(text)
            }
        }

        impl<const W: usize> KeyPart<Dec<W>> for $rust {
            const FIXED: bool = true;

            fn write(&self, text: &mut KeyText) -> Result<(), KeyPartError> {
                text.push_digits(fitting(u64::from(*self), W)?, W);
                Ok(())
            }

            fn read(text: &mut KeyReader<'_>) -> Result<Self, KeyPartError> {
                text.digits(W)?.try_into().map_err(out_of_range)
            }
        }

        impl<const W: usize> KeyPart<DecDesc<W>> for $rust {
            const FIXED: bool = true;
            const DESCENDING: bool = true;

            fn write(&self, text: &mut KeyText) -> Result<(), KeyPartError> {
                text.push_digits(power_of_ten(W) - 1 - fitting(u64::from(*self), W)?, W);
                Ok(())
            }

            fn read(text: &mut KeyReader<'_>) -> Result<Self, KeyPartError> {
                (power_of_ten(W) - 1 - text.digits(W)?).try_into().map_err(out_of_range)
            }
        }
    )+};
}

unsigned! {
    u8: 3;
    u16: 5;
    u32: 10;
    u64: 20;
}

/// Digits of a signed number: it is moved so far up that all are positive.
const SIGNED_WIDTH: usize = 20;
const SIGNED_BIAS: i128 = 10_i128.pow(19);

macro_rules! signed {
    ($($rust:ty),+) => {$(
        impl KeyPart for $rust {
            const FIXED: bool = true;

            fn write(&self, text: &mut KeyText) -> Result<(), KeyPartError> {
                text.push_digits((SIGNED_BIAS + i128::from(*self)).unsigned_abs(), SIGNED_WIDTH);
                Ok(())
            }

            fn read(text: &mut KeyReader<'_>) -> Result<Self, KeyPartError> {
                let number = i128::try_from(text.digits(SIGNED_WIDTH)?).map_err(out_of_range)?;
                (number - SIGNED_BIAS).try_into().map_err(out_of_range)
            }
        }

        impl Descending for $rust {
            fn write_descending(&self, text: &mut KeyText) -> Result<(), KeyPartError> {
                let number = SIGNED_BIAS - 1 - i128::from(*self);
                text.push_digits(number.unsigned_abs(), SIGNED_WIDTH);
                Ok(())
            }

            fn read_descending(text: &mut KeyReader<'_>) -> Result<Self, KeyPartError> {
                let number = i128::try_from(text.digits(SIGNED_WIDTH)?).map_err(out_of_range)?;
                (SIGNED_BIAS - 1 - number).try_into().map_err(out_of_range)
            }
        }
    )+};
}

signed!(i8, i16, i32, i64);

const SIGN: u64 = 1 << 63;

/// The bits, so changed that their order is that of the numbers; -0 is 0.
impl KeyPart for f64 {
    const FIXED: bool = true;

    fn write(&self, text: &mut KeyText) -> Result<(), KeyPartError> {
        if self.is_nan() {
            return Err(KeyPartError::new("is NaN, which has no order"));
        }
        let bits = if *self == 0.0 { 0 } else { self.to_bits() };
        let ordered = if bits & SIGN == 0 { bits | SIGN } else { !bits };
        text.push_hex(ordered.into(), 16);
        Ok(())
    }

    fn read(text: &mut KeyReader<'_>) -> Result<Self, KeyPartError> {
        let ordered = u64::try_from(text.hex(16)?).map_err(out_of_range)?;
        let bits = if ordered & SIGN == 0 { !ordered } else { ordered & !SIGN };
        let number = Self::from_bits(bits);
        let written = !number.is_nan() && bits != SIGN;
        written.then_some(number).ok_or_else(|| KeyPartError::malformed("a double"))
    }
}

/// Digits of ticks of 100 ns since the year 1.
const TICKS_WIDTH: usize = 19;
/// The last tick of the year 9999.
const TICKS_MAX: i128 = 3_155_378_975_999_999_999;
const UNIX_EPOCH_TICKS: i128 = 621_355_968_000_000_000;
const NANOS_PER_TICK: i128 = 100;

fn ticks(at: OffsetDateTime) -> Result<u128, KeyPartError> {
    let ticks = at.unix_timestamp_nanos().div_euclid(NANOS_PER_TICK) + UNIX_EPOCH_TICKS;
    let legal = (0..=TICKS_MAX).contains(&ticks);
    let outside = || KeyPartError::new("is not a time of the years 1 to 9999");
    legal.then_some(ticks.unsigned_abs()).ok_or_else(outside)
}

fn from_ticks(ticks: i128) -> Result<OffsetDateTime, KeyPartError> {
    let malformed = || KeyPartError::malformed("a time of the years 1 to 9999");
    if !(0..=TICKS_MAX).contains(&ticks) {
        return Err(malformed());
    }
    OffsetDateTime::from_unix_timestamp_nanos((ticks - UNIX_EPOCH_TICKS) * NANOS_PER_TICK)
        .map_err(|_| malformed())
}

/// Ticks of 100 ns since the year 1, in UTC; what is finer is cut.
impl KeyPart for OffsetDateTime {
    const FIXED: bool = true;

    fn write(&self, text: &mut KeyText) -> Result<(), KeyPartError> {
        text.push_digits(ticks(*self)?, TICKS_WIDTH);
        Ok(())
    }

    fn read(text: &mut KeyReader<'_>) -> Result<Self, KeyPartError> {
        from_ticks(text.digits(TICKS_WIDTH)?.try_into().map_err(out_of_range)?)
    }
}

/// The ticks that remain until the end of the year 9999: newest first.
impl Descending for OffsetDateTime {
    fn write_descending(&self, text: &mut KeyText) -> Result<(), KeyPartError> {
        text.push_digits(TICKS_MAX.unsigned_abs() - ticks(*self)?, TICKS_WIDTH);
        Ok(())
    }

    fn read_descending(text: &mut KeyReader<'_>) -> Result<Self, KeyPartError> {
        let number = i128::try_from(text.digits(TICKS_WIDTH)?).map_err(out_of_range)?;
        from_ticks(TICKS_MAX - number)
    }
}

/// Inverted ticks alone, as log tails of other programs have them.
///
/// ```
/// use tavola_client::key::TicksDesc;
///
/// let (at, rest) = TicksDesc::decode("2519936321679999999!99999", "at")?;
/// assert_eq!(at.year(), 2014);
/// assert_eq!(rest, "!99999");
/// assert_eq!(TicksDesc::encode(at, "at")?, "2519936321679999999");
/// # Ok::<(), tavola_client::Error>(())
/// ```
#[derive(Debug)]
pub struct TicksDesc;

impl TicksDesc {
    const TEMPLATE: &'static str = "{:desc}";

    /// 19 digits that are the less the later it is; `name` is for the message.
    ///
    /// # Errors
    /// If the time is not of the years 1 to 9999.
    pub fn encode(at: OffsetDateTime, name: &'static str) -> Result<String, Error> {
        let mut text = KeyText::default();
        let meta = PartMeta { field: name, template: Self::TEMPLATE };
        at.write_descending(&mut text).map_err(|error| meta.fault(&error))?;
        Ok(text.as_str().to_owned())
    }

    /// The time that the first 19 digits stand for, and what follows them; `name` is for the
    /// message.
    ///
    /// # Errors
    /// If the key does not begin with such digits.
    pub fn decode<'k>(
        key: &'k str,
        name: &'static str,
    ) -> Result<(OffsetDateTime, &'k str), Error> {
        let mut reader = KeyReader::new(key);
        let meta = PartMeta { field: name, template: Self::TEMPLATE };
        let at =
            OffsetDateTime::read_descending(&mut reader).map_err(|error| meta.fault(&error))?;
        Ok((at, reader.rest()))
    }
}

/// `yyyymmdd`.
impl KeyPart for Date {
    const FIXED: bool = true;

    fn write(&self, text: &mut KeyText) -> Result<(), KeyPartError> {
        let year = u32::try_from(self.year()).ok().filter(|year| *year <= 9999);
        let year = year.ok_or_else(|| KeyPartError::new("is not a date of the years 0 to 9999"))?;
        let month = u32::from(u8::from(self.month()));
        text.push_digits((year * 10_000 + month * 100 + u32::from(self.day())).into(), 8);
        Ok(())
    }

    fn read(text: &mut KeyReader<'_>) -> Result<Self, KeyPartError> {
        let number = u32::try_from(text.digits(8)?).map_err(out_of_range)?;
        let date = || {
            let year = i32::try_from(number / 10_000).ok()?;
            let month = Month::try_from(u8::try_from(number / 100 % 100).ok()?).ok()?;
            Self::from_calendar_date(year, month, u8::try_from(number % 100).ok()?).ok()
        };
        date().ok_or_else(|| KeyPartError::malformed("a date"))
    }
}

/// `0` or `1`.
impl KeyPart for bool {
    const FIXED: bool = true;

    fn write(&self, text: &mut KeyText) -> Result<(), KeyPartError> {
        text.push_digits(u128::from(*self), 1);
        Ok(())
    }

    fn read(text: &mut KeyReader<'_>) -> Result<Self, KeyPartError> {
        match text.digits(1)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(KeyPartError::malformed("`0` or `1`")),
        }
    }
}

/// 32 hexadecimal digits; version 7 sorts by time.
impl KeyPart for Uuid {
    const FIXED: bool = true;

    fn write(&self, text: &mut KeyText) -> Result<(), KeyPartError> {
        text.push_hex(self.as_u128(), 32);
        Ok(())
    }

    fn read(text: &mut KeyReader<'_>) -> Result<Self, KeyPartError> {
        text.hex(32).map(Self::from_u128)
    }
}

/// Escaped; the order is that of Rust's `str`, upper and lower case apart.
impl KeyPart for String {
    const FIXED: bool = false;

    fn write(&self, text: &mut KeyText) -> Result<(), KeyPartError> {
        text.push_text(self);
        Ok(())
    }

    fn read(text: &mut KeyReader<'_>) -> Result<Self, KeyPartError> {
        text.text()
    }
}

/// In lower case, then escaped. What is read is in lower case too.
impl KeyPart<Lower> for String {
    const FIXED: bool = false;

    fn write(&self, text: &mut KeyText) -> Result<(), KeyPartError> {
        text.push_text(&escape::lower(self));
        Ok(())
    }

    fn read(text: &mut KeyReader<'_>) -> Result<Self, KeyPartError> {
        let read = text.text()?;
        let written = escape::lower(&read) == read;
        written.then_some(read).ok_or_else(|| KeyPartError::malformed("in lower case"))
    }
}
