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
//! RocksDB keeps a checksum of every block of both, which each read verifies.

use keygroup::{GroupCount, GroupRange, KeyGroup, group_of};
use state_codec::DecodeError;

/// Where the layout record is.
pub(crate) const RECORD_KEY: &[u8] = b"\xff\xffWEIR";

/// Behind every key that a database of this crate, or nearly any other, can have.
pub(crate) const END: [u8; 16] = [0xff; 16];

const MAGIC: [u8; 4] = *b"WEIR";
const VERSION: u8 = 1;
const RECORD_BYTES: usize = 7;

/// Bytes of a database key in front of the key row.
pub(crate) const GROUP_BYTES: usize = 2;

/// The layout record of a database whose keys are divided into `groups`.
pub(crate) fn record(groups: GroupCount) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..4].copy_from_slice(&MAGIC);
    record[4] = VERSION;
    let count = u16::try_from(groups.get()).expect("there are at most 32,768 groups");
    record[5..].copy_from_slice(&count.to_be_bytes());
    record
}

/// The number of groups in a layout record.
pub(crate) fn read_record(bytes: &[u8]) -> Result<GroupCount, DecodeError> {
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
    if bytes[4] != VERSION {
        return Err(DecodeError::unknown_version("layout version", 4, bytes[4]));
    }
    if bytes.len() > RECORD_BYTES {
        let reason = "version 1 ends there";
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

#[cfg(test)]
mod tests {
    use keygroup::{GroupCount, GroupRange};

    use super::{bounds, read_record, record, split_key, write_key};

    fn groups(count: u32) -> GroupCount {
        GroupCount::new(count).unwrap()
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        assert_eq!(record(groups(128)), *b"WEIR\x01\x00\x80");
        for count in [1, 128, 32_768] {
            assert_eq!(read_record(&record(groups(count))), Ok(groups(count)));
        }
    }

    #[test]
    fn a_spoilt_record_is_an_error() {
        let whole = record(groups(128));
        for length in 0..whole.len() {
            assert!(read_record(&whole[..length]).is_err(), "{length} bytes");
        }
        assert!(read_record(b"WEIR\x01\x00\x80\x00").is_err());
        assert!(read_record(b"REIW\x01\x00\x80").is_err());
        assert!(read_record(b"WEIR\x02\x00\x80").is_err());
        assert!(read_record(b"WEIR\x01\x00\x00").is_err());
        assert!(read_record(b"WEIR\x01\xff\xff").is_err());
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
}
