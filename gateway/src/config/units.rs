//! Values with their unit in them: `"5s"`, `"64KiB"`, RFC 3339 times.

use std::time::Duration;

use toml::value::{Datetime, Offset};

use super::report::Fault;

const DURATION_MEND: &str =
    "write a whole number and a unit (ms, s, m, h, d), for example \"5s\" or \"1m30s\"";
const SIZE_MEND: &str = "write a whole number and a unit (B, KiB, MiB, GiB), for example \"64KiB\"";
const TIME_MEND: &str = "write an RFC 3339 time with its offset, for example \"2026-11-27T10:00:00+01:00\"";

/// Units of time and their milliseconds, from large to small.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads `"1m30s"`. Units are `ms s m h d`, each at most once and from large to small; at most 3,650 days.
///
/// # Errors
/// When a number or a unit is missing, unknown, repeated, out of order or too large.
pub fn duration(text: &str) -> Result<Duration, Fault> {
    const MAX: u64 = 3_650 * 86_400_000;
    let bad = || Fault::new(format!("{text:?} is not a duration"), DURATION_MEND);
    let (mut rest, mut total, mut next_unit) = (text.trim(), 0_u64, 0);
    if rest.is_empty() {
        return Err(bad());
    }
    while !rest.is_empty() {
        let (number, after) = split_number(rest).ok_or_else(bad)?;
        let unit_end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, remainder) = after.split_at(unit_end);
        let at =
            UNITS.iter().position(|(name, _)| *name == unit).filter(|at| *at >= next_unit).ok_or_else(bad)?;
        let millis = number.checked_mul(UNITS[at].1).and_then(|value| total.checked_add(value));
        total = millis
            .filter(|value| *value <= MAX)
            .ok_or_else(|| Fault::new(format!("{text:?} is longer than ten years"), "give a shorter time"))?;
        next_unit = at + 1;
        rest = remainder;
    }
    Ok(Duration::from_millis(total))
}

/// Writes a duration as [`duration`] reads it. What is shorter than a millisecond is left out.
pub fn spelt(duration: Duration) -> String {
    let (mut rest, mut text) = (millis(duration), String::new());
    for (unit, length) in UNITS {
        if rest >= length {
            text += &format!("{}{unit}", rest / length);
            rest %= length;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Whole milliseconds of a duration; saturates, which [`duration`] never reaches.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Reads `"64KiB"` into bytes. Units are powers of 1,024; at most 1 TiB.
///
/// # Errors
/// When the number or the unit is missing, unknown or too large.
pub fn size(text: &str) -> Result<u64, Fault> {
    let bad = || Fault::new(format!("{text:?} is not a size"), SIZE_MEND);
    let (number, unit) = split_number(text.trim()).ok_or_else(bad)?;
    let factor: u64 = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(bad()),
    };
    let bytes = number.checked_mul(factor).filter(|bytes| *bytes <= 1 << 40);
    bytes.ok_or_else(|| Fault::new(format!("{text:?} is more than 1024GiB"), "give a smaller size"))
}

fn split_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest))
}

/// Reads an RFC 3339 time into Unix milliseconds. A time without an offset is refused: whose noon it is must
/// be said.
///
/// # Errors
/// When it is no such time, has no offset, or lies before 1970.
pub fn time(text: &str) -> Result<u64, Fault> {
    let parsed: Datetime =
        text.parse().map_err(|_| Fault::new(format!("{text:?} is not a time"), TIME_MEND))?;
    unix_millis(&parsed)
}

/// As [`time`], for a TOML date-time.
///
/// # Errors
/// When it has no date, time or offset, or lies before 1970.
pub fn unix_millis(datetime: &Datetime) -> Result<u64, Fault> {
    let bad = |what: &str| Fault::new(format!("{datetime} {what}"), TIME_MEND);
    let date = datetime.date.ok_or_else(|| bad("has no date"))?;
    let time = datetime.time.ok_or_else(|| bad("has no time of day"))?;
    let offset = match datetime.offset.ok_or_else(|| bad("has no offset from UTC"))? {
        Offset::Z => 0,
        Offset::Custom { minutes } => i64::from(minutes),
    };
    let days = days_from_civil(i64::from(date.year), i64::from(date.month), i64::from(date.day));
    let minutes = days * 1_440 + i64::from(time.hour) * 60 + i64::from(time.minute) - offset;
    let millis = minutes * 60_000
        + i64::from(time.second.unwrap_or(0)) * 1_000
        + i64::from(time.nanosecond.unwrap_or(0) / 1_000_000);
    u64::try_from(millis).map_err(|_| bad("lies before 1970"))
}

/// Writes Unix milliseconds as RFC 3339 in UTC, with milliseconds only where there are any.
pub fn rfc3339(millis: u64) -> String {
    let (seconds, fraction) = (millis / 1_000, millis % 1_000);
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil_from_days(days);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    let head = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    if fraction == 0 { format!("{head}Z") } else { format!("{head}.{fraction:03}Z") }
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar (Howard Hinnant, `days_from_civil`).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of [`days_from_civil`], for days from 1970 on.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_need_a_number_and_a_unit() {
        for (text, millis) in [("5s", 5_000), ("250ms", 250), ("1m30s", 90_000), ("2h", 7_200_000), ("0s", 0)]
        {
            assert_eq!(duration(text).unwrap(), Duration::from_millis(millis), "{text}");
        }
        for text in
            ["", "5", "s", "5 s", "1.5s", "-1s", "5S", "30s1m", "1s1s", "99999999999999999999s", "4000d"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(size("64KiB").unwrap(), 65_536);
        assert_eq!(size("0B").unwrap(), 0);
        for text in ["", "64", "64KB", "64kib", "1TiB", "99999999999GiB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_rfc_3339_with_an_offset() {
        // The examples of RFC 3339 section 5.8.
        assert_eq!(time("1985-04-12T23:20:50.52Z").unwrap(), 482_196_050_520);
        assert_eq!(time("1996-12-19T16:39:57-08:00").unwrap(), 851_042_397_000);
        for text in [
            "2026-11-27",
            "2026-11-27T10:00:00",
            "10:00:00",
            "2026-02-29T00:00:00Z",
            "tomorrow",
            "1969-12-31T23:59:59Z",
        ] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_written_duration_reads_back(millis in 0_u64..3_650 * 86_400_000) {
            let written = Duration::from_millis(millis);
            prop_assert_eq!(duration(&spelt(written)).unwrap(), written);
        }

        #[test]
        fn a_written_time_reads_back(millis in 0_u64..253_402_300_800_000) {
            prop_assert_eq!(time(&rfc3339(millis)).unwrap(), millis);
        }

        #[test]
        fn no_text_makes_a_unit_panic(text in ".*") {
            let _ = (duration(&text), size(&text), time(&text));
        }
    }
}
