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
    let line = text
        .lines()
        .find(|line| line.contains(part))
        .expect("a line holds the part");
    assert!(line.contains(from), "{from} is in {line}");
    line.replacen(from, to, 1)
}

#[test]
fn the_repository_s_recordings_pass() {
    insta::assert_snapshot!(run(&repository_golden()).render(false), @"
    | file                          | cases | passed | failed |                                       divergent by decision | not supported yet |
    |-------------------------------|-------|--------|--------|-------------------------------------------------------------|-------------------|
    | calendar.jsonl.gz             | 11275 |  11275 |      0 |                                                           0 |                 0 |
    | dedup.jsonl                   |    14 |     14 |      0 |                                                           0 |                 0 |
    | flights/cumulate-1d-1h.csv.gz |     4 |      4 |      0 |                                                           0 |                 0 |
    | flights/hop-6h-1h.csv.gz      |     4 |      4 |      0 |                                                           0 |                 0 |
    | flights/top1-changelog.csv.gz |     4 |      4 |      0 |                                                           0 |                 0 |
    | flights/tumble-1d.csv.gz      |     4 |      4 |      0 |                                                           0 |                 0 |
    | keygroup.jsonl                |   543 |    543 |      0 |                                                           0 |                 0 |
    | keygroup_ranges.jsonl         |  1007 |   1007 |      0 |                                                           0 |                 0 |
    | slices.jsonl.gz               |   857 |    824 |      0 |                                                33 (#14: 33) |                 0 |
    | top1.jsonl                    |   176 |    176 |      0 |                                                           0 |                 0 |
    | top1_ttl.jsonl                |    64 |     38 |      0 |                                          26 (#4: 22, #5: 4) |                 0 |
    | triggers.jsonl.gz             |  1848 |   1811 |      0 |                                                37 (#14: 37) |                 0 |
    | windows.jsonl.gz              |   414 |    323 |      0 |                          80 (#6: 70, #7: 7, #11: 2, #13: 1) |                11 |
    | zones.jsonl                   |   660 |    660 |      0 |                                                           0 |                 0 |
    | total                         | 16874 |  16687 |      0 | 176 (#4: 22, #5: 4, #6: 70, #7: 7, #11: 2, #13: 1, #14: 70) |                11 |
    ");
}

#[test]
fn a_broken_recording_fails_and_says_where() {
    let (name, change) = ("top1_desc_improve_reject_tie", r#""row":[1,7,"r2"]"#);
    let broken = directory(&[
        (
            "dedup.jsonl",
            line("dedup.jsonl", "rowtime_last_basic", "+U", "+I"),
        ),
        (
            "keygroup.jsonl",
            line(
                "keygroup.jsonl",
                "[\"BOOLEAN\"]",
                "1465514398",
                "1465514399",
            ),
        ),
        (
            "keygroup_ranges.jsonl",
            line(
                "keygroup_ranges.jsonl",
                "\"index\"",
                "\"end\":0",
                "\"end\":1",
            ),
        ),
        (
            "nested/top1.jsonl",
            line("top1.jsonl", name, change, r#""row":[1,7,"r3"]"#),
        ),
    ]);
    let report = run(broken.path());
    assert!(report.has_failed());
    insta::assert_snapshot!(report.render(true), @"
    | file                  | cases | passed | failed | divergent by decision | not supported yet |
    |-----------------------|-------|--------|--------|-----------------------|-------------------|
    | dedup.jsonl           |     1 |      0 |      1 |                     0 |                 0 |
    | keygroup.jsonl        |     1 |      0 |      1 |                     0 |                 0 |
    | keygroup_ranges.jsonl |     1 |      0 |      1 |                     0 |                 0 |
    | nested/top1.jsonl     |     1 |      0 |      1 |                     0 |                 0 |
    | total                 |     4 |      0 |      4 |                     0 |                 0 |

    failed: dedup.jsonl:1 rowtime_last_basic
      memory, top-1, one row a batch, 19 other variants
      change 2
      expected +I 1, 2024-02-29T09:46:41, c
      got      +U 1, 2024-02-29T09:46:41, c

    failed: keygroup.jsonl:1
      hash
      expected 1465514399
      got      1465514398

    failed: keygroup_ranges.jsonl:1
      end
      expected 1
      got      0

    failed: top1.jsonl:1 top1_desc_improve_reject_tie
      memory, top-1, one row a batch, 19 other variants
      change 2
      expected +U 1, 7, r3
      got      +U 1, 7, r2
    ");
}

#[test]
fn a_changed_row_of_the_flights_fails_over_every_store() {
    let broken = directory(&[(
        "top1-changelog.csv",
        "+I,N14228,0,12,UA,1545,EWR,IAH\n".to_owned(),
    )]);
    insta::assert_snapshot!(run(broken.path()).render(true), @"
    | file               | cases | passed | failed | divergent by decision | not supported yet |
    |--------------------|-------|--------|--------|-----------------------|-------------------|
    | top1-changelog.csv |     4 |      0 |      4 |                     0 |                 0 |
    | total              |     4 |      0 |      4 |                     0 |                 0 |

    failed: top1-changelog.csv memory top-1
      change 0
      expected +I N14228, 0, 12, UA, 1545, EWR, IAH
      got      +I N14228, 0, 11, UA, 1545, EWR, IAH

    failed: top1-changelog.csv memory general
      change 0
      expected +I N14228, 0, 12, UA, 1545, EWR, IAH
      got      +I N14228, 0, 11, UA, 1545, EWR, IAH

    failed: top1-changelog.csv RocksDB top-1
      change 0
      expected +I N14228, 0, 12, UA, 1545, EWR, IAH
      got      +I N14228, 0, 11, UA, 1545, EWR, IAH

    failed: top1-changelog.csv RocksDB general
      change 0
      expected +I N14228, 0, 12, UA, 1545, EWR, IAH
      got      +I N14228, 0, 11, UA, 1545, EWR, IAH
    ");
}

#[test]
fn nothing_is_skipped_in_silence() {
    let mixed = directory(&[
        ("README.md", "a page".to_owned()),
        (
            "slices.jsonl",
            r#"{"assigner":"plain","size_ms":1000}"#.to_owned(),
        ),
        ("empty.jsonl", "\n".to_owned()),
        ("flights/tumble-1d.csv.gz", String::new()),
        (
            "more.jsonl",
            line("keygroup.jsonl", "[\"BOOLEAN\"]", "hash", "hash"),
        ),
        ("notes.jsonl", "{\"a\":1}\n{\"a\":\n\n[]".to_owned()),
        (
            "top1-more.jsonl",
            r#"{"name":"lacks all but a name"}"#.to_owned(),
        ),
        (
            "top1.jsonl",
            ["MAPP", "ARRAY<INT>"]
                .map(|name| {
                    line(
                        "top1.jsonl",
                        "top1_single_row",
                        "\"v\":\"BIGINT\"",
                        &format!("\"v\":\"{name}\""),
                    )
                })
                .join("\n")
                + "\n"
                + &FLOATS_JOB
                    .replace('\n', " ")
                    .replace("DOUBLE", "TIMESTAMP(9)")
                    .replace("2.0", "\"9999-12-31T23:59:59.999999999\""),
        ),
    ]);
    insta::assert_snapshot!(run(mixed.path()).render(true), @"
    | file                     | cases | passed | failed | divergent by decision | not supported yet |
    |--------------------------|-------|--------|--------|-----------------------|-------------------|
    | empty.jsonl              |     1 |      0 |      1 |                     0 |                 0 |
    | flights/tumble-1d.csv.gz |     4 |      0 |      4 |                     0 |                 0 |
    | more.jsonl               |     1 |      1 |      0 |                     0 |                 0 |
    | notes.jsonl              |     3 |      0 |      2 |                     0 |                 1 |
    | slices.jsonl             |     1 |      0 |      1 |                     0 |                 0 |
    | top1-more.jsonl          |     1 |      0 |      1 |                     0 |                 0 |
    | top1.jsonl               |     3 |      0 |      1 |                     0 |                 2 |
    | total                    |    14 |      1 |     10 |                     0 |                 3 |

    failed: empty.jsonl
      a file without a line

    failed: tumble-1d.csv.gz memory one phase
      unexpected end of file

    failed: tumble-1d.csv.gz memory two phases
      unexpected end of file

    failed: tumble-1d.csv.gz RocksDB one phase
      unexpected end of file

    failed: tumble-1d.csv.gz RocksDB two phases
      unexpected end of file

    failed: notes.jsonl:2
      not JSON: EOF while parsing a value at line 1 column 5

    failed: notes.jsonl:4
      not a JSON object

    notes.jsonl: 1 not supported yet: a shape that is not known

    failed: slices.jsonl:1
      malformed line: missing field `kind`

    failed: top1-more.jsonl:1 lacks all but a name
      malformed line: missing field `columns`

    failed: top1.jsonl:1 top1_single_row
      column v: type MAPP is unknown

    top1.jsonl: 1 not supported yet: a timestamp that Arrow's nanoseconds cannot count

    top1.jsonl: 1 not supported yet: type ARRAY
    ");
}

/// Partition 1 has a NaN, partition 2 has none.
const FLOATS_JOB: &str = r#"{"name":"nan","columns":["k","v"],"types":{"k":"INT","v":"DOUBLE"},"partition_by":["k"],
    "order_by":[{"col":"v","asc":false,"nulls_first":false}],"rank_range":[1,2],"output_rank":false,
    "update_before":true,"input":[[1,2.0],[2,7.0],[1,1.0],[1,"NaN"]],
    "expected":[{"kind":"+I","row":[1,2.0]},{"kind":"+I","row":[2,7.0]},{"kind":"+I","row":[1,1.0]}]}"#;

#[test]
fn a_nan_beyond_the_first_rank_diverges_by_decision() {
    let job = FLOATS_JOB.replace('\n', " ");
    let zeros = job
        .replace("\"output_rank\":false", "\"output_rank\":true")
        .replace("[1,1.0],[1,\"NaN\"]", "[1,0.0],[1,\"-0.0\"]")
        .replace("\"row\":[1,2.0]", "\"row\":[1,2.0,1]")
        .replace("\"row\":[2,7.0]", "\"row\":[2,7.0,1]");
    let diverging = directory(&[
        ("top1.jsonl", job.clone()),
        // The same difference without a NaN is a failure.
        ("top1_plain.jsonl", job.replace("\"NaN\"", "3.0")),
        // So is a difference in a partition without one, and a row that never arrived.
        (
            "top1_other.jsonl",
            job.replace("\"row\":[2,7.0]", "\"row\":[2,8.0]"),
        ),
        (
            "top1_stray.jsonl",
            job.replace("\"row\":[1,1.0]", "\"row\":[1,1.5]"),
        ),
        (
            "top1_stranger.jsonl",
            job.replace("\"row\":[1,1.0]", "\"row\":[3,1.0]"),
        ),
        // Flink stops at the second zero; without its sign there is nothing to excuse.
        (
            "top1_zeros.jsonl",
            zeros.replace(",{\"kind\":\"+I\",\"row\":[1,1.0]}", ""),
        ),
        (
            "top1_zeros_alike.jsonl",
            zeros
                .replace(",{\"kind\":\"+I\",\"row\":[1,1.0]}", "")
                .replace("\"-0.0\"", "0.0"),
        ),
    ]);
    insta::assert_snapshot!(run(diverging.path()).render(false), @"
    | file                   | cases | passed | failed | divergent by decision | not supported yet |
    |------------------------|-------|--------|--------|-----------------------|-------------------|
    | top1.jsonl             |     1 |      0 |      0 |             1 (#2: 1) |                 0 |
    | top1_other.jsonl       |     1 |      0 |      1 |                     0 |                 0 |
    | top1_plain.jsonl       |     1 |      0 |      1 |                     0 |                 0 |
    | top1_stranger.jsonl    |     1 |      0 |      1 |                     0 |                 0 |
    | top1_stray.jsonl       |     1 |      0 |      1 |                     0 |                 0 |
    | top1_zeros.jsonl       |     1 |      0 |      0 |             1 (#3: 1) |                 0 |
    | top1_zeros_alike.jsonl |     1 |      0 |      1 |                     0 |                 0 |
    | total                  |     7 |      0 |      5 |      2 (#2: 1, #3: 1) |                 0 |
    ");
}

#[test]
fn a_line_that_lacks_something_says_what() {
    let job = line("dedup.jsonl", "rowtime_last_basic", "", "");
    let start = job.find("\"order_by\":[").expect("an order") + "\"order_by\":[".len();
    let end = start + job[start..].find(']').expect("the order ends");
    let unordered = format!("{}{}", &job[..start], &job[end..]);
    let broken = directory(&[
        ("dedup.jsonl", unordered),
        (
            "keygroup_ranges.jsonl",
            line("keygroup_ranges.jsonl", "\"index\"", "\"end\"", "\"last\""),
        ),
    ]);
    insta::assert_snapshot!(run(broken.path()).render(true), @"
    | file                  | cases | passed | failed | divergent by decision | not supported yet |
    |-----------------------|-------|--------|--------|-----------------------|-------------------|
    | dedup.jsonl           |     1 |      0 |      1 |                     0 |                 0 |
    | keygroup_ranges.jsonl |     1 |      0 |      1 |                     0 |                 0 |
    | total                 |     2 |      0 |      2 |                     0 |                 0 |

    failed: dedup.jsonl:1 rowtime_last_basic
      order_by has 0 terms where the time attribute alone belongs

    failed: keygroup_ranges.jsonl:1
      malformed line: missing field `end`
    ");
}

#[test]
#[cfg(unix)]
fn a_link_to_a_directory_is_counted_and_not_followed() {
    let looped = directory(&[(
        "keygroup.jsonl",
        line("keygroup.jsonl", "[\"BOOLEAN\"]", "", ""),
    )]);
    std::os::unix::fs::symlink(looped.path(), looped.path().join("loop")).expect("linked");
    insta::assert_snapshot!(run(looped.path()).render(true), @"
    | file           | cases | passed | failed | divergent by decision | not supported yet |
    |----------------|-------|--------|--------|-----------------------|-------------------|
    | keygroup.jsonl |     1 |      1 |      0 |                     0 |                 0 |
    | loop           |     1 |      0 |      0 |                     0 |                 1 |
    | total          |     2 |      1 |      0 |                     0 |                 1 |

    loop: 1 not supported yet: a link to a directory
    ");
}

#[test]
fn a_changed_answer_of_the_calendar_fails() {
    let utc = r#"{"zone":"UTC","uses_dst":false,"#;
    let broken = directory(&[
        (
            "calendar.jsonl",
            [
                format!(r#"{utc}"epoch_ms":5,"to_utc_ms":6,"note":""}}"#),
                format!(r#"{utc}"epoch_ms":5,"local_ms":5,"to_utc_ms":5}}"#),
                format!(r#"{utc}"epoch_ms":5,"to_utc_ms":null}}"#),
                r#"{"zone":"Europe/Berlin","uses_dst":false,"epoch_ms":5,"to_utc_ms":3600005}"#
                    .to_owned(),
                r#"{"zone":"Mars","uses_dst":false,"epoch_ms":5,"to_utc_ms":5}"#.to_owned(),
                // Right until version 2026f, which says why.
                r#"{"zone":"America/Sao_Paulo","uses_dst":false,"epoch_ms":-150033600000,"to_utc_ms":-150044400000}"#
                    .to_owned(),
            ]
            .join("\n"),
        ),
        (
            "triggers.jsonl",
            [
                // Flink wraps, and neither to this.
                r#"{"fn":"getNextTriggerWatermark","zone":"UTC","uses_dst":false,"interval_ms":10,"watermark_ms":9223372036854775806,"next_trigger_ms":7}"#,
                r#"{"fn":"isWindowFired","zone":"UTC","uses_dst":false,"window_end_ms":10,"progress_fired":[[9,false]]}"#,
                r#"{"fn":"isWindowFired","zone":"UTC","uses_dst":false,"window_end_ms":-9223372036854775808,"progress_fired":[[9,false]]}"#,
            ]
            .join("\n"),
        ),
        (
            "zones.jsonl",
            r#"{"zone":"utc","zone_id_of_ok":true,"accepted_by_table_local_time_zone":false}"#.to_owned(),
        ),
    ]);
    insta::assert_snapshot!(run(broken.path()).render(true), @r#"
    | file           | cases | passed | failed | divergent by decision | not supported yet |
    |----------------|-------|--------|--------|-----------------------|-------------------|
    | calendar.jsonl |     6 |      1 |      5 |                     0 |                 0 |
    | triggers.jsonl |     3 |      0 |      2 |            1 (#14: 1) |                 0 |
    | zones.jsonl    |     1 |      0 |      1 |                     0 |                 0 |
    | total          |    10 |      1 |      8 |            1 (#14: 1) |                 0 |

    failed: calendar.jsonl:1
      UTC: local time
      expected 6
      got      5

    failed: calendar.jsonl:2
      one of epoch_ms and local_ms belongs here

    failed: calendar.jsonl:3
      a value or an error belongs here

    failed: calendar.jsonl:4
      Europe/Berlin: the recorded flag of its rule is false

    failed: calendar.jsonl:5
      zone "Mars" is not known

    failed: triggers.jsonl:1
      UTC: next trigger
      expected 7
      got      an error

    failed: triggers.jsonl:2
      UTC: fired at 9
      expected false
      got      true

    failed: zones.jsonl:1
      "utc", tz database 2025a: known, accepted, daylight rule, one offset
      expected [Some(true), Some(false), None, None]
      got      [Some(false), Some(false), None, None]
    "#);
}

/// Exit status, standard output and standard error of the program.
fn conform(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_conform"))
        .args(arguments)
        .output()
        .expect("runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn the_exit_status_tells_whether_a_case_failed() {
    let good = directory(&[(
        "keygroup.jsonl",
        line("keygroup.jsonl", "[\"BOOLEAN\"]", "", ""),
    )]);
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
    assert!(
        error.starts_with("error: cannot read /nonexistent: "),
        "{error}"
    );
}
