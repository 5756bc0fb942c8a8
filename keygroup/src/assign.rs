//! Key → group.

use core::fmt;

use crate::hash::{hash_of, spread};
use crate::range::GroupRange;

/// How many key groups there are: Flink's *max parallelism*, 1 to 32,768. It is fixed for the life of
/// the state, for it decides the group of every key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupCount(u16);

impl GroupCount {
    /// One group, the one that a query without PARTITION BY has.
    pub const ONE: Self = Self(1);

    /// As many groups as there can be: 32,768.
    pub const MAX: Self = Self(1 << 15);

    /// This many groups.
    ///
    /// # Errors
    ///
    /// [`InvalidGroupCount`] outside `1..=32768`.
    ///
    /// ```
    /// use keygroup::GroupCount;
    ///
    /// assert_eq!(GroupCount::new(32_768)?, GroupCount::MAX);
    /// assert_eq!(
    ///     GroupCount::new(40_000).unwrap_err().to_string(),
    ///     "max parallelism 40000 is not within 1 to 32768"
    /// );
    /// # Ok::<(), keygroup::InvalidGroupCount>(())
    /// ```
    pub const fn new(max_parallelism: u32) -> Result<Self, InvalidGroupCount> {
        if max_parallelism >= 1 && max_parallelism <= Self::MAX.get() {
            Ok(Self(max_parallelism as u16))
        } else {
            Err(InvalidGroupCount {
                given: max_parallelism,
            })
        }
    }

    /// The number of groups.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0 as u32
    }

    /// All groups, from the first to the last.
    #[must_use]
    pub const fn all(self) -> GroupRange {
        GroupRange::ordered(0, self.0 - 1)
    }

    /// The group with this number, if there is one.
    ///
    /// ```
    /// use keygroup::GroupCount;
    ///
    /// let groups = GroupCount::new(128)?;
    /// assert_eq!(groups.group(127).map(|group| group.get()), Some(127));
    /// assert_eq!(groups.group(128), None);
    /// # Ok::<(), keygroup::InvalidGroupCount>(())
    /// ```
    #[must_use]
    pub const fn group(self, number: u32) -> Option<KeyGroup> {
        if number < self.get() {
            Some(KeyGroup(number as u16))
        } else {
            None
        }
    }
}

/// A number of key groups that cannot be: "max parallelism 40000 is not within 1 to 32768".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidGroupCount {
    given: u32,
}

impl InvalidGroupCount {
    /// The max parallelism that was asked for.
    #[must_use]
    pub fn given(self) -> u32 {
        self.given
    }
}

impl fmt::Display for InvalidGroupCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "max parallelism {} is not within 1 to {}",
            self.given,
            GroupCount::MAX.get()
        )
    }
}

impl core::error::Error for InvalidGroupCount {}

/// One key group, numbered from 0 and below its [`GroupCount`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyGroup(pub(crate) u16);

impl KeyGroup {
    /// The number of the group.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The number in two bytes, big-endian, so that bytes order as groups do.
    #[must_use]
    pub const fn to_be_bytes(self) -> [u8; 2] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for KeyGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The group that owns a key row: its [hash](hash_of), then [`group_of_hash`].
///
/// Source: `KeyGroupRangeAssignment.assignToKeyGroup` of Flink 2.2.1.
///
/// ```
/// use keygroup::{GroupCount, group_of};
///
/// // One BIGINT column holding 42: eight bytes of header and null bits, eight of value.
/// let key_row = [0, 0, 0, 0, 0, 0, 0, 0, 42, 0, 0, 0, 0, 0, 0, 0];
/// assert_eq!(group_of(&key_row, GroupCount::new(128)?).get(), 69);
/// # Ok::<(), keygroup::InvalidGroupCount>(())
/// ```
#[must_use]
pub fn group_of(key_row: &[u8], groups: GroupCount) -> KeyGroup {
    group_of_hash(hash_of(key_row), groups)
}

/// The group that owns every key with this [hash](hash_of): the hash mixed once more, modulo the
/// number of groups.
///
/// Source: `KeyGroupRangeAssignment.computeKeyGroupForKeyHash` of Flink 2.2.1.
///
/// ```
/// use keygroup::{GroupCount, group_of_hash};
///
/// assert_eq!(group_of_hash(907_821_237, GroupCount::MAX).get(), 24_261);
/// assert_eq!(group_of_hash(907_821_237, GroupCount::ONE).get(), 0);
/// ```
#[must_use]
pub fn group_of_hash(hash: i32, groups: GroupCount) -> KeyGroup {
    KeyGroup((spread(hash) % groups.get()) as u16)
}

#[cfg(test)]
mod tests {
    use super::{GroupCount, InvalidGroupCount};

    #[test]
    fn counts_outside_the_limits_are_refused() {
        for given in [0, 32_769, 40_000, u32::MAX] {
            assert_eq!(GroupCount::new(given), Err(InvalidGroupCount { given }));
        }
        assert_eq!(GroupCount::new(1), Ok(GroupCount::ONE));
        assert_eq!(GroupCount::new(32_768).map(GroupCount::get), Ok(32_768));
    }

    #[test]
    fn all_groups_are_those_below_the_count() {
        for count in [1, 2, 128, 32_768] {
            let groups = GroupCount::new(count).unwrap();
            assert!(
                groups
                    .all()
                    .iter()
                    .map(|group| u32::from(group.get()))
                    .eq(0..count)
            );
            assert_eq!(groups.all().len(), count);
            assert_eq!(groups.group(count - 1), Some(groups.all().end()));
            assert_eq!(groups.group(count), None);
        }
    }
}
