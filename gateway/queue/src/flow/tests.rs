use proptest::prelude::*;

use super::*;

const BATCH: u64 = 500;
const PERIOD: u64 = 5_000;

/// A sale whose queue never empties, ticked four times a second.
struct Sale {
    flow: Flow,
    now: u64,
}

impl Sale {
    fn new() -> Self {
        Self { flow: Flow::new(PERIOD), now: 1_700_000_000_000 }
    }

    fn tick(&mut self, called: u64, backlog: Backlog) -> Option<Rate> {
        self.now += 250;
        self.flow.observe(UnixMillis(self.now), called, backlog);
        self.flow.rate()
    }

    /// Batches for so many seconds; each tick's rate is handed to `see`.
    fn batches(&mut self, seconds: u64, mut size: impl FnMut() -> u64, mut see: impl FnMut(Option<Rate>)) {
        for _ in 0..seconds * 4 {
            let called = if (self.now + 250).is_multiple_of(PERIOD) { size() } else { 0 };
            see(self.tick(called, Backlog::Waiting));
        }
    }

    fn still(&mut self, seconds: u64, backlog: Backlog, mut see: impl FnMut(Option<Rate>)) {
        for _ in 0..seconds * 4 {
            see(self.tick(0, backlog));
        }
    }
}

/// Places a minute, rounded outwards.
fn whole(rate: Option<Rate>) -> (u64, u64) {
    let rate = rate.unwrap();
    (rate.low.thousandths() / 1_000, rate.high.thousandths().div_ceil(1_000))
}

fn eta(rate: Option<Rate>, ahead: u64) -> Option<EtaRange> {
    rate.map(|rate| EtaRange::new(ahead, rate, PERIOD))
}

#[test]
fn the_rate_is_unknown_until_measured_and_then_right() {
    let mut sale = Sale::new();
    // The opening batch and three segments.
    sale.batches(19, || BATCH, |rate| assert_eq!(rate, None));
    sale.batches(5, || BATCH, drop);
    let rate = sale.flow.rate().unwrap();
    assert_eq!(whole(Some(rate)), (5_700, 6_300));
    assert_eq!(EtaRange::new(0, rate, PERIOD).low_s, 0);
    assert!(EtaRange::new(0, rate, PERIOD).high_s >= 5, "the next batch is up to five seconds away");
    let far = EtaRange::new(60_000, rate, PERIOD);
    assert!(far.low_s <= 600 && far.high_s >= 600 && far.high_s - far.low_s < 90, "{far:?}");
}

#[test]
fn the_wait_is_the_one_that_the_room_computes() {
    let table: serde_json::Value =
        serde_json::from_str(include_str!("../../../room/testdata/eta.json")).unwrap();
    // Three digits after the point, without the point.
    let thousandths = |number: &serde_json::Value| {
        PerMinute(format!("{:.3}", number.as_f64().unwrap()).replace('.', "").parse().unwrap())
    };
    for case in table["cases"].as_array().unwrap() {
        let rate = Rate { low: thousandths(&case["rate"]["low"]), high: thousandths(&case["rate"]["high"]) };
        let eta = EtaRange::new(case["ahead"].as_u64().unwrap(), rate, case["cadence_ms"].as_u64().unwrap());
        assert_eq!(serde_json::to_value(eta).unwrap(), case["eta"], "{case}");
        assert_eq!(serde_json::to_value(rate).unwrap()["low"].as_f64(), case["rate"]["low"].as_f64());
    }
}

#[test]
fn a_smooth_pace_measures_like_batches() {
    let mut sale = Sale::new();
    for _ in 0..60 * 4 {
        sale.tick(25, Backlog::Waiting);
    }
    assert_eq!(whole(sale.flow.rate()), (5_700, 6_300));
}

#[test]
fn a_slow_batch_pace_is_no_silence() {
    let mut flow = Flow::new(120_000);
    let mut now = 0;
    for second in 0..3_600 {
        now += 1_000;
        flow.observe(UnixMillis(now), if second % 120 == 0 { 60 } else { 0 }, Backlog::Waiting);
        assert!(second < 400 || flow.rate().is_some(), "second {second}");
    }
    assert_eq!(whole(flow.rate()), (28, 32));
    assert_eq!(serde_json::to_string(&flow.rate()).unwrap(), r#"{"low":28.5,"high":31.5}"#);
}

#[test]
fn a_pause_is_unknown_and_leaves_the_measure_as_it_was() {
    let mut sale = Sale::new();
    sale.batches(120, || BATCH, drop);
    let before = sale.flow.rate();
    assert!(before.is_some());
    sale.still(1_800, Backlog::Stopped, |rate| assert_eq!(rate, None));
    sale.batches(60, || BATCH, |rate| assert_eq!(rate, before));
}

#[test]
fn an_empty_queue_does_not_look_slow() {
    let mut sale = Sale::new();
    sale.batches(120, || BATCH, drop);
    let before = sale.flow.rate();
    for _ in 0..400 {
        sale.tick(1, Backlog::Empty);
    }
    sale.batches(60, || BATCH, |rate| assert_eq!(rate, before));
}

#[test]
fn a_long_silence_is_unknown_and_the_next_segment_ends_it() {
    let mut sale = Sale::new();
    sale.batches(160, || BATCH, drop);
    let before = sale.flow.rate().unwrap();
    sale.still(29, Backlog::Waiting, |rate| assert_eq!(rate, Some(before)));
    sale.still(2, Backlog::Waiting, drop);
    sale.still(600, Backlog::Waiting, |rate| assert_eq!(rate, None));
    sale.tick(BATCH, Backlog::Waiting);
    assert_eq!(sale.flow.rate(), None, "one call after an outage is no flow");
    sale.batches(10, || BATCH, drop);
    let (_, high) = whole(sale.flow.rate());
    assert!(high >= 5_000, "an outage of ten minutes was taken for flow: {high} a minute");
}

#[test]
fn wild_measurements_are_unknown_rather_than_a_guess() {
    let mut sale = Sale::new();
    let mut sizes = [1, 40_000, 2].into_iter().cycle();
    sale.batches(25, || sizes.next().unwrap(), drop);
    assert_eq!(sale.flow.rate(), None);
}

#[test]
fn a_clock_that_steps_back_adds_no_time() {
    let mut sale = Sale::new();
    sale.batches(120, || BATCH, drop);
    let before = sale.flow.rate();
    sale.flow.observe(UnixMillis(5), 0, Backlog::Waiting);
    assert_eq!(sale.flow.rate(), before);
}

/// Other waiting rooms showed 1, 17, 307 and 4,030 minutes one after the other when the flow faltered.
#[test]
fn the_eta_never_leaps_through_bursts_pauses_and_outages() {
    let mut sale = Sale::new();
    let mut last: Option<EtaRange> = None;
    let mut see = |rate| {
        let Some(now) = eta(rate, 30_000) else { return };
        if let Some(before) = last {
            let leapt = now.high_s * 3 > before.high_s * 4 + 3 || before.low_s * 3 > now.low_s * 4 + 3;
            assert!(!leapt, "{before:?} to {now:?}");
        }
        // The truth, had the flow gone on at its mean, is 300 s.
        assert!(now.low_s >= 100 && now.high_s <= 1_200, "{now:?}");
        last = Some(now);
    };
    sale.batches(300, || BATCH, &mut see);
    let mut bursts = [100, 1_400, 0, 500].into_iter().cycle();
    sale.batches(300, || bursts.next().unwrap(), &mut see);
    sale.still(20, Backlog::Waiting, &mut see);
    sale.batches(60, || BATCH, &mut see);
    sale.still(900, Backlog::Stopped, &mut see);
    sale.batches(60, || BATCH, &mut see);
    sale.still(4_030, Backlog::Waiting, &mut see);
    let mut reopening = (1..).map(|n: u64| (n * 25).min(BATCH));
    sale.batches(400, || reopening.next().unwrap(), &mut see);
    assert!(last.is_some());
}

#[derive(Debug, Clone)]
enum Event {
    Call { after_ms: u64, places: u64 },
    Wait { ms: u64 },
    Pause { ms: u64 },
    Empty,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (0u64..20_000, 1u64..5_000).prop_map(|(after_ms, places)| Event::Call { after_ms, places }),
        1 => (0u64..200_000).prop_map(|ms| Event::Wait { ms }),
        1 => (0u64..200_000).prop_map(|ms| Event::Pause { ms }),
        1 => Just(Event::Empty),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_the_rate_is_sane_and_survives_a_restart(
        events in proptest::collection::vec(event(), 0..300), period in 0u64..10_000,
    ) {
        let (mut flow, mut now) = (Flow::new(period), 0);
        for event in events {
            let (called, backlog) = match event {
                Event::Call { after_ms, places } => { now += after_ms; (places, Backlog::Waiting) }
                Event::Wait { ms } => { now += ms; (0, Backlog::Waiting) }
                Event::Pause { ms } => { now += ms; (0, Backlog::Stopped) }
                Event::Empty => (3, Backlog::Empty),
            };
            flow.observe(UnixMillis(now), called, backlog);
            if backlog == Backlog::Stopped {
                prop_assert_eq!(flow.rate(), None);
            }
            let Some(rate) = flow.rate() else { continue };
            prop_assert!(rate.low <= rate.high);
            prop_assert!(flow.segments.len() <= SEGMENTS);
            let eta = EtaRange::new(1_000, rate, period);
            prop_assert!(eta.low_s <= eta.high_s);
            let restored: Flow = serde_json::from_str(&serde_json::to_string(&flow).unwrap()).unwrap();
            prop_assert_eq!(&restored, &flow);
        }
    }

    #[test]
    fn one_segment_moves_what_is_shown_by_a_quarter_at_most(
        calls in proptest::collection::vec((5_000u64..25_000, 1u64..50_000), 4..200),
    ) {
        let (mut flow, mut now, mut last) = (Flow::new(5_000), 0, None::<Band>);
        for (after_ms, places) in calls {
            now += after_ms;
            flow.observe(UnixMillis(now), places, Backlog::Waiting);
            if let (Some(before), Some(after)) = (last, flow.shown) {
                for (from, to) in [(before.low, after.low), (before.high, after.high)] {
                    prop_assert!(to * 5 >= from * 4 && to * 4 <= from * 5 + 4, "{} to {}", from, to);
                }
            }
            last = flow.shown;
        }
    }
}

// === before anything is measured ===

const PACE: Pace = Pace::Batch { admit: 500, every_ms: PERIOD };

#[test]
fn until_it_is_measured_the_flow_is_what_the_pace_allows_or_half_of_it() {
    let forecast = |pace, compensates| {
        let mut flow = Flow::expecting(pace, compensates, 100);
        assert_eq!(flow.forecast(), None, "nobody is being called yet");
        flow.observe(UnixMillis(1), 0, Backlog::Waiting);
        whole(flow.forecast())
    };
    assert_eq!(forecast(PACE, false), (3_000, 6_000));
    assert_eq!(forecast(PACE, true), (3_000, 12_000), "compensation may double the pace");
    assert_eq!(forecast(Pace::Smooth { admit: 1, per_ms: 1_000, burst: 9 }, false), (30, 60));
    assert_eq!(forecast(Pace::Batch { admit: 1, every_ms: u64::MAX }, false), (0, 1));
    assert_eq!(forecast(Pace::Smooth { admit: u32::MAX, per_ms: 1, burst: 1 }, true).1, 515_396_075_400_000);
}

#[test]
fn what_the_pace_lets_expect_gives_way_to_what_is_measured_without_a_leap() {
    let mut sale = Sale::new();
    sale.flow = Flow::expecting(PACE, false, 100);
    let mut last = None::<Rate>;
    let mut measured = false;
    for _ in 0..60 * 4 {
        let called = if (sale.now + 250).is_multiple_of(PERIOD) { BATCH } else { 0 };
        measured |= sale.tick(called, Backlog::Waiting).is_some();
        let shown = sale.flow.rate().or(sale.flow.forecast()).expect("known from the first tick on");
        assert_eq!((sale.flow.rate().is_some(), sale.flow.forecast().is_some()), (measured, !measured));
        assert!(shown.high.thousandths() >= 6_000_000, "it may always be as fast as the pace");
        if let Some(last) = last {
            let (from, to) = (last.low.thousandths(), shown.low.thousandths());
            assert!(to * 4 <= from * 5 + 4 && to >= from, "{from} to {to}");
        }
        last = Some(shown);
    }
    assert!(measured);
    assert_eq!(whole(sale.flow.rate()), (5_700, 6_300));
}

#[test]
fn an_expectation_that_did_not_come_true_is_forgotten_at_once() {
    let mut sale = Sale::new();
    sale.flow = Flow::expecting(PACE, false, 100);
    sale.batches(24, || BATCH / 10, drop);
    assert_eq!(whole(sale.flow.rate()), (570, 630));
}

#[test]
fn a_silence_tells_nothing_whatever_the_pace_says() {
    let mut sale = Sale::new();
    sale.flow = Flow::expecting(PACE, false, 100);
    sale.tick(BATCH, Backlog::Waiting);
    sale.still(29, Backlog::Waiting, drop);
    assert!(sale.flow.forecast().is_some());
    sale.still(2, Backlog::Waiting, drop);
    assert_eq!((sale.flow.forecast(), sale.flow.rate()), (None, None));
    sale.tick(0, Backlog::Stopped);
    assert_eq!(sale.flow.forecast(), None);
}
