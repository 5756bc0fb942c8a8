//! Changes of the clock, and how long stretches of local time really last.

use crate::convert::RangeError;
use crate::rules::{DAY, PERIOD, Place, REACH, Rules};
use crate::zone::Zone;

/// A change of the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transition {
    /// The first instant of the new offset.
    pub instant_ms: i64,
    /// What was added to instants until then to make local times.
    pub offset_before_ms: i64,
    /// What is added from then on.
    pub offset_after_ms: i64,
}

impl Zone {
    /// The offset that holds from `first_ms` to `last_ms`, both instants and both inclusive, if it is
    /// one. `None` if it changes, or `last_ms` is before `first_ms`. While it is one, local time is an
    /// addition. Costs one binary search.
    ///
    /// ```
    /// use calendar_tz::Zone;
    ///
    /// let zone = Zone::named("Asia/Kolkata")?; // last changed in 1945
    /// assert_eq!(zone.fixed_offset_over(0, i64::MAX), Some(19_800_000));
    /// assert_eq!(zone.fixed_offset_over(i64::MIN, 0), None);
    /// # Ok::<(), calendar_tz::ZoneError>(())
    /// ```
    #[must_use]
    pub fn fixed_offset_over(&self, first_ms: i64, last_ms: i64) -> Option<i64> {
        let rules = self.rules();
        if last_ms < first_ms {
            return None;
        }
        let place = rules.place(&rules.at, first_ms.into());
        let is_whole = rules
            .end(&rules.at, place)
            .is_none_or(|end| i128::from(last_ms) < end);
        is_whole.then(|| rules.offset(place))
    }

    /// The first change after an instant, if there is one within 64 bits.
    ///
    /// ```
    /// use calendar_tz::Zone;
    ///
    /// let zone = Zone::named("America/New_York")?;
    /// let change = zone.next_transition(1_356_998_400_000).expect("there is one every year");
    /// assert_eq!(change.instant_ms, 1_362_898_800_000); // 2013-03-10T07:00:00Z
    /// assert_eq!(change.offset_after_ms - change.offset_before_ms, 3_600_000);
    /// # Ok::<(), calendar_tz::ZoneError>(())
    /// ```
    #[must_use]
    pub fn next_transition(&self, instant_ms: i64) -> Option<Transition> {
        let rules = self.rules();
        let place = rules.place(&rules.at, instant_ms.into());
        transition(
            rules,
            Place {
                index: place.index + 1,
                ..place
            },
        )
    }

    /// The last change before an instant, if there is one.
    #[must_use]
    pub fn previous_transition(&self, instant_ms: i64) -> Option<Transition> {
        let rules = self.rules();
        transition(rules, rules.place(&rules.at, i128::from(instant_ms) - 1))
    }

    /// How many milliseconds the local day lasts that `local_ms` is in: how many instants read as that
    /// day. A day that the clock skips has none, and one that it shows twice has 48 hours.
    ///
    /// # Errors
    ///
    /// [`RangeError`] if the day does not lie within 64 bits.
    ///
    /// ```
    /// use calendar_tz::Zone;
    ///
    /// let zone = Zone::named("America/New_York")?;
    /// assert_eq!(zone.local_day_ms(1_362_873_600_000)?, 23 * 3_600_000); // 2013-03-10
    /// assert_eq!(zone.local_day_ms(1_383_436_800_000)?, 25 * 3_600_000); // 2013-11-03
    /// let apia = Zone::named("Pacific/Apia")?;
    /// assert_eq!(apia.local_day_ms(1_325_203_200_000)?, 0); // 2011-12-30
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn local_day_ms(&self, local_ms: i64) -> Result<i64, RangeError> {
        let start = i128::from(local_ms).div_euclid(DAY.into()) * i128::from(DAY);
        let out_of_range = RangeError::new(crate::Conversion::ToInstant, local_ms);
        let start = i64::try_from(start).map_err(|_| out_of_range)?;
        let end = start.checked_add(DAY).ok_or(out_of_range)?;
        Ok(self.elapsed_ms(start, end))
    }

    /// How many instants, in milliseconds, read as a local time of `from_ms` or later and before
    /// `to_ms`: how long a window of local time really lasts. 0 if `to_ms` is not after `from_ms`.
    /// At most `i64::MAX`. Costs one binary search, and a step for each change in between, within 400
    /// years.
    ///
    /// ```
    /// use calendar_tz::Zone;
    ///
    /// let zone = Zone::named("Australia/Lord_Howe")?; // back by half an hour at 02:00 on 2021-04-04
    /// let two = 1_617_501_600_000;
    /// assert_eq!(zone.elapsed_ms(two - 3_600_000, two), 90 * 60_000);
    /// # Ok::<(), calendar_tz::ZoneError>(())
    /// ```
    #[must_use]
    pub fn elapsed_ms(&self, from_ms: i64, to_ms: i64) -> i64 {
        let (from, to) = (i128::from(from_ms), i128::from(to_ms));
        if to <= from {
            return 0;
        }
        let rules = self.rules();
        let reach = i128::from(REACH);
        let mut elapsed = 0;
        let mut to = to;
        // Where the table repeats, a period of local time lasts a period.
        if let Some(repeats_from) = rules.repeats_from {
            let period = i128::from(PERIOD);
            let start = from.max(i128::from(repeats_from) + reach);
            let whole = (to - start).div_euclid(period).max(0) * period;
            elapsed += whole;
            to -= whole;
        }
        let mut place = rules.place(&rules.at, from - reach);
        loop {
            let offset = i128::from(rules.offset(place));
            let span_start = rules.start(&rules.at, place);
            let span_end = rules.end(&rules.at, place);
            let start = span_start.map_or(from, |start| from.max(start + offset));
            let end = span_end.map_or(to, |end| to.min(end + offset));
            elapsed += (end - start).max(0);
            match span_end {
                Some(end) if end <= to + reach => place = rules.place(&rules.at, end),
                _ => break,
            }
        }
        elapsed.min(i64::MAX.into()) as i64
    }
}

/// The change with which a span begins.
fn transition(rules: &Rules, place: Place) -> Option<Transition> {
    let before = place.index.checked_sub(1)?;
    let at = rules.at.get(place.index)?;
    Some(Transition {
        instant_ms: i64::try_from(i128::from(*at) + place.shift).ok()?,
        offset_before_ms: rules.offset[before],
        offset_after_ms: rules.offset[place.index],
    })
}
