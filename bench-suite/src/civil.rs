//! The proleptic Gregorian calendar in UTC, as far as recorded values and file names need it.
//!
//! Source of the day count: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", in which
//! a year starts in March so that the leap day ends it.

/// Days from 1970-01-01 to a date; negative before it. `None` if there is no such date.
#[must_use]
pub fn days_from_date(year: i64, month: u32, day: u32) -> Option<i64> {
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let era = shifted_year.div_euclid(400);
    let year_of_era = shifted_year.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// The date that is `days` after 1970-01-01: year, month, day.
#[must_use]
pub fn date_from_days(days: i64) -> (i64, u32, u32) {
    let from_era_start = days + 719_468;
    let era = from_era_start.div_euclid(146_097);
    let day_of_era = from_era_start.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month as u32, day)
}

/// An instant as `20240229T123456Z`, fit for a file name.
#[must_use]
pub fn compact_utc(epoch_seconds: u64) -> String {
    let (days, second) = (epoch_seconds / 86_400, epoch_seconds % 86_400);
    let (year, month, day) = date_from_days(days as i64);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::{compact_utc, date_from_days, days_from_date};

    #[test]
    fn dates_and_days_invert_each_other_from_year_1_to_9999() {
        let first = days_from_date(1, 1, 1).expect("a date");
        let last = days_from_date(9999, 12, 31).expect("a date");
        assert_eq!((first, last), (-719_162, 2_932_896));
        for days in first..=last {
            let (year, month, day) = date_from_days(days);
            assert_eq!(days_from_date(year, month, day), Some(days));
        }
    }

    #[test]
    fn days_that_no_month_has_are_refused() {
        assert_eq!(days_from_date(2024, 2, 29), Some(19_782));
        assert_eq!(days_from_date(2023, 2, 29), None);
        assert_eq!(days_from_date(1900, 2, 29), None);
        assert_eq!(days_from_date(2024, 4, 31), None);
        assert_eq!(days_from_date(2024, 13, 1), None);
        assert_eq!(days_from_date(2024, 0, 1), None);
    }

    #[test]
    fn a_file_name_holds_the_time_in_utc() {
        assert_eq!(compact_utc(1_709_210_096), "20240229T123456Z");
    }
}
