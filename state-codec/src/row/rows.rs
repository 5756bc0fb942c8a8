//! The arena that rows are written to.

use super::error::{EncodeError, EncodeErrorKind};

/// Rows of bytes in one arena, which is reused from batch to batch.
///
/// ```
/// # use state_codec::Rows;
/// let mut rows = Rows::new();
/// rows.push(b"first")?;
/// rows.push(b"")?;
/// assert_eq!(rows.iter().collect::<Vec<_>>(), [b"first".as_slice(), b""]);
/// # Ok::<(), state_codec::EncodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rows {
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<usize>,    // of each row, in `bytes`
    pub(super) cursors: Vec<usize>, // scratch of the encoder: where each row's variable part has got to
    pub(super) limit: usize,
}

impl Rows {
    /// An empty arena that takes at most `i32::MAX` bytes.
    pub fn new() -> Self {
        Self::with_limit_bytes(i32::MAX as usize)
    }

    /// An empty arena that takes at most `limit` bytes.
    pub fn with_limit_bytes(limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            ends: Vec::new(),
            cursors: Vec::new(),
            limit,
        }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Row `i`.
    ///
    /// # Panics
    ///
    /// If there are not that many.
    pub fn get(&self, i: usize) -> &[u8] {
        let start = i.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[i]]
    }

    /// The rows in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut start = 0;
        self.ends
            .iter()
            .map(move |&end| &self.bytes[std::mem::replace(&mut start, end)..end])
    }

    /// Forgets the rows and keeps the capacity.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Copies `row` to the end.
    ///
    /// # Errors
    ///
    /// [`EncodeErrorKind::TooLarge`] beyond the limit; nothing has changed then.
    pub fn push(&mut self, row: &[u8]) -> Result<(), EncodeError> {
        let needed = self.bytes.len().saturating_add(row.len());
        if needed > self.limit {
            let kind = EncodeErrorKind::TooLarge {
                needed,
                limit: self.limit,
            };
            return Err(EncodeError::new(kind));
        }
        self.bytes.extend_from_slice(row);
        self.ends.push(needed);
        Ok(())
    }

    /// The bytes that the arena has of the allocator: capacity, not length.
    pub fn allocated_bytes(&self) -> usize {
        self.bytes.capacity()
            + (self.ends.capacity() + self.cursors.capacity()) * size_of::<usize>()
    }
}

impl Default for Rows {
    fn default() -> Self {
        Self::new()
    }
}
