//! One sale as this gateway shows it: the last view of the store, and what is prepared from it.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use ropeline_queue::draw::{Permutation, Shuffle};
use ropeline_queue::{Arrival, DrawState, DrawView, Position, SaleId, SaleView, TickInput, UnixMillis};

use super::probe::Probe;
use crate::draw_document::DrawDocument;
use crate::keys::Keys;
use crate::page::{self, Language, RoomBeacon, RoomInput};

/// A day: longer than the lease that an operator gives by hand may exceed the sale's own, and than any leeway.
const LEASE_MARGIN_MS: u64 = 24 * 3_600 * 1_000;

/// One sale as this gateway shows it.
pub struct LiveSale {
    /// Its id.
    pub id: SaleId,
    showing: ArcSwap<Showing>,
    places: ArcSwapOption<Places>,
    listing: AtomicBool,
    probe: Probe,
    ticked: Mutex<Instant>,
    left: Mutex<HashMap<Arrival, UnixMillis>>,
}

/// What is shown at one instant: everything an answer needs, with no store in sight.
pub struct Showing {
    /// Where the sale stands.
    pub view: Arc<SaleView>,
    /// The public document's bytes.
    pub snapshot: Bytes,
    /// What the room says.
    pub input: Arc<RoomInput>,
    /// The room for everyone, ready to send.
    pub room: Arc<page::Prepared>,
    /// The draw's signed document, ready to send; none where the sale has no draw.
    pub draw: Option<Arc<page::Prepared>>,
}

/// The draw's list of places, computed once: a status call looks its place up.
struct Places {
    shuffle: Shuffle,
    list: Permutation,
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
    fn showing(&self, view: Arc<SaleView>, before: Option<&Showing>) -> Showing {
        let input = room_input(&view, &self.api_prefix);
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
        let snapshot = serde_json::to_vec(&view.snapshot()).unwrap_or_default().into();
        Showing { view, snapshot, input, room, draw }
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
    pub(super) fn new(view: Arc<SaleView>, renderer: &Renderer) -> Self {
        Self {
            id: view.definition.id.clone(),
            probe: Probe::new(&view.definition),
            showing: ArcSwap::from_pointee(renderer.showing(view, None)),
            places: ArcSwapOption::empty(),
            listing: AtomicBool::new(false),
            ticked: Mutex::new(Instant::now()),
            left: Mutex::default(),
        }
    }

    /// What is shown now.
    #[must_use]
    pub fn showing(&self) -> arc_swap::Guard<Arc<Showing>> {
        self.showing.load()
    }

    /// Shows a newer view; `true` when the policy follows from what changed.
    pub(super) fn show(&self, view: Arc<SaleView>, renderer: &Renderer) -> bool {
        let before = self.showing.load_full();
        let changed = before.view.epoch != view.epoch || before.view.definition != view.definition;
        if changed {
            self.probe.retarget(&view.definition);
        }
        self.showing.store(Arc::new(renderer.showing(view, Some(&before))));
        changed
    }

    /// Begins to list the places of a draw that are not listed yet. Two million take the better part of a second, so
    /// that happens beside; until it is done each place is computed alone.
    pub(super) fn list_places(self: &Arc<Self>) {
        let Some(shuffle) = shuffle(&self.showing().view) else { return };
        let listed = self.places.load().as_ref().is_some_and(|places| places.shuffle == shuffle);
        if listed || self.listing.swap(true, Ordering::AcqRel) {
            return;
        }
        let sale = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            sale.places.store(Some(Arc::new(Places { shuffle, list: shuffle.places() })));
            sale.listing.store(false, Ordering::Release);
        });
    }

    /// Where an arrival stands. Looked up where the draw has been listed, else computed alone.
    #[must_use]
    pub fn position(&self, arrival: Arrival) -> Position {
        let showing = self.showing();
        if let (Some(places), Some(shuffle)) = (self.places.load().as_ref(), shuffle(&showing.view))
            && places.shuffle == shuffle
        {
            return Position { arrival, place: Some(places.list.place(arrival)) };
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

    /// Notes that the store has moved the sale on just now.
    pub(super) fn ticked(&self) {
        let now = self.showing().view.as_of;
        *self.ticked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.left.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, until| *until > now);
    }

    /// How long ago the store moved the sale on.
    #[must_use]
    pub fn since_tick(&self) -> Duration {
        self.ticked.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
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

fn shuffle(view: &SaleView) -> Option<Shuffle> {
    match view.draw.as_ref()?.state {
        DrawState::Drawn { size, seed } => Some(Shuffle::new(seed, size)),
        DrawState::NotHeld | DrawState::Collecting | DrawState::Frozen { .. } => None,
    }
}

fn room_input(view: &SaleView, api_prefix: &str) -> RoomInput {
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
