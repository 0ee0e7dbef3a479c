//! Transactions that last longer than any may, ended by whichever node notices first.
//!
//! Who waits longer than [`TRY`] gives its transaction up. Its session at the server need not learn of that: one that waits
//! for a lock looks neither at its client nor at anything else, and keeps all the locks that it has. PostgreSQL has
//! time-outs and a search for deadlocks to free it, which are set in [`super::connect`], and for all of them it asks its
//! own time of day how long it has been: once that is set back by an hour, whatever has begun lasts an hour longer. Two
//! sessions of which each waits for the other then keep everybody waiting, nodes that have only just started among them.
//!
//! So each node looks at what is under way, by a clock that nobody can set. What it ends was given up by whoever began it,
//! or belongs to a node that is stopped or dead; should it be wrong, whoever began it tries again.

use std::collections::HashMap;
use std::sync::Weak;
use std::time::{Duration, Instant};

use sqlx::{ConnectOptions, PgConnection};

use super::connect::{APPLICATION, SETTING_UP};
use super::{Shared, TRY, in_time};

/// Between two looks.
const EVERY: Duration = Duration::from_secs(2);
/// Whoever began a transaction that has been seen for so long has given it up before.
const LIMIT: Duration = TRY.saturating_add(EVERY);

/// A session, and since when it does what it does, by the server's clock. It stays the same for as long as that does.
type Doing = (i32, String);

/// Sessions of ours in a transaction. Tables and stock may take long to set up, so of those who do that only such count
/// whose client does not say what is next.
macro_rules! under_way {
    ($columns:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM (
                 SELECT pid, CASE application_name WHEN $1 THEN xact_start ELSE state_change END::text AS since
                 FROM pg_stat_activity
                 WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
                 AND (application_name = $1 AND xact_start IS NOT NULL
                      OR application_name = $2 AND state LIKE 'idle in transaction%')) doing"
        )
    };
}

/// What has been seen, and when first.
#[derive(Debug, Default)]
struct Watch {
    connection: Option<PgConnection>,
    seen: HashMap<Doing, Instant>,
}

/// Watches until the last handle is gone.
pub(super) async fn watch(shared: Weak<Shared>) {
    let mut watch = Watch::default();
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(shared) = shared.upgrade() else { break };
        if let Err(error) = in_time(watch.look(&shared)).await {
            tracing::warn!(%error, "it cannot be seen which transactions last too long");
            watch.connection = None;
        }
    }
}

impl Watch {
    async fn look(&mut self, shared: &Shared) -> Result<(), sqlx::Error> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            // Its own: those of the pool may all be waiting.
            None => self.connection.insert(shared.options.connect().await?),
        };
        let doing: Vec<Doing> = sqlx::query_as(under_way!("pid, since"))
            .bind(APPLICATION)
            .bind(SETTING_UP)
            .fetch_all(&mut *connection)
            .await?;
        let now = Instant::now();
        let before = std::mem::take(&mut self.seen);
        self.seen = doing
            .into_iter()
            .map(|doing| {
                let first = before.get(&doing).copied().unwrap_or(now);
                (doing, first)
            })
            .collect();
        let over = |first: &Instant| now.duration_since(*first) > LIMIT;
        let (pids, since): (Vec<i32>, Vec<&str>) = self
            .seen
            .iter()
            .filter(|(_, first)| over(first))
            .map(|((pid, since), _)| (*pid, since.as_str()))
            .unzip();
        if pids.is_empty() {
            return Ok(());
        }
        let ended: Vec<(i32, bool)> = sqlx::query_as(concat!(
            under_way!("pid, pg_terminate_backend(pid)"),
            " WHERE (pid, since) IN (SELECT * FROM unnest($3::int[], $4::text[]))"
        ))
        .bind(APPLICATION)
        .bind(SETTING_UP)
        .bind(pids)
        .bind(since)
        .fetch_all(connection)
        .await?;
        for (session, ended) in ended {
            tracing::warn!(session, ended, "a transaction lasted too long, and its session is ended");
        }
        Ok(())
    }
}
