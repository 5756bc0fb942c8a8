//! The examples of the documentation of [`Policy`].

use calendar_tz::{Policy, Zone};

use crate::model::at;

fn timers(zone: &str, local: &str) -> (i64, i64) {
    let zone = Zone::named(zone).expect("bundled");
    let timer = |policy| zone.timer(at(local), policy).expect("in range");
    (timer(Policy::Flink), timer(Policy::Exact))
}

#[test]
fn the_table_of_differences_is_right() {
    for (zone, local, flink, exact) in [
        (
            "America/Sao_Paulo",
            "2018-02-17T23:59:59.999",
            "2018-02-18T01:59:59.999Z",
            "2018-02-18T02:59:59.999Z",
        ),
        (
            "Australia/Lord_Howe",
            "2021-04-04T01:15:00",
            "2021-04-03T15:15:00Z",
            "2021-04-03T14:15:00Z",
        ),
        (
            "Australia/Lord_Howe",
            "2021-04-04T01:45:00",
            "2021-04-03T15:45:00Z",
            "2021-04-03T15:15:00Z",
        ),
        (
            "Australia/Lord_Howe",
            "2021-10-03T02:15:00",
            "2021-10-02T15:45:00Z",
            "2021-10-02T15:29:59.999Z",
        ),
        (
            "Antarctica/Troll",
            "2021-10-31T01:30:00",
            "2021-10-30T23:30:00Z",
            "2021-10-31T01:30:00Z",
        ),
        (
            "Antarctica/Troll",
            "2021-10-31T02:30:00",
            "2021-10-31T01:30:00Z",
            "2021-10-31T02:30:00Z",
        ),
        (
            "Pacific/Apia",
            "2011-12-30T12:00:00",
            "2011-12-30T22:00:00Z",
            "2011-12-30T09:59:59.999Z",
        ),
        (
            "Australia/Adelaide",
            "2022-10-02T02:15:00",
            "2022-10-01T16:00:00Z",
            "2022-10-01T16:29:59.999Z",
        ),
        (
            "America/New_York",
            "2021-03-14T02:30:00",
            "2021-03-14T07:00:00Z",
            "2021-03-14T06:59:59.999Z",
        ),
        (
            "America/New_York",
            "2021-11-07T01:30:00",
            "2021-11-07T06:30:00Z",
            "2021-11-07T06:30:00Z",
        ),
    ] {
        assert_eq!(
            timers(zone, local),
            (at(flink), at(exact)),
            "{zone} {local}"
        );
    }
}

#[test]
fn flink_s_timers_may_decrease() {
    let zone = Zone::named("Australia/Lord_Howe").expect("bundled");
    let timer = |local| zone.timer(at(local), Policy::Flink).expect("in range");
    assert!(timer("2021-04-04T02:00:00") < timer("2021-04-04T01:59:59.999"));
}

#[test]
fn flink_cuts_towards_1970() {
    // Before 1970 that is up: the change was at 07:00Z.
    let (flink, exact) = timers("America/New_York", "1965-04-25T02:30:00");
    assert_eq!(flink, at("1965-04-25T08:00:00Z"));
    assert_eq!(exact, at("1965-04-25T06:59:59.999Z"));
}
