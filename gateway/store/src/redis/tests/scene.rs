//! A sale whose servers go through something, and what its clients were told meanwhile.

use std::sync::Arc;
use std::time::Instant;

use ropeline_queue::{Pace, TickInput};
use ropeline_test_redis::{Durable, Server};
use tempfile::TempDir;

use super::fixture::settings;
use super::history::History;
use super::racing::{sale, visitor};
use crate::contract::definition;
use crate::redis::{RedisCheckpoint, RedisServers, RedisSettings, RedisStore};
use crate::{Join, QueueStore, StoreError};

pub(super) const CAP: u32 = 20;

/// A sale on a server or several, with its checkpoint, and what clients were told.
pub(super) struct Scene<S> {
    pub(super) server: S,
    _folder: TempDir,
    pub(super) settings: RedisSettings,
    pub(super) history: History,
}

// === impl Scene ===

impl Scene<Server> {
    pub(super) async fn new(durable: Durable) -> Self {
        let server = Server::start(durable);
        let settings = settings(RedisServers::Single(server.url()));
        Self::on(server, settings).await
    }
}

impl<S> Scene<S> {
    pub(super) async fn on(server: S, settings: RedisSettings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let checkpoint = folder.path().join("checkpoint");
        std::fs::create_dir(&checkpoint).unwrap();
        let checkpoint = Some(RedisCheckpoint::Folder(checkpoint));
        let settings = RedisSettings { checkpoint, ..settings };
        let mut raw = definition("drop", CAP);
        raw.pace = Pace::Smooth { admit: 1_000, per_ms: 1_000, burst: 500 };
        raw.claim_window_ms = 60_000;
        RedisStore::open(&settings).unwrap().create(raw.check().unwrap(), [1; 32]).await.unwrap();
        Self { server, _folder: folder, settings, history: History::default() }
    }

    pub(super) fn gateway(&self) -> Arc<RedisStore> {
        Arc::new(RedisStore::open(&self.settings).unwrap())
    }

    /// Joins, and asks again as long as the store is not available.
    pub(super) async fn join(&mut self, store: &RedisStore, who: std::ops::Range<u64>) {
        let joins: Vec<Join> = who.clone().map(|who| Join::of(visitor(who))).collect();
        let asked = Instant::now();
        let answers = patiently(async || store.join(&sale(), joins.clone()).await).await;
        for (who, joined) in who.zip(answers) {
            self.history.joined(asked, visitor(who), joined.unwrap());
        }
    }

    pub(super) async fn tick(&mut self, store: &RedisStore) -> Arc<ropeline_queue::SaleView> {
        let asked = Instant::now();
        let view = patiently(async || store.tick(&sale(), TickInput::default()).await).await;
        self.history.saw(asked, &view);
        view
    }

    pub(super) async fn claim(&mut self, store: &RedisStore, arrivals: std::ops::Range<u64>) {
        for arrival in arrivals.map(ropeline_queue::Arrival) {
            let asked = Instant::now();
            let view = patiently(async || store.view(&sale()).await).await;
            let position = view.position(arrival);
            if let Ok(claimed) = patiently(async || store.claim(&sale(), position).await).await {
                self.history.claimed(asked, arrival, claimed);
            }
        }
    }

    /// Everybody shows the ticket they hold, and finds it good; then newcomers get numbers of their own.
    pub(super) async fn everybody_comes_back(&mut self, store: &RedisStore) {
        let tickets = self.history.tickets();
        patiently(async || store.reenter(&sale(), tickets.clone()).await).await;
        let visitors = tickets.len() as u64;
        self.join(store, 0..visitors).await;
        self.join(store, 1_000_000..1_000_050).await;
        self.tick(store).await;
        self.history.check();
        self.history.check_cap(u64::from(CAP));
    }
}

/// A store that is not available is asked again, as every caller may.
pub(super) async fn patiently<T>(mut ask: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    let began = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(StoreError::Unavailable { reason }) if began.elapsed().as_secs() < 30 => {
                eprintln!("{reason}");
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}
