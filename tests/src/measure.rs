//! What the benchmarks have in common.

/// What the environment says of a measurement, as `ROUNDS` and `SECONDS`, or the default.
///
/// # Panics
/// When it says something else than a number from 1 on.
pub fn setting<T: std::str::FromStr + PartialOrd + From<u8>>(name: &str, default: T) -> T {
    let Ok(text) = std::env::var(name) else { return default };
    let number = text.parse().ok().filter(|number| *number >= T::from(1));
    number.unwrap_or_else(|| panic!("{name}={text}: not a number from 1 on"))
}

/// The one in the middle; sorts them.
pub fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
