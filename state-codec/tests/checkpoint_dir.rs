//! Directories of checkpoints: what is in one at any moment, and what is removed when.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;

use keygroup::GroupCount;
use state_codec::checkpoint::{
    CheckpointDir, CheckpointError, CheckpointKind, FileEntry, Manifest,
};
use tempfile::TempDir;

fn manifest() -> Manifest {
    let group_count = GroupCount::new(128).unwrap();
    Manifest {
        id: 0,
        kind: CheckpointKind::RocksDb,
        fingerprint: "top1".to_owned(),
        group_count,
        groups: group_count.all(),
        watermark_ms: None,
        files: Vec::new(),
        sections: Vec::new(),
    }
}

/// Writes checkpoint `id` of files with these names and contents.
fn save(dir: &CheckpointDir, id: u64, files: &[(&str, &str)]) -> Manifest {
    let mut writer = dir.begin(id).unwrap();
    for (name, content) in files {
        let mut file = writer.create().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        writer.add_created(name, file).unwrap();
    }
    writer.commit(manifest()).unwrap()
}

/// The names and contents of checkpoint `id`, all of them verified.
fn load(dir: &Path, id: u64) -> Vec<(String, String)> {
    let manifest = Manifest::read(dir, id).unwrap();
    let paths = manifest.verify_files(dir).unwrap();
    let content = |(file, path): (FileEntry, _)| (file.name, fs::read_to_string(path).unwrap());
    manifest.files.into_iter().zip(paths).map(content).collect()
}

fn owned(files: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |&(name, content): &(&str, &str)| (name.to_owned(), content.to_owned());
    files.iter().map(owned).collect()
}

/// The contents of all that is in `files`, and the number of entries in `tmp`.
fn kept(dir: &Path) -> (BTreeSet<String>, usize) {
    let content =
        |entry: std::io::Result<fs::DirEntry>| fs::read_to_string(entry.unwrap().path()).unwrap();
    let files = fs::read_dir(dir.join("files")).unwrap().map(content);
    (
        files.collect(),
        fs::read_dir(dir.join("tmp")).unwrap().count(),
    )
}

fn contents(contents: &[&str]) -> BTreeSet<String> {
    contents.iter().map(|&content| content.to_owned()).collect()
}

fn open() -> (TempDir, CheckpointDir) {
    let parent = TempDir::new().unwrap();
    let dir = CheckpointDir::open(parent.path().join("checkpoints")).unwrap();
    (parent, dir)
}

#[test]
fn a_checkpoint_is_there_once_it_is_committed() {
    let (_parent, dir) = open();
    let mut writer = dir.begin(3).unwrap();
    let mut file = writer.create().unwrap();
    file.write_all(b"rows").unwrap();
    writer.add_created("a.sst", file).unwrap();
    assert!(dir.ids().unwrap().is_empty());
    assert!(matches!(
        dir.manifest(3),
        Err(CheckpointError::MissingManifest { id: 3, .. })
    ));

    let written = writer.commit(manifest()).unwrap();
    assert_eq!((written.id, written.files.len()), (3, 1));
    assert_eq!(dir.manifest(3).unwrap(), written);
    assert_eq!(load(dir.path(), 3), owned(&[("a.sst", "rows")]));
    assert_eq!(kept(dir.path()), (contents(&["rows"]), 0));
    save(&dir, 12, &[]);
    save(&dir, 1, &[]);
    assert_eq!(dir.ids().unwrap(), [1, 3, 12]);
}

#[test]
fn one_writer_at_a_time_has_the_directory() {
    let (_parent, dir) = open();
    let second = CheckpointDir::open(dir.path());
    assert!(matches!(second, Err(CheckpointError::Busy { .. })));
    let path = dir.path().to_owned();
    drop(dir);
    CheckpointDir::open(path).unwrap();
}

#[test]
fn a_file_is_linked_once_and_only_named_after() {
    let (parent, dir) = open();
    let source = parent.path().join("000001.sst");
    fs::write(&source, "sorted").unwrap();
    let mut writer = dir.begin(1).unwrap();
    let entry = writer.add_file("000001.sst", &source).unwrap();
    writer.commit(manifest()).unwrap();
    let links = || link_count(&entry.path_in(dir.path()));
    assert_eq!(links(), 2);

    // The store has it under another number after a restore, and no longer where it was.
    let renamed = parent.path().join("000009.sst");
    fs::rename(&source, &renamed).unwrap();
    let mut writer = dir.begin(2).unwrap();
    let again = writer.add_file("000009.sst", &renamed).unwrap();
    assert_eq!(again.sha256, entry.sha256);
    writer.commit(manifest()).unwrap();
    assert_eq!(links(), 2);

    let mut writer = dir.begin(3).unwrap();
    assert!(writer.add_known(&entry).unwrap());
    writer.commit(manifest()).unwrap();
    assert_eq!(load(dir.path(), 3), owned(&[("000001.sst", "sorted")]));
    assert_eq!(kept(dir.path()), (contents(&["sorted"]), 0));
}

#[cfg(unix)]
fn link_count(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).unwrap().nlink()
}

#[cfg(unix)]
#[test]
fn what_cannot_be_linked_is_copied() {
    let (parent, dir) = open();
    let target = parent.path().join("target");
    let source = parent.path().join("link");
    fs::write(&target, "content").unwrap();
    std::os::unix::fs::symlink(&target, &source).unwrap();
    let mut writer = dir.begin(1).unwrap();
    let entry = writer.add_file("a", &source).unwrap();
    writer.commit(manifest()).unwrap();
    fs::write(&target, "changed").unwrap();
    assert_eq!(load(dir.path(), 1), owned(&[("a", "content")]));
    assert_eq!(link_count(&entry.path_in(dir.path())), 1);
}

#[test]
fn a_file_of_the_same_name_and_length_but_other_content_is_another() {
    let (_parent, dir) = open();
    save(&dir, 9, &[("000010.sst", "ancestor")]);
    save(&dir, 10, &[("000010.sst", "original")]);
    let retried = save(&dir, 10, &[("000010.sst", "rollback")]);
    assert_eq!(load(dir.path(), 10), owned(&[("000010.sst", "rollback")]));
    assert_eq!(load(dir.path(), 9), owned(&[("000010.sst", "ancestor")]));
    assert_eq!(dir.manifest(10).unwrap(), retried);
    // The file that the replaced checkpoint alone named has gone with it.
    assert_eq!(kept(dir.path()), (contents(&["ancestor", "rollback"]), 0));
}

#[test]
fn a_shared_file_stays_as_long_as_one_checkpoint_needs_it() {
    let (_parent, dir) = open();
    let first = save(&dir, 1, &[("a", "shared"), ("b", "only in 1")]);
    save(&dir, 2, &[("c", "shared"), ("d", "only in 2")]);
    dir.discard(1).unwrap();
    assert_eq!(dir.ids().unwrap(), [2]);
    assert_eq!(kept(dir.path()).0, contents(&["shared", "only in 2"]));

    // Broken off in the middle, after it has named what checkpoint 2 needs and what nobody has.
    let mut third = dir.begin(3).unwrap();
    assert!(third.add_known(&first.files[0]).unwrap());
    assert!(!third.add_known(&first.files[1]).unwrap());
    drop(third);
    save(&dir, 4, &[]);
    assert_eq!(
        load(dir.path(), 2),
        owned(&[("c", "shared"), ("d", "only in 2")])
    );
    dir.discard(2).unwrap();
    assert_eq!(kept(dir.path()), (contents(&[]), 0));
    assert!(matches!(
        dir.discard(2),
        Err(CheckpointError::MissingManifest { id: 2, .. })
    ));
}

#[test]
fn a_file_that_a_writer_has_named_stays_when_its_checkpoint_is_discarded() {
    let (_parent, dir) = open();
    let first = save(&dir, 1, &[("a", "shared")]);
    let mut writer = dir.begin(2).unwrap();
    assert!(writer.add_known(&first.files[0]).unwrap());
    dir.discard(1).unwrap();
    // Another success in the meantime removes neither that file nor what the writer has in `tmp`.
    let mut file = writer.create().unwrap();
    file.write_all(b"new").unwrap();
    save(&dir, 3, &[]);
    writer.add_created("b", file).unwrap();
    writer.commit(manifest()).unwrap();
    assert_eq!(load(dir.path(), 2), owned(&[("a", "shared"), ("b", "new")]));
}

#[test]
fn an_unreadable_manifest_keeps_every_file() {
    let (_parent, dir) = open();
    save(&dir, 1, &[("a", "in 1")]);
    save(&dir, 2, &[("b", "in 2")]);
    let path = dir.path().join("00000000000000000002.manifest");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 9]).unwrap();

    assert!(matches!(
        dir.discard(1),
        Err(CheckpointError::Truncated { .. })
    ));
    assert_eq!(dir.ids().unwrap(), [2]);
    save(&dir, 3, &[("c", "in 3")]);
    assert_eq!(kept(dir.path()).0, contents(&["in 1", "in 2", "in 3"]));

    // One of a later version counts as well, and so does one by another name.
    fs::write(&path, "weir-checkpoint 2 whatever\n").unwrap();
    save(&dir, 4, &[]);
    fs::write(&path, &whole).unwrap();
    let odd = dir.path().join("2.manifest");
    fs::rename(&path, &odd).unwrap();
    save(&dir, 5, &[]);
    assert_eq!(kept(dir.path()).0, contents(&["in 1", "in 2", "in 3"]));

    fs::rename(&odd, &path).unwrap();
    save(&dir, 6, &[]);
    assert_eq!(load(dir.path(), 2), owned(&[("b", "in 2")]));
    assert_eq!(kept(dir.path()).0, contents(&["in 2", "in 3"]));
}

#[test]
fn a_damaged_checkpoint_can_be_discarded() {
    let (_parent, dir) = open();
    save(&dir, 1, &[("a", "in 1")]);
    save(&dir, 2, &[("b", "in 2")]);
    fs::write(dir.path().join("00000000000000000001.manifest"), "?").unwrap();
    dir.discard(1).unwrap();
    assert_eq!(kept(dir.path()).0, contents(&["in 2"]));
}

#[test]
fn what_a_killed_process_left_is_never_listed_and_goes() {
    let (_parent, dir) = open();
    save(&dir, 1, &[("a", "in 1")]);
    let path = dir.path().to_owned();
    let leave = || {
        let tmp = path.join("tmp/0");
        fs::create_dir_all(&tmp).unwrap();
        fs::write(tmp.join("1"), "half a file").unwrap();
        fs::write(tmp.join("manifest"), "half a manif").unwrap();
        fs::write(path.join("tmp/stray"), "").unwrap();
        fs::write(path.join("files").join("ab".repeat(32)), "unnamed").unwrap();
    };
    leave();
    assert_eq!(dir.ids().unwrap(), [1]);
    // The first name in `tmp` is taken.
    save(&dir, 2, &[]);
    assert_eq!(kept(&path), (contents(&["in 1"]), 0));

    leave();
    drop(dir);
    let dir = CheckpointDir::open(&path).unwrap();
    assert_eq!(kept(&path), (contents(&["in 1"]), 0));
    assert_eq!(dir.ids().unwrap(), [1, 2]);
}

#[test]
fn names_that_a_store_could_not_put_in_its_directory_are_refused() {
    let (parent, dir) = open();
    let source = parent.path().join("source");
    fs::write(&source, "content").unwrap();
    let mut writer = dir.begin(1).unwrap();
    writer.add_file("taken", &source).unwrap();
    for name in ["", ".", "..", "../up", "a/b", "a\\b", "c:", "taken"] {
        let refused = writer.add_file(name, &source);
        assert!(
            matches!(refused, Err(CheckpointError::FileName { .. })),
            "{name}"
        );
    }
    let written = writer.commit(manifest()).unwrap();
    assert_eq!(written.files.len(), 1);
    let missing = dir.begin(2).unwrap().add_file("a", Path::new("/missing"));
    let Err(CheckpointError::Io { operation, .. }) = missing else {
        panic!("{missing:?}");
    };
    assert_eq!(operation, "open");
}

#[test]
fn a_file_that_is_not_as_the_manifest_says_is_told_apart() {
    let (_parent, dir) = open();
    let saved = save(&dir, 1, &[("a", "content")]);
    let path = saved.files[0].path_in(dir.path());
    let verify = |content: Option<&str>| {
        match content {
            Some(content) => fs::write(&path, content).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        match saved.verify_files(dir.path()).unwrap_err() {
            CheckpointError::Truncated { missing, .. } => format!("{missing} missing"),
            CheckpointError::Length { found, .. } => format!("{found} found"),
            CheckpointError::Checksum { section: None, .. } => "checksum".to_owned(),
            CheckpointError::MissingFile { name, .. } => format!("no {name}"),
            other => panic!("{other}"),
        }
    };
    assert_eq!(verify(Some("conte")), "2 missing");
    assert_eq!(verify(Some("contents")), "8 found");
    assert_eq!(verify(Some("c0ntent")), "checksum");
    assert_eq!(verify(None), "no a");
    // Adding the content again puts the file back for both.
    save(&dir, 2, &[("b", "content")]);
    saved.verify_files(dir.path()).unwrap();
    // Also where there is one of a wrong length in its place.
    fs::write(&path, "cont").unwrap();
    save(&dir, 3, &[("b", "content")]);
    saved.verify_files(dir.path()).unwrap();
}

#[test]
fn writers_of_several_threads_do_not_disturb_each_other() {
    let (_parent, dir) = open();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let dir = &dir;
            scope.spawn(move || {
                for round in 0..8 {
                    let id = thread * 100 + round;
                    let own = format!("{thread} {round}");
                    save(dir, id, &[("shared", "shared"), ("own", &own)]);
                    if round > 0 {
                        dir.discard(id - 1).unwrap();
                    }
                    load(dir.path(), id);
                }
            });
        }
    });
    assert_eq!(dir.ids().unwrap(), [7, 107, 207, 307]);
    let expected = contents(&["shared", "0 7", "1 7", "2 7", "3 7"]);
    save(&dir, 500, &[("shared", "shared")]);
    assert_eq!(kept(dir.path()), (expected, 0));
}
