//! The bytes of a database.
//!
//! An entry has the key group in front, so that the groups of one worker are one range of the
//! database, and the value is what the codec makes of it:
//!
//! ```text
//! key    0           2
//!        | key group | key row ...
//!          u16 BE      as in the key batch
//!
//! value  0
//!        | bytes of the codec ...
//! ```
//!
//! One entry more, behind every group, says how the others are to be read. It is the first that a
//! new database gets, so it is on disk as soon as any entry is:
//!
//! ```text
//! key    ff ff 57 45 49 52                 "WEIR" behind a group that cannot be
//!
//! value  0               4         5            7
//!        | 57 45 49 52   | version | key groups |
//!          "WEIR"          u8 = 1    u16 BE
//! ```
//!
//! A database of slices has the slice in front of that, so that a slice is one range of it, and another version
//! in its record:
//!
//! ```text
//! key    0    1              9           11
//!        | 00 | slice        | key group | key row ...
//!               i64 BE, sign   u16 BE
//!               bit flipped
//!
//! record "WEIR", u8 = 2, key groups as above
//! ```
//!
//! RocksDB keeps a checksum of every block of both, which each read verifies.

use keygroup::{GroupCount, GroupRange, KeyGroup, group_of};
use state_codec::DecodeError;

/// Where the layout record is.
pub(crate) const RECORD_KEY: &[u8] = b"\xff\xffWEIR";

/// Behind every key that a database of this crate, or nearly any other, can have.
pub(crate) const END: [u8; 16] = [0xff; 16];

const MAGIC: [u8; 4] = *b"WEIR";
const RECORD_BYTES: usize = 7;

/// Bytes of a database key in front of the key row.
pub(crate) const GROUP_BYTES: usize = 2;

/// What the keys of a database are, by the version in its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Group and key row.
    Keyed = 1,
    /// Slice, group and key row.
    Sliced = 2,
}

/// The layout record of a database whose keys are divided into `groups`.
pub(crate) fn record(layout: Layout, groups: GroupCount) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..4].copy_from_slice(&MAGIC);
    record[4] = layout as u8;
    let count = u16::try_from(groups.get()).expect("there are at most 32,768 groups");
    record[5..].copy_from_slice(&count.to_be_bytes());
    record
}

/// The number of groups in a record of this layout.
pub(crate) fn read_record(layout: Layout, bytes: &[u8]) -> Result<GroupCount, DecodeError> {
    if let Some(missing) = RECORD_BYTES.checked_sub(bytes.len()).filter(|&n| n > 0) {
        return Err(DecodeError::truncated(
            "layout record",
            bytes.len(),
            missing,
        ));
    }
    if bytes[..4] != MAGIC {
        return Err(DecodeError::malformed(
            "layout record",
            0,
            "it begins with WEIR",
        ));
    }
    if bytes[4] != layout as u8 {
        return Err(DecodeError::unknown_version("layout version", 4, bytes[4]));
    }
    if bytes.len() > RECORD_BYTES {
        let reason = "it ends there";
        return Err(DecodeError::malformed(
            "layout record",
            RECORD_BYTES,
            reason,
        ));
    }
    let count = u16::from_be_bytes([bytes[5], bytes[6]]);
    GroupCount::new(count.into())
        .map_err(|_| DecodeError::malformed("key groups", 5, "there are 1 to 32768"))
}

/// Appends the database key of the key row that `write_row` appends.
pub(crate) fn write_key(
    groups: GroupCount,
    out: &mut Vec<u8>,
    write_row: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    out.extend_from_slice(&[0; GROUP_BYTES]);
    write_row(out);
    let group = group_of(&out[start + GROUP_BYTES..], groups);
    out[start..start + GROUP_BYTES].copy_from_slice(&group.to_be_bytes());
}

/// The group and key row of a database key; `None` if it has no group of `groups`.
pub(crate) fn split_key(key: &[u8], groups: GroupCount) -> Option<(KeyGroup, &[u8])> {
    let (group, row) = key.split_first_chunk()?;
    let group = groups.group(u16::from_be_bytes(*group).into())?;
    Some((group, row))
}

/// The first key that may be of `range`, and the first behind all of them.
pub(crate) fn bounds(range: GroupRange) -> [[u8; GROUP_BYTES]; 2] {
    // The greatest group is 32,767, so there is always a next one.
    let next = range.end().get() + 1;
    [range.start().to_be_bytes(), next.to_be_bytes()]
}

/// Bytes of a database key of a slice in front of the group, and in front of the key row.
const SLICE_BYTES: usize = 1 + 8;
pub(crate) const SLICE_GROUP_BYTES: usize = SLICE_BYTES + GROUP_BYTES;

/// The first bytes of every key of a slice.
fn slice_prefix(slice: i64) -> [u8; SLICE_BYTES] {
    let mut prefix = [0; SLICE_BYTES];
    let ordered = slice.cast_unsigned() ^ 1 << 63;
    prefix[1..].copy_from_slice(&ordered.to_be_bytes());
    prefix
}

/// Appends the database key of a key row of a slice.
pub(crate) fn write_slice_key(slice: i64, group: KeyGroup, key_row: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&slice_prefix(slice));
    out.extend_from_slice(&group.to_be_bytes());
    out.extend_from_slice(key_row);
}

/// The slice of a database key, and its group and key row; `None` if it has none of these.
pub(crate) fn split_slice_key(key: &[u8], groups: GroupCount) -> Option<(i64, KeyGroup, &[u8])> {
    let ([0, ordered @ ..], rest) = key.split_first_chunk::<SLICE_BYTES>()? else {
        return None;
    };
    let slice = (u64::from_be_bytes(*ordered) ^ 1 << 63).cast_signed();
    let (group, row) = split_key(rest, groups)?;
    Some((slice, group, row))
}

/// The first key that may be of a slice and group, and the first behind the last group of the range.
pub(crate) fn slice_bounds(slice: i64, range: GroupRange) -> [[u8; SLICE_GROUP_BYTES]; 2] {
    bounds(range).map(|group| {
        let mut bound = [0; SLICE_GROUP_BYTES];
        bound[..SLICE_BYTES].copy_from_slice(&slice_prefix(slice));
        bound[SLICE_BYTES..].copy_from_slice(&group);
        bound
    })
}

/// The first key behind all of a slice.
pub(crate) fn behind_slice(slice: i64) -> Vec<u8> {
    match slice.checked_add(1) {
        Some(next) => slice_prefix(next).to_vec(),
        None => vec![1],
    }
}

#[cfg(test)]
mod tests {
    use keygroup::{GroupCount, GroupRange};

    use super::{
        Layout, behind_slice, bounds, read_record, record, slice_bounds, split_key,
        split_slice_key, write_key, write_slice_key,
    };

    fn groups(count: u32) -> GroupCount {
        GroupCount::new(count).unwrap()
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        assert_eq!(record(Layout::Keyed, groups(128)), *b"WEIR\x01\x00\x80");
        for count in [1, 128, 32_768] {
            assert_eq!(
                read_record(Layout::Keyed, &record(Layout::Keyed, groups(count))),
                Ok(groups(count))
            );
        }
    }

    #[test]
    fn a_spoilt_record_is_an_error() {
        let whole = record(Layout::Keyed, groups(128));
        for length in 0..whole.len() {
            assert!(
                read_record(Layout::Keyed, &whole[..length]).is_err(),
                "{length} bytes"
            );
        }
        assert!(read_record(Layout::Keyed, b"WEIR\x01\x00\x80\x00").is_err());
        assert!(read_record(Layout::Keyed, b"REIW\x01\x00\x80").is_err());
        assert!(read_record(Layout::Keyed, b"WEIR\x02\x00\x80").is_err());
        assert!(read_record(Layout::Keyed, b"WEIR\x01\x00\x00").is_err());
        assert!(read_record(Layout::Keyed, b"WEIR\x01\xff\xff").is_err());
    }

    #[test]
    fn a_key_is_its_group_and_its_row() {
        let row = [0, 0, 0, 0, 0, 0, 0, 0, 42, 0, 0, 0, 0, 0, 0, 0];
        let mut key = b"before".to_vec();
        write_key(groups(128), &mut key, |out| out.extend_from_slice(&row));
        assert_eq!(key[..6], *b"before");
        assert_eq!(key[6..8], [0, 69]);
        assert_eq!(key[8..], row);
        let (group, found) = split_key(&key[6..], groups(128)).unwrap();
        assert_eq!((group.get(), found), (69, &row[..]));
        assert_eq!(split_key(&key[6..], groups(69)), None);
        assert_eq!(split_key(&[0], groups(128)), None);
    }

    #[test]
    fn bounds_enclose_a_range() {
        let last = GroupRange::new(32_767, 32_767).unwrap();
        assert_eq!(bounds(last), [[0x7f, 0xff], [0x80, 0]]);
        let some = GroupRange::new(3, 255).unwrap();
        assert_eq!(bounds(some), [[0, 3], [1, 0]]);
    }

    #[test]
    fn slices_are_in_the_order_of_their_numbers() {
        let key = |slice: i64| {
            let mut key = Vec::new();
            write_slice_key(slice, groups(128).group(69).unwrap(), b"row", &mut key);
            key
        };
        let slices = [i64::MIN, -10_000, -1, 0, 1, 10_000, i64::MAX];
        assert!(slices.map(key).is_sorted());
        for slice in slices {
            let (found, group, row) = split_slice_key(&key(slice), groups(128))
                .map(|(slice, group, row)| (slice, group.get(), row.to_vec()))
                .unwrap();
            assert_eq!(
                (found, group, row.as_slice()),
                (slice, 69, b"row".as_slice())
            );
            let all = GroupRange::new(0, 127).unwrap();
            let [start, end] = slice_bounds(slice, all);
            assert!(
                start.as_slice() < key(slice).as_slice() && key(slice).as_slice() < end.as_slice()
            );
            assert!(end.as_slice() < behind_slice(slice).as_slice());
        }
        assert_eq!(split_slice_key(b"\xff\xffWEIR.......", groups(128)), None);
    }
}
