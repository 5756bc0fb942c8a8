//! A job that is killed while it saves its state, again and again: what the last complete checkpoint has is
//! exact, and what the others left is gone after the next one.

#![cfg(unix)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Draw, batch, spec};
use keygroup::GroupCount;
use rank_top1::Ranker;
use state_codec::StateBackend;
use state_codec::checkpoint::{
    CheckpointDir, CheckpointKind, CheckpointRef, Manifest, SectionEntry,
};
use state_mem::MemBackend;
use state_rocks::{RocksBackend, RocksOptions};

const KILLS: u64 = 110;
/// How many of them, at least, are to interrupt a checkpoint.
const KILLS_BETWEEN: u64 = 10;
/// Tells the child where to work, and how often it was started.
const DIR: &str = "WEIR_TEST_CRASH_DIR";
const RUN: &str = "WEIR_TEST_CRASH_RUN";
/// How many checkpoints the job retains.
const RETAINED: u64 = 3;

fn groups() -> GroupCount {
    GroupCount::new(16).unwrap()
}

fn rocks(root: &Path, run: u64) -> RocksBackend {
    let options = RocksOptions {
        write_buffer_bytes: 64 << 10,
        block_cache_bytes: 1 << 20,
        ..RocksOptions::default()
    };
    RocksBackend::new(root.join(format!("stores-{run}")), groups()).with_options(options)
}

/// The rows of batch `number`: half of them improve what came before.
fn push<B: StateBackend>(ranker: &mut Ranker<B>, number: u64) {
    let row = |i: u64| {
        let key = (number * 7 + i * 13) % 400;
        let sort = 1_000_000 - (number * 31 + i * 17) % 5000;
        format!("key-{key} {sort} payload-{number}-{i}")
    };
    let rows: Vec<String> = (0..60).map(row).collect();
    ranker.push(&batch(&rows.join("; "))).unwrap();
}

fn last(saved: &Path) -> Option<CheckpointRef> {
    let id = *Manifest::ids(saved).unwrap().last()?;
    let dir = saved.to_owned();
    Some(CheckpointRef { dir, id })
}

/// The job: from the last checkpoint on, a checkpoint after each batch, of both kinds in turn, until it is
/// killed.
#[test]
#[ignore = "is run by every_restore_after_a_kill_is_exact"]
fn the_job() {
    let root = PathBuf::from(std::env::var_os(DIR).unwrap());
    let run: u64 = std::env::var(RUN).unwrap().parse().unwrap();
    let saved = root.join("saved");
    let backend = rocks(&root, run);
    let from = last(&saved);
    let mut id = from.as_ref().map_or(0, |from| from.id);
    let mut ranker = restored(&backend, from);
    let dir = CheckpointDir::open(&saved).unwrap();
    loop {
        id += 1;
        push(&mut ranker, id);
        let all = groups().all();
        if id.is_multiple_of(2) {
            ranker.checkpoint(&backend, &dir, id, all).unwrap();
        } else {
            ranker.freeze().unwrap().write(&dir, id, all).unwrap();
        }
        if id > RETAINED {
            dir.discard(id - RETAINED).unwrap();
        }
    }
}

fn restored(backend: &RocksBackend, from: Option<CheckpointRef>) -> Ranker<RocksBackend> {
    let (spec, all) = (spec().build().unwrap(), groups().all());
    let Some(from) = from else {
        return Ranker::open(spec, backend, "job").unwrap();
    };
    let kind = Manifest::read(&from.dir, from.id).unwrap().kind;
    let parts = [from];
    match kind {
        CheckpointKind::RocksDb => Ranker::restore_native(spec, backend, "job", &parts, all),
        _ => Ranker::restore(spec, backend, "job", &parts, all),
    }
    .unwrap()
}

/// What a state is as a table: groups, rows, and checksums of the rows.
fn table<B: StateBackend>(ranker: &mut Ranker<B>, dir: &CheckpointDir) -> Vec<SectionEntry> {
    let mut view = ranker.freeze().unwrap();
    view.write(dir, 1, groups().all()).unwrap().sections
}

fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn every_restore_after_a_kill_is_exact() {
    let root = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let saved = root.path().join("saved");
    let probe = CheckpointDir::open(root.path().join("probe")).unwrap();
    drop(CheckpointDir::open(&saved).unwrap());
    // The same batches through a ranker that nothing happens to.
    let memory = MemBackend::new(groups());
    let mut model = Ranker::open(spec().build().unwrap(), &memory, "model").unwrap();
    let mut modelled = 0;
    let mut kills_between = 0;
    let draw = &mut Draw(1);
    let mut run = 0;
    // On a busy machine few of them meet a checkpoint: then there are more.
    while run < KILLS || kills_between <= KILLS_BETWEEN && run < 10 * KILLS {
        run += 1;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "the_job", "--nocapture"])
            .env(DIR, root.path())
            .env(RUN, run.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // From before the store is open to some checkpoints later.
        let micros = 10_000 + draw.below(120_000) as u64;
        std::thread::sleep(Duration::from_micros(micros));
        child.kill().unwrap(); // SIGKILL
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code().is_none(),
            "run {run} ended on its own: {said}"
        );

        let Some(from) = last(&saved) else { continue };
        assert!(from.id >= modelled, "a complete checkpoint is not lost");
        kills_between += u64::from(!names(&saved.join("tmp")).is_empty());
        while modelled < from.id {
            modelled += 1;
            push(&mut model, modelled);
        }
        let backend = rocks(root.path(), KILLS + run);
        let mut ranker = restored(&backend, Some(from));
        assert_eq!(
            table(&mut ranker, &probe),
            table(&mut model, &probe),
            "run {run}"
        );
        drop(ranker);
        for stores in [run, KILLS + run] {
            let _ = fs::remove_dir_all(root.path().join(format!("stores-{stores}")));
        }
    }
    assert!(modelled > 100, "{modelled} checkpoints");
    assert!(
        kills_between > KILLS_BETWEEN,
        "{kills_between} kills within a checkpoint"
    );

    // One more success removes all that the kills have left.
    let dir = CheckpointDir::open(&saved).unwrap();
    let mut view = model.freeze().unwrap();
    view.write(&dir, modelled + 1, groups().all()).unwrap();
    assert_eq!(names(&saved.join("tmp")), [""; 0]);
    let mut named: Vec<String> = Vec::new();
    for id in dir.ids().unwrap() {
        let files = dir.manifest(id).unwrap().files;
        let paths = files.iter().map(|file| file.path_in(&saved));
        named.extend(paths.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()));
    }
    named.sort();
    named.dedup();
    assert_eq!(names(&saved.join("files")), named);
}
