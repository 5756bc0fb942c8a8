//! Many values at once.
//!
//! A batch is converted in blocks that stay in the first-level cache. A block whose values lie in one
//! span of the table is one pass of additions; one with a few spans is one more pass for each of
//! them, without a branch that depends on a value; others go value by value.

use std::fmt;
use std::ops::Range;

use crate::convert::{Conversion, Cursor, END_OF_TIME, Piece, Policy, RangeError, scalar};
use crate::rules::{HOUR, Rules};
use crate::zone::Zone;

/// Which rows of a batch have a value. Rows without one are neither read nor written, so whatever
/// stands there does no harm.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub enum Validity<'a> {
    /// Every row has one.
    #[default]
    All,
    /// Row `i` has one if bit `first_bit + i` is set, counted from the lowest bit of the first byte:
    /// the bitmap of an Arrow array.
    Bits {
        /// The bitmap.
        bits: &'a [u8],
        /// The bit of row 0.
        first_bit: usize,
    },
    /// Row `i` has one if `flags[i]` is true.
    Flags(&'a [bool]),
}

impl Validity<'_> {
    /// Rows that it speaks of; `None` if of any number.
    fn len(&self) -> Option<usize> {
        match self {
            Self::All => None,
            Self::Bits { bits, first_bit } => {
                Some(bits.len().saturating_mul(8).saturating_sub(*first_bit))
            }
            Self::Flags(flags) => Some(flags.len()),
        }
    }

    fn check(&self, rows: usize) -> Result<(), BatchError> {
        let len = self.len();
        // A bitmap is padded to whole bytes and often beyond.
        let fits = match self {
            Self::All => true,
            Self::Bits { .. } => len >= Some(rows),
            Self::Flags(_) => len == Some(rows),
        };
        if fits {
            Ok(())
        } else {
            Err(BatchError::Validity {
                rows,
                validity: len.unwrap_or_default(),
            })
        }
    }

    fn is_valid(&self, row: usize) -> bool {
        match self {
            Self::All => true,
            Self::Bits { bits, first_bit } => {
                let bit = first_bit + row;
                bits[bit / 8] >> (bit % 8) & 1 == 1
            }
            Self::Flags(flags) => flags[row],
        }
    }

    /// Calls `each` with every unbroken run of rows that have a value.
    fn runs<E>(
        &self,
        rows: usize,
        mut each: impl FnMut(Range<usize>) -> Result<(), E>,
    ) -> Result<(), E> {
        if matches!(self, Self::All) {
            return each(0..rows);
        }
        let mut row = 0;
        while row < rows {
            let start = row;
            while row < rows && self.is_valid(row) {
                row += 1;
            }
            if start < row {
                each(start..row)?;
            }
            row += 1;
        }
        Ok(())
    }
}

/// A batch that cannot be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchError {
    /// Input and output differ in length: "10 values for 9 places".
    Length {
        /// Values of the input.
        values: usize,
        /// Places of the output.
        out: usize,
    },
    /// The validity is of another number of rows: "validity of 8 rows for 10 values".
    Validity {
        /// Values of the input.
        rows: usize,
        /// Rows of the validity.
        validity: usize,
    },
    /// A value whose conversion leaves 64 bits: "row 7: local time … ms has no instant within 64
    /// bits".
    Range {
        /// The first such row.
        row: usize,
        /// What is wrong with it.
        error: RangeError,
    },
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { values, out } => write!(f, "{values} values for {out} places"),
            Self::Validity { rows, validity } => {
                write!(f, "validity of {validity} rows for {rows} values")
            }
            Self::Range { row, error } => write!(f, "row {row}: {error}"),
        }
    }
}

impl std::error::Error for BatchError {}

impl Zone {
    /// Converts the valid values of a batch into `out`, which is as long. Allocates nothing.
    ///
    /// Sorted values, and values within a few changes of the clock of each other, cost about a
    /// nanosecond each.
    ///
    /// # Errors
    ///
    /// [`BatchError`]. After one of range, `out` holds some of the other results.
    ///
    /// ```
    /// use calendar_tz::{Conversion, Validity, Zone};
    ///
    /// let zone = Zone::named("America/New_York")?;
    /// let instants = [1_383_456_600_000, i64::MIN, 1_383_460_200_000];
    /// let mut local = [0; 3];
    /// let valid = Validity::Flags(&[true, false, true]);
    /// zone.convert(Conversion::ToLocal, &instants, valid, &mut local)?;
    /// // The first Sunday of November 2013 has 01:30 twice.
    /// assert_eq!(local, [1_383_442_200_000, 0, 1_383_442_200_000]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn convert(
        &self,
        conversion: Conversion,
        values_ms: &[i64],
        validity: Validity<'_>,
        out_ms: &mut [i64],
    ) -> Result<(), BatchError> {
        check_lengths(values_ms, validity, out_ms)?;
        let mut kernel = Kernel::new(self.rules(), conversion);
        validity.runs(values_ms.len(), |run| {
            let (values, out) = (&values_ms[run.clone()], &mut out_ms[run.clone()]);
            kernel
                .run(values, out)
                .map_err(|error| error.after(run.start))
        })
    }

    /// Converts the valid values of a batch where they are. Allocates nothing, and costs a little
    /// more than [`convert`](Self::convert).
    ///
    /// # Errors
    ///
    /// [`BatchError`], before any value is changed.
    pub fn convert_in_place(
        &self,
        conversion: Conversion,
        values_ms: &mut [i64],
        validity: Validity<'_>,
    ) -> Result<(), BatchError> {
        validity.check(values_ms.len())?;
        let rules = self.rules();
        let values = &*values_ms;
        validity.runs(values.len(), |run| {
            check_range(rules, conversion, &values[run.clone()])
                .map_err(|error| error.after(run.start))
        })?;
        let mut kernel = Kernel::new(rules, conversion);
        validity.runs(values_ms.len(), |run| {
            let values = &mut values_ms[run.clone()];
            kernel
                .run_in_place(values)
                .map_err(|error| error.after(run.start))
        })
    }

    /// Converts the valid values of a batch into `out`, with a cache of the eight distinct values that
    /// were converted last. Allocates nothing, and keeps nothing for the next call.
    ///
    /// It serves batches of few distinct times that lie far apart or beyond the years that a zone's
    /// table holds, such as the ends of far windows in turn: there it is five times as fast as
    /// [`convert`](Self::convert). Elsewhere, and for the ends of HOP and CUMULATE windows of our
    /// time, `convert` is the faster one, by a factor of six to ten.
    ///
    /// # Errors
    ///
    /// [`BatchError`]. After one of range, `out` holds the results of the rows before.
    pub fn convert_repeats(
        &self,
        conversion: Conversion,
        values_ms: &[i64],
        validity: Validity<'_>,
        out_ms: &mut [i64],
    ) -> Result<(), BatchError> {
        check_lengths(values_ms, validity, out_ms)?;
        let mut cache = Cache::new(self.rules(), conversion);
        validity.runs(values_ms.len(), |run| {
            for row in run {
                out_ms[row] = cache
                    .convert(values_ms[row])
                    .map_err(|error| BatchError::Range { row, error })?;
            }
            Ok(())
        })
    }
}

fn check_lengths(values: &[i64], validity: Validity<'_>, out: &[i64]) -> Result<(), BatchError> {
    if values.len() != out.len() {
        return Err(BatchError::Length {
            values: values.len(),
            out: out.len(),
        });
    }
    validity.check(values.len())
}

/// A value of a run that cannot be converted.
struct BadRow {
    row: usize,
    error: RangeError,
}

impl BadRow {
    /// In the batch, whose run starts at row `start`.
    fn after(self, start: usize) -> BatchError {
        BatchError::Range {
            row: start + self.row,
            error: self.error,
        }
    }
}

/// Values that neither leave 64 bits nor mark the end of time, whatever the zone, and whose
/// differences do not wrap: the 146 million years around 1970.
const PLAIN: Piece = Piece {
    first: -(1 << 62) + 1,
    last: (1 << 62) - 1,
    add: 0,
};

fn check_range(rules: &Rules, conversion: Conversion, values: &[i64]) -> Result<(), BadRow> {
    let any_outside = |acc: i64, value: &i64| acc | outside(PLAIN, *value);
    if values.iter().fold(0, any_outside) >= 0 {
        return Ok(());
    }
    let bad = |(row, value): (usize, &i64)| {
        let error = scalar(rules, conversion, *value).err()?;
        Some(BadRow { row, error })
    };
    match values.iter().enumerate().find_map(bad) {
        Some(bad) => Err(bad),
        None => Ok(()),
    }
}

/// Negative if, and only if, `value` is outside of the piece, which holds fewer than 2^63 values: one
/// of the two differences is then negative, and if it wraps, the other one is so large that it is.
#[inline]
fn outside(piece: Piece, value: i64) -> i64 {
    value.wrapping_sub(piece.first) | piece.last.wrapping_sub(value)
}

/// Rows of a block: input and output together take 8 KiB.
const BLOCK: usize = 512;
/// Spans of the table that a block is compared with one after another.
const FEW_SPANS: usize = 8;
struct Kernel<'a> {
    rules: &'a Rules,
    conversion: Conversion,
    cursor: Cursor<'a>,
}

impl<'a> Kernel<'a> {
    fn new(rules: &'a Rules, conversion: Conversion) -> Self {
        Self {
            rules,
            conversion,
            cursor: Cursor::new(rules, conversion),
        }
    }

    fn run(&mut self, values: &[i64], out: &mut [i64]) -> Result<(), BadRow> {
        let blocks = values.chunks(BLOCK).zip(out.chunks_mut(BLOCK));
        for (number, (values, out)) in blocks.enumerate() {
            self.block(values, out).map_err(|bad| BadRow {
                row: number * BLOCK + bad.row,
                ..bad
            })?;
        }
        Ok(())
    }

    fn run_in_place(&mut self, values: &mut [i64]) -> Result<(), BadRow> {
        let mut copy = [0; BLOCK];
        for (number, values) in values.chunks_mut(BLOCK).enumerate() {
            let copy = &mut copy[..values.len()];
            copy.copy_from_slice(values);
            self.block(copy, values).map_err(|bad| BadRow {
                row: number * BLOCK + bad.row,
                ..bad
            })?;
        }
        Ok(())
    }

    fn block(&mut self, values: &[i64], out: &mut [i64]) -> Result<(), BadRow> {
        let Some(first) = values.first() else {
            return Ok(());
        };
        self.cursor.seek(*first);
        let piece = self.cursor.piece().within(PLAIN);
        let mut acc = 0;
        for (out, value) in out.iter_mut().zip(values) {
            acc |= outside(piece, *value);
            *out = value.wrapping_add(piece.add);
        }
        if acc >= 0 {
            return Ok(());
        }
        if let Some(spans) = self.few_spans(values) {
            self.add_spans(spans.clone(), values, out);
            return self.correct_timers(spans, values, out);
        }
        for (row, (out, value)) in out.iter_mut().zip(values).enumerate() {
            *out = self
                .cursor
                .convert(*value)
                .map_err(|error| BadRow { row, error })?;
        }
        Ok(())
    }

    /// The spans of the table that the values lie in, if they are few and not beyond its end.
    fn few_spans(&self, values: &[i64]) -> Option<Range<usize>> {
        let (mut least, mut greatest) = (i64::MAX, i64::MIN);
        for value in values {
            least = least.min(*value);
            greatest = greatest.max(*value);
        }
        let place = |time: i64| self.rules.place(self.keys(), time.into());
        let is_plain = PLAIN.holds(least) && PLAIN.holds(greatest);
        if !is_plain || place(greatest).shift != 0 {
            return None;
        }
        let spans = place(least).index..place(greatest).index + 1;
        (spans.len() <= FEW_SPANS).then_some(spans)
    }

    /// The column of the table that the conversion looks its values up in.
    fn keys(&self) -> &'a [i64] {
        match self.conversion {
            Conversion::ToLocal => &self.rules.at,
            Conversion::ToInstant | Conversion::Timer(Policy::Flink) => &self.rules.local,
            Conversion::Timer(Policy::Exact) => &self.rules.last,
        }
    }

    /// Adds to each value what its span says.
    fn add_spans(&self, spans: Range<usize>, values: &[i64], out: &mut [i64]) {
        let keys = self.keys();
        let add = |span: usize| match self.conversion {
            Conversion::ToLocal => self.rules.offset[span],
            Conversion::ToInstant | Conversion::Timer(_) => -self.rules.offset[span],
        };
        let first = add(spans.start);
        for (out, value) in out.iter_mut().zip(values) {
            *out = value + first;
        }
        for span in spans.skip(1) {
            let key = keys[span];
            let change = add(span) - add(span - 1);
            for (out, value) in out.iter_mut().zip(values) {
                // All bits are set from the key on.
                *out += change & !((value - key) >> 63);
            }
        }
    }

    /// Computes the timers anew that are not additions: they lie in or just before a change.
    fn correct_timers(
        &self,
        spans: Range<usize>,
        values: &[i64],
        out: &mut [i64],
    ) -> Result<(), BadRow> {
        let Conversion::Timer(policy) = self.conversion else {
            return Ok(());
        };
        let keys = self.keys();
        let changes = spans.start + 1..keys.len().min(spans.end + 1);
        for span in changes {
            let first = match policy {
                Policy::Flink if !self.rules.daylight_rule => return Ok(()),
                Policy::Flink => keys[span] - HOUR,
                Policy::Exact => self.rules.at[span] + self.rules.offset[span - 1],
            };
            let last = keys[span] - 1;
            let critical = Piece {
                first,
                last,
                add: 0,
            };
            // The sign is kept until a value is inside.
            let all_outside = |acc: i64, value: &i64| acc & outside(critical, *value);
            if last < first || values.iter().fold(-1, all_outside) < 0 {
                continue;
            }
            for (row, (out, value)) in out.iter_mut().zip(values).enumerate() {
                if critical.holds(*value) {
                    *out = scalar(self.rules, self.conversion, *value)
                        .map_err(|error| BadRow { row, error })?;
                }
            }
        }
        Ok(())
    }
}

/// The conversions of the eight distinct values that came last.
struct Cache<'a> {
    cursor: Cursor<'a>,
    values: [i64; 8],
    results: [i64; 8],
    /// The one that is replaced next.
    oldest: usize,
}

impl<'a> Cache<'a> {
    fn new(rules: &'a Rules, conversion: Conversion) -> Self {
        // The end of time is its own conversion, and so a value that every place can start with.
        Self {
            cursor: Cursor::new(rules, conversion),
            values: [END_OF_TIME; 8],
            results: [END_OF_TIME; 8],
            oldest: 0,
        }
    }

    fn convert(&mut self, value: i64) -> Result<i64, RangeError> {
        if let Some(known) = self.values.iter().position(|known| *known == value) {
            return Ok(self.results[known]);
        }
        let result = self.cursor.convert(value)?;
        self.values[self.oldest] = value;
        self.results[self.oldest] = result;
        self.oldest = (self.oldest + 1) % self.values.len();
        Ok(result)
    }
}
