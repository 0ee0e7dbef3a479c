//! Time passing at the test provider: slow payments are decided, webhooks are sent until they are taken.

use std::time::Duration;

use sqlx::{Connection, SqliteConnection};
use tokio::task::JoinSet;

use super::super::Payments;
use super::{Card, TestProvider, note};

/// Webhooks under way at a time.
const AT_A_TIME: i64 = 16;
/// After this long nobody is told any more, in milliseconds: three days, as Stripe does.
const PATIENCE: i64 = 3 * 24 * 3_600 * 1_000;
/// The longest pause between two tries, in milliseconds.
const LONGEST_PAUSE: i64 = 3_600_000;

/// A webhook that is due.
#[derive(sqlx::FromRow)]
struct Due {
    id: String,
    body: String,
}

impl TestProvider {
    /// Decides and delivers, to `url`, until it is dropped. What is not done then is done after the next start.
    pub(crate) async fn deliver(self, url: String) {
        loop {
            let pause = match self.round(&url).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::error!(%error, "the test provider cannot work with its books");
                    Duration::from_secs(1)
                }
            };
            // Woken by news, or when the next thing is due.
            let _ = tokio::time::timeout(pause, self.news.notified()).await;
        }
    }

    /// Does what is due and tells how long nothing will be.
    async fn round(&self, url: &str) -> Result<Duration, sqlx::Error> {
        self.decide().await?;
        let due: Vec<Due> = sqlx::query_as(
            "SELECT id, body FROM events WHERE next_try <= round(unixepoch('subsec') * 1000) ORDER BY next_try LIMIT ?1",
        )
        .bind(AT_A_TIME)
        .fetch_all(&mut *self.books.lock().await)
        .await?;
        let mut sending = JoinSet::new();
        for Due { id, body } in due {
            let (provider, url) = (self.clone(), url.to_owned());
            sending.spawn(async move { (provider.send(&url, body).await, id) });
        }
        while let Some(sent) = sending.join_next().await {
            let Ok((taken, id)) = sent else { continue };
            let mut books = self.books.lock().await;
            if taken {
                sqlx::query("DELETE FROM events WHERE id = ?1").bind(&id).execute(&mut *books).await?;
            } else {
                sqlx::query(
                    "UPDATE events SET tries = tries + 1,
                            next_try = round(unixepoch('subsec') * 1000) + min(1000 << min(tries, 20), ?2) WHERE id = ?1",
                )
                .bind(&id)
                .bind(LONGEST_PAUSE)
                .execute(&mut *books)
                .await?;
            }
        }
        let mut books = self.books.lock().await;
        sqlx::query("DELETE FROM events WHERE created_at < round(unixepoch('subsec') * 1000) - ?1")
            .bind(PATIENCE)
            .execute(&mut *books)
            .await?;
        let next: Option<i64> = sqlx::query_scalar(
            "SELECT CAST(max(0, min(
                 COALESCE((SELECT min(next_try) FROM events), ?1), COALESCE((SELECT min(due_at) FROM payments), ?1)
             ) - unixepoch('subsec') * 1000) AS INTEGER)",
        )
        .bind(i64::MAX)
        .fetch_one(&mut *books)
        .await?;
        // A second at most: the clock may be set.
        Ok(Duration::from_millis(next.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(1_000).clamp(1, 1_000)))
    }

    /// Decides the slow payments that are due.
    async fn decide(&self) -> Result<(), sqlx::Error> {
        let mut books = self.books.lock().await;
        let decided = decide(&mut books).await;
        if decided.is_err() {
            self.reopen(&mut books).await;
        }
        decided
    }

    /// Sends one webhook; whether it was taken.
    async fn send(&self, url: &str, body: String) -> bool {
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let signature = self.secrets[0].sign(body.as_bytes(), now);
        let sent = self
            .client
            .post(url)
            .header(self.signature_header(), signature)
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await;
        match sent {
            Ok(answer) if answer.status().is_success() => true,
            Ok(answer) => {
                tracing::warn!(status = answer.status().as_u16(), "a webhook was not taken");
                false
            }
            Err(error) => {
                tracing::warn!(%error, "a webhook could not be sent");
                false
            }
        }
    }
}

async fn decide(books: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let mut tx = books.begin_with("BEGIN IMMEDIATE").await?;
    let decided: Vec<String> = sqlx::query_scalar(
            "UPDATE payments SET due_at = NULL, status = CASE method WHEN ?1 THEN 'captured' ELSE 'authorised' END
             WHERE due_at <= round(unixepoch('subsec') * 1000) RETURNING purchase",
        )
        .bind(Card::AtOnce.name())
        .fetch_all(&mut *tx)
        .await?;
    for purchase in decided {
        note(&mut tx, &purchase).await?;
    }
    tx.commit().await
}
