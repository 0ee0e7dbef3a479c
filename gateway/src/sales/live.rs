//! One sale as this gateway shows it: the last view of the store, and what is prepared from it.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use ropeline_queue::draw::{Permutation, Shuffle};
use ropeline_queue::{
    Arrival, DrawState, DrawView, Lane, Phase, Position, SaleId, SaleView, Snapshot, TickInput, UnixMillis,
};
use ropeline_store::StoreError;
use serde::Serialize;

use super::attendance::Seen;
use super::budget::Budget;
use super::probe::Probe;
use crate::draw_document::DrawDocument;
use crate::keys::Keys;
use crate::page::{self, Language, RoomBeacon, RoomInput};

/// A day: longer than the lease that an operator gives by hand may exceed the sale's own, and than any leeway.
const LEASE_MARGIN_MS: u64 = 24 * 3_600 * 1_000;

/// How long the store may fail before it is called away. Until then those who ask it wait, or are told to come again.
pub(super) const AWAY_AFTER: Duration = Duration::from_secs(2);

/// One sale as this gateway shows it.
pub struct LiveSale {
    /// Its id.
    pub id: SaleId,
    showing: ArcSwap<Showing>,
    places: ArcSwapOption<Places>,
    listing: AtomicBool,
    probe: Probe,
    pulse: Mutex<Pulse>,
    seen: Mutex<Seen>,
    /// What the store said when it failed last.
    trouble: ArcSwapOption<StoreError>,
    left: Mutex<HashMap<Arrival, UnixMillis>>,
    /// Whose ticket, passed over by a loss, has been shown to the store, and after how many losses.
    returned: Mutex<(u64, HashSet<Arrival>)>,
    /// One refresh at a time: a later view must not be overtaken by an earlier one.
    pub(super) refreshing: tokio::sync::Mutex<()>,
}

/// When the store was heard of, by this process's own clock: no other tells how long it is away.
#[derive(Clone, Copy)]
struct Pulse {
    /// When the store last moved the sale on.
    ticked: Instant,
    /// When it was last asked to, or its answer was still waited for.
    tried: Instant,
    /// Since when it has failed each time, or not answered.
    failing_since: Option<Instant>,
    /// Of the time that the sale may be open without it.
    away: Budget,
}

// === impl Pulse ===

impl Pulse {
    const fn new(now: Instant) -> Self {
        Self { ticked: now, tried: now, failing_since: None, away: Budget::new(now) }
    }

    fn answered(&mut self, view: &SaleView, now: Instant) {
        self.failing_since = None;
        self.away.note(false, open_for(view), now);
    }

    /// What was begun then has failed, or is still under way. Since when it has each time.
    fn failed(&mut self, view: &SaleView, began: Instant, now: Instant) -> Instant {
        self.tried = now;
        self.away.note(true, open_for(view), now);
        *self.failing_since.get_or_insert(began)
    }
}

/// Where what is shown comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From the store, just now.
    Store,
    /// From the store, before it went away.
    Memory {
        /// Meanwhile the sale lets everybody in.
        open: bool,
    },
    /// From the configuration: the store has not been reached since this process started.
    Configuration,
}

/// What is shown at one instant: everything an answer needs, with no store in sight.
pub struct Showing {
    /// Where the sale stands.
    pub view: Arc<SaleView>,
    /// Where that comes from.
    pub source: Source,
    /// The public document's bytes.
    pub snapshot: Bytes,
    /// What the room says.
    pub input: Arc<RoomInput>,
    /// The room for everyone, ready to send.
    pub room: Arc<page::Prepared>,
    /// The draw's signed document, ready to send; none where the sale has no draw.
    pub draw: Option<Arc<page::Prepared>>,
}

/// The public document.
#[derive(Serialize)]
struct SnapshotDocument {
    #[serde(flatten)]
    snapshot: Snapshot,
    #[serde(skip_serializing_if = "Option::is_none")]
    store_away: Option<StoreAwayDocument>,
}

/// The store cannot be reached: all of this was true at `as_of`.
#[derive(Serialize)]
struct StoreAwayDocument {
    /// Meanwhile everybody who goes to the shop is let in.
    open: bool,
}

/// The draw's lists of places, one a lane, computed once: a status call looks its place up.
struct Places {
    shuffles: Vec<Shuffle>,
    lists: Vec<Permutation>,
}

/// Prepares what is shown.
pub(super) struct Renderer {
    room: Arc<page::Room>,
    api_prefix: String,
    keys: Arc<Keys>,
}

impl Renderer {
    pub(super) fn new(room: Arc<page::Room>, api_prefix: String, keys: Arc<Keys>) -> Self {
        Self { room, api_prefix, keys }
    }

    /// The room is compressed, and the draw signed, anew only when it says something else than before.
    fn showing(&self, view: Arc<SaleView>, source: Source, before: Option<&Showing>) -> Showing {
        let input = room_input(&view, source, &self.api_prefix);
        let (input, room) = match before {
            Some(before) if *before.input == input => (Arc::clone(&before.input), Arc::clone(&before.room)),
            _ => {
                let room = Arc::new(self.room.prepare(&input, Language::default()));
                (Arc::new(input), room)
            }
        };
        let signed =
            before.filter(|before| before.view.draw == view.draw).and_then(|before| before.draw.clone());
        let draw = signed.or_else(|| view.draw.as_ref().and_then(|draw| self.draw(draw)));
        let store_away = match source {
            Source::Store => None,
            Source::Memory { open } => Some(StoreAwayDocument { open }),
            Source::Configuration => Some(StoreAwayDocument { open: false }),
        };
        let document = SnapshotDocument { snapshot: view.snapshot(), store_away };
        let snapshot = serde_json::to_vec(&document).unwrap_or_default().into();
        Showing { view, source, snapshot, input, room, draw }
    }

    fn draw(&self, draw: &DrawView) -> Option<Arc<page::Prepared>> {
        match DrawDocument::new(self.keys.ticket.signer(), draw) {
            // A plain structure of text and numbers always has a JSON form.
            Ok(document) => {
                Some(Arc::new(page::Prepared::json(serde_json::to_vec(&document).unwrap_or_default())))
            }
            Err(error) => {
                tracing::error!(sale = %draw.manifest.sale, %error, "the draw's document cannot be signed");
                None
            }
        }
    }
}

impl LiveSale {
    pub(super) fn new(view: Arc<SaleView>, source: Source, renderer: &Renderer) -> Self {
        let now = Instant::now();
        Self {
            id: view.definition.id.clone(),
            probe: Probe::new(&view.definition),
            showing: ArcSwap::from_pointee(renderer.showing(view, source, None)),
            places: ArcSwapOption::empty(),
            listing: AtomicBool::new(false),
            pulse: Mutex::new(Pulse::new(now)),
            seen: Mutex::default(),
            trouble: ArcSwapOption::empty(),
            left: Mutex::default(),
            returned: Mutex::default(),
            refreshing: tokio::sync::Mutex::default(),
        }
    }

    /// What is shown now.
    #[must_use]
    pub fn showing(&self) -> arc_swap::Guard<Arc<Showing>> {
        self.showing.load()
    }

    /// Shows a newer view; `true` when the policy follows from what changed.
    pub(super) fn show(&self, view: Arc<SaleView>, renderer: &Renderer) -> bool {
        self.pulse().answered(&view, Instant::now());
        self.trouble.store(None);
        let before = self.showing.load_full();
        let changed = before.view.epoch != view.epoch || before.view.definition != view.definition;
        if changed {
            self.probe.retarget(&view.definition);
        }
        if let Source::Memory { .. } | Source::Configuration = before.source {
            tracing::info!(sale = %self.id, "the store is back");
        }
        self.showing.store(Arc::new(renderer.showing(view, Source::Store, Some(&before))));
        changed
    }

    /// Notes that the store could not move the sale on, or has not yet done so, when it was asked at `began`; once that has
    /// lasted, it is shown.
    pub(super) fn failed(&self, error: &StoreError, began: Instant, renderer: &Renderer) {
        let now = Instant::now();
        let before = self.showing.load_full();
        let told = self.trouble.swap(Some(Arc::new(error.clone())));
        // Once, not with each tick.
        if before.source == Source::Store && told.is_none_or(|told| *told != *error) {
            tracing::error!(sale = %self.id, %error, "the sale cannot be moved on");
        }
        let (since, used) = {
            let mut pulse = self.pulse();
            (pulse.failed(&before.view, began, now), pulse.away.used(now))
        };
        if since.elapsed() < AWAY_AFTER || before.source == Source::Configuration {
            return;
        }
        // The others have a store, and a queue that nobody is to be let past.
        let others_go_on = matches!(error, StoreError::Newer { .. } | StoreError::Disagrees { .. });
        let source = Source::Memory { open: !others_go_on && may_open(&before.view, since, used) };
        if source == before.source {
            return;
        }
        if before.source == Source::Store {
            tracing::error!(sale = %self.id, "the store is away; the room says so and keeps everybody's place");
        }
        let showing = renderer.showing(Arc::clone(&before.view), source, Some(&before));
        self.showing.store(Arc::new(showing));
    }

    /// Why the store is away, if it is.
    #[must_use]
    pub fn trouble(&self) -> Option<Arc<StoreError>> {
        self.trouble.load_full().filter(|_| self.is_away())
    }

    /// The store cannot be reached: nobody can join, claim or leave.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.showing().source != Source::Store
    }

    /// The store was reached at some time: it is known where the sale stood.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.showing().source != Source::Configuration
    }

    /// The store cannot be reached, and the sale lets everybody in meanwhile.
    #[must_use]
    pub fn is_open_without_store(&self) -> bool {
        let showing = self.showing();
        let Pulse { failing_since, away, .. } = *self.pulse();
        showing.source == Source::Memory { open: true }
            && failing_since.is_some_and(|since| may_open(&showing.view, since, away.used(Instant::now())))
    }

    /// The store cannot be reached from here, and other gateways reach it.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.is_away() && self.seen().others_reach(Instant::now())
    }

    /// What is known of others while the store cannot be reached.
    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pulse(&self) -> MutexGuard<'_, Pulse> {
        self.pulse.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to list the places of a draw that are not listed yet. Two million take the better part of a second, so
    /// that happens beside; until it is done each place is computed alone.
    pub(super) fn list_places(self: &Arc<Self>) {
        let Some(shuffles) = shuffles(&self.showing().view) else { return };
        let listed = self.places.load().as_ref().is_some_and(|places| places.shuffles == shuffles);
        if listed || self.listing.swap(true, Ordering::AcqRel) {
            return;
        }
        let sale = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            let lists = shuffles.iter().map(Shuffle::places).collect();
            sale.places.store(Some(Arc::new(Places { shuffles, lists })));
            sale.listing.store(false, Ordering::Release);
        });
    }

    /// Where an arrival stands. Looked up where the draw has been listed, else computed alone.
    #[must_use]
    pub fn position(&self, arrival: Arrival) -> Position {
        let showing = self.showing();
        let lane = arrival.lane();
        if let (Some(places), Some(shuffle)) = (self.places.load().as_ref(), shuffle(&showing.view, lane))
            && places.shuffles.get(lane.index()) == Some(&shuffle)
            && let Some(list) = places.lists.get(lane.index())
        {
            return Position { arrival, place: Some(list.place(arrival)) };
        }
        showing.view.position(arrival)
    }

    /// Notes that a visitor gave up the admission: its capacity is free, so its token is worth nothing here any more.
    pub fn leave(&self, arrival: Arrival) {
        let view = &self.showing().view;
        // By then every token of this arrival has expired.
        let until = view.as_of.plus(view.definition.lease_ms).plus(LEASE_MARGIN_MS);
        self.left.lock().unwrap_or_else(PoisonError::into_inner).insert(arrival, until);
    }

    /// Whether a visitor gave up the admission.
    #[must_use]
    pub fn has_left(&self, arrival: Arrival) -> bool {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&arrival)
    }

    /// Notes that a ticket which a loss has passed over is shown to the store; `false` when that was noted before.
    #[must_use]
    pub fn comes_back(&self, arrival: Arrival) -> bool {
        let losses = self.showing().view.losses;
        let mut returned = self.returned.lock().unwrap_or_else(PoisonError::into_inner);
        if returned.0 != losses {
            *returned = (losses, HashSet::new());
        }
        returned.1.insert(arrival)
    }

    /// Takes that back: the store was not told.
    pub fn has_not_come_back(&self, arrival: Arrival) {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&arrival);
    }

    /// Notes that the store has moved the sale on just now.
    pub(super) fn ticked(&self) {
        let view = Arc::clone(&self.showing().view);
        let (now, at) = (view.as_of, Instant::now());
        {
            let mut pulse = self.pulse();
            (pulse.ticked, pulse.tried) = (at, at);
            pulse.answered(&view, at);
        }
        self.left.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, until| *until > now);
    }

    /// How long ago the store moved the sale on.
    #[must_use]
    pub fn since_tick(&self) -> Duration {
        self.pulse().ticked.elapsed()
    }

    /// How long ago the store was last asked to, or its answer was still waited for.
    #[must_use]
    pub fn since_try(&self) -> Duration {
        self.pulse().tried.elapsed()
    }

    /// Notes how the shop answered one forwarded request.
    pub fn observe(&self, ok: bool, latency_ms: u64) {
        self.probe.observe(ok, latency_ms);
    }

    /// Notes what the shop says of its load, in percent of what it wants to have at once.
    pub fn hear_load(&self, percent: u32) {
        self.probe.hear_load(percent);
    }

    /// What the next tick must know of the shop.
    pub(super) fn tick_input(&self) -> TickInput {
        TickInput { health_limit: Some(self.probe.limit(self.showing().view.active)) }
    }
}

/// Those of all lanes, once the draw is made.
fn shuffles(view: &SaleView) -> Option<Vec<Shuffle>> {
    view.lines.lanes().map(|lane| shuffle(view, lane)).collect()
}

fn shuffle(view: &SaleView, lane: Lane) -> Option<Shuffle> {
    match view.draw.as_ref()?.state_of(lane)? {
        DrawState::Drawn { size, seed } => Some(Shuffle::new(seed, size)),
        DrawState::NotHeld | DrawState::Collecting | DrawState::Frozen { .. } => None,
    }
}

/// For how long a sale may be open without its store.
fn open_for(view: &SaleView) -> Duration {
    Duration::from_millis(view.definition.store_away.open_for_ms())
}

/// Whether a sale whose store has been away since then lets everybody in: one that was open, has not come to its end
/// meanwhile, had something to sell, and has not used up the time for that.
fn may_open(view: &SaleView, away_since: Instant, used: Duration) -> bool {
    let away_ms = u64::try_from(away_since.elapsed().as_millis()).unwrap_or(u64::MAX);
    let over = view.definition.closes_at.is_some_and(|at| at <= view.as_of.plus(away_ms));
    let sold_out = view.stock.is_some_and(|stock| stock.available == 0);
    view.phase == Phase::Open && !over && !sold_out && used < open_for(view)
}

fn room_input(view: &SaleView, source: Source, api_prefix: &str) -> RoomInput {
    let definition = &view.definition;
    RoomInput {
        sale: definition.id.to_string(),
        title: if definition.title.is_empty() { definition.id.to_string() } else { definition.title.clone() },
        api_prefix: api_prefix.to_owned(),
        entry_url: entry_url(view),
        phase: view.phase,
        joins_open_at: definition.joins_open_at.map(|at| at.0),
        opens_at: definition.opens_at.map(|at| at.0),
        draw_closes_at: definition.draw.map(|draw| draw.closes_at.0),
        beacon: view.draw.as_ref().and_then(|draw| {
            Some(RoomBeacon { due_at: draw.round()?.due_at.0, late: draw.is_overdue(view.as_of) })
        }),
        paused_reason: view.paused_reason.clone(),
        store_away: source != Source::Store,
        invitations: definition.lanes.iter().any(|lane| lane.invitation),
        all_held: view.stock.is_some_and(|stock| stock.available == 0 && !stock.is_gone()),
    }
}

/// Where a shopper goes who opened the room by its own address: the sale's entry, else its first route.
fn entry_url(view: &SaleView) -> String {
    let definition = &view.definition;
    let first_route =
        || definition.protect.routes.first().map(|route| route.trim_start_matches('=').to_owned());
    definition.entry_url.clone().or_else(first_route).unwrap_or_else(|| "/".to_owned())
}
