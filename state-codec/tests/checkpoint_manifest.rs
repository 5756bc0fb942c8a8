//! Manifests: their bytes, and what a change of any field is called.

use std::path::Path;

use keygroup::{GroupCount, GroupRange};
use state_codec::checkpoint::{
    CheckpointDir, CheckpointError, CheckpointKind, FileEntry, Manifest, SectionEntry,
};

fn canonical() -> Manifest {
    let group_count = GroupCount::new(128).unwrap();
    let section = |group: u32, offset| SectionEntry {
        group: group_count.group(group).unwrap(),
        rows: 2,
        offset,
        bytes: 64,
        crc32: 0xcafe_f00d,
    };
    Manifest {
        id: 7,
        kind: CheckpointKind::Canonical,
        fingerprint: "top1 \"by\" delay".to_owned(),
        group_count,
        groups: GroupRange::new(0, 63).unwrap(),
        watermark_ms: None,
        files: vec![FileEntry {
            name: "sections".to_owned(),
            bytes: 192,
            sha256: [0xa5; 32],
        }],
        sections: vec![section(3, 0), section(5, 64), section(60, 128)],
    }
}

const JSON: &str = "{\"id\":7,\"kind\":\"canonical\",\"fingerprint\":\"top1 \\\"by\\\" delay\",\
    \"group_count\":128,\"groups\":[0,63],\"files\":[{\"name\":\"sections\",\"bytes\":192,\
    \"sha256\":\"a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5\"}],\
    \"sections\":[{\"group\":3,\"rows\":2,\"offset\":0,\"bytes\":64,\"crc32\":3405705229},\
    {\"group\":5,\"rows\":2,\"offset\":64,\"bytes\":64,\"crc32\":3405705229},\
    {\"group\":60,\"rows\":2,\"offset\":128,\"bytes\":64,\"crc32\":3405705229}]}";

/// A file with this JSON and the header that belongs to it.
fn file(json: &str) -> Vec<u8> {
    let crc32 = crc32fast::hash(json.as_bytes());
    format!("weir-checkpoint 1 {} {crc32:08x}\n{json}", json.len()).into_bytes()
}

fn read(bytes: &[u8]) -> Result<Manifest, CheckpointError> {
    Manifest::from_bytes(bytes, Path::new("M"), 7)
}

fn error(bytes: &[u8]) -> String {
    read(bytes).unwrap_err().to_string()
}

/// What is said of the file in which `from` has become `to`, with the header that belongs to it.
fn mutated(from: &str, to: &str) -> CheckpointError {
    assert!(JSON.contains(from), "{from}");
    read(&file(&JSON.replacen(from, to, 1))).unwrap_err()
}

#[test]
fn the_bytes_of_version_1_stay_readable() {
    assert_eq!(read(&file(JSON)).unwrap(), canonical());
}

#[test]
fn what_is_written_is_what_is_read() {
    let parent = tempfile::tempdir().unwrap();
    let dir = CheckpointDir::open(parent.path()).unwrap();
    let manifest = Manifest {
        kind: CheckpointKind::RocksDb,
        watermark_ms: None,
        files: Vec::new(),
        sections: Vec::new(),
        ..canonical()
    };
    let written = dir.begin(7).unwrap().commit(manifest).unwrap();
    let path = parent.path().join("00000000000000000007.manifest");
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(read(&bytes).unwrap(), written);
    insta::assert_snapshot!(String::from_utf8(bytes).unwrap(), @r#"
    weir-checkpoint 1 118 cc8158fd
    {"id":7,"kind":"rocksdb","fingerprint":"top1 \"by\" delay","group_count":128,"groups":[0,63],"files":[],"sections":[]}
    "#);
}

#[test]
fn a_watermark_stands_between_groups_and_files() {
    for watermark_ms in [-5, 0, i64::MIN, i64::MAX] {
        let text = format!("[0,63],\"watermark\":{watermark_ms},\"files\"");
        let bytes = file(&JSON.replace("[0,63],\"files\"", &text));
        let manifest = Manifest {
            watermark_ms: Some(watermark_ms),
            ..canonical()
        };
        assert_eq!(manifest.to_bytes(), bytes);
        assert_eq!(read(&bytes).unwrap(), manifest);
    }
}

#[test]
fn each_damage_of_the_file_has_its_error() {
    let whole = file(JSON);
    for length in 0..whole.len() {
        let error = read(&whole[..length]).unwrap_err();
        assert!(
            matches!(error, CheckpointError::Truncated { .. }),
            "{length}: {error}"
        );
    }
    let mut longer = whole.clone();
    longer.push(b'\n');
    assert!(matches!(
        read(&longer),
        Err(CheckpointError::Length { found, .. }) if found == longer.len() as u64
    ));
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            assert!(read(&flipped).is_err(), "byte {at}, bit {bit}");
        }
    }
    let header = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let mut changed = whole.clone();
    changed[header + 50] ^= 1;
    assert!(matches!(
        read(&changed),
        Err(CheckpointError::Checksum { section: None, .. })
    ));
    let error = |line: &str| error(format!("{line}\n{JSON}").as_bytes());
    insta::assert_snapshot!(error("weir-checkpoint 2 9 ffffffff and more"), @"M is of version 2, the latest known one is 1");
    insta::assert_snapshot!(error("weir-checkpoint 1 1 00000000"), @"M has 445 bytes, 30 are expected");
    for line in [
        "",
        "#!/bin/sh",
        "weir-checkpoint",
        "weir-checkpoint x 1 00000000",
        "weir-checkpoint 01 1 00000000",
        "weir-checkpoint 1 1",
        "weir-checkpoint 1 +1 00000000",
        "weir-checkpoint 1 1 0",
        "weir-checkpoint 1 1 0000000A",
        "weir-checkpoint 1 1 00000000 ",
        "weir-checkpoint-2 1 1 00000000",
        &"weir-checkpoint 1 1 00000000".repeat(9),
    ] {
        let error = error(line);
        assert!(error.contains("the first line is not"), "{line}: {error}");
    }
}

#[test]
fn each_field_that_contradicts_has_its_error() {
    let text = |from: &str, to: &str| mutated(from, to).to_string();
    let mut told = Vec::new();
    for (from, to) in [
        ("\"id\":7", "\"id\":8"),
        ("\"id\":7,", ""),
        ("canonical", "cannonical"),
        ("canonical", "rocksdb"),
        ("\"group_count\":128", "\"group_count\":63"),
        ("\"group_count\":128", "\"group_count\":0"),
        ("[0,63]", "[63,0]"),
        ("[0,63]", "[0,59]"),
        ("[0,63]", "[0]"),
        ("\"name\":\"sections\"", "\"name\":\"../sections\""),
        ("192", "184"),
        ("192", "200"),
        ("192", "-1"),
        ("a5a5a5", "A5A5A5"),
        ("a5a5a5", "a5a5"),
        ("\"group\":5", "\"group\":3"),
        ("\"group\":5", "\"group\":200"),
        ("\"offset\":64", "\"offset\":56"),
        ("\"offset\":64", "\"offset\":72"),
        ("\"bytes\":64", "\"bytes\":18446744073709551615"),
        (
            "{\"group\":5,\"rows\":2,\"offset\":64,\"bytes\":64,\"crc32\":3405705229},",
            "",
        ),
        ("\"crc32\":", "\"crc\":"),
        ("]}", "]"),
    ] {
        told.push(text(from, to));
    }
    insta::assert_snapshot!(told.join("\n"), @"
    M, byte 31: is the manifest of checkpoint 8
    M, byte 440: the JSON is not that of a manifest: missing field `id` at line 1 column 409
    M is a checkpoint of the unknown kind `cannonical`
    M, byte 0: only a canonical checkpoint has sections
    M, byte 0: the range of groups ends behind the last group
    M, byte 31: max parallelism 0 is not within 1 to 32768
    M, byte 31: 63 to 0 is not a range of groups
    M, section of key group 60, byte 0: the group is not in the range of the checkpoint
    M, byte 122: the JSON is not that of a manifest: invalid length 1, expected an array of length 2 at line 1 column 91
    a file of a checkpoint cannot be called `../sections`: it is not a plain file name
    M, section of key group 60, byte 0: the section ends behind the end of the file
    M: the 8 bytes at 192 of the rows belong to no section
    M, byte 164: the JSON is not that of a manifest: invalid value: integer `-1`, expected u64 at line 1 column 133
    M, byte 31: `A5A5A5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5` is not a SHA-256
    M, byte 31: `a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5` is not a SHA-256
    M, section of key group 3, byte 0: the groups of the sections do not rise
    M, byte 31: there is no key group 200
    M, section of key group 5, byte 0: the section overlaps the one before
    M: the 8 bytes at 64 of the rows belong to no section
    M, section of key group 3, byte 0: the section ends behind the end of the file
    M: the 64 bytes at 64 of the rows belong to no section
    M, byte 303: the JSON is not that of a manifest: unknown field `crc`, expected one of `group`, `rows`, `offset`, `bytes`, `crc32` at line 1 column 272
    M, byte 446: the JSON is not that of a manifest: EOF while parsing an object at line 1 column 415
    ");
    assert!(matches!(
        mutated("canonical", "cannonical"),
        CheckpointError::UnknownKind { found, .. } if found == "cannonical"
    ));
    assert!(matches!(
        mutated("\"offset\":64", "\"offset\":72"),
        CheckpointError::MissingSection { bytes: 8, .. }
    ));
}

#[test]
fn a_reader_says_what_it_wants() {
    let manifest = canonical();
    let groups = manifest.group_count;
    let expect = |kind, fingerprint, groups| {
        let told = manifest.expect(kind, fingerprint, groups);
        told.map_err(|error| error.to_string())
    };
    let (canonical, name) = (CheckpointKind::Canonical, "top1 \"by\" delay");
    assert_eq!(expect(canonical, name, groups), Ok(()));
    insta::assert_snapshot!(expect(CheckpointKind::RocksDb, name, groups).unwrap_err(), @"the checkpoint is a canonical one, wanted is a rocksdb one");
    insta::assert_snapshot!(expect(canonical, "top2", groups).unwrap_err(), @r#"the checkpoint is of state `top1 "by" delay`, wanted is `top2`"#);
    insta::assert_snapshot!(expect(canonical, name, GroupCount::ONE).unwrap_err(), @"the checkpoint has 128 key groups, wanted are 1");
}
