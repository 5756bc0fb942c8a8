//! What makes ranges a partition of the groups, held over every parallelism.

use keygroup::{
    GroupCount, Parallelism, RangeError, RescalePlan, TooManySubtasks, range_of, subtask_of,
};

#[test]
fn ranges_adjoin_and_hold_every_group_once() {
    for groups in (1..=256).chain([1_000, 1_023, 1_024]).map(count) {
        for parallelism in parallelisms(groups) {
            holds_every_group_once(groups, parallelism);
        }
    }
    for parallelism in parallelisms(GroupCount::MAX).step_by(251) {
        holds_every_group_once(GroupCount::MAX, parallelism);
    }
    holds_every_group_once(GroupCount::MAX, subtasks(32_768));
}

#[test]
fn ranges_and_subtasks_are_inverse() {
    for groups in (1..=150).map(count) {
        for parallelism in parallelisms(groups) {
            for subtask in 0..parallelism.get() {
                for group in range_of(subtask, groups, parallelism).unwrap().iter() {
                    assert_eq!(subtask_of(group, groups, parallelism), subtask);
                }
            }
        }
    }
}

#[test]
fn range_lengths_differ_by_at_most_one() {
    for groups in [1, 127, 128, 1_000, 32_768].map(count) {
        for parallelism in parallelisms(groups).step_by(7) {
            let lengths = (0..parallelism.get())
                .map(|subtask| range_of(subtask, groups, parallelism).unwrap().len());
            let (least, most) = (lengths.clone().min().unwrap(), lengths.max().unwrap());
            assert!(most - least <= 1, "{groups:?} {parallelism:?}");
        }
    }
}

#[test]
fn a_plan_moves_every_group_once() {
    for groups in (1..=40).chain([128]).map(count) {
        for old in parallelisms(groups) {
            for new in parallelisms(groups) {
                moves_every_group_once(RescalePlan::new(groups, old, new).unwrap(), old, new);
            }
        }
    }
    for (old, new) in [
        (1, 32_768),
        (32_768, 1),
        (32_767, 32_768),
        (7, 64),
        (1_000, 999),
    ] {
        let (old, new) = (subtasks(old), subtasks(new));
        moves_every_group_once(
            RescalePlan::new(GroupCount::MAX, old, new).unwrap(),
            old,
            new,
        );
    }
}

#[test]
fn moves_to_a_subtask_are_its_part_of_the_plan() {
    let groups = count(128);
    for old in parallelisms(groups) {
        for new in parallelisms(groups) {
            let plan = RescalePlan::new(groups, old, new).unwrap();
            let parts = (0..new.get()).flat_map(|subtask| plan.moves_to(subtask).unwrap());
            assert!(plan.iter().eq(parts), "{old:?} to {new:?}");
        }
    }
}

#[test]
fn a_plan_to_the_same_parallelism_keeps_every_owner() {
    let (groups, five) = (count(128), subtasks(5));
    let plan = RescalePlan::new(groups, five, five).unwrap();
    let kept: Vec<_> = plan.iter().map(|step| (step.from, step.to)).collect();
    assert_eq!(kept, [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]);
}

#[test]
fn more_subtasks_than_groups_are_refused() {
    let (groups, parallelism) = (count(128), subtasks(129));
    let refused = TooManySubtasks {
        parallelism,
        groups,
    };
    assert_eq!(
        range_of(0, groups, parallelism),
        Err(RangeError::TooManySubtasks(refused))
    );
    for (old, new) in [(subtasks(1), parallelism), (parallelism, subtasks(1))] {
        assert_eq!(RescalePlan::new(groups, old, new), Err(refused));
    }
    assert_eq!(
        refused.to_string(),
        "parallelism 129 exceeds max parallelism 128"
    );
}

#[test]
fn a_subtask_beyond_the_parallelism_is_refused() {
    let (groups, parallelism) = (count(128), subtasks(4));
    for subtask in [4, u32::MAX] {
        let refused = RangeError::NoSuchSubtask {
            subtask,
            parallelism,
        };
        assert_eq!(range_of(subtask, groups, parallelism), Err(refused));
        let plan = RescalePlan::new(groups, subtasks(1), parallelism).unwrap();
        assert_eq!(plan.moves_to(subtask).err(), Some(refused));
    }
}

#[test]
fn parallelisms_outside_the_limits_are_refused() {
    for given in [0, 32_769, 40_000, u32::MAX] {
        assert_eq!(
            Parallelism::new(given).unwrap_err().to_string(),
            format!("parallelism {given} is not within 1 to 32768")
        );
    }
}

fn holds_every_group_once(groups: GroupCount, parallelism: Parallelism) {
    let mut next = 0;
    for subtask in 0..parallelism.get() {
        let range = range_of(subtask, groups, parallelism).unwrap();
        assert_eq!(u32::from(range.start().get()), next);
        assert_eq!(subtask_of(range.start(), groups, parallelism), subtask);
        assert_eq!(subtask_of(range.end(), groups, parallelism), subtask);
        next = u32::from(range.end().get()) + 1;
    }
    assert_eq!(next, groups.get(), "{parallelism:?}");
}

fn moves_every_group_once(plan: RescalePlan, old: Parallelism, new: Parallelism) {
    let (mut next, mut moves) = (0, 0);
    let mut last = None;
    let groups = plan.groups();
    for step in plan.iter() {
        assert_eq!(u32::from(step.groups.start().get()), next);
        for group in [step.groups.start(), step.groups.end()] {
            assert_eq!(subtask_of(group, groups, old), step.from);
            assert_eq!(subtask_of(group, groups, new), step.to);
        }
        assert_ne!(last, Some((step.from, step.to)), "one move per pair");
        last = Some((step.from, step.to));
        next = u32::from(step.groups.end().get()) + 1;
        moves += 1;
    }
    assert_eq!(next, groups.get(), "{old:?} to {new:?}");
    assert!(moves < old.get() + new.get(), "{old:?} to {new:?}");
}

fn count(groups: u32) -> GroupCount {
    GroupCount::new(groups).unwrap()
}

fn subtasks(parallelism: u32) -> Parallelism {
    Parallelism::new(parallelism).unwrap()
}

/// Every parallelism that `groups` allows.
fn parallelisms(groups: GroupCount) -> impl Iterator<Item = Parallelism> {
    (1..=groups.get()).map(subtasks)
}
