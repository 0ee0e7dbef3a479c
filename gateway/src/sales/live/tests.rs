use std::collections::BTreeMap;

use ropeline_queue::{
    Command, DrawDefinition, PauseReason, Queue, RawDefinition, Stock, StoreAway, UnixMillis,
};

use super::*;

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

fn renderer() -> Renderer {
    let keys = Keys::of_seeds(1, 2);
    Renderer::new(Arc::new(page::Room::new().unwrap()), "/q".to_owned(), Arc::new(keys))
}

#[test]
fn a_draw_is_signed_when_it_moves_on_and_at_no_other_time() {
    let mut raw = RawDefinition::new("drop".parse().unwrap(), 10);
    raw.draw = Some(DrawDefinition::by_secret(NOW.plus(60_000)));
    raw.opens_at = Some(NOW.plus(120_000));
    let mut queue = Queue::create(raw.check().unwrap(), [7; 32], NOW);
    let renderer = renderer();
    let sale = LiveSale::new(Arc::new(queue.view(NOW)), Source::Store, &renderer);
    let shown = |queue: &mut Queue, after_ms: u64| {
        let now = NOW.plus(after_ms);
        queue.tick(TickInput::default(), now);
        sale.show(Arc::new(queue.view(now)), &renderer);
        sale.showing().draw.clone().unwrap()
    };
    let text = |document: &page::Prepared| {
        serde_json::from_slice::<DrawDocument>(&document.identity().body).unwrap()
    };
    // Signing is deterministic: only the very same document tells that nobody signed again.
    let collecting = shown(&mut queue, 0);
    assert!(Arc::ptr_eq(&collecting, &shown(&mut queue, 30_000)));
    assert_eq!(text(&collecting).size, None);
    let frozen = shown(&mut queue, 60_000);
    assert!(!Arc::ptr_eq(&collecting, &frozen));
    assert_eq!((text(&frozen).size, text(&frozen).seed), (Some(0), None));
    let drawn = shown(&mut queue, 90_000);
    assert!(text(&drawn).seed.is_some());
    assert!(Arc::ptr_eq(&drawn, &shown(&mut queue, 150_000)), "opening changes nothing about the draw");
}

#[test]
fn a_sale_without_a_draw_has_no_document() {
    let queue = Queue::create(RawDefinition::new("drop".parse().unwrap(), 10).check().unwrap(), [7; 32], NOW);
    let sale = LiveSale::new(Arc::new(queue.view(NOW)), Source::Store, &renderer());
    assert!(sale.showing().draw.is_none());
}

#[test]
fn a_sale_that_has_come_to_its_end_while_its_store_is_away_lets_nobody_in() {
    let mut raw = RawDefinition::new("drop".parse().unwrap(), 10);
    raw.closes_at = Some(NOW.plus(60_000));
    raw.store_away = StoreAway::OpenForMs(600_000);
    let view = Queue::create(raw.check().unwrap(), [7; 32], NOW).view(NOW);
    let away = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
    let used = Duration::from_secs(30);
    assert!(may_open(&view, away(30), used));
    assert!(!may_open(&view, away(60), used));
    assert!(!may_open(&view, away(30), Duration::from_secs(600)), "the time for that is used up");
}

/// Where what is shown comes from, after the store has failed so for longer than is waited for.
fn after(error: &StoreError, events: impl FnOnce(&mut Queue)) -> Source {
    let mut raw = RawDefinition::new("drop".parse().unwrap(), 10);
    raw.store_away = StoreAway::OpenForMs(600_000);
    let mut queue = Queue::create(raw.check().unwrap(), [7; 32], NOW);
    events(&mut queue);
    let renderer = renderer();
    let sale = LiveSale::new(Arc::new(queue.view(NOW)), Source::Store, &renderer);
    sale.failed(error, Instant::now().checked_sub(AWAY_AFTER).unwrap(), &renderer);
    let source = sale.showing().source;
    assert_eq!(sale.is_open_without_store(), source == Source::Memory { open: true });
    source
}

#[test]
fn a_sale_lets_everybody_in_where_it_was_open_and_its_store_is_away_for_all() {
    let (closed, open) = (Source::Memory { open: false }, Source::Memory { open: true });
    let away = StoreError::Unavailable { reason: "it does not answer".to_owned() };
    assert_eq!(after(&away, |_| {}), open);
    // The others have a queue.
    let newer = StoreError::Newer { place: "the sale", found: "2".to_owned(), known: 1 };
    let disagrees = StoreError::Disagrees { reason: "other keys".to_owned(), lasts: None };
    for error in [newer, disagrees] {
        assert_eq!(after(&error, |_| {}), closed, "{error}");
    }
    let order = |queue: &mut Queue, command| {
        queue.command(&command, NOW).unwrap();
    };
    let reason = PauseReason { text: "A moment.".to_owned(), translations: BTreeMap::new() };
    assert_eq!(after(&away, |queue| order(queue, Command::Pause { reason })), closed);
    assert_eq!(after(&away, |queue| order(queue, Command::SoldOut)), closed);
    assert_eq!(after(&away, |queue| order(queue, Command::Close)), closed);
    // Some may come back: the sale is not sold out, but has nothing to sell.
    let stock = Stock { available: 0, held: Some(3) };
    assert_eq!(after(&away, |queue| queue.stock(stock, NOW)), closed);
}
