//! Waiting for a condition.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long anything that should happen soon may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(20);

/// Asks `condition` again and again until it gives a value, and returns that.
///
/// # Panics
/// With `what` in the message, when [`PATIENCE`] is over first.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, condition: impl FnMut() -> F) -> T {
    within(PATIENCE, what, condition).await
}

/// The same for what the product promises to have done after `limit`: it has as many looks as a quick machine takes in
/// that time, for where a look takes longer, so does what is looked for.
///
/// # Panics
/// With `what` in the message, when there has been the last look, or [`PATIENCE`] is over after `limit`.
pub async fn within<T, F: Future<Output = Option<T>>>(
    limit: Duration,
    what: &str,
    mut condition: impl FnMut() -> F,
) -> T {
    let began = Instant::now();
    let mut looks = limit.as_millis().div_ceil(PAUSE.as_millis());
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(
            looks > 0 && began.elapsed() < limit + PATIENCE,
            "waited {:?} in vain until {what}",
            began.elapsed()
        );
        looks -= 1;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Waits until the clock says `millis` (Unix milliseconds).
pub async fn until_clock(millis: u64) {
    let at = UNIX_EPOCH + Duration::from_millis(millis);
    while let Ok(left) = at.duration_since(SystemTime::now()) {
        tokio::time::sleep(left + Duration::from_millis(1)).await;
    }
}
