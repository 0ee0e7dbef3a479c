//! The built-in test provider: a payment service with books of its own that misbehaves on request.
//!
//! It moves no money, but keeps a real one's promises and breaks what a real one breaks: a payment is made once for a
//! purchase however often it is asked for; its books are durable, in a database apart from the shop's; replies get
//! lost; and its webhooks are signed, repeated until they are taken, and come in any order.

mod delivery;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;
use sqlx::migrate::Migrator;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Sqlite, SqliteConnection, Transaction};
use tokio::sync::{Mutex, Notify};

use super::signature::WebhookSecret;
use super::{Charge, Message, NoReply, Offer, Opened, Payments, Says, Status, Till};
use crate::checkout::Report;
use crate::model::new_id;
use crate::premises::make_private;

static MIGRATIONS: Migrator = sqlx::migrate!("../migrations/test-payments");

/// Why the test provider's books could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The database said no.
    #[error("the test provider's books cannot be opened: {0}")]
    Database(#[from] sqlx::Error),
    /// The schema could not be brought up to date.
    #[error("the test provider's books cannot be brought up to date: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// No HTTP client.
    #[error("the test provider cannot send webhooks: {0}")]
    Client(#[from] reqwest::Error),
}

/// What a test card does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Card {
    Accepted,
    Declined,
    Slow,
    LostReply,
    Silent,
    CaptureRefused,
    AtOnce,
}

/// The test provider; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct TestProvider {
    books: Arc<Mutex<SqliteConnection>>,
    /// They open the books again, which must exist.
    options: SqliteConnectOptions,
    news: Arc<Notify>,
    secrets: [WebhookSecret; 1],
    client: reqwest::Client,
    delay_ms: i64,
}

// === impl Card ===

impl Card {
    const ALL: [Self; 7] = [
        Self::Accepted,
        Self::Declined,
        Self::Slow,
        Self::LostReply,
        Self::Silent,
        Self::CaptureRefused,
        Self::AtOnce,
    ];

    /// The name that is kept, and may be given.
    fn name(self) -> &'static str {
        match self {
            Self::Accepted => "test_accepted",
            Self::Declined => "test_declined",
            Self::Slow => "test_slow",
            Self::LostReply => "test_lost_reply",
            Self::Silent => "test_silent",
            Self::CaptureRefused => "test_capture_refused",
            Self::AtOnce => "test_at_once",
        }
    }

    /// The card number that may be given instead.
    fn number(self) -> &'static str {
        match self {
            Self::Accepted => "4242 4242 4242 4242",
            Self::Declined => "4000 0000 0000 0002",
            Self::Slow => "4000 0000 0000 3220",
            Self::LostReply => "4000 0000 0000 0119",
            Self::Silent => "4000 0000 0000 0341",
            Self::CaptureRefused => "4000 0000 0000 0259",
            Self::AtOnce => "4000 0000 0000 0077",
        }
    }

    fn detail(self) -> &'static str {
        match self {
            Self::Accepted => "is accepted at once",
            Self::Declined => "is declined",
            Self::Slow => "the bank takes a while to accept",
            Self::LostReply => "is accepted, but the bank's replies get lost; its messages arrive later",
            Self::Silent => "is accepted, but nothing is ever heard of it; the shop has to ask",
            Self::CaptureRefused => "is accepted first, then the bank refuses to pay",
            Self::AtOnce => {
                "the bank takes a while, then moves the money at once; it comes back if that was too late"
            }
        }
    }

    fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|card| card.name() == name)
    }

    fn loses_replies(self) -> bool {
        matches!(self, Self::LostReply | Self::Silent)
    }

    fn is_slow(self) -> bool {
        matches!(self, Self::Slow | Self::AtOnce)
    }
}

// === impl TestProvider ===

impl TestProvider {
    /// Opens the books at `path`. Webhooks are signed with `secret`; slow payments are decided after `delay`.
    ///
    /// # Errors
    /// When the database cannot be opened or is of a newer schema.
    pub(crate) async fn open(path: &Path, secret: WebhookSecret, delay: Duration) -> Result<Self, OpenError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(Duration::from_secs(5));
        make_private(path);
        let mut books = options.connect().await?;
        MIGRATIONS.run(&mut books).await?;
        Ok(Self {
            books: Arc::new(Mutex::new(books)),
            options: options.create_if_missing(false),
            news: Arc::new(Notify::new()),
            secrets: [secret],
            client: crate::client::new("http://localhost")?,
            delay_ms: i64::try_from(delay.as_millis()).unwrap_or(i64::MAX / 2),
        })
    }

    /// Does `work` in one durable transaction; `true` with its answer means that it changed the books.
    async fn change(
        &self,
        purchase: &str,
        work: impl AsyncFnOnce(&mut Transaction<'_, Sqlite>) -> Result<bool, sqlx::Error>,
    ) -> Result<Status, NoReply> {
        let mut books = self.books.lock().await;
        let (changed, status, card) = match transact(&mut books, purchase, work).await {
            Ok(done) => done,
            Err(error) => {
                self.reopen(&mut books).await;
                return Err(NoReply(error.to_string()));
            }
        };
        drop(books);
        self.news.notify_one();
        match card {
            Some(card) if changed && card.loses_replies() => {
                Err(NoReply("the connection was closed".to_owned()))
            }
            _ => Ok(status),
        }
    }

    /// After a transaction that failed: SQLite may have rolled back by itself, as it does on a full disk. The driver does
    /// not notice, takes the connection to be in a transaction for good, and begins no other.
    async fn reopen(&self, books: &mut SqliteConnection) {
        match self.options.connect().await {
            Ok(opened) => *books = opened,
            Err(error) => tracing::error!(%error, "the test provider's books cannot be opened again yet"),
        }
    }

    async fn turn(&self, purchase: &str, from: &'static str, to: &'static str) -> Result<Status, NoReply> {
        self.change(purchase, async |tx| {
            let turned = sqlx::query("UPDATE payments SET status = ?3 WHERE purchase = ?1 AND status = ?2")
                .bind(purchase)
                .bind(from)
                .bind(to)
                .execute(&mut **tx)
                .await?;
            Ok(turned.rows_affected() == 1)
        })
        .await
    }
}

#[async_trait]
impl Payments for TestProvider {
    fn method(&self, given: &str) -> Result<String, String> {
        let digits: String = given.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
        Card::ALL
            .into_iter()
            .find(|card| card.name() == given || card.number().replace(' ', "") == digits)
            .map(|card| card.name().to_owned())
            .ok_or_else(|| {
                let names: Vec<&str> = Card::ALL.iter().map(|card| card.name()).collect();
                format!(
                    "payment_method: not a test card. Nothing real is charged here, so give no real card, but one of {} \
                     or its number as shown at checkout.",
                    names.join(", ")
                )
            })
    }

    fn till(&self) -> Till {
        let offer = |card: Card| Offer {
            value: card.name().to_owned(),
            label: card.number().to_owned(),
            detail: card.detail().to_owned(),
        };
        Till {
            title: "Test card",
            note: "No real money moves here. Each card shows another side of a bank:",
            offers: Card::ALL.into_iter().map(offer).collect(),
        }
    }

    async fn authorise(&self, charge: &Charge) -> Result<Status, NoReply> {
        let Some(card) = Card::of(&charge.method) else {
            return Ok(Status::Declined("This card is not known here.".to_owned()));
        };
        let (status, reason) = match card {
            Card::Declined => ("declined", Some("The bank declined the card.")),
            card if card.is_slow() => ("pending", None),
            _ => ("authorised", None),
        };
        self.change(&charge.purchase, async |tx| {
            let made = sqlx::query(
                "INSERT INTO payments (purchase, amount_minor, currency, method, status, reason, due_at, created_at)
                 SELECT ?1, ?2, ?3, ?4, ?5, ?6, CASE WHEN ?5 = 'pending' THEN now + ?7 END, now
                 FROM (SELECT CAST(round(unixepoch('subsec') * 1000) AS INTEGER) AS now) WHERE true
                 ON CONFLICT DO NOTHING",
            )
            .bind(&charge.purchase)
            .bind(charge.amount_minor)
            .bind(&charge.currency)
            .bind(card.name())
            .bind(status)
            .bind(reason)
            .bind(self.delay_ms)
            .execute(&mut **tx)
            .await?;
            Ok(made.rows_affected() == 1)
        })
        .await
    }

    async fn open(&self, _: &Charge) -> Result<Opened, NoReply> {
        Ok(Opened::Nameless)
    }

    async fn capture(&self, charge: &Charge) -> Result<Status, NoReply> {
        if let Status::Authorised = self.status(charge).await?
            && self.card(&charge.purchase).await? == Some(Card::CaptureRefused)
        {
            return Ok(Status::CaptureRefused("The bank refused to pay.".to_owned()));
        }
        self.turn(&charge.purchase, "authorised", "captured").await
    }

    async fn void(&self, charge: &Charge) -> Result<Status, NoReply> {
        self.turn(&charge.purchase, "authorised", "voided").await
    }

    async fn refund(&self, charge: &Charge) -> Result<Status, NoReply> {
        self.turn(&charge.purchase, "captured", "refunded").await
    }

    async fn status(&self, charge: &Charge) -> Result<Status, NoReply> {
        let mut books = self.books.lock().await;
        let looked = look(&mut books, &charge.purchase).await;
        looked.map(|(status, _)| status).map_err(|error| NoReply(error.to_string()))
    }

    async fn whose(&self, reference: &str) -> Result<Option<String>, NoReply> {
        Ok(Some(reference.to_owned()))
    }

    fn signature_header(&self) -> &'static str {
        "payment-signature"
    }

    fn secrets(&self) -> &[WebhookSecret] {
        &self.secrets
    }

    fn read(&self, body: &[u8]) -> Result<Message, serde_json::Error> {
        let Event { id, r#type: kind, data: Data { object } } = serde_json::from_slice(body)?;
        let report = match kind.as_str() {
            "payment.authorised" => Some(Report::Authorised),
            "payment.declined" => Some(Report::Declined),
            "payment.captured" => Some(Report::Captured),
            "payment.voided" => Some(Report::Voided),
            "payment.refunded" => Some(Report::Refunded),
            _ => None,
        };
        let says = report.map_or(Says::Nothing, |report| Says::Told(report, object.reason));
        Ok(Message { id, kind, purchase: Some(object.purchase), reference: None, says })
    }
}

/// A webhook of its own. Members that are not named are its own business and are passed over.
#[derive(Deserialize)]
struct Event {
    id: String,
    r#type: String,
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    purchase: String,
    reason: Option<String>,
}

impl TestProvider {
    async fn card(&self, purchase: &str) -> Result<Option<Card>, NoReply> {
        let mut books = self.books.lock().await;
        let (_, card) = look(&mut books, purchase).await.map_err(|error| NoReply(error.to_string()))?;
        Ok(card)
    }
}

/// Does `work`, and notes the event if it changed the books; all of it or nothing.
async fn transact(
    books: &mut SqliteConnection,
    purchase: &str,
    work: impl AsyncFnOnce(&mut Transaction<'_, Sqlite>) -> Result<bool, sqlx::Error>,
) -> Result<(bool, Status, Option<Card>), sqlx::Error> {
    let mut tx = books.begin_with("BEGIN IMMEDIATE").await?;
    let changed = work(&mut tx).await?;
    let (status, card) = look(&mut tx, purchase).await?;
    if changed && !matches!(status, Status::Pending { .. }) && card != Some(Card::Silent) {
        note(&mut tx, purchase).await?;
    }
    tx.commit().await?;
    Ok((changed, status, card))
}

async fn look(books: &mut SqliteConnection, purchase: &str) -> Result<(Status, Option<Card>), sqlx::Error> {
    let row: Option<(String, String, Option<String>)> =
        sqlx::query_as("SELECT status, method, reason FROM payments WHERE purchase = ?1")
            .bind(purchase)
            .fetch_optional(books)
            .await?;
    let Some((status, method, reason)) = row else { return Ok((Status::Unknown, None)) };
    let status = match status.as_str() {
        "authorised" => Status::Authorised,
        "declined" => Status::Declined(reason.unwrap_or_default()),
        "captured" => Status::Captured,
        "voided" => Status::Voided,
        "refunded" => Status::Refunded,
        _ => Status::Pending { redirect: None },
    };
    Ok((status, Card::of(&method)))
}

/// Puts a webhook about the payment as it stands into the outgoing books.
async fn note(books: &mut SqliteConnection, purchase: &str) -> Result<(), sqlx::Error> {
    let (status, reason, amount_minor, currency, now): (String, Option<String>, i64, String, i64) = sqlx::query_as(
        "SELECT status, reason, amount_minor, currency, CAST(round(unixepoch('subsec') * 1000) AS INTEGER)
         FROM payments WHERE purchase = ?1",
    )
    .bind(purchase)
    .fetch_one(&mut *books)
    .await?;
    let id = new_id("evt_", now).map_err(|error| sqlx::Error::Encode(error.to_string().into()))?;
    let body = json!({
        "id": id,
        "type": format!("payment.{status}"),
        "created": now / 1_000,
        "data": { "object": {
            "purchase": purchase,
            "status": status,
            "amount_minor": amount_minor,
            "currency": currency,
            "reason": reason,
        } },
    });
    sqlx::query("INSERT INTO events (id, purchase, body, created_at, next_try) VALUES (?1, ?2, ?3, ?4, ?4)")
        .bind(&id)
        .bind(purchase)
        .bind(body.to_string())
        .bind(now)
        .execute(books)
        .await?;
    Ok(())
}
