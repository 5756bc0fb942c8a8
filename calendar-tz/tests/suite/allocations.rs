//! Nothing is allocated once a zone is made.

use std::hint::black_box;

use allocation_counter::measure;
use calendar_tz::{Policy, Validity, Zone};

use crate::model::{DAY, HOUR, at};
use crate::range::{CONVERSIONS, scalar};

fn allocations(work: impl FnOnce()) -> u64 {
    measure(work).count_total
}

#[test]
fn conversions_queries_and_refusals_allocate_nothing() {
    let start = at("2013-01-01T00:00:00");
    let sorted: Vec<i64> = (0..5_000).map(|row| start + row * HOUR).collect();
    let scattered: Vec<i64> = (0..5_000)
        .map(|row| start + row * row * 977 * DAY)
        .collect();
    let bad = vec![i64::MAX - 1; 600];
    let valid: Vec<bool> = (0..5_000).map(|row| row % 7 > 0).collect();
    let mut out = vec![0; 5_000];
    for name in [
        "UTC",
        "GMT+08:00",
        "America/New_York",
        "Africa/Casablanca",
        "Pacific/Apia",
    ] {
        let zone = Zone::named(name).expect("known");
        let count = allocations(|| {
            for conversion in CONVERSIONS {
                for values in [&sorted, &scattered] {
                    for validity in [Validity::All, Validity::Flags(&valid)] {
                        let _ = black_box(zone.convert(conversion, values, validity, &mut out));
                        let _ =
                            black_box(zone.convert_repeats(conversion, values, validity, &mut out));
                        let _ = black_box(zone.convert_in_place(conversion, &mut out, validity));
                    }
                    let mut cursor = zone.cursor(conversion);
                    for value in values {
                        let _ = black_box(cursor.convert(*value));
                        let _ = black_box(scalar(&zone, conversion, *value));
                    }
                }
                let _ = black_box(zone.convert(conversion, &bad, Validity::All, &mut out[..600]));
            }
            for value in scattered.iter().step_by(10) {
                black_box(zone.next_transition(*value));
                black_box(zone.previous_transition(*value));
                black_box(zone.fixed_offset_over(*value, value + DAY));
                let _ = black_box(zone.local_day_ms(*value));
                for policy in [Policy::Flink, Policy::Exact] {
                    let _ = black_box(zone.has_fired(*value, *value, policy));
                    let _ = black_box(zone.next_trigger(*value, HOUR, policy));
                }
            }
            black_box(zone.clone() == zone);
        });
        assert_eq!(count, 0, "{name}");
    }
    // The counter counts.
    assert!(allocations(|| drop(black_box(Zone::named("Europe/Berlin")))) > 0);
}
