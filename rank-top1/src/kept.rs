//! The rows that lead in a bundle, as bytes: what a bundle retains of its input.

use state_codec::Rows;

/// Bytes of rows that have lost since and are not worth a compaction.
const STALE_BYTES_TOLERATED: usize = 64 << 10;

/// Bytes of buffers that stay allocated between bundles.
const IDLE_BYTES: usize = 1 << 20;

/// Rows with the rests of their sort keys, by number. Grows at its end only; what has lost is dropped
/// when it outweighs what has not.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The caller encodes into these, then calls [`push_rest`](Self::push_rest) for each.
    pub(crate) rows: Rows,
    rests: Vec<u8>,
    /// Where each rest ends.
    rest_ends: Vec<usize>,
    bytes: usize,
    stale_bytes: usize,
}

impl Kept {
    /// How many rows have their rest.
    pub(crate) fn len(&self) -> usize {
        self.rest_ends.len()
    }

    pub(crate) fn push_rest(&mut self, rest: &[u8]) {
        let number = self.len();
        self.rests.extend_from_slice(rest);
        self.rest_ends.push(self.rests.len());
        self.bytes += self.bytes_of(number);
    }

    pub(crate) fn row(&self, number: u32) -> &[u8] {
        self.rows.get(number as usize)
    }

    pub(crate) fn rest(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = if number == 0 {
            0
        } else {
            self.rest_ends[number - 1]
        };
        &self.rests[start..self.rest_ends[number]]
    }

    /// Says that a row has lost.
    pub(crate) fn lose(&mut self, number: u32) {
        self.stale_bytes += self.bytes_of(number as usize);
    }

    fn bytes_of(&self, number: usize) -> usize {
        self.row(number as u32).len() + self.rest(number as u32).len()
    }

    /// Drops what has lost, if that is most of what is kept. `leading` are the numbers of the others,
    /// which are put in their place.
    pub(crate) fn compact<'a>(&mut self, leading: impl Iterator<Item = &'a mut u32>) {
        let live_bytes = self.bytes - self.stale_bytes;
        if self.stale_bytes <= live_bytes + STALE_BYTES_TOLERATED {
            return;
        }
        let mut compact = Self::default();
        for number in leading {
            let copied = compact.rows.push(self.row(*number));
            copied.expect("a part of an arena is no larger than the arena");
            compact.push_rest(self.rest(*number));
            *number = compact.len() as u32 - 1;
        }
        *self = compact;
    }

    /// Forgets the rows; large buffers are given back.
    pub(crate) fn clear(&mut self) {
        if self.allocated_bytes() > IDLE_BYTES {
            *self = Self::default();
            return;
        }
        self.rows.clear();
        self.rests.clear();
        self.rest_ends.clear();
        self.bytes = 0;
        self.stale_bytes = 0;
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.rows.allocated_bytes()
            + self.rests.capacity()
            + self.rest_ends.capacity() * size_of::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_lost_is_dropped_once_it_is_most() {
        let mut kept = Kept::default();
        let mut leading = [0, 1];
        for row in 0..100_u8 {
            kept.rows.push(&[row; 1000]).unwrap();
            kept.push_rest(&[row; 10]);
            if row > 1 {
                kept.lose(std::mem::replace(&mut leading[1], kept.len() as u32 - 1));
                kept.compact(leading.iter_mut());
            }
            assert!(kept.len() <= 3 + STALE_BYTES_TOLERATED / 1010 + 2);
        }
        assert_eq!(kept.row(leading[0]), [0; 1000]);
        assert_eq!(kept.row(leading[1]), [99; 1000]);
        assert_eq!(kept.rest(leading[1]), [99; 10]);
    }
}
