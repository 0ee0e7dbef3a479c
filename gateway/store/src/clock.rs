//! The store's clock.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ropeline_queue::UnixMillis;

/// Difference up to which the wall clock is simply followed.
const NOISE_MS: u64 = 500;
/// How long a wall clock that has leapt forward must stand by it before it is believed.
const BELIEVED_AFTER: Duration = Duration::from_secs(10);

/// Gives a store its time. A clock that steps back is allowed: a sale's own time then stands
/// still until the clock has caught up.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> UnixMillis;

    /// How far the machine's wall clock is from [`Self::now`], in milliseconds; negative when it is behind.
    fn skew_ms(&self) -> i64 {
        0
    }
}

/// The operating system's wall clock, held steady by its monotonic one.
///
/// A wall clock is set by people and daemons: a leap ahead that is taken back would leave a sale standing still for as
/// long as the leap was. So a leap forward is believed only when it lasts ten seconds; and when the wall clock is put
/// back, this one goes on at half speed until the two agree again. It never goes back.
#[derive(Debug)]
pub struct SystemClock(Mutex<Steady>);

/// A clock that follows another's readings, and the monotonic one wherever these leap.
#[derive(Debug)]
pub(crate) struct Steady {
    now: u64,
    read_at: Instant,
    ahead_since: Option<Instant>,
}

// === impl SystemClock ===

impl SystemClock {
    /// Starts at the wall clock's time.
    #[must_use]
    pub fn new() -> Self {
        Self(Mutex::new(Steady::starting(wall_ms(), Instant::now())))
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> UnixMillis {
        let mut steady = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        UnixMillis(steady.read(wall_ms(), Instant::now()))
    }

    fn skew_ms(&self) -> i64 {
        let (now, wall) = (self.now().0, wall_ms());
        let difference = i64::try_from(wall.abs_diff(now)).unwrap_or(i64::MAX);
        if wall < now { -difference } else { difference }
    }
}

impl Steady {
    /// Begins at a first reading.
    pub(crate) const fn starting(wall: u64, at: Instant) -> Self {
        Self { now: wall, read_at: at, ahead_since: None }
    }

    /// Begins at a first reading; if that is a leap ahead of what else is known of the time, at the latter, until the leap has
    /// lasted.
    pub(crate) const fn witnessed(wall: u64, witness: u64, at: Instant) -> Self {
        Self::starting(if wall > witness.saturating_add(NOISE_MS) { witness } else { wall }, at)
    }

    /// The time, after the clock that is followed has shown `wall`.
    pub(crate) fn read(&mut self, wall: u64, at: Instant) -> u64 {
        let elapsed = at.saturating_duration_since(self.read_at);
        // Whole milliseconds are counted; the rest stays for the next reading.
        let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        self.read_at += Duration::from_millis(elapsed_ms);
        let expected = self.now.saturating_add(elapsed_ms);
        if wall.abs_diff(expected) <= NOISE_MS {
            self.ahead_since = None;
            self.now = self.now.max(wall);
        } else if wall > expected {
            let since = *self.ahead_since.get_or_insert(at);
            let believed = at.saturating_duration_since(since) >= BELIEVED_AFTER;
            self.now = if believed { wall } else { expected };
        } else {
            self.ahead_since = None;
            // Rounded up, so that frequent readings do not stop it.
            self.now = self.now.saturating_add(elapsed_ms.div_ceil(2));
        }
        self.now
    }
}

/// Before 1970 there are no sales: a clock set that wrong reads as the epoch itself.
pub(crate) fn wall_ms() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_800_000_000_000;

    /// Reads once a second while the wall clock is `offset` ms off, and gives the last reading less the true time.
    struct World {
        steady: Steady,
        began: Instant,
        seconds: u64,
    }

    impl World {
        fn new() -> Self {
            let began = Instant::now();
            Self { steady: Steady { now: START, read_at: began, ahead_since: None }, began, seconds: 0 }
        }

        fn run(&mut self, seconds: u64, offset: i64) -> i64 {
            let mut error = 0;
            for _ in 0..seconds {
                self.seconds += 1;
                let truth = START + self.seconds * 1_000;
                let before = self.steady.now;
                let read = self.steady.read(
                    truth.saturating_add_signed(offset),
                    self.began + Duration::from_secs(self.seconds),
                );
                assert!(read >= before, "it went back");
                error = i64::try_from(read).unwrap() - i64::try_from(truth).unwrap();
            }
            error
        }
    }

    #[test]
    fn a_leap_that_is_taken_back_is_never_believed() {
        let mut world = World::new();
        assert_eq!(world.run(60, 0), 0);
        assert_eq!(world.run(5, 3_600_000), 0);
        assert_eq!(world.run(5, 0), 0);
    }

    #[test]
    fn a_leap_that_lasts_is_believed() {
        let mut world = World::new();
        assert_eq!(world.run(10, 3_600_000), 0);
        assert_eq!(world.run(2, 3_600_000), 3_600_000);
    }

    #[test]
    fn a_clock_put_back_slows_and_never_stops() {
        let mut world = World::new();
        world.run(10, 0);
        assert_eq!(world.run(10, -20_000), -5_000);
        assert_eq!(world.run(60, -20_000), -20_000);
        assert_eq!(world.run(60, -20_000), -20_000);
    }

    #[test]
    fn a_leap_at_the_start_is_believed_only_if_it_lasts() {
        let (began, leapt) = (Instant::now(), START + 3_600_000);
        let mut steady = Steady::witnessed(leapt, START, began);
        assert_eq!(steady.read(leapt, began), START);
        assert_eq!(steady.read(leapt + 9_000, began + Duration::from_secs(9)), START + 9_000);
        assert_eq!(steady.read(leapt + 10_000, began + Duration::from_secs(10)), leapt + 10_000);
        let mut steady = Steady::witnessed(START, leapt, began);
        assert_eq!(steady.read(START, began), START, "the witness is the one that leapt");
    }

    #[test]
    fn slow_drift_is_followed() {
        let mut world = World::new();
        for offset in 1..=100 {
            assert_eq!(world.run(1, offset * 10), offset * 10);
        }
    }

    #[test]
    fn frequent_readings_do_not_stop_it() {
        let began = Instant::now();
        let mut steady = Steady { now: START, read_at: began, ahead_since: None };
        for tick in 1..=10_000_u64 {
            steady.read(0, began + Duration::from_micros(tick * 300));
        }
        assert!(steady.now >= START + 1_400, "{}", steady.now - START);
    }
}
