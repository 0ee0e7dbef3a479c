//! What may be tried again: whatever came to nothing through no fault of its own.
//!
//! A transaction whose commit was not heard of may have been made. Doing it again is safe all the same, because each
//! operation first looks up its key, or the state that it would change.

use std::time::{Duration, Instant};

use crate::store::tx::WriteError;

/// How long a change is tried for: a server that was killed is back by then, as a rule, or a standby has taken over. Where not,
/// whoever asked is told so, and may ask again with the same key.
const PATIENCE: Duration = Duration::from_secs(12);
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Why a transaction came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Others were in the way: a deadlock, a row or a key that somebody else wrote first.
    Crossed,
    /// The server is gone, or this connection.
    Lost,
    /// It would come to nothing again.
    Final,
}

/// Tries that one change has left.
#[derive(Debug)]
pub(super) struct Tries {
    until: Instant,
    pause: Duration,
}

// === impl Failure ===

impl Failure {
    pub(super) fn of(error: &WriteError) -> Self {
        match error {
            WriteError::Database(error) => Self::of_database(error),
            WriteError::Answer(_) | WriteError::Random(_) => Self::Final,
        }
    }

    fn of_database(error: &sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(refused) => match refused.code().as_deref().unwrap_or_default() {
                // Serialization failure, deadlock, lock not to be had, a key or a live reservation that is there already.
                "40001" | "40P01" | "55P03" | "23505" => Self::Crossed,
                // Shut down, crashed, starting, idle for too long, a standby by now, too many connections.
                "57P01" | "57P02" | "57P03" | "25P03" | "25006" | "53300" => Self::Lost,
                code if code.starts_with("08") => Self::Lost,
                _ => Self::Final,
            },
            sqlx::Error::Io(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::BeginFailed
            | sqlx::Error::WorkerCrashed => Self::Lost,
            // What was there a moment ago is not: read it again.
            sqlx::Error::RowNotFound => Self::Crossed,
            _ => Self::Final,
        }
    }
}

// === impl Tries ===

impl Tries {
    pub(super) fn since(asked: Instant) -> Self {
        Self::until(asked + PATIENCE)
    }

    pub(super) fn until(until: Instant) -> Self {
        Self { until, pause: FIRST_PAUSE }
    }

    /// Waits before the next try. `false`: there is none.
    pub(super) async fn again(&mut self, error: &WriteError) -> bool {
        self.after(Failure::of(error), error).await
    }

    /// The same of what the database says.
    pub(super) async fn again_at(&mut self, error: &sqlx::Error) -> bool {
        self.after(Failure::of_database(error), error).await
    }

    async fn after(&mut self, failure: Failure, error: &(dyn std::error::Error + Sync)) -> bool {
        if failure == Failure::Final || Instant::now() + self.pause >= self.until {
            return false;
        }
        tracing::info!(%error, "a transaction came to nothing; it is tried again");
        // Those who crossed each other shall not do so again in step.
        tokio::time::sleep(self.pause.mul_f32(0.5 + fastrand::f32())).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}
