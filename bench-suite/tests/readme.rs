//! Whether generated tables are those of the record.

use std::fs;
use std::path::{Path, PathBuf};

use bench_suite::report::data::Trials;
use bench_suite::report::markdown::{document, rates, regenerated};
use bench_suite::report::targets::{judge, targets};

const REMEDY: &str = "it is not what the record gives: run `cargo xtask report --readme`";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn reference() -> Trials {
    let path = repository().join("bench-suite/record/reference.jsonl");
    Trials::read(&path).expect("the record can be read")
}

#[test]
fn the_tables_of_the_readme_are_those_of_the_record() {
    let readme = fs::read_to_string(repository().join("README.md")).expect("readable");
    let generated = regenerated(&readme, &rates(&reference())).expect("it has marks");
    assert!(readme == generated, "README.md: {REMEDY}");
}

#[test]
fn all_tables_of_the_record_are_beside_it() {
    let path = repository().join("bench-suite/record/reference.md");
    let trials = reference();
    let judged = judge(&targets().expect("well formed"), &trials);
    let text = fs::read_to_string(path).expect("readable");
    assert!(text == document(&trials, &judged), "reference.md: {REMEDY}");
}
