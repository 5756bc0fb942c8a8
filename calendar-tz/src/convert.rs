//! One value at a time: what is converted, by which policy, and by which piece of the table.

use std::fmt;

use crate::rules::{HOUR, REACH, Rules};
use crate::zone::Zone;

/// The mark of a watermark that ends its stream, `i64::MAX`. It is no instant and no local time, and
/// every conversion gives it back.
pub const END_OF_TIME: i64 = i64::MAX;

/// When a timer for a local time fires.
///
/// A window of local time that ends before `end` is complete at the timer of `end - 1`. On ordinary
/// days both policies answer alike. Around a clock change (times in UTC unless said otherwise):
///
/// | zone and change | local time | `Flink` | `Exact` | what Flink does |
/// |---|---|---|---|---|
/// | America/Sao_Paulo, 2018-02-18 02:00Z, back 1 h | 23:59:59.999 (17th) | 01:59:59.999 | 02:59:59.999 | no daylight rule today, so old overlaps end with their first pass: the second hour is late |
/// | Australia/Lord_Howe, 2021-04-03 15:00Z, back ½ h | 01:15 (not ambiguous) | 15:15 | 14:15 | takes every shift for one of an hour |
/// | Australia/Lord_Howe, 2021-04-03 15:00Z, back ½ h | 01:45 | 15:45 | 15:15 | the same |
/// | Australia/Lord_Howe, 2021-10-02 15:30Z, on ½ h | 02:15 | 15:45 | 15:29:59.999 | fires after the skipped half hour |
/// | Antarctica/Troll, 2021-10-31 01:00Z, back 2 h | 01:30 | 23:30 (30th) | 01:30 | the first hour of the overlap ends with its first pass |
/// | Antarctica/Troll, 2021-10-31 01:00Z, back 2 h | 02:30 | 01:30 | 02:30 | the second hour gets one hour of two |
/// | Pacific/Apia, 2011-12-30 10:00Z, on 24 h | 12:00 (30th, skipped) | 22:00 | 09:59:59.999 | fires half a day after the date was skipped |
/// | Australia/Adelaide, 2022-10-01 16:30Z, on 1 h | 02:15 | 16:00 | 16:29:59.999 | cuts to whole hours of UTC: fires early |
/// | America/New_York, 2021-03-14 07:00Z, on 1 h | 02:30 | 07:00 | 06:59:59.999 | one millisecond later than need be |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// As Flink 2.2.1 does, bit for bit, its faults included. Timers may decrease as local time
    /// grows. A 64-bit result that Flink would wrap is a [`RangeError`].
    ///
    /// Source: `TimeWindowUtil.toEpochMillsForTimer` of Flink 2.2.1, as observed.
    #[default]
    Flink,
    /// At the last instant whose local time is not after the given one. In an overlap that is the
    /// second pass; in a gap it is the instant before the change. Never decreases.
    Exact,
}

/// What to make of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conversion {
    /// An instant into its local time.
    ToLocal,
    /// A local time into an instant: the first one in an overlap; in a gap what the offset before the
    /// change makes of it, which lies after the change by as much.
    ToInstant,
    /// A local time into the instant at which a timer for it fires.
    Timer(Policy),
}

/// A result that does not fit in 64 bits: "instant 9223372036854775806 ms has no local time within 64
/// bits".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeError {
    conversion: Conversion,
    value_ms: i64,
}

impl RangeError {
    pub(crate) fn new(conversion: Conversion, value_ms: i64) -> Self {
        Self {
            conversion,
            value_ms,
        }
    }

    /// What was asked for.
    #[must_use]
    pub fn conversion(&self) -> Conversion {
        self.conversion
    }

    /// The instant or local time that was given.
    #[must_use]
    pub fn value_ms(&self) -> i64 {
        self.value_ms
    }
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = match self.conversion {
            Conversion::ToLocal => ("instant", "local time"),
            Conversion::ToInstant => ("local time", "instant"),
            Conversion::Timer(_) => ("local time", "timer"),
        };
        write!(f, "{from} {} ms has no {to} within 64 bits", self.value_ms)
    }
}

impl std::error::Error for RangeError {}

impl Zone {
    /// The local time at an instant. Costs one binary search; a [`Cursor`] or
    /// [`convert`](Self::convert) costs less over many.
    ///
    /// # Errors
    ///
    /// [`RangeError`] if it does not fit in 64 bits.
    ///
    /// ```
    /// use calendar_tz::Zone;
    ///
    /// let zone = Zone::named("America/New_York")?;
    /// assert_eq!(zone.to_local(1_710_055_800_000)?, 1_710_041_400_000); // 07:30Z is 03:30 EDT
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_local(&self, instant_ms: i64) -> Result<i64, RangeError> {
        scalar(self.rules(), Conversion::ToLocal, instant_ms)
    }

    /// The instant of a local time: the first one if the clock shows it twice, and if it skips it what
    /// the offset before the gap makes of it. Converting that back gives a time that is shown, so
    /// doing it again changes nothing. Costs one binary search.
    ///
    /// Source: RFC 5545, section 3.3.5, and `TimeWindowUtil.toEpochMills` of Flink 2.2.1; they agree.
    ///
    /// # Errors
    ///
    /// [`RangeError`] if it does not fit in 64 bits.
    ///
    /// ```
    /// use calendar_tz::Zone;
    ///
    /// let zone = Zone::named("America/New_York")?; // skips 02:00 to 03:00 on 2024-03-10
    /// let skipped = 1_710_037_800_000; // 02:30 on that day
    /// assert_eq!(zone.to_instant(skipped)?, 1_710_055_800_000); // 03:30 EDT
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_instant(&self, local_ms: i64) -> Result<i64, RangeError> {
        scalar(self.rules(), Conversion::ToInstant, local_ms)
    }

    /// The instant at which a timer for a local time fires. Costs one binary search, under
    /// [`Policy::Flink`] two in zones with a daylight rule.
    ///
    /// # Errors
    ///
    /// [`RangeError`] if it does not fit in 64 bits.
    ///
    /// ```
    /// use calendar_tz::{Policy, Zone};
    ///
    /// // 2018-02-17 ended twice in São Paulo: at 02:00Z the clock went back to 23:00.
    /// let zone = Zone::named("America/Sao_Paulo")?;
    /// let last_of_day = 1_518_911_999_999;
    /// assert_eq!(zone.timer(last_of_day, Policy::Exact)?, 1_518_922_799_999); // 02:59:59.999Z
    /// assert_eq!(zone.timer(last_of_day, Policy::Flink)?, 1_518_919_199_999); // 01:59:59.999Z
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn timer(&self, local_ms: i64, policy: Policy) -> Result<i64, RangeError> {
        scalar(self.rules(), Conversion::Timer(policy), local_ms)
    }

    /// Converts many values one after another, and is quick where neighbours are close.
    ///
    /// ```
    /// use calendar_tz::{Conversion, Zone};
    ///
    /// let zone = Zone::named("Europe/Berlin")?;
    /// let mut cursor = zone.cursor(Conversion::ToLocal);
    /// assert_eq!(cursor.convert(0)?, 3_600_000);
    /// assert_eq!(cursor.convert(1)?, 3_600_001);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn cursor(&self, conversion: Conversion) -> Cursor<'_> {
        Cursor::new(self.rules(), conversion)
    }
}

/// The conversion of one value, from the definitions.
pub(crate) fn scalar(rules: &Rules, conversion: Conversion, value: i64) -> Result<i64, RangeError> {
    if value == END_OF_TIME {
        return Ok(value);
    }
    let wide = i128::from(value);
    let result = match conversion {
        Conversion::ToLocal => Some(wide + i128::from(rules.offset_at_instant(wide))),
        Conversion::ToInstant => Some(instant(rules, wide)),
        Conversion::Timer(Policy::Exact) => Some(exact_timer(rules, wide)),
        Conversion::Timer(Policy::Flink) => flink_timer(rules, wide),
    };
    result
        .and_then(|result| i64::try_from(result).ok())
        .ok_or_else(|| RangeError::new(conversion, value))
}

fn instant(rules: &Rules, local: i128) -> i128 {
    local - i128::from(rules.offset_at_local(local))
}

/// The last instant of the last span that starts, on the clock, no later than `local`.
fn exact_timer(rules: &Rules, local: i128) -> i128 {
    let place = rules.place(&rules.last, local);
    let instant = local - i128::from(rules.offset(place));
    rules
        .end(&rules.at, place)
        .map_or(instant, |end| instant.min(end - 1))
}

/// `None` if a step of it leaves 64 bits.
fn flink_timer(rules: &Rules, local: i128) -> Option<i128> {
    let hour = i128::from(HOUR);
    let this = instant(rules, local);
    if !rules.daylight_rule {
        return Some(this);
    }
    let next = instant(rules, local + hour);
    let fits = |instant| i64::try_from(instant).is_ok();
    if !fits(this) || !fits(next) {
        return None;
    }
    Some(if this == next {
        this - this % hour
    } else if next - this > hour {
        this + hour
    } else {
        this
    })
}

/// A conversion that remembers the piece of the table that it used last.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    rules: &'a Rules,
    conversion: Conversion,
    piece: Piece,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(rules: &'a Rules, conversion: Conversion) -> Self {
        Self {
            rules,
            conversion,
            piece: Piece::NONE,
        }
    }

    /// Converts one value.
    ///
    /// # Errors
    ///
    /// [`RangeError`] if the result does not fit in 64 bits.
    pub fn convert(&mut self, value_ms: i64) -> Result<i64, RangeError> {
        self.seek(value_ms);
        if self.piece.holds(value_ms) {
            Ok(value_ms + self.piece.add)
        } else {
            scalar(self.rules, self.conversion, value_ms)
        }
    }

    /// The piece that was used last.
    pub(crate) fn piece(&self) -> Piece {
        self.piece
    }

    /// Makes the piece around a value the one that was used last.
    pub(crate) fn seek(&mut self, value: i64) {
        if !self.piece.holds(value) {
            self.piece = Piece::around(self.rules, self.conversion, value);
        }
    }
}

/// Values, from first to last, whose conversion is one addition that stays within 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) add: i64,
}

impl Piece {
    /// Holds nothing.
    pub(crate) const NONE: Self = Self {
        first: 0,
        last: -1,
        add: 0,
    };

    pub(crate) fn holds(self, value: i64) -> bool {
        self.first <= value && value <= self.last
    }

    /// The values that the other piece holds too.
    pub(crate) fn within(self, other: Self) -> Self {
        let (first, last) = (self.first.max(other.first), self.last.min(other.last));
        if first <= last {
            Self {
                first,
                last,
                add: self.add,
            }
        } else {
            Self::NONE
        }
    }

    /// The piece with `value` in it; if no piece has it, one that lies near or holds nothing.
    pub(crate) fn around(rules: &Rules, conversion: Conversion, value: i64) -> Self {
        let keys = match conversion {
            Conversion::ToLocal => &rules.at,
            Conversion::ToInstant | Conversion::Timer(Policy::Flink) => &rules.local,
            Conversion::Timer(Policy::Exact) => &rules.last,
        };
        let place = rules.place(keys, value.into());
        let offset = rules.offset(place);
        let start = rules.start(keys, place);
        let end = rules.end(keys, place);
        let (end, add) = match conversion {
            Conversion::ToLocal => (end, offset),
            Conversion::ToInstant => (end, -offset),
            // What is less than an hour before a change may not be converted by adding.
            Conversion::Timer(Policy::Flink) if rules.daylight_rule => {
                (end.map(|end| end - i128::from(HOUR)), -offset)
            }
            Conversion::Timer(Policy::Flink) => (end, -offset),
            // What is after the end of the span on the clock is in a gap.
            Conversion::Timer(Policy::Exact) => {
                let on_clock = rules
                    .end(&rules.at, place)
                    .map(|end| end + i128::from(offset));
                (end.min(on_clock), -offset)
            }
        };
        let clamp =
            |bound: i128| bound.clamp((i64::MIN + REACH).into(), (i64::MAX - REACH).into()) as i64;
        Self {
            first: start.map_or(i64::MIN + REACH, clamp),
            last: end.map_or(i64::MAX - REACH, |end| clamp(end - 1)),
            add,
        }
    }
}
