//! Group ↔ subtask: each subtask of an operator owns one contiguous range of groups.

use core::fmt;

use crate::assign::{GroupCount, KeyGroup};

/// Contiguous key groups, both ends inclusive. There is no empty range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupRange {
    start: u16,
    end: u16,
}

impl GroupRange {
    /// The groups from `start` to `end`, both inclusive; `None` if `start` lies behind `end`, or `end`
    /// is a group that not even [`GroupCount::MAX`] has.
    ///
    /// ```
    /// use keygroup::GroupRange;
    ///
    /// let range = GroupRange::new(43, 85).unwrap();
    /// assert_eq!(range.len(), 43);
    /// assert_eq!(GroupRange::new(85, 43), None);
    /// assert_eq!(GroupRange::new(0, 32_768), None);
    /// ```
    #[must_use]
    pub const fn new(start: u16, end: u16) -> Option<Self> {
        if start <= end && (end as u32) < GroupCount::MAX.get() {
            Some(Self { start, end })
        } else {
            None
        }
    }

    pub(crate) const fn ordered(start: u16, end: u16) -> Self {
        debug_assert!(start <= end, "a range holds at least one group");
        Self { start, end }
    }

    /// The first group.
    #[must_use]
    pub const fn start(self) -> KeyGroup {
        KeyGroup(self.start)
    }

    /// The last group.
    #[must_use]
    pub const fn end(self) -> KeyGroup {
        KeyGroup(self.end)
    }

    /// How many groups the range holds, at least 1.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a range holds at least one group"
    )]
    pub const fn len(self) -> u32 {
        (self.end - self.start) as u32 + 1
    }

    /// Whether `group` is one of the range.
    #[must_use]
    pub const fn contains(self, group: KeyGroup) -> bool {
        self.start <= group.0 && group.0 <= self.end
    }

    /// The groups that both ranges hold, if there are any.
    ///
    /// ```
    /// use keygroup::GroupRange;
    ///
    /// let low = GroupRange::new(0, 63).unwrap();
    /// let middle = GroupRange::new(43, 85).unwrap();
    /// assert_eq!(low.intersect(middle), GroupRange::new(43, 63));
    /// assert_eq!(low.intersect(GroupRange::new(64, 127).unwrap()), None);
    /// ```
    #[must_use]
    pub fn intersect(self, other: Self) -> Option<Self> {
        Self::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// The groups of the range in ascending order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = KeyGroup> + ExactSizeIterator + Clone {
        (self.start..=self.end).map(KeyGroup)
    }
}

impl fmt::Display for GroupRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..={}", self.start, self.end)
    }
}

/// How many subtasks an operator runs as, 1 to 32,768. It may change between two runs, up to the
/// number of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Parallelism(u16);

impl Parallelism {
    /// One subtask, which owns every group.
    pub const ONE: Self = Self(1);

    /// This many subtasks.
    ///
    /// # Errors
    ///
    /// [`InvalidParallelism`] outside `1..=32768`.
    pub const fn new(subtasks: u32) -> Result<Self, InvalidParallelism> {
        if subtasks >= 1 && subtasks <= GroupCount::MAX.get() {
            Ok(Self(subtasks as u16))
        } else {
            Err(InvalidParallelism { given: subtasks })
        }
    }

    /// The number of subtasks.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0 as u32
    }
}

/// A parallelism that cannot be: "parallelism 0 is not within 1 to 32768".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidParallelism {
    given: u32,
}

impl InvalidParallelism {
    /// The parallelism that was asked for.
    #[must_use]
    pub fn given(self) -> u32 {
        self.given
    }
}

impl fmt::Display for InvalidParallelism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "parallelism {} is not within 1 to {}",
            self.given,
            GroupCount::MAX.get()
        )
    }
}

impl core::error::Error for InvalidParallelism {}

/// More subtasks than key groups: "parallelism 129 exceeds max parallelism 128". Some would own
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManySubtasks {
    /// The parallelism that was asked for.
    pub parallelism: Parallelism,
    /// The number of groups that there are.
    pub groups: GroupCount,
}

impl fmt::Display for TooManySubtasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "parallelism {} exceeds max parallelism {}",
            self.parallelism.get(),
            self.groups.get()
        )
    }
}

impl core::error::Error for TooManySubtasks {}

/// Why a subtask has no range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RangeError {
    /// There are more subtasks than groups.
    TooManySubtasks(TooManySubtasks),
    /// There is no such subtask: "subtask 4 is not below parallelism 4".
    NoSuchSubtask {
        /// The subtask that was asked for, counted from 0.
        subtask: u32,
        /// The number of subtasks that there are.
        parallelism: Parallelism,
    },
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManySubtasks(error) => error.fmt(f),
            Self::NoSuchSubtask {
                subtask,
                parallelism,
            } => write!(
                f,
                "subtask {subtask} is not below parallelism {}",
                parallelism.get()
            ),
        }
    }
}

impl core::error::Error for RangeError {}

impl From<TooManySubtasks> for RangeError {
    fn from(error: TooManySubtasks) -> Self {
        Self::TooManySubtasks(error)
    }
}

/// The subtask, counted from 0, that owns `group`: `group * parallelism / groups`, rounded down.
///
/// `group` is one of `groups`; the result is then below `parallelism`.
///
/// Source: `KeyGroupRangeAssignment.computeOperatorIndexForKeyGroup` of Flink 2.2.1.
///
/// ```
/// use keygroup::{GroupCount, Parallelism, subtask_of};
///
/// let groups = GroupCount::new(128)?;
/// let last = groups.all().end();
/// assert_eq!(subtask_of(last, groups, Parallelism::new(3)?), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub const fn subtask_of(group: KeyGroup, groups: GroupCount, parallelism: Parallelism) -> u32 {
    group.0 as u32 * parallelism.get() / groups.get()
}

/// The groups that `subtask`, counted from 0, owns: exactly those that [`subtask_of`] gives to it. The
/// ranges of neighbouring subtasks adjoin, and their lengths differ by at most one.
///
/// Source: `KeyGroupRangeAssignment.computeKeyGroupRangeForOperatorIndex` of Flink 2.2.1.
///
/// # Errors
///
/// [`RangeError`] if there is no such subtask, or there are more subtasks than groups.
///
/// ```
/// use keygroup::{GroupCount, GroupRange, Parallelism, range_of};
///
/// let (groups, three) = (GroupCount::new(128)?, Parallelism::new(3)?);
/// assert_eq!(Some(range_of(1, groups, three)?), GroupRange::new(43, 85));
/// assert_eq!(
///     range_of(3, groups, three).unwrap_err().to_string(),
///     "subtask 3 is not below parallelism 3"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn range_of(
    subtask: u32,
    groups: GroupCount,
    parallelism: Parallelism,
) -> Result<GroupRange, RangeError> {
    enough_groups(groups, parallelism)?;
    if subtask < parallelism.get() {
        Ok(range_within(subtask, groups, parallelism))
    } else {
        Err(RangeError::NoSuchSubtask {
            subtask,
            parallelism,
        })
    }
}

pub(crate) fn enough_groups(
    groups: GroupCount,
    parallelism: Parallelism,
) -> Result<(), TooManySubtasks> {
    if parallelism.get() <= groups.get() {
        Ok(())
    } else {
        Err(TooManySubtasks {
            parallelism,
            groups,
        })
    }
}

/// [`range_of`] for arguments that are known to be good. No product exceeds 2³⁰.
pub(crate) fn range_within(
    subtask: u32,
    groups: GroupCount,
    parallelism: Parallelism,
) -> GroupRange {
    let start = (subtask * groups.get()).div_ceil(parallelism.get());
    let end = ((subtask + 1) * groups.get() - 1) / parallelism.get();
    GroupRange::ordered(start as u16, end as u16)
}

/// The number of groups that Flink takes when the user sets no max parallelism: one and a half times
/// the parallelism, rounded up to a power of two, within 128 to 32,768.
///
/// Source: `KeyGroupRangeAssignment.computeDefaultMaxParallelism` of Flink 2.2.1.
///
/// ```
/// use keygroup::{GroupCount, Parallelism, default_max_parallelism};
///
/// assert_eq!(default_max_parallelism(Parallelism::ONE).get(), 128);
/// assert_eq!(default_max_parallelism(Parallelism::new(200)?).get(), 512);
/// # Ok::<(), keygroup::InvalidParallelism>(())
/// ```
#[must_use]
pub fn default_max_parallelism(parallelism: Parallelism) -> GroupCount {
    let generous = parallelism.get() + parallelism.get() / 2;
    GroupCount::new(generous.next_power_of_two().clamp(128, 1 << 15))
        .expect("the clamp keeps the count within the limits")
}
