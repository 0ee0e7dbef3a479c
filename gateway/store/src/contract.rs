//! What every [`QueueStore`] must do, as tests that any implementation runs unchanged.
//!
//! An implementation brings a [`Fixture`] and gets one test per rule from
//! [`queue_store_contract!`](crate::queue_store_contract). Its crate needs `tokio` with `macros`
//! and `rt-multi-thread`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test suite says what broke by panicking"
)]

mod calling;
mod joining;
mod lanes;
mod lasting;
mod operating;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use ropeline_queue::{
    Arrival, Claimed, Command, CommandDone, JoinRefusal, Joined, Pace, Position, RawDefinition, SaleId,
    SaleView, TickInput, UnixMillis, VisitorKey,
};

pub use calling::*;
pub use joining::*;
pub use lanes::*;
pub use lasting::*;
pub use operating::*;

use crate::{Clock, Join, QueueStore};

/// A clock that the test sets.
#[derive(Debug)]
pub struct ManualClock(AtomicU64);

/// What an implementation brings to the suite: one store, empty at first, on a [`ManualClock`].
#[async_trait]
pub trait Fixture: Send + Sync + 'static {
    /// The store's clock.
    fn clock(&self) -> &ManualClock;

    /// The store, as one more gateway sees it.
    async fn connect(&self) -> Arc<dyn QueueStore>;

    /// Loses every process that serves the store and starts it again. Only stores connected after
    /// this are used.
    async fn restart(&self);
}

/// A test per rule for the fixture that the expression makes.
#[macro_export]
macro_rules! queue_store_contract {
    ($fixture:expr) => {
        $crate::queue_store_contract! {
            @tests $fixture;
            a_visitor_has_one_arrival
            twice_in_one_batch_is_one_arrival
            forty_tabs_on_four_gateways_are_one_arrival
            overlapping_batches_number_every_visitor_once
            a_redelivered_join_changes_nothing
            joining_keeps_to_its_hours
            asking_for_a_number_that_is_held_gives_nobody_a_new_one
            nobody_is_requeued_without_asking
            sales_do_not_share_visitors
            cap_of_one_holds_under_many_tickers
            cap_of_two_holds_under_many_tickers
            cap_of_two_hundred_holds_under_many_tickers
            many_tickers_call_what_time_has_earned_and_no_more
            ticking_again_at_one_instant_changes_nothing
            a_clock_that_steps_back_calls_nobody
            a_lease_ends_by_the_clock_alone
            a_lapsed_call_is_recalled_first
            nobody_is_recalled_twice
            a_claim_is_the_same_from_every_gateway
            nobody_claims_before_the_call
            leaving_frees_the_place_for_good
            a_lease_that_the_shop_ends_frees_the_place
            a_hold_that_was_given_back_competes_again
            an_empty_stock_stops_the_queue
            the_health_limit_is_kept
            an_unknown_sale_is_said_to_be_unknown
            a_sale_is_created_once
            sales_are_listed_in_order
            commands_do_what_they_say
            a_pause_keeps_everybody_out_and_in
            a_changed_definition_is_in_force
            an_answer_is_in_the_view_of_every_gateway
            a_view_never_goes_backwards
            a_restart_forgets_nothing
            a_restart_repeats_no_arrival
            time_goes_on_over_a_restart
            who_is_long_over_is_forgotten_and_never_admitted_again
            lanes_share_the_pace_and_keep_their_own_order
            an_invitation_for_one_gives_one_number_from_all_gateways
            who_goes_over_to_a_lane_has_one_ticket
            a_restart_forgets_no_lane
            a_lane_that_is_long_over_is_forgotten_alone
        }
    };
    (@tests $fixture:expr; $($rule:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                $crate::contract::$rule($fixture).await;
            }
        )*
    };
}

// === impl ManualClock ===

impl Default for ManualClock {
    /// Some day in 2026.
    fn default() -> Self {
        Self(AtomicU64::new(1_790_000_000_000))
    }
}

impl ManualClock {
    /// Goes forward by so many milliseconds.
    pub fn advance(&self, millis: u64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }

    /// Steps back by so many milliseconds.
    pub fn step_back(&self, millis: u64) {
        self.0.fetch_sub(millis, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(self.0.load(Ordering::SeqCst))
    }
}

/// One sale in one store, and short words for what the rules say about it.
struct Scene<F> {
    fixture: Arc<F>,
    store: Arc<dyn QueueStore>,
    sale: SaleId,
}

const SECRET: [u8; 32] = [7; 32];

/// An always-on sale with a pace that is never what holds it back.
pub(crate) fn definition(id: &str, max_active: u32) -> RawDefinition {
    let mut raw = RawDefinition::new(id.parse().unwrap(), max_active);
    raw.pace = Pace::Smooth { admit: 1_000_000, per_ms: 1_000, burst: 1_000_000 };
    raw
}

fn visitor(number: u64) -> VisitorKey {
    VisitorKey((u128::from(number) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835).to_le_bytes())
}

fn joins(numbers: impl IntoIterator<Item = u64>) -> Vec<Join> {
    numbers.into_iter().map(|number| Join::of(visitor(number))).collect()
}

impl<F: Fixture> Scene<F> {
    async fn new(fixture: F, definition: RawDefinition) -> Self {
        let store = fixture.connect().await;
        let sale = definition.id.clone();
        store.create(definition.check().unwrap(), SECRET).await.unwrap();
        Self { fixture: Arc::new(fixture), store, sale }
    }

    fn now(&self) -> UnixMillis {
        self.fixture.clock().now()
    }

    fn advance(&self, millis: u64) {
        self.fixture.clock().advance(millis);
    }

    async fn join(&self, numbers: impl IntoIterator<Item = u64>) -> Vec<Joined> {
        let answers = self.store.join(&self.sale, joins(numbers)).await.unwrap();
        answers.into_iter().map(Result::unwrap).collect()
    }

    async fn try_join(&self, number: u64, again: bool) -> Result<Joined, JoinRefusal> {
        let join = Join { again, ..Join::of(visitor(number)) };
        self.store.join(&self.sale, vec![join]).await.unwrap().remove(0)
    }

    async fn tick(&self) -> Arc<SaleView> {
        self.store.tick(&self.sale, TickInput::default()).await.unwrap()
    }

    async fn view(&self) -> Arc<SaleView> {
        self.store.view(&self.sale).await.unwrap()
    }

    async fn position(&self, arrival: u64) -> Position {
        self.view().await.position(Arrival(arrival))
    }

    async fn claim(&self, arrival: u64) -> Result<Claimed, ropeline_queue::ClaimRefusal> {
        let position = self.position(arrival).await;
        self.store.claim(&self.sale, position).await.unwrap()
    }

    async fn command(&self, command: Command) -> CommandDone {
        self.store.command(&self.sale, command).await.unwrap().unwrap()
    }

    async fn restart(self) -> Self {
        let Self { fixture, store, sale } = self;
        drop(store);
        fixture.restart().await;
        let store = fixture.connect().await;
        Self { fixture, store, sale }
    }
}
