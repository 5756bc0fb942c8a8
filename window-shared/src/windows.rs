//! Which windows there are, and which slices they are made of: arithmetic on local milliseconds.
//!
//! A *slice* is the span between two neighbouring bounds of windows. It is named by its end, and so is a
//! window. Nothing here knows zones: see [`EventTime`](crate::EventTime).

/// TUMBLE, HOP or CUMULATE with their sizes, in milliseconds of local time.
///
/// ```
/// use window_shared::Windows;
///
/// let hop = Windows::hop(2_000, 10_000)?; // every 2 s a window of the last 10 s
/// let slice_end = hop.slice_end(1_000)?;
/// assert_eq!(slice_end, 2_000);
/// let starts = hop.window_ends(slice_end)?.map(|end| hop.window_start(end).unwrap());
/// assert_eq!(starts.collect::<Vec<_>>(), [-8_000, -6_000, -4_000, -2_000, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    kind: Kind,
    offset_ms: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tumble { size_ms: i64 },
    Hop { slide_ms: i64, size_ms: i64 },
    Cumulate { step_ms: i64, max_size_ms: i64 },
}

/// Sizes of which no windows can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WindowsError {
    /// A size that is not positive.
    #[error("the {what} of the windows is {found_ms} ms, but must be positive")]
    NotPositive {
        /// Which: `size`, `slide`, `step` or `max size`.
        what: &'static str,
        /// What was given.
        found_ms: i64,
    },
    /// A size that the slide or step does not divide.
    #[error(
        "the size of the windows, {size_ms} ms, is not a multiple of their {what}, {part_ms} ms"
    )]
    NotMultiple {
        /// `slide` or `step`.
        what: &'static str,
        /// The size, or max size.
        size_ms: i64,
        /// The slide or step.
        part_ms: i64,
    },
    /// An offset of TUMBLE that is as long as the size. HOP and CUMULATE take any.
    #[error(
        "the offset of the windows, {offset_ms} ms, is not shorter than their size, {size_ms} ms"
    )]
    Offset {
        /// The offset.
        offset_ms: i64,
        /// The size.
        size_ms: i64,
    },
}

/// A time so far from 1970 that a bound of its slice or windows does not fit in 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the windows of the local time {local_ms} ms have bounds beyond 64 bits")]
pub struct TimeRangeError {
    /// The time.
    pub local_ms: i64,
}

impl Windows {
    /// Windows of `size_ms` that follow each other.
    ///
    /// # Errors
    ///
    /// [`WindowsError`] if the size is not positive.
    pub fn tumble(size_ms: i64) -> Result<Self, WindowsError> {
        positive("size", size_ms)?;
        Ok(Self::of(Kind::Tumble { size_ms }))
    }

    /// Windows of `size_ms` of which one starts every `slide_ms`. The order of the arguments is that of
    /// `HOP`.
    ///
    /// # Errors
    ///
    /// [`WindowsError`] if one is not positive, or the size not a multiple of the slide: as in Flink.
    pub fn hop(slide_ms: i64, size_ms: i64) -> Result<Self, WindowsError> {
        positive("slide", slide_ms)?;
        positive("size", size_ms)?;
        multiple("slide", size_ms, slide_ms)?;
        Ok(Self::of(Kind::Hop { slide_ms, size_ms }))
    }

    /// Windows that start every `max_size_ms` and of which each start has one of `step_ms`, one of two steps
    /// and so on up to `max_size_ms`. The order of the arguments is that of `CUMULATE`.
    ///
    /// # Errors
    ///
    /// [`WindowsError`] if one is not positive, or the max size not a multiple of the step: as in Flink.
    pub fn cumulate(step_ms: i64, max_size_ms: i64) -> Result<Self, WindowsError> {
        positive("step", step_ms)?;
        positive("max size", max_size_ms)?;
        multiple("step", max_size_ms, step_ms)?;
        Ok(Self::of(Kind::Cumulate {
            step_ms,
            max_size_ms,
        }))
    }

    /// The same windows, all moved by `offset_ms`, which may be negative.
    ///
    /// # Errors
    ///
    /// [`WindowsError::Offset`] if TUMBLE would move by its size or more: as in Flink, where HOP and CUMULATE
    /// take any offset.
    pub fn with_offset(self, offset_ms: i64) -> Result<Self, WindowsError> {
        match self.kind {
            Kind::Tumble { size_ms } if offset_ms.unsigned_abs() >= size_ms.unsigned_abs() => {
                Err(WindowsError::Offset { offset_ms, size_ms })
            }
            _ => Ok(Self { offset_ms, ..self }),
        }
    }

    fn of(kind: Kind) -> Self {
        Self { kind, offset_ms: 0 }
    }

    /// Whether slices belong to several windows, which are merged of them: not those of TUMBLE.
    pub fn shares_slices(&self) -> bool {
        !matches!(self.kind, Kind::Tumble { .. })
    }

    pub(crate) fn is_cumulate(&self) -> bool {
        matches!(self.kind, Kind::Cumulate { .. })
    }

    /// How long a slice is; window ends are that far apart.
    pub fn slice_ms(&self) -> i64 {
        match self.kind {
            Kind::Tumble { size_ms } => size_ms,
            Kind::Hop { slide_ms, .. } => slide_ms,
            Kind::Cumulate { step_ms, .. } => step_ms,
        }
    }

    /// How long the longest window is.
    pub fn size_ms(&self) -> i64 {
        match self.kind {
            Kind::Tumble { size_ms } | Kind::Hop { size_ms, .. } => size_ms,
            Kind::Cumulate { max_size_ms, .. } => max_size_ms,
        }
    }

    /// The end of the slice that `local_ms` falls into.
    ///
    /// # Errors
    ///
    /// [`TimeRangeError`] if the slice, or a window that it is part of, has a bound beyond 64 bits.
    pub fn slice_end(&self, local_ms: i64) -> Result<i64, TimeRangeError> {
        let beyond = TimeRangeError { local_ms };
        let end = self.aligned(local_ms, self.slice_ms()) + i128::from(self.slice_ms());
        let end = i64::try_from(end).map_err(|_| beyond)?;
        self.window_start(end).map_err(|_| beyond)?;
        match self.last_window_end(end) {
            // The greatest number stands for the end of the input, at which no window ends.
            Ok(last) if last < i64::MAX => Ok(end),
            _ => Err(beyond),
        }
    }

    /// The start of the window that ends at `end_ms`; of the shortest, if there are several.
    ///
    /// # Errors
    ///
    /// [`TimeRangeError`] if it does not fit in 64 bits.
    pub fn window_start(&self, end_ms: i64) -> Result<i64, TimeRangeError> {
        let end = i128::from(end_ms);
        let start = match self.kind {
            Kind::Tumble { size_ms } | Kind::Hop { size_ms, .. } => end - i128::from(size_ms),
            Kind::Cumulate { max_size_ms, .. } => {
                let offset = i128::from(self.offset_ms);
                end - 1 - (end - 1 - offset).rem_euclid(max_size_ms.into())
            }
        };
        i64::try_from(start).map_err(|_| TimeRangeError { local_ms: end_ms })
    }

    /// The end of the last window that the slice is part of.
    ///
    /// # Errors
    ///
    /// [`TimeRangeError`] if it does not fit in 64 bits.
    pub fn last_window_end(&self, slice_end_ms: i64) -> Result<i64, TimeRangeError> {
        let beyond = TimeRangeError {
            local_ms: slice_end_ms,
        };
        match self.kind {
            Kind::Tumble { .. } => Ok(slice_end_ms),
            Kind::Hop { slide_ms, size_ms } => {
                slice_end_ms.checked_add(size_ms - slide_ms).ok_or(beyond)
            }
            Kind::Cumulate { max_size_ms, .. } => {
                let start = self.window_start(slice_end_ms)?;
                start.checked_add(max_size_ms).ok_or(beyond)
            }
        }
    }

    /// The ends of the windows that the slice is part of, rising.
    ///
    /// # Errors
    ///
    /// [`TimeRangeError`] if one does not fit in 64 bits.
    pub fn window_ends(
        &self,
        slice_end_ms: i64,
    ) -> Result<impl DoubleEndedIterator<Item = i64> + use<>, TimeRangeError> {
        let slice_ms = self.slice_ms();
        let count = (self.last_window_end(slice_end_ms)? - slice_end_ms) / slice_ms;
        Ok((0..=count).map(move |i| slice_end_ms + i * slice_ms))
    }

    /// The end of the first slice of the window that ends at `end_ms`.
    ///
    /// # Errors
    ///
    /// [`TimeRangeError`] if it does not fit in 64 bits.
    pub fn first_slice_end(&self, end_ms: i64) -> Result<i64, TimeRangeError> {
        Ok(self.window_start(end_ms)? + self.slice_ms())
    }

    /// How many slices the window that ends at `end_ms` is made of.
    ///
    /// # Errors
    ///
    /// [`TimeRangeError`] if its start does not fit in 64 bits.
    pub fn slice_count(&self, end_ms: i64) -> Result<i64, TimeRangeError> {
        Ok((end_ms - self.first_slice_end(end_ms)?) / self.slice_ms() + 1)
    }

    /// The end of the window that a key which has rows in the one that ends at `end_ms` may have a result in
    /// next, of the same rows: with CUMULATE up to the max size, with HOP always, with TUMBLE never.
    pub fn next_window_end(&self, end_ms: i64) -> Option<i64> {
        let next = end_ms.checked_add(self.slice_ms())?;
        match self.kind {
            Kind::Tumble { .. } => None,
            Kind::Hop { .. } => Some(next),
            Kind::Cumulate { .. } => {
                let last = self.last_window_end(end_ms).ok()?;
                (next <= last).then_some(next)
            }
        }
    }

    /// Where the slice begins that `local_ms` falls into: `unit` is how long it is.
    fn aligned(&self, local_ms: i64, unit: i64) -> i128 {
        let local = i128::from(local_ms);
        local - (local - i128::from(self.offset_ms)).rem_euclid(unit.into())
    }

    /// The windows in a few words that stay the same, for fingerprints.
    pub(crate) fn describe(&self) -> String {
        let offset_ms = self.offset_ms;
        match self.kind {
            Kind::Tumble { size_ms } => format!("tumble {size_ms} offset {offset_ms}"),
            Kind::Hop { slide_ms, size_ms } => {
                format!("hop {slide_ms} {size_ms} offset {offset_ms}")
            }
            Kind::Cumulate {
                step_ms,
                max_size_ms,
            } => format!("cumulate {step_ms} {max_size_ms} offset {offset_ms}"),
        }
    }
}

fn positive(what: &'static str, found_ms: i64) -> Result<(), WindowsError> {
    if found_ms > 0 {
        return Ok(());
    }
    Err(WindowsError::NotPositive { what, found_ms })
}

fn multiple(what: &'static str, size_ms: i64, part_ms: i64) -> Result<(), WindowsError> {
    if size_ms % part_ms == 0 {
        return Ok(());
    }
    Err(WindowsError::NotMultiple {
        what,
        size_ms,
        part_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(windows: Windows, local_ms: i64) -> Vec<i64> {
        let slice_end = windows.slice_end(local_ms).unwrap();
        let ends = windows.window_ends(slice_end).unwrap();
        ends.map(|end| windows.window_start(end).unwrap()).collect()
    }

    #[test]
    fn times_before_1970_fall_into_the_window_that_holds_them() {
        let tumble = Windows::tumble(10_000).unwrap();
        assert_eq!(starts(tumble, -1), [-10_000]);
        let moved = tumble.with_offset(3_000).unwrap();
        assert_eq!(starts(moved, -7_001), [-17_000]);
        assert_eq!(starts(moved, -7_000), [-7_000]);
    }

    #[test]
    fn a_time_on_a_bound_is_in_the_windows_that_start_there() {
        let hop = Windows::hop(5_000, 10_000).unwrap();
        assert_eq!(starts(hop, 9_999), [0, 5_000].map(|start| start));
        assert_eq!(starts(hop, 10_000), [5_000, 10_000]);
    }

    #[test]
    fn a_day_can_start_at_six() {
        let day = Windows::tumble(86_400_000).unwrap();
        let moved = day.with_offset(6 * 3_600_000).unwrap();
        assert_eq!(starts(moved, 1_704_072_602_000), [1_704_002_400_000]);
    }

    #[test]
    fn sizes_that_do_not_divide_are_refused_with_both() {
        let error = Windows::hop(700, 1_600).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the size of the windows, 1600 ms, is not a multiple of their slide, 700 ms"
        );
        assert!(Windows::hop(10_000, 5_000).is_err());
        assert!(Windows::cumulate(3, 10).is_err());
        assert!(Windows::tumble(0).is_err());
        assert!(Windows::tumble(10).unwrap().with_offset(-10).is_err());
        assert!(Windows::hop(5, 10).unwrap().with_offset(27).is_ok());
    }

    #[test]
    fn the_ends_of_time_are_errors() {
        let hop = Windows::hop(5_000, 10_000).unwrap();
        assert!(hop.slice_end(i64::MAX).is_err());
        assert!(hop.slice_end(i64::MIN).is_err());
        assert!(hop.slice_end(i64::MIN + 20_000).is_ok());
        assert!(hop.slice_end(i64::MAX - 20_000).is_ok());
    }

    #[test]
    fn cumulating_windows_of_one_start_grow() {
        let cumulate = Windows::cumulate(2_000, 6_000).unwrap();
        let ends: Vec<i64> = cumulate.window_ends(4_000).unwrap().collect();
        assert_eq!(ends, [4_000, 6_000]);
        assert_eq!(starts(cumulate, 2_500), [0, 0]);
        assert_eq!(cumulate.next_window_end(4_000), Some(6_000));
        assert_eq!(cumulate.next_window_end(6_000), None);
    }
}
