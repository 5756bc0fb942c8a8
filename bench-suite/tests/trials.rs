//! The trials program's command line.

use std::process::Command;

/// Exit status and standard error of the program.
fn trials(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_trials"))
        .args(arguments)
        .output()
        .expect("runs");
    assert!(output.stdout.is_empty(), "an error prints no table");
    (
        output.status.code(),
        String::from_utf8(output.stderr).expect("UTF-8"),
    )
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "a release build is not refused")]
fn a_debug_build_is_refused() {
    let (status, error) = trials(&[]);
    assert_eq!(status, Some(1));
    insta::assert_snapshot!(error, @"error: this is a debug build, whose times mean nothing; use `cargo run --release -p bench-suite --bin trials`");
}

#[test]
fn a_misspelt_option_is_answered_with_the_near_one() {
    let (status, error) = trials(&["--suite", "flihgts"]);
    assert_eq!(status, Some(2));
    assert!(error.contains("'flights'"), "{error}");
    let (status, error) = trials(&["--filtre", "memory"]);
    assert_eq!(status, Some(2));
    assert!(error.contains("'--filter'"), "{error}");
}

#[test]
fn an_unknown_filter_is_answered_with_the_near_one() {
    let (status, error) = trials(&["--suite", "windows", "--filter", "culumate-10s-2s"]);
    assert_eq!(status, Some(1));
    assert!(error.contains("did you mean cumulate-10s-2s?"), "{error}");
}

#[test]
fn a_list_for_programs_is_json_lines_alone() {
    let output = Command::new(env!("CARGO_BIN_EXE_trials"))
        .args(["--list", "--format", "json", "--suite", "flights"])
        .output()
        .expect("runs");
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let names = text.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        line["trial"].as_str().expect("a name").to_owned()
    });
    assert_eq!(names.count(), 8);
}
