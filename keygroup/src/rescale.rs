//! Old subtask → new subtask: who hands which groups to whom when the parallelism changes.

use core::iter::FusedIterator;

use crate::assign::GroupCount;
use crate::range::{
    GroupRange, Parallelism, RangeError, TooManySubtasks, enough_groups, range_of, range_within,
    subtask_of,
};

/// What changes hands when an operator goes from one parallelism to another: a list of [`Move`]s,
/// worked out as it is read.
///
/// ```
/// use keygroup::{GroupCount, Parallelism, RescalePlan};
///
/// let plan = RescalePlan::new(
///     GroupCount::new(128)?,
///     Parallelism::new(2)?,
///     Parallelism::new(3)?,
/// )?;
/// let moves: Vec<String> = plan
///     .iter()
///     .map(|step| format!("{} -> {}: {}", step.from, step.to, step.groups))
///     .collect();
/// assert_eq!(
///     moves,
///     ["0 -> 0: 0..=42", "0 -> 1: 43..=63", "1 -> 1: 64..=85", "1 -> 2: 86..=127"]
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RescalePlan {
    groups: GroupCount,
    old: Parallelism,
    new: Parallelism,
}

impl RescalePlan {
    /// The plan for going from `old` to `new` subtasks. The number of groups stays: it cannot change
    /// without hashing every key again.
    ///
    /// # Errors
    ///
    /// [`TooManySubtasks`] if either parallelism exceeds the number of groups.
    pub fn new(
        groups: GroupCount,
        old: Parallelism,
        new: Parallelism,
    ) -> Result<Self, TooManySubtasks> {
        enough_groups(groups, old)?;
        enough_groups(groups, new)?;
        Ok(Self { groups, old, new })
    }

    /// The number of groups, before and after.
    #[must_use]
    pub fn groups(self) -> GroupCount {
        self.groups
    }

    /// Every move, ascending in groups. Each group is in exactly one move, also where a subtask keeps
    /// its number; there are fewer moves than old and new subtasks together.
    #[must_use]
    pub fn iter(self) -> Moves {
        self.within(self.groups.all())
    }

    /// What a new subtask has to read: the moves to it, ascending in groups.
    ///
    /// # Errors
    ///
    /// [`RangeError`] if there is no such new subtask.
    ///
    /// ```
    /// use keygroup::{GroupCount, Parallelism, RescalePlan};
    ///
    /// let plan = RescalePlan::new(
    ///     GroupCount::new(128)?,
    ///     Parallelism::new(2)?,
    ///     Parallelism::new(3)?,
    /// )?;
    /// let sources: Vec<u32> = plan.moves_to(1)?.map(|step| step.from).collect();
    /// assert_eq!(sources, [0, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn moves_to(self, new_subtask: u32) -> Result<Moves, RangeError> {
        range_of(new_subtask, self.groups, self.new).map(|range| self.within(range))
    }

    fn within(self, range: GroupRange) -> Moves {
        Moves {
            plan: self,
            rest: Some(range),
        }
    }
}

impl IntoIterator for RescalePlan {
    type Item = Move;
    type IntoIter = Moves;

    fn into_iter(self) -> Moves {
        self.iter()
    }
}

/// Groups that one old subtask hands to one new subtask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Move {
    /// The old subtask, counted from 0, that owned the groups.
    pub from: u32,
    /// The new subtask, counted from 0, that owns them now.
    pub to: u32,
    /// The groups, as many as the two have in common.
    pub groups: GroupRange,
}

/// The moves of a [`RescalePlan`], each worked out in constant time.
#[derive(Clone, Debug)]
pub struct Moves {
    plan: RescalePlan,
    rest: Option<GroupRange>,
}

impl Iterator for Moves {
    type Item = Move;

    fn next(&mut self) -> Option<Move> {
        let rest = self.rest?;
        let RescalePlan { groups, old, new } = self.plan;
        let from = subtask_of(rest.start(), groups, old);
        let to = subtask_of(rest.start(), groups, new);
        let end = range_within(from, groups, old)
            .end()
            .min(range_within(to, groups, new).end())
            .min(rest.end());
        self.rest = GroupRange::new(end.get() + 1, rest.end().get());
        Some(Move {
            from,
            to,
            groups: GroupRange::ordered(rest.start().get(), end.get()),
        })
    }
}

impl FusedIterator for Moves {}
