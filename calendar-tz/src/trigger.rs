//! Which windows have fired, and which watermark fires the next one.

use std::fmt;

use crate::convert::{Conversion, END_OF_TIME, Policy, RangeError};
use crate::rules::REACH;
use crate::zone::Zone;

/// Why there is no next trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TriggerError {
    /// An interval that is not positive: "interval of 0 ms is not positive".
    Interval {
        /// The interval.
        interval_ms: i64,
    },
    /// A step leaves 64 bits.
    Range(RangeError),
    /// The trigger leaves 64 bits: "no trigger after watermark 9223372036854775806 ms within 64 bits".
    Watermark {
        /// The watermark.
        watermark_ms: i64,
    },
}

impl fmt::Display for TriggerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interval { interval_ms } => {
                write!(f, "interval of {interval_ms} ms is not positive")
            }
            Self::Range(error) => error.fmt(f),
            Self::Watermark { watermark_ms } => write!(
                f,
                "no trigger after watermark {watermark_ms} ms within 64 bits"
            ),
        }
    }
}

impl std::error::Error for TriggerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Range(error) => error.source(),
            Self::Interval { .. } | Self::Watermark { .. } => None,
        }
    }
}

impl From<RangeError> for TriggerError {
    fn from(error: RangeError) -> Self {
        Self::Range(error)
    }
}

impl Zone {
    /// Whether a window that ends before the local time `end_ms` has fired once the watermark is
    /// `watermark_ms`: whether the [timer](Self::timer) of its last millisecond is not after it. A
    /// window that ends at [`END_OF_TIME`] never has.
    ///
    /// Source: `TimeWindowUtil.isWindowFired` of Flink 2.2.1.
    ///
    /// # Errors
    ///
    /// [`RangeError`] if the timer does not fit in 64 bits, or there is no millisecond before `end_ms`.
    ///
    /// ```
    /// use calendar_tz::{Policy, Zone};
    ///
    /// let zone = Zone::named("Asia/Shanghai")?;
    /// let midnight = 1_710_028_800_000; // 2024-03-10T00:00, 16:00Z of the day before
    /// assert!(!zone.has_fired(midnight, 1_709_999_999_998, Policy::Flink)?);
    /// assert!(zone.has_fired(midnight, 1_709_999_999_999, Policy::Flink)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn has_fired(
        &self,
        end_ms: i64,
        watermark_ms: i64,
        policy: Policy,
    ) -> Result<bool, RangeError> {
        if end_ms == END_OF_TIME {
            return Ok(false);
        }
        let last = end_ms
            .checked_sub(1)
            .ok_or_else(|| RangeError::new(Conversion::Timer(policy), end_ms))?;
        Ok(watermark_ms >= self.timer(last, policy)?)
    }

    /// The next watermark after `watermark_ms` at which a window can fire, if windows end at multiples
    /// of `interval_ms`.
    ///
    /// Under [`Policy::Flink`] it is what Flink computes, which in a zone without a daylight rule
    /// counts multiples in instants and not in local time, and which forgets changes of the clock
    /// on the way. Under [`Policy::Exact`] it is the least timer after `watermark_ms` of a window of
    /// local time. After [`END_OF_TIME`] comes that.
    ///
    /// Source: `TimeWindowUtil.getNextTriggerWatermark` of Flink 2.2.1, as observed.
    ///
    /// # Errors
    ///
    /// [`TriggerError`] if `interval_ms` is not positive or a step leaves 64 bits.
    ///
    /// ```
    /// use calendar_tz::{Policy, Zone};
    ///
    /// let zone = Zone::named("Asia/Kolkata")?; // half an hour from the full hours of UTC
    /// let watermark = 1_710_028_800_000;
    /// assert_eq!(zone.next_trigger(watermark, 3_600_000, Policy::Exact)?, watermark + 1_799_999);
    /// assert_eq!(zone.next_trigger(watermark, 3_600_000, Policy::Flink)?, watermark + 3_599_999);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_trigger(
        &self,
        watermark_ms: i64,
        interval_ms: i64,
        policy: Policy,
    ) -> Result<i64, TriggerError> {
        if interval_ms <= 0 {
            return Err(TriggerError::Interval { interval_ms });
        }
        if watermark_ms == END_OF_TIME {
            return Ok(END_OF_TIME);
        }
        let last_before_end = |time: i64| {
            let start = time
                .checked_sub(time.rem_euclid(interval_ms))
                .ok_or(TriggerError::Watermark { watermark_ms })?;
            start
                .checked_add(interval_ms - 1)
                .ok_or(TriggerError::Watermark { watermark_ms })
        };
        match policy {
            Policy::Flink => {
                let trigger = if self.has_daylight_rule() {
                    let last = last_before_end(self.to_local(watermark_ms)?)?;
                    self.timer(last, policy)?
                } else {
                    last_before_end(watermark_ms)?
                };
                if trigger > watermark_ms {
                    Ok(trigger)
                } else {
                    trigger
                        .checked_add(interval_ms)
                        .ok_or(TriggerError::Watermark { watermark_ms })
                }
            }
            Policy::Exact => {
                let last = last_before_end(self.least_local_after(watermark_ms)?)?;
                Ok(self.timer(last, policy)?)
            }
        }
    }

    /// The least local time of an instant after `watermark_ms`. No window of an earlier one is still
    /// open.
    fn least_local_after(&self, watermark_ms: i64) -> Result<i64, RangeError> {
        let next = watermark_ms + 1; // the end of time was told apart
        let mut least = self.to_local(next)?;
        let mut change = self.next_transition(next);
        // What changes later than an offset can reach reads as later.
        while let Some(at) = change.filter(|at| at.instant_ms.saturating_sub(next) <= 2 * REACH) {
            least = least.min(self.to_local(at.instant_ms)?);
            change = self.next_transition(at.instant_ms);
        }
        Ok(least)
    }
}
