//! The operator's side, and what everybody reads.

use std::sync::Arc;

use ropeline_queue::{
    Arrival, ChangeRefusal, ClaimRefusal, Command, CommandRefusal, DrawDefinition, Epoch, LeaseEvent, Pace,
    PauseReason, Phase, Place, Position, SaleId, Stock, TickInput,
};

use super::{Fixture, SECRET, Scene, definition, joins};
use crate::{Clock, StoreError};

/// Every call on a sale that does not exist says so.
pub async fn an_unknown_sale_is_said_to_be_unknown<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture, definition("drop", 10)).await;
    let store = &scene.store;
    let nowhere: SaleId = "nowhere".parse().unwrap();
    let position = Position { arrival: Arrival(0), place: Some(Place(0)) };
    let unknown = StoreError::UnknownSale(nowhere.clone());
    assert_eq!(store.join(&nowhere, joins([1])).await.unwrap_err(), unknown);
    assert_eq!(store.claim(&nowhere, position).await.unwrap_err(), unknown);
    assert_eq!(store.leave(&nowhere, position).await.unwrap_err(), unknown);
    assert_eq!(store.lease(&nowhere, Arrival(0), LeaseEvent::Ended).await.unwrap_err(), unknown);
    assert_eq!(store.stock(&nowhere, Stock { available: 1, held: None }).await.unwrap_err(), unknown);
    assert_eq!(store.command(&nowhere, Command::Close).await.unwrap_err(), unknown);
    assert_eq!(store.tick(&nowhere, TickInput::default()).await.unwrap_err(), unknown);
    assert_eq!(store.view(&nowhere).await.unwrap_err(), unknown);
    let other = definition("nowhere", 1).check().unwrap();
    assert_eq!(store.change(other, None).await.unwrap_err(), unknown);
    assert_eq!(store.sales().await.unwrap(), std::slice::from_ref(&scene.sale));
}

/// Two gateways create the same sale: one does, and the sale of the first stays as it is.
pub async fn a_sale_is_created_once<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture, definition("drop", 10)).await;
    scene.join(0..3).await;
    let other = definition("drop", 99).check().unwrap();
    let refused = scene.store.create(other, [9; 32]).await;
    assert_eq!(refused, Err(StoreError::SaleExists(scene.sale.clone())));
    let view = scene.view().await;
    assert_eq!((view.next_arrival, view.definition.max_active), (Arrival(3), 10));

    let mut creators = Vec::new();
    for secret in 0..8 {
        let gateway = scene.fixture.connect().await;
        let raced = definition("raced", 10).check().unwrap();
        creators.push(tokio::spawn(async move { gateway.create(raced, [secret; 32]).await.is_ok() }));
    }
    let mut made = 0;
    for creator in creators {
        made += u32::from(creator.await.unwrap());
    }
    assert_eq!(made, 1);
}

/// In the order of their ids, from every gateway.
pub async fn sales_are_listed_in_order<F: Fixture>(fixture: F) {
    let store = fixture.connect().await;
    assert_eq!(store.sales().await.unwrap(), []);
    for id in ["shoes", "boots", "a-1"] {
        store.create(definition(id, 1).check().unwrap(), SECRET).await.unwrap();
    }
    let names: Vec<String> =
        fixture.connect().await.sales().await.unwrap().into_iter().map(String::from).collect();
    assert_eq!(names, ["a-1", "boots", "shoes"]);
}

/// Open, admit, sold out, restock, revoke, close; and what does not fit is refused.
pub async fn commands_do_what_they_say<F: Fixture>(fixture: F) {
    let now = fixture.clock().now();
    let mut raw = definition("drop", 100);
    raw.joins_open_at = Some(now);
    raw.pace = Pace::Batch { admit: 5, every_ms: 1_000 };
    let scene = Scene::new(fixture, raw).await;
    scene.join(0..30).await;
    assert_eq!(scene.tick().await.phase, Phase::PreQueue);
    assert_eq!(scene.view().await.serving, Place(0));

    scene.command(Command::Open).await;
    let view = scene.view().await;
    assert_eq!((view.phase, view.serving), (Phase::Open, Place(5)));
    let before = view.serving.0;
    let done = scene.command(Command::Admit { batch_size: 4, lease_ms: Some(5_000) }).await;
    assert_eq!((done.called, scene.view().await.serving.0), (4, before + 4));
    let claimed = scene.claim(before).await.unwrap();
    assert_eq!(claimed.expires_at, claimed.claimed_at.plus(5_000));

    scene.command(Command::SoldOut).await;
    assert_eq!(scene.view().await.phase, Phase::SoldOut);
    scene.store.stock(&scene.sale, Stock { available: 9, held: None }).await.unwrap();
    assert_eq!(scene.tick().await.phase, Phase::SoldOut, "the operator's word counts");
    scene.command(Command::Restock).await;
    assert_eq!(scene.view().await.phase, Phase::Open);

    let epoch = scene.view().await.epoch;
    scene.command(Command::Revoke).await;
    assert_eq!(scene.view().await.epoch, Epoch(epoch.0 + 1));
    let joined = scene.join([0]).await.remove(0);
    assert_eq!((joined.arrival, joined.epoch), (Arrival(0), Epoch(epoch.0 + 1)));

    scene.command(Command::Close).await;
    assert_eq!(scene.view().await.phase, Phase::Closed);
    let refused = scene.store.command(&scene.sale, Command::Open).await.unwrap();
    assert_eq!(refused, Err(CommandRefusal::Closed));
    assert_eq!(scene.claim(29).await, Err(ClaimRefusal::Closed));
}

/// A pause stops the calls, gives its reason, and leaves those already inside alone.
pub async fn a_pause_keeps_everybody_out_and_in<F: Fixture>(fixture: F) {
    let mut raw = definition("drop", 2);
    raw.claim_window_ms = 10_000;
    let scene = Scene::new(fixture, raw).await;
    scene.join(0..10).await;
    assert_eq!(scene.tick().await.serving, Place(2));
    scene.claim(0).await.unwrap();
    let reason = PauseReason {
        text: "The till is being restarted".into(),
        translations: [("de".to_owned(), "Die Kasse wird neu gestartet".to_owned())].into(),
    };
    scene.command(Command::Pause { reason: reason.clone() }).await;
    let view = scene.view().await;
    assert_eq!((view.phase, view.paused_reason.as_ref()), (Phase::Paused, Some(&reason)));
    let position = scene.position(0).await;
    scene.store.leave(&scene.sale, position).await.unwrap().unwrap();
    scene.advance(60_000);
    assert_eq!(scene.tick().await.serving, Place(2), "a pause called somebody");
    assert!(scene.claim(1).await.is_ok(), "time ran on against a called visitor in a pause");
    scene.command(Command::Resume).await;
    let view = scene.tick().await;
    assert_eq!((view.phase, view.serving), (Phase::Open, Place(3)));
    assert_eq!(view.paused_reason, None);
}

/// A change counts from its answer on; what visitors were promised cannot be changed.
pub async fn a_changed_definition_is_in_force<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture, definition("drop", 1)).await;
    scene.join(0..10).await;
    assert_eq!(scene.tick().await.serving, Place(1));
    let mut wider = definition("drop", 4);
    wider.title = "Autumn drop".into();
    let read = Arc::clone(&scene.view().await.definition);
    scene.store.change(wider.check().unwrap(), Some(Arc::clone(&read))).await.unwrap().unwrap();
    let view = scene.view().await;
    assert_eq!((view.definition.title.as_str(), view.definition.max_active), ("Autumn drop", 4));
    assert_eq!(scene.tick().await.serving, Place(4));

    let mut drawn = definition("drop", 4);
    drawn.draw = Some(DrawDefinition::by_secret(scene.now().plus(60_000)));
    let refused = scene.store.change(drawn.check().unwrap(), None).await.unwrap();
    assert_eq!(refused, Err(ChangeRefusal::DrawFixed));
    let late = scene.store.change(definition("drop", 7).check().unwrap(), Some(read)).await.unwrap();
    assert_eq!(late, Err(ChangeRefusal::Overtaken), "a change undid another that it had not seen");
    assert_eq!(scene.view().await.definition.max_active, 4);
    assert_eq!(scene.view().await.definition.draw, None);
}

/// Who has an answer finds its effect in the view, whichever gateway is asked.
pub async fn an_answer_is_in_the_view_of_every_gateway<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture, definition("drop", 3)).await;
    let reader = scene.fixture.connect().await;
    for number in 0..20 {
        scene.join([number]).await;
        let view = reader.view(&scene.sale).await.unwrap();
        assert_eq!(view.next_arrival, Arrival(number + 1));
    }
    scene.advance(1_000);
    let ticked = scene.tick().await;
    let view = reader.view(&scene.sale).await.unwrap();
    assert_eq!((view.serving, view.as_of), (ticked.serving, ticked.as_of));
    assert_eq!(view.as_of, scene.now(), "a tick makes the view young again");
    scene.claim(0).await.unwrap();
    assert_eq!(reader.view(&scene.sale).await.unwrap().active, 1);
}

/// Read while others join and tick, the view only ever moves forward.
pub async fn a_view_never_goes_backwards<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture, definition("drop", 10_000)).await;
    let (store, sale) = (scene.fixture.connect().await, scene.sale.clone());
    let writer = tokio::spawn(async move {
        for batch in 0..60u64 {
            store.join(&sale, joins(batch * 10..batch * 10 + 10)).await.unwrap();
            store.tick(&sale, TickInput::default()).await.unwrap();
        }
    });
    let reader = scene.fixture.connect().await;
    let mut last = Arc::clone(&reader.view(&scene.sale).await.unwrap());
    while !writer.is_finished() {
        let view = reader.view(&scene.sale).await.unwrap();
        assert!(view.next_arrival >= last.next_arrival && view.serving >= last.serving);
        assert!(view.serving.0 <= view.next_arrival.0, "a place was called that nobody holds");
        last = view;
        tokio::task::yield_now().await;
    }
    writer.await.unwrap();
    assert_eq!(reader.view(&scene.sale).await.unwrap().next_arrival, Arrival(600));
}
