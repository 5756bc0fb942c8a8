//! The rows of a partition as they are kept and stored.
//!
//! Both rankers store the same bytes under a partition's key:
//!
//! ```text
//! offset  bytes  content
//!      0      1  version of this layout: 1, or 2 where rows have a time to live
//!      1      8  rank end, little-endian; only where the rank end is a column of the input
//!      …      4  length of a row in bytes, little-endian                      ┐
//!      …      8  when it was accepted, in milliseconds of the operator's      │ once per kept row,
//!                clock, little-endian; only in version 2                      │ best first
//!      …      n  the row, in the payload form of BinaryRow                    ┘
//! ```
//!
//! Either version is read whether or not rows have a time to live; which one is written depends on
//! that. A row of version 1 never expires: when it was accepted is not known.
//!
//! Sort keys are not stored: they are made again from the row, so that their form may change.

use std::cell::RefCell;
use std::mem::size_of;
use std::sync::Arc;

use smallvec::SmallVec;
use state_codec::{DecodeError, NEVER, SortKey, SortKeys, StateCodec, StoredExpiry};

use crate::spec::RankSpec;

/// Without and with the times of acceptance.
const UNTIMED: u8 = 1;
const TIMED: u8 = 2;
/// Bytes of a length, of a row or of a sort key's rest.
const LENGTH: usize = size_of::<u32>();
/// Bytes of a time.
const TIME: usize = size_of::<i64>();

/// When a row was accepted, if that is not known.
pub(crate) const UNKNOWN: i64 = NEVER;

/// How the rows of a specification become bytes and back.
#[derive(Clone, Debug)]
pub(crate) struct RowsCodec {
    spec: RankSpec,
    /// A sort key at a time, so that decoding allocates nothing for it.
    scratch: RefCell<SortKeys>,
}

/// What stands before the rows.
struct Header {
    timed: bool,
    /// 0 where it is not stored.
    rank_end: u64,
}

impl RowsCodec {
    pub(crate) fn new(spec: &RankSpec) -> Self {
        Self {
            spec: spec.clone(),
            scratch: RefCell::default(),
        }
    }

    fn write_header(&self, rank_end: u64, out: &mut Vec<u8>) {
        out.push(if self.spec.ttl_ms.is_some() {
            TIMED
        } else {
            UNTIMED
        });
        if self.spec.rank_end_column.is_some() {
            out.extend_from_slice(&rank_end.to_le_bytes());
        }
    }

    fn write_row(&self, row: &[u8], write_ms: i64, out: &mut Vec<u8>) {
        let length = u32::try_from(row.len()).expect("a row is at most 2^31 bytes long");
        out.extend_from_slice(&length.to_le_bytes());
        if self.spec.ttl_ms.is_some() {
            out.extend_from_slice(&write_ms.to_le_bytes());
        }
        out.extend_from_slice(row);
    }

    /// A row and what `make` makes of it, its sort key and the time of its acceptance.
    fn read_row<T>(
        &self,
        bytes: &mut Reader<'_>,
        timed: bool,
        make: impl FnOnce(&[u8], SortKey<'_>, i64) -> T,
    ) -> Result<T, DecodeError> {
        let (row, write_ms) = bytes.take_row(timed)?;
        let write_ms = self.spec.write_ms(write_ms);
        let mut keys = self.scratch.borrow_mut();
        keys.clear();
        self.spec
            .order
            .encode_row(&self.spec.layout, row, &mut keys)?;
        Ok(make(row, keys.get(0), write_ms))
    }

    /// When the last of the rows in a value's bytes expires.
    fn stored_expiry(spec: &RankSpec) -> Option<StoredExpiry> {
        let ttl_ms = spec.ttl_ms?;
        let stores_rank_end = spec.rank_end_column.is_some();
        Some(Arc::new(move |bytes| {
            let latest_ms = Reader::new(bytes).latest_write_ms(stores_rank_end);
            latest_ms.map_or(NEVER, |latest_ms| latest_ms.saturating_add(ttl_ms))
        }))
    }
}

/// Reads stored bytes from front to back.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn take_header(&mut self, stores_rank_end: bool) -> Result<Header, DecodeError> {
        let [version] = self.take_array("version")?;
        let timed = match version {
            UNTIMED => false,
            TIMED => true,
            _ => return Err(DecodeError::unknown_version("version", 0, version)),
        };
        let mut rank_end = 0;
        if stores_rank_end {
            rank_end = u64::from_le_bytes(self.take_array("rank end")?);
            if rank_end == 0 {
                let reason = "a rank end is at least 1";
                return Err(DecodeError::malformed("rank end", 1, reason));
            }
        }
        Ok(Header { timed, rank_end })
    }

    /// A row and when it was accepted.
    fn take_row(&mut self, timed: bool) -> Result<(&'a [u8], i64), DecodeError> {
        let length = u32::from_le_bytes(self.take_array("row length")?);
        let write_ms = if timed {
            i64::from_le_bytes(self.take_array("time of acceptance")?)
        } else {
            UNKNOWN
        };
        Ok((self.take("row", length as usize)?, write_ms))
    }

    /// When the last of a value's rows was accepted, [`UNKNOWN`] without rows.
    fn latest_write_ms(&mut self, stores_rank_end: bool) -> Result<i64, DecodeError> {
        let Header { timed, .. } = self.take_header(stores_rank_end)?;
        let mut latest_ms = None;
        while !self.is_empty() {
            latest_ms = latest_ms.max(Some(self.take_row(timed)?.1));
        }
        Ok(latest_ms.unwrap_or(UNKNOWN))
    }

    fn take(&mut self, field: &'static str, length: usize) -> Result<&'a [u8], DecodeError> {
        let rest = &self.bytes[self.at..];
        let Some(taken) = rest.get(..length) else {
            return Err(DecodeError::truncated(field, self.at, length - rest.len()));
        };
        self.at += length;
        Ok(taken)
    }

    fn take_array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        Ok(self
            .take(field, N)?
            .try_into()
            .expect("as many bytes were taken as the array holds"))
    }

    fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }
}

/// The one row that a Top-1 partition keeps. Half a cache line, of which a rejected row reads the
/// first 16 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Winner {
    prefix: u128,
    /// The row. Where the prefix does not decide, the rest of the sort key and its length (4 bytes,
    /// little-endian) follow; where rows have a time to live, when it was accepted (8 bytes,
    /// little-endian) is last. All is in one allocation, and most winners have nothing but the row.
    bytes: Box<[u8]>,
}

impl Winner {
    pub(crate) fn new(spec: &RankSpec, row: &[u8], key: SortKey<'_>, write_ms: i64) -> Self {
        let mut bytes = vec![0; Self::bytes_needed(spec, row, key)].into_boxed_slice();
        Self::fill(&mut bytes, spec, row, key, write_ms);
        Self {
            prefix: key.prefix,
            bytes,
        }
    }

    /// Puts another row in the place of this one, in the same memory if it has the same size.
    pub(crate) fn replace(&mut self, spec: &RankSpec, row: &[u8], key: SortKey<'_>, write_ms: i64) {
        if self.bytes.len() == Self::bytes_needed(spec, row, key) {
            Self::fill(&mut self.bytes, spec, row, key, write_ms);
            self.prefix = key.prefix;
        } else {
            *self = Self::new(spec, row, key, write_ms);
        }
    }

    /// Heap bytes of a winner with this row and key.
    pub(crate) fn bytes_needed(spec: &RankSpec, row: &[u8], key: SortKey<'_>) -> usize {
        let rest = if spec.order.prefix_decides() {
            0
        } else {
            key.rest.len() + LENGTH
        };
        let time = if spec.ttl_ms.is_some() { TIME } else { 0 };
        row.len() + rest + time
    }

    fn fill(bytes: &mut [u8], spec: &RankSpec, row: &[u8], key: SortKey<'_>, write_ms: i64) {
        let (into_row, mut after) = bytes.split_at_mut(row.len());
        into_row.copy_from_slice(row);
        if !spec.order.prefix_decides() {
            let length = u32::try_from(key.rest.len()).expect("a sort key is at most 2^32 bytes");
            let (into_rest, after_rest) = after.split_at_mut(key.rest.len());
            into_rest.copy_from_slice(key.rest);
            let (into_length, after_length) = after_rest.split_at_mut(LENGTH);
            into_length.copy_from_slice(&length.to_le_bytes());
            after = after_length;
        }
        if spec.ttl_ms.is_some() {
            after.copy_from_slice(&write_ms.to_le_bytes());
        }
    }

    #[inline]
    pub(crate) fn prefix(&self) -> u128 {
        self.prefix
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn row(&self, spec: &RankSpec) -> &[u8] {
        self.split(spec).0
    }

    pub(crate) fn sort_key(&self, spec: &RankSpec) -> SortKey<'_> {
        SortKey {
            prefix: self.prefix,
            rest: self.split(spec).1,
        }
    }

    /// When it was accepted; [`UNKNOWN`] where rows live for ever.
    pub(crate) fn write_ms(&self, spec: &RankSpec) -> i64 {
        if spec.ttl_ms.is_none() {
            return UNKNOWN;
        }
        let (_, time) = self.bytes.split_last_chunk().expect("the time ends it");
        i64::from_le_bytes(*time)
    }

    fn split(&self, spec: &RankSpec) -> (&[u8], &[u8]) {
        let time = if spec.ttl_ms.is_some() { TIME } else { 0 };
        let bytes = &self.bytes[..self.bytes.len() - time];
        if spec.order.prefix_decides() {
            return (bytes, &[]);
        }
        let (before, length) = bytes.split_last_chunk().expect("the rest's length ends it");
        before.split_at(before.len() - u32::from_le_bytes(*length) as usize)
    }
}

impl StateCodec<Winner> for RowsCodec {
    fn encode_into(&self, value: &Winner, out: &mut Vec<u8>) {
        self.write_header(1, out);
        self.write_row(value.row(&self.spec), value.write_ms(&self.spec), out);
    }

    fn decode(&self, bytes: &[u8]) -> Result<Winner, DecodeError> {
        let mut bytes = Reader::new(bytes);
        let Header { timed, .. } = bytes.take_header(self.spec.rank_end_column.is_some())?;
        let winner = self.read_row(&mut bytes, timed, |row, key, write_ms| {
            Winner::new(&self.spec, row, key, write_ms)
        })?;
        if !bytes.is_empty() {
            return Err(DecodeError::malformed(
                "row",
                bytes.at,
                "a winner is followed by more",
            ));
        }
        Ok(winner)
    }

    fn heap_bytes(&self, value: &Winner) -> usize {
        value.heap_bytes()
    }

    fn expires_at_ms(&self, value: &Winner) -> i64 {
        self.spec.expires_at_ms(value.write_ms(&self.spec))
    }

    fn stored_expiry(&self) -> Option<StoredExpiry> {
        Self::stored_expiry(&self.spec)
    }
}

/// A kept row of the general ranker. Clones share it, so that a bundle can tell by identity what it
/// changed.
#[derive(Clone, Debug)]
pub(crate) struct RankedRow {
    prefix: u128,
    /// The row and the rest of the sort key, which starts at `row_bytes`.
    bytes: Arc<[u8]>,
    row_bytes: usize,
    /// When it was accepted, or a row that it ties with refreshed it.
    pub(crate) write_ms: i64,
}

impl RankedRow {
    /// Heap bytes that a row takes beside its own and its sort key's: strong and weak count.
    const COUNTS: usize = 2 * size_of::<usize>();

    pub(crate) fn new(row: &[u8], key: SortKey<'_>, write_ms: i64) -> Self {
        let bytes = row.iter().chain(key.rest).copied().collect();
        Self {
            prefix: key.prefix,
            bytes,
            row_bytes: row.len(),
            write_ms,
        }
    }

    /// Heap bytes of a row with this key.
    pub(crate) fn bytes_needed(row: &[u8], key: SortKey<'_>) -> usize {
        row.len() + key.rest.len() + Self::COUNTS
    }

    pub(crate) fn row(&self) -> &[u8] {
        &self.bytes[..self.row_bytes]
    }

    pub(crate) fn sort_key(&self) -> SortKey<'_> {
        SortKey {
            prefix: self.prefix,
            rest: &self.bytes[self.row_bytes..],
        }
    }

    /// Whether this is the same kept row, not only an equal one.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.bytes, &other.bytes)
    }

    /// Whether it is gone at `now_ms`.
    pub(crate) fn is_expired(&self, spec: &RankSpec, now_ms: i64) -> bool {
        spec.ttl_ms.is_some() && spec.expires_at_ms(self.write_ms) <= now_ms
    }
}

/// The rows that a partition of the general ranker keeps, best first.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankedRows {
    /// The last rank that is kept.
    pub(crate) rank_end: u64,
    pub(crate) rows: SmallVec<[RankedRow; 1]>,
}

impl RankedRows {
    /// The rows that are not expired at `now_ms`.
    pub(crate) fn live(
        &self,
        spec: &RankSpec,
        now_ms: i64,
    ) -> impl DoubleEndedIterator<Item = &RankedRow> {
        let live = move |row: &&RankedRow| !row.is_expired(spec, now_ms);
        self.rows.iter().filter(live)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let spilled = if self.rows.spilled() {
            self.rows.capacity()
        } else {
            0
        };
        let rows = self.rows.iter();
        let rows: usize = rows.map(|row| row.bytes.len() + RankedRow::COUNTS).sum();
        spilled * size_of::<RankedRow>() + rows
    }
}

impl StateCodec<RankedRows> for RowsCodec {
    fn encode_into(&self, value: &RankedRows, out: &mut Vec<u8>) {
        self.write_header(value.rank_end, out);
        for row in &value.rows {
            self.write_row(row.row(), row.write_ms, out);
        }
    }

    fn decode(&self, bytes: &[u8]) -> Result<RankedRows, DecodeError> {
        let mut bytes = Reader::new(bytes);
        let Header { timed, rank_end } = bytes.take_header(self.spec.rank_end_column.is_some())?;
        let mut rows = SmallVec::new();
        while !bytes.is_empty() {
            rows.push(self.read_row(&mut bytes, timed, RankedRow::new)?);
        }
        Ok(RankedRows { rank_end, rows })
    }

    fn heap_bytes(&self, value: &RankedRows) -> usize {
        value.heap_bytes()
    }

    fn expires_at_ms(&self, value: &RankedRows) -> i64 {
        let latest_ms = value.rows.iter().map(|row| row.write_ms).max();
        latest_ms.map_or(NEVER, |latest_ms| self.spec.expires_at_ms(latest_ms))
    }

    fn stored_expiry(&self) -> Option<StoredExpiry> {
        Self::stored_expiry(&self.spec)
    }
}
