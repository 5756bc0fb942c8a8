//! Routing recorded from Apache Flink 2.2.1.

use keygroup::{
    GroupCount, GroupRange, Parallelism, default_max_parallelism, group_of, group_of_hash, hash_of,
    range_of, subtask_of,
};

/// Max parallelisms of [`Routed`]'s groups.
const COUNTS: [u32; 4] = [1, 128, 4_096, 32_768];

/// Max parallelism and parallelism of [`Routed`]'s subtasks.
const JOBS: [(u32, u32); 5] = [(128, 4), (128, 3), (128, 16), (4_096, 3), (32_768, 7)];

/// The bytes of a key row in hex, its hash, its group for each of [`COUNTS`], its subtask for each of
/// [`JOBS`].
type Routed = (&'static str, i32, [u16; 4], [u32; 5]);

#[rustfmt::skip]
const ROUTED: &[Routed] = &[
    // no columns
    ("0000000000000000", -1_670_924_195, [0, 11, 267, 24_843], [0, 0, 1, 0, 5]),
    // BOOLEAN false
    ("00000000000000000000000000000000", -300_363_099, [0, 102, 2_790, 23_270], [3, 2, 12, 2, 4]),
    // TINYINT 127
    ("00000000000000007f00000000000000", 1_260_004_151, [0, 72, 1_992, 6_088], [2, 1, 9, 1, 1]),
    // SMALLINT 32767
    ("0000000000000000ff7f000000000000", 589_084_209, [0, 98, 3_810, 16_098], [3, 2, 12, 2, 3]),
    // INT 65535
    ("0000000000000000ffff000000000000", 2_143_727_727, [0, 75, 587, 8_779], [2, 1, 9, 0, 1]),
    // BIGINT 4294967296
    ("00000000000000000000000001000000", 231_812_234, [0, 67, 579, 29_251], [2, 1, 8, 0, 6]),
    // FLOAT 1.4e-45
    ("00000000000000000100000000000000", 1_465_514_398, [0, 94, 2_910, 11_102], [2, 2, 11, 2, 2]),
    // DOUBLE 2.2250738585072014e-308
    ("00000000000000000000000000001000", -1_574_199_476, [0, 71, 3_911, 28_487], [2, 1, 8, 2, 6]),
    // DATE "1900-03-01"
    ("00000000000000005c9cffff00000000", 1_729_857_396, [0, 26, 794, 17_178], [0, 0, 3, 0, 3]),
    // TIME "23:59:59"
    ("00000000000000001858260500000000", 1_049_622_229, [0, 115, 2_675, 10_867], [3, 2, 14, 1, 2]),
    // TIME(3) "23:59:59.999"
    ("0000000000000000ff5b260500000000", -370_972_758, [0, 77, 1_357, 25_933], [2, 1, 9, 0, 5]),
    // TIMESTAMP(0) null
    ("00010000000000000000000000000000", -1_748_325_344, [0, 99, 3_555, 3_555], [3, 2, 12, 2, 0]),
    // TIMESTAMP(3) "2000-01-01T00:00:00.000"
    ("000000000000000000accf6adc000000", 1_606_031_869, [0, 117, 3_829, 20_213], [3, 2, 14, 2, 4]),
    // TIMESTAMP(6) "2024-02-29T12:34:56.789000"
    ("000000000000000000000000100000009554dcf48d010000", 146_752_637, [0, 79, 3_279, 15_567], [2, 1, 9, 2, 3]),
    // TIMESTAMP(9) "2024-02-29T12:34:56.789000001"
    ("000000000000000001000000100000009554dcf48d010000", -630_170_681, [0, 88, 2_264, 6_360], [2, 2, 11, 1, 1]),
    // TIMESTAMP_LTZ(3) "2024-02-29T12:34:56.789Z"
    ("00000000000000009554dcf48d010000", 383_523_501, [0, 54, 566, 566], [1, 1, 6, 0, 0]),
    // TIMESTAMP_LTZ(6) "2024-02-29T12:34:56.789123Z"
    ("000000000000000078e00100100000009554dcf48d010000", 1_488_566_925, [0, 24, 408, 24_984], [0, 0, 3, 0, 5]),
    // DECIMAL(10,2) "12345678.90"
    ("0000000000000000d202964900000000", 1_183_089_236, [0, 29, 3_485, 11_677], [0, 0, 3, 2, 2]),
    // CHAR(5) "jdiyi", TIMESTAMP(6) "2017-12-30T13:23:50.955821"
    ("00000000000000006a6469796900008508870c00180000002bca97a760010000", 1_685_937_046, [0, 58, 3_898, 16_186], [1, 1, 7, 2, 3]),
    // DATE "1918-05-19", TIMESTAMP(3) "1993-11-12T22:34:53.408", TIMESTAMP(3) "1977-11-24T20:30:41.113", BOOLEAN false, DECIMAL(18,4) "-29003215274329.0710"
    ("000000000000000059b6ffff0000000060c0dc5aaf000000d9298b083a0000000000000000000000aa584b324b99f9fb", 1_992_920_385, [0, 5, 1_797, 9_989], [0, 0, 0, 1, 2]),
    // VARBINARY(64) "31c3fe0c93096efde1dbfe14e498", FLOAT -913.20667, BOOLEAN true
    ("00000000000000000e000000200000003a4d64c400000000010000000000000031c3fe0c93096efde1dbfe14e4980000", 1_259_383_070, [0, 9, 905, 21_385], [0, 0, 1, 0, 4]),
    // SMALLINT null, STRING null, TINYINT null
    ("0007000000000000000000000000000000000000000000000000000000000000", 2_027_902_204, [0, 35, 1_827, 5_923], [1, 0, 4, 1, 1]),
    // FLOAT 571.12396, BOOLEAN false, DECIMAL(10,2) null, FLOAT 404.8466
    ("0004000000000000efc70e4400000000000000000000000000000000000000005d6cca4300000000", 2_065_209_662, [0, 48, 3_376, 11_568], [1, 1, 6, 2, 2]),
];

/// Max parallelism, parallelism, subtask, first group, last group.
#[rustfmt::skip]
const RANGES: &[(u32, u32, u32, u16, u16)] = &[
    (1, 1, 0, 0, 0),
    (7, 7, 0, 0, 0),
    (7, 7, 3, 3, 3),
    (7, 7, 6, 6, 6),
    (10, 4, 0, 0, 2),
    (10, 4, 2, 5, 7),
    (10, 4, 3, 8, 9),
    (10, 7, 0, 0, 1),
    (10, 7, 3, 5, 5),
    (10, 7, 6, 9, 9),
    (127, 5, 0, 0, 25),
    (127, 5, 2, 51, 76),
    (127, 5, 4, 102, 126),
    (128, 3, 0, 0, 42),
    (128, 3, 1, 43, 85),
    (128, 3, 2, 86, 127),
    (128, 100, 0, 0, 1),
    (128, 100, 50, 64, 65),
    (128, 100, 99, 127, 127),
    (128, 127, 0, 0, 1),
    (128, 127, 63, 64, 64),
    (128, 127, 126, 127, 127),
    (1_000, 7, 0, 0, 142),
    (1_000, 7, 3, 429, 571),
    (1_000, 7, 6, 858, 999),
    (4_096, 17, 0, 0, 240),
    (4_096, 17, 8, 1_928, 2_168),
    (4_096, 17, 16, 3_856, 4_095),
    (32_768, 7, 0, 0, 4_681),
    (32_768, 7, 3, 14_044, 18_724),
    (32_768, 7, 6, 28_087, 32_767),
    (32_768, 64, 0, 0, 511),
    (32_768, 64, 32, 16_384, 16_895),
    (32_768, 64, 63, 32_256, 32_767),
];

/// Parallelism and default max parallelism.
const DEFAULTS: &[(u32, u32)] = &[
    (1, 128),
    (85, 128),
    (86, 256),
    (170, 256),
    (171, 256),
    (200, 512),
    (341, 512),
    (342, 1_024),
    (1_000, 2_048),
    (1_365, 2_048),
    (1_366, 4_096),
    (2_000, 4_096),
    (10_922, 16_384),
    (10_923, 16_384),
    (21_845, 32_768),
    (21_846, 32_768),
    (30_000, 32_768),
    (32_768, 32_768),
];

#[test]
fn rows_hash_to_recorded_hashes() {
    for (row, hash, _, _) in ROUTED {
        assert_eq!(hash_of(&unhex(row)), *hash, "{row}");
    }
}

#[test]
fn rows_route_to_recorded_groups_and_subtasks() {
    for (row, hash, groups, subtasks) in ROUTED {
        for (count, expected) in COUNTS.into_iter().zip(groups) {
            let count = GroupCount::new(count).unwrap();
            assert_eq!(group_of(&unhex(row), count).get(), *expected, "{row}");
            assert_eq!(group_of_hash(*hash, count).get(), *expected, "{row}");
        }
        for ((count, parallelism), expected) in JOBS.into_iter().zip(subtasks) {
            let (count, parallelism) = job(count, parallelism);
            let group = group_of(&unhex(row), count);
            assert_eq!(subtask_of(group, count, parallelism), *expected, "{row}");
        }
    }
}

#[test]
fn subtasks_own_recorded_ranges() {
    for &(count, parallelism, subtask, start, end) in RANGES {
        let (count, parallelism) = job(count, parallelism);
        assert_eq!(
            range_of(subtask, count, parallelism).ok(),
            GroupRange::new(start, end),
            "{subtask} of {parallelism:?} over {count:?}"
        );
    }
}

#[test]
fn defaults_are_those_recorded() {
    for &(parallelism, expected) in DEFAULTS {
        let parallelism = Parallelism::new(parallelism).unwrap();
        assert_eq!(
            default_max_parallelism(parallelism).get(),
            expected,
            "{parallelism:?}"
        );
    }
}

fn job(max_parallelism: u32, parallelism: u32) -> (GroupCount, Parallelism) {
    (
        GroupCount::new(max_parallelism).unwrap(),
        Parallelism::new(parallelism).unwrap(),
    )
}

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}
