//! Waiting for a condition.

use std::time::{Duration, Instant};

/// How long anything that should happen soon may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(20);

/// Asks `condition` again and again until it gives a value, and returns that.
///
/// # Panics
/// With `what` in the message, when [`PATIENCE`] is over first.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut condition: impl FnMut() -> F) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain until {what}");
        tokio::time::sleep(PAUSE).await;
    }
}
