//! Batches give what single values give, whatever their lengths, order and gaps.

use calendar_tz::{BatchError, Conversion, Database, Policy, Validity, Zone};
use proptest::prelude::*;

use crate::model::{DAY, HOUR, at};
use crate::range::{CONVERSIONS, name, scalar, time};

/// Values in the orders that the kernels tell apart: close together, over a few changes, anywhere.
fn values() -> impl Strategy<Value = Vec<i64>> {
    let near = |reach: i64| {
        (
            -200 * 365 * DAY..600 * 365 * DAY,
            prop::collection::vec(-reach..reach, 0..1_500),
        )
            .prop_map(|(start, steps)| steps.iter().map(|step| start + step).collect::<Vec<i64>>())
    };
    let sorted = near(365 * DAY).prop_map(|mut values| {
        values.sort_unstable();
        values
    });
    prop_oneof![
        near(DAY),
        near(365 * DAY),
        near(5_000 * 365 * DAY),
        sorted,
        prop::collection::vec(time(), 0..300),
        // Hours around a change in New York, and the skipped day of Apia.
        prop::collection::vec(at("2021-11-07T00:00:00")..at("2021-11-07T04:00:00"), 0..300),
        prop::collection::vec(at("2011-12-29T00:00:00")..at("2012-01-02T00:00:00"), 0..300),
    ]
}

/// Flags of rows, cut or repeated to as many as there are.
fn flags(pattern: &[bool], rows: usize) -> Vec<bool> {
    (0..rows).map(|row| pattern[row % pattern.len()]).collect()
}

fn bits(flags: &[bool], first_bit: usize) -> Vec<u8> {
    let mut bits = vec![0; (first_bit + flags.len()).div_ceil(8)];
    for (row, _) in flags.iter().enumerate().filter(|(_, flag)| **flag) {
        bits[(first_bit + row) / 8] |= 1 << ((first_bit + row) % 8);
    }
    bits
}

/// What a batch gives, from single values: results where there is a value, `-7` where there is none,
/// or the first row that fails.
fn expected(
    zone: &Zone,
    conversion: Conversion,
    values: &[i64],
    flags: &[bool],
) -> Result<Vec<i64>, BatchError> {
    let rows = values.iter().zip(flags).enumerate();
    rows.map(|(row, (value, flag))| {
        if !flag {
            return Ok(-7);
        }
        scalar(zone, conversion, *value).map_err(|error| BatchError::Range { row, error })
    })
    .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_batch_is_its_values(
        name in prop_oneof![
            name(),
            Just("America/New_York".to_owned()),
            Just("Pacific/Apia".to_owned()),
            Just("Etc/GMT+8".to_owned()),
            Just("Australia/Lord_Howe".to_owned()),
            Just("Antarctica/Troll".to_owned()),
        ],
        values in values(),
        pattern in prop::collection::vec(prop::bool::weighted(0.9), 1..70),
        first_bit in 0..20_usize,
    ) {
        let zone = Database::bundled().entry(&name).expect("bundled");
        let all = vec![true; values.len()];
        let some = flags(&pattern, values.len());
        let bitmap = bits(&some, first_bit);
        let validities = [
            (Validity::All, &all),
            (Validity::Flags(&some), &some),
            (Validity::Bits { bits: &bitmap, first_bit }, &some),
        ];
        for conversion in CONVERSIONS {
            for (validity, flags) in validities {
                let expected = expected(&zone, conversion, &values, flags);

                let mut out = vec![-7; values.len()];
                let result = zone.convert(conversion, &values, validity, &mut out);
                prop_assert_eq!(&result.map(|()| out), &expected, "{} {:?}", name, conversion);

                let mut out = vec![-7; values.len()];
                let result = zone.convert_repeats(conversion, &values, validity, &mut out);
                prop_assert_eq!(&result.map(|()| out), &expected, "{} {:?}", name, conversion);

                let mut there = values.clone();
                let result = zone.convert_in_place(conversion, &mut there, validity);
                match &expected {
                    Ok(expected) => {
                        prop_assert_eq!(result, Ok(()));
                        for (row, flag) in flags.iter().enumerate() {
                            let right = if *flag { expected[row] } else { values[row] };
                            prop_assert_eq!(there[row], right, "{} {:?} {}", name, conversion, row);
                        }
                    }
                    Err(error) => {
                        prop_assert_eq!(result.as_ref(), Err(error));
                        prop_assert_eq!(&there, &values, "a refusal changes nothing");
                    }
                }
            }
        }
    }
}

#[test]
fn an_empty_batch_is_converted() {
    let zone = Zone::named("Europe/Berlin").expect("bundled");
    for conversion in CONVERSIONS {
        for validity in [
            Validity::All,
            Validity::Flags(&[]),
            Validity::Bits {
                bits: &[],
                first_bit: 0,
            },
        ] {
            assert_eq!(zone.convert(conversion, &[], validity, &mut []), Ok(()));
            assert_eq!(zone.convert_in_place(conversion, &mut [], validity), Ok(()));
            assert_eq!(
                zone.convert_repeats(conversion, &[], validity, &mut []),
                Ok(())
            );
        }
    }
}

#[test]
fn lengths_that_differ_are_refused() {
    let zone = Zone::utc();
    let convert = |validity: Validity<'_>, places: usize| {
        let mut out = vec![0; places];
        let result = zone.convert(Conversion::ToLocal, &[1, 2, 3], validity, &mut out);
        result.map_err(|error| error.to_string())
    };
    let refused = |message: &str| Err(message.to_owned());
    assert_eq!(convert(Validity::All, 2), refused("3 values for 2 places"));
    assert_eq!(convert(Validity::All, 4), refused("3 values for 4 places"));
    let two = Validity::Flags(&[true, false]);
    assert_eq!(convert(two, 3), refused("validity of 2 rows for 3 values"));
    let four = Validity::Flags(&[true; 4]);
    assert_eq!(convert(four, 3), refused("validity of 4 rows for 3 values"));
    let short = Validity::Bits {
        bits: &[0xff],
        first_bit: 6,
    };
    assert_eq!(
        convert(short, 3),
        refused("validity of 2 rows for 3 values")
    );
    let beyond = Validity::Bits {
        bits: &[0xff],
        first_bit: usize::MAX,
    };
    assert_eq!(
        convert(beyond, 3),
        refused("validity of 0 rows for 3 values")
    );
    let padded = Validity::Bits {
        bits: &[0xff; 8],
        first_bit: 1,
    };
    assert_eq!(convert(padded, 3), Ok(()));
}

#[test]
fn the_first_bad_row_is_named() {
    let zone = Zone::named("Asia/Tokyo").expect("bundled");
    let mut values: Vec<i64> = (0..2_000).map(|row| row * HOUR).collect();
    values[1_777] = i64::MAX - 5;
    values[1_999] = i64::MAX - 6;
    let mut out = vec![0; values.len()];
    let result = zone.convert(Conversion::ToLocal, &values, Validity::All, &mut out);
    insta::assert_snapshot!(
        result.unwrap_err(),
        @"row 1777: instant 9223372036854775802 ms has no local time within 64 bits"
    );
    // Where there is no value, nothing is wrong with it.
    let valid: Vec<bool> = values.iter().map(|value| *value < i64::MAX - 10).collect();
    let result = zone.convert(
        Conversion::ToLocal,
        &values,
        Validity::Flags(&valid),
        &mut out,
    );
    assert_eq!(result, Ok(()));
    assert_eq!(out[1_998], 1_998 * HOUR + 9 * HOUR);
}

#[test]
fn timers_next_to_a_change_are_corrected_within_a_batch() {
    let zone = Zone::named("Australia/Lord_Howe").expect("bundled");
    let values: Vec<i64> = (at("2021-04-03T00:00:00")..at("2021-10-05T00:00:00"))
        .step_by(600_000)
        .collect();
    for policy in [Policy::Flink, Policy::Exact] {
        let mut out = vec![0; values.len()];
        let conversion = Conversion::Timer(policy);
        zone.convert(conversion, &values, Validity::All, &mut out)
            .expect("in range");
        let singly: Vec<i64> = values
            .iter()
            .map(|value| zone.timer(*value, policy).expect("in range"))
            .collect();
        assert_eq!(out, singly);
    }
}
