//! The conformance run over whole directories, and what it says of broken recordings.

use std::fs;
use std::path::Path;
use std::process::Command;

use bench_suite::conform::{self, Report, repository_golden};
use tempfile::TempDir;

/// A directory of files with these contents.
fn directory(files: &[(&str, String)]) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, content) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("made");
        fs::write(path, content).expect("written");
    }
    directory
}

fn run(directory: &Path) -> Report {
    conform::run(directory, &mut |_| ()).expect("a directory that can be run")
}

/// The line of a recording in the repository that holds `part`, changed as said.
fn line(file: &str, part: &str, from: &str, to: &str) -> String {
    let text = fs::read_to_string(repository_golden().join(file)).expect("readable");
    let line = text.lines().find(|line| line.contains(part)).expect("a line holds the part");
    assert!(line.contains(from), "{from} is in {line}");
    line.replacen(from, to, 1)
}

#[test]
fn the_repository_s_recordings_pass() {
    insta::assert_snapshot!(run(&repository_golden()).render(false), @"");
}

#[test]
fn a_broken_recording_fails_and_says_where() {
    let (name, change) = ("top1_desc_improve_reject_tie", r#""row":[1,7,"r2"]"#);
    let broken = directory(&[
        ("dedup.jsonl", line("dedup.jsonl", "rowtime_last_basic", "+U", "+I")),
        ("keygroup.jsonl", line("keygroup.jsonl", "[\"BOOLEAN\"]", "1465514398", "1465514399")),
        ("keygroup_ranges.jsonl", line("keygroup_ranges.jsonl", "\"index\"", "\"end\":0", "\"end\":1")),
        ("nested/top1.jsonl", line("top1.jsonl", name, change, r#""row":[1,7,"r3"]"#)),
    ]);
    let report = run(broken.path());
    assert!(report.has_failed());
    insta::assert_snapshot!(report.render(true), @"");
}

#[test]
fn a_changed_row_of_the_flights_fails_over_every_store() {
    let broken = directory(&[("top1-changelog.csv", "+I,N14228,0,12,UA,1545,EWR,IAH\n".to_owned())]);
    insta::assert_snapshot!(run(broken.path()).render(true), @"");
}

#[test]
fn nothing_is_skipped_in_silence() {
    let mixed = directory(&[
        ("README.md", "a page".to_owned()),
        ("calendar.jsonl", r#"{"zone":"UTC","uses_dst":false,"epoch_ms":0,"to_utc_ms":0}"#.to_owned()),
        ("empty.jsonl", "\n".to_owned()),
        ("flights/tumble-1d.csv.gz", String::new()),
        ("more.jsonl", line("keygroup.jsonl", "[\"BOOLEAN\"]", "hash", "hash")),
        ("notes.jsonl", "{\"a\":1}\n{\"a\":\n\n[]".to_owned()),
        ("top1-more.jsonl", r#"{"name":"lacks all but a name"}"#.to_owned()),
        ("top1.jsonl", line("top1.jsonl", "top1_single_row", "\"v\":\"BIGINT\"", "\"v\":\"MAP\"")),
    ]);
    insta::assert_snapshot!(run(mixed.path()).render(true), @"");
}

#[test]
fn a_nan_beyond_the_first_rank_diverges_by_decision() {
    let job = r#"{"name":"nan","columns":["k","v"],"types":{"k":"INT","v":"DOUBLE"},"partition_by":["k"],
        "order_by":[{"col":"v","asc":false,"nulls_first":false}],"rank_range":[1,2],"output_rank":false,
        "update_before":true,"input":[[1,2.0],[1,1.0],[1,"NaN"]],
        "expected":[{"kind":"+I","row":[1,2.0]},{"kind":"+I","row":[1,1.0]}]}"#;
    let job = job.replace('\n', " ");
    let diverging = directory(&[
        ("top1.jsonl", job.clone()),
        // The same difference without a NaN is a failure.
        ("top1_plain.jsonl", job.replace("\"NaN\"", "3.0")),
    ]);
    insta::assert_snapshot!(run(diverging.path()).render(false), @"");
}

/// Exit status, standard output and standard error of the program.
fn conform(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_conform")).args(arguments).output().expect("runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_exit_status_tells_whether_a_case_failed() {
    let good = directory(&[("keygroup.jsonl", line("keygroup.jsonl", "[\"BOOLEAN\"]", "", ""))]);
    let (status, table, _) = conform(&[good.path().to_str().expect("UTF-8")]);
    assert_eq!(status, Some(0), "{table}");

    let broken = line("keygroup.jsonl", "[\"BOOLEAN\"]", "1465514398", "7");
    let broken = directory(&[("keygroup.jsonl", broken)]);
    let (status, table, _) = conform(&[broken.path().to_str().expect("UTF-8"), "--verbose"]);
    assert_eq!(status, Some(1));
    assert!(table.contains("failed: keygroup.jsonl:1"), "{table}");
}

#[test]
fn a_directory_without_recordings_is_an_error() {
    let empty = directory(&[("README.md", "a page".to_owned())]);
    let (status, table, error) = conform(&[empty.path().to_str().expect("UTF-8")]);
    assert_eq!((status, table.as_str()), (Some(1), ""));
    assert!(error.ends_with("holds no recordings\n"), "{error}");
    let (status, _, error) = conform(&["/nonexistent"]);
    assert_eq!(status, Some(1));
    assert!(error.starts_with("error: cannot read /nonexistent: "), "{error}");
}
