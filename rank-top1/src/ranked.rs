//! The rows of a partition as they are kept and stored.
//!
//! Both rankers store the same bytes under a partition's key:
//!
//! ```text
//! offset  bytes  content
//!      0      1  version of this layout: 1
//!      1      8  rank end, little-endian; only where the rank end is a column of the input
//!      …      4  length of a row in bytes, little-endian ┐ once per kept row,
//!      …      n  the row, in the payload form of BinaryRow ┘ best first
//! ```
//!
//! Sort keys are not stored: they are made again from the row, so that their form may change.

use std::cell::RefCell;
use std::mem::size_of;
use std::sync::Arc;

use smallvec::SmallVec;
use state_codec::{DecodeError, RowLayout, SortKey, SortKeys, SortOrder, StateCodec};

use crate::spec::RankSpec;

const VERSION: u8 = 1;
/// Bytes of a length, of a row or of a sort key's rest.
const LENGTH: usize = size_of::<u32>();

/// How the rows of a specification become bytes and back.
#[derive(Debug)]
pub(crate) struct RowsCodec {
    layout: RowLayout,
    order: SortOrder,
    stores_rank_end: bool,
    /// A sort key at a time, so that decoding allocates nothing for it.
    scratch: RefCell<SortKeys>,
}

impl RowsCodec {
    pub(crate) fn new(spec: &RankSpec) -> Self {
        Self {
            layout: spec.layout.clone(),
            order: spec.order.clone(),
            stores_rank_end: spec.rank_end_column.is_some(),
            scratch: RefCell::default(),
        }
    }

    fn write_header(&self, rank_end: u64, out: &mut Vec<u8>) {
        out.push(VERSION);
        if self.stores_rank_end {
            out.extend_from_slice(&rank_end.to_le_bytes());
        }
    }

    fn write_row(row: &[u8], out: &mut Vec<u8>) {
        let length = u32::try_from(row.len()).expect("a row is at most 2^31 bytes long");
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(row);
    }

    /// The rank end, or 0 where it is not stored.
    fn read_header(&self, bytes: &mut Reader<'_>) -> Result<u64, DecodeError> {
        let [version] = bytes.take_array("version")?;
        if version != VERSION {
            return Err(DecodeError::unknown_version("version", 0, version));
        }
        if !self.stores_rank_end {
            return Ok(0);
        }
        let rank_end = u64::from_le_bytes(bytes.take_array("rank end")?);
        if rank_end == 0 {
            return Err(DecodeError::malformed(
                "rank end",
                1,
                "a rank end is at least 1",
            ));
        }
        Ok(rank_end)
    }

    /// A row and what `make` makes of it and its sort key.
    fn read_row<T>(
        &self,
        bytes: &mut Reader<'_>,
        make: impl FnOnce(&[u8], SortKey<'_>) -> T,
    ) -> Result<T, DecodeError> {
        let length = u32::from_le_bytes(bytes.take_array("row length")?);
        let row = bytes.take("row", length as usize)?;
        let mut keys = self.scratch.borrow_mut();
        keys.clear();
        self.order.encode_row(&self.layout, row, &mut keys)?;
        Ok(make(row, keys.get(0)))
    }
}

/// Reads stored bytes from front to back.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
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
    /// little-endian) follow: both are in one allocation, and most orders have no rest.
    bytes: Box<[u8]>,
}

impl Winner {
    pub(crate) fn new(order: &SortOrder, row: &[u8], key: SortKey<'_>) -> Self {
        let mut bytes = vec![0; Self::bytes_needed(order, row, key)].into_boxed_slice();
        Self::fill(&mut bytes, order, row, key);
        Self {
            prefix: key.prefix,
            bytes,
        }
    }

    /// Puts another row in the place of this one, in the same memory if it has the same size.
    pub(crate) fn replace(&mut self, order: &SortOrder, row: &[u8], key: SortKey<'_>) {
        if self.bytes.len() == Self::bytes_needed(order, row, key) {
            Self::fill(&mut self.bytes, order, row, key);
            self.prefix = key.prefix;
        } else {
            *self = Self::new(order, row, key);
        }
    }

    /// Heap bytes of a winner with this row and key.
    pub(crate) fn bytes_needed(order: &SortOrder, row: &[u8], key: SortKey<'_>) -> usize {
        row.len()
            + if order.prefix_decides() {
                0
            } else {
                key.rest.len() + LENGTH
            }
    }

    fn fill(bytes: &mut [u8], order: &SortOrder, row: &[u8], key: SortKey<'_>) {
        let (into_row, after) = bytes.split_at_mut(row.len());
        into_row.copy_from_slice(row);
        if !order.prefix_decides() {
            let (into_rest, into_length) = after.split_at_mut(key.rest.len());
            into_rest.copy_from_slice(key.rest);
            let length = u32::try_from(key.rest.len()).expect("a sort key is at most 2^32 bytes");
            into_length.copy_from_slice(&length.to_le_bytes());
        }
    }

    #[inline]
    pub(crate) fn prefix(&self) -> u128 {
        self.prefix
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn row(&self, order: &SortOrder) -> &[u8] {
        self.split(order).0
    }

    pub(crate) fn sort_key(&self, order: &SortOrder) -> SortKey<'_> {
        SortKey {
            prefix: self.prefix,
            rest: self.split(order).1,
        }
    }

    fn split(&self, order: &SortOrder) -> (&[u8], &[u8]) {
        if order.prefix_decides() {
            return (&self.bytes, &[]);
        }
        let (before, length) = self
            .bytes
            .split_last_chunk()
            .expect("the rest's length ends it");
        before.split_at(before.len() - u32::from_le_bytes(*length) as usize)
    }
}

impl StateCodec<Winner> for RowsCodec {
    fn encode_into(&self, value: &Winner, out: &mut Vec<u8>) {
        self.write_header(1, out);
        Self::write_row(value.row(&self.order), out);
    }

    fn decode(&self, bytes: &[u8]) -> Result<Winner, DecodeError> {
        let mut bytes = Reader { bytes, at: 0 };
        self.read_header(&mut bytes)?;
        let winner = self.read_row(&mut bytes, |row, key| Winner::new(&self.order, row, key))?;
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
}

/// A kept row of the general ranker. Clones share it, so that a bundle can tell by identity what it
/// changed.
#[derive(Clone, Debug)]
pub(crate) struct RankedRow {
    prefix: u128,
    /// The row and the rest of the sort key, which starts at `row_bytes`.
    bytes: Arc<[u8]>,
    row_bytes: usize,
}

impl RankedRow {
    pub(crate) fn new(row: &[u8], key: SortKey<'_>) -> Self {
        let bytes = row.iter().chain(key.rest).copied().collect();
        Self {
            prefix: key.prefix,
            bytes,
            row_bytes: row.len(),
        }
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
}

/// The rows that a partition of the general ranker keeps, best first.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankedRows {
    /// The last rank that is kept.
    pub(crate) rank_end: u64,
    pub(crate) rows: SmallVec<[RankedRow; 1]>,
}

impl RankedRows {
    pub(crate) fn heap_bytes(&self) -> usize {
        /// Strong and weak count of an `Arc`.
        const COUNTS: usize = 2 * size_of::<usize>();
        let inline = if self.rows.spilled() {
            self.rows.capacity()
        } else {
            0
        };
        let rows: usize = self.rows.iter().map(|row| row.bytes.len() + COUNTS).sum();
        inline * size_of::<RankedRow>() + rows
    }
}

impl StateCodec<RankedRows> for RowsCodec {
    fn encode_into(&self, value: &RankedRows, out: &mut Vec<u8>) {
        self.write_header(value.rank_end, out);
        for row in &value.rows {
            Self::write_row(row.row(), out);
        }
    }

    fn decode(&self, bytes: &[u8]) -> Result<RankedRows, DecodeError> {
        let mut bytes = Reader { bytes, at: 0 };
        let rank_end = self.read_header(&mut bytes)?;
        let mut rows = SmallVec::new();
        while !bytes.is_empty() {
            rows.push(self.read_row(&mut bytes, RankedRow::new)?);
        }
        Ok(RankedRows { rank_end, rows })
    }

    fn heap_bytes(&self, value: &RankedRows) -> usize {
        value.heap_bytes()
    }
}
