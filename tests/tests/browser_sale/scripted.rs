//! The whole path with JavaScript.

use ropeline_tests::browser::Setup;
use ropeline_tests::wait::until;

use crate::stage::{SALE, Stage, WANTED, drawn_sale, product};

const CROWD: usize = 60;

/// Notes that this very document is still there, and which states it goes through.
const WATCH: &str = "
    window.stayed = true;
    const room = document.getElementById('room');
    const note = () => {
        const states = (sessionStorage.getItem('states') ?? '').split(' ').filter(Boolean);
        if (states.at(-1) !== room.dataset.state) states.push(room.dataset.state);
        sessionStorage.setItem('states', states.join(' '));
    };
    note();
    new MutationObserver(note).observe(room, { attributes: true, attributeFilter: ['data-state'] });";

#[tokio::test]
async fn a_shopper_lives_through_a_whole_sale() {
    let stage = Stage::set(Setup::default(), drawn_sale(), product(50)).await;
    let browser = &stage.browser;

    stage.announce(1_800_000, 3_600_000).await;
    stage.visit().await;
    stage.until_state("scheduled").await;
    assert!(stage.text("when").await.starts_with("Joining opens"), "{}", stage.text("when").await);
    stage
        .until("time is counted down", || async { (!stage.text("countdown").await.is_empty()).then_some(()) })
        .await;
    browser.screenshot("scripted-scheduled").await;

    stage.announce(0, 10_000).await;
    // A browser may keep the snapshot for a second, over a reload too: this makes it ask.
    let ask = format!(
        "return fetch('/api/v1/queue/sales/{SALE}/snapshot', {{ cache: 'reload' }}).then((r) => r.status)"
    );
    assert_eq!(stage.ask(&ask).await, Some(200.into()));
    browser.client.refresh().await.unwrap();
    stage.until_state("in_draw").await;
    stage.ask(WATCH).await;
    assert!(stage.text("when").await.starts_with("The draw begins"), "{}", stage.text("when").await);
    assert_eq!(stage.text("join").await, "", "the button is for where no script runs");
    browser.screenshot("scripted-in-draw").await;
    let crowd = stage.crowd(CROWD).await;

    stage.until_state("drawing").await;
    browser.screenshot("scripted-drawing").await;
    until("the draw is public", || async { stage.snapshot().await["draw"]["seed"].as_str().map(drop) }).await;
    stage.command("open", serde_json::json!({})).await;

    let waits = stage
        .until("the draw's outcome is shown", || async {
            let inside =
                stage.ask("return document.querySelector('.price') !== null").await == Some(true.into());
            let waiting = stage.state().await.as_deref() == Some("waiting");
            (inside || waiting).then_some(waiting)
        })
        .await;
    // One in sixty-one is drawn first and has nothing to wait for.
    if waits {
        wait_and_check(&stage, &crowd).await;
    }
    stage.until_in_the_shop().await;
    let states = stage.ask("return sessionStorage.getItem('states')").await.unwrap();
    let states: Vec<&str> = states.as_str().unwrap().split(' ').collect();
    assert_eq!(states.first(), Some(&"in_draw"));
    assert_eq!(states.last(), Some(&"admitted"), "{states:?}");
    // Two visits led to the room, and one into the shop: nothing went in circles.
    assert_eq!(stage.decided("wait").await, 2);
    until("the request is counted", || async { (stage.decided("admitted").await == 1).then_some(()) }).await;

    stage.buy("scripted").await;
    stage.console_is_clean(None).await;
    stage.visit().await;
    stage.until_in_the_shop().await;
    let text = browser.client.source().await.unwrap();
    assert!(text.contains("You have bought 1 unit"), "{text}");
    assert_eq!(stage.snapshot().await["stock"]["available"], 49);
}

/// Waits with the place in view, checks the draw, and is called.
async fn wait_and_check(stage: &Stage, crowd: &[ropeline_tests::visitor::Visitor]) {
    let place = stage.number("place").await - 1;
    let mut places = vec![place];
    for visitor in crowd {
        places.push(visitor.status(SALE).await.json()["place"].as_u64().unwrap());
    }
    places.sort_unstable();
    assert!(places.into_iter().eq(0..=CROWD as u64), "the draw gives each place once");
    stage
        .until("the page has seen the first call", || async {
            (stage.text("ahead").await == (place - 1).to_string()).then_some(())
        })
        .await;
    assert!(!stage.text("eta").await.is_empty());
    stage.browser.screenshot("scripted-waiting").await;

    stage.click("#check summary").await;
    stage
        .until("the check has a verdict", || async {
            stage.text("check-verdict").await.starts_with("Both agree").then_some(())
        })
        .await;
    assert_eq!(stage.number("check-own").await, place + 1);
    assert_eq!(stage.number("check-server").await, place + 1);
    assert!(stage.text("check-promise").await.starts_with("The seed follows"), "the promise is not kept");
    stage.browser.screenshot("scripted-check").await;

    let stayed = stage.ask("return window.stayed && [history.length, location.pathname + location.search]");
    let stayed = stayed.await.expect("the page was loaded again while it waited");
    assert_eq!(stayed[1], WANTED);
    stage.console_is_clean(None).await;
    stage.admit(place).await;
    stage.until_in_the_shop().await;
    assert_eq!(stage.ask("return history.length").await.unwrap(), stayed[0], "back leads into a circle");
}
