//! Whether checkpoints together are about some key groups.

use keygroup::{GroupRange, KeyGroup};

/// Why checkpoints that are whole, each on its own, do not make a state together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoverError {
    /// Two checkpoints are about the same key groups.
    #[error("two of the checkpoints are about key groups {groups}")]
    Overlap {
        /// The groups that both are about.
        groups: GroupRange,
    },
    /// No checkpoint is about a key group.
    #[error("none of the checkpoints is about key group {}", group.get())]
    Uncovered {
        /// The first such group.
        group: KeyGroup,
    },
}

/// That each of `groups` is of exactly one of the checkpoints that are about `parts`. No checkpoints at all
/// make an empty state.
///
/// ```
/// use keygroup::GroupRange;
/// use state_codec::checkpoint::{CoverError, cover};
///
/// let range = |start, end| GroupRange::new(start, end).expect("they are in order");
/// let halves = [range(0, 63), range(64, 127)];
/// assert_eq!(cover(&halves, range(32, 95)), Ok(()));
/// assert_eq!(
///     cover(&[range(0, 64), range(64, 127)], range(0, 127)),
///     Err(CoverError::Overlap { groups: range(64, 64) }),
/// );
/// assert!(matches!(cover(&halves[..1], range(0, 127)), Err(CoverError::Uncovered { .. })));
/// ```
///
/// # Errors
///
/// [`CoverError`] for the first group that is of two, or of none.
pub fn cover(parts: &[GroupRange], groups: GroupRange) -> Result<(), CoverError> {
    if parts.is_empty() {
        return Ok(());
    }
    let mut parts: Vec<GroupRange> = parts
        .iter()
        .filter_map(|part| part.intersect(groups))
        .collect();
    parts.sort_unstable_by_key(|part| part.start());
    for pair in parts.windows(2) {
        if let Some(groups) = pair[0].intersect(pair[1]) {
            return Err(CoverError::Overlap { groups });
        }
    }
    let covered = |group: KeyGroup| parts.iter().any(|part| part.contains(group));
    match groups.iter().find(|&group| !covered(group)) {
        Some(group) => Err(CoverError::Uncovered { group }),
        None => Ok(()),
    }
}
