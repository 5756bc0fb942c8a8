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
