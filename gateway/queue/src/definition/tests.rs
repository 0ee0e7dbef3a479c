use super::*;

fn raw() -> RawDefinition {
    RawDefinition::new("drop".parse().unwrap(), 200)
}

#[test]
fn every_fault_is_reported_at_once_with_its_member() {
    let mut bad = raw();
    bad.title = "x".repeat(201);
    bad.joins_open_at = Some(UnixMillis(300));
    bad.draw = Some(DrawDefinition::by_secret(UnixMillis(200)));
    bad.opens_at = Some(UnixMillis(100));
    bad.closes_at = Some(UnixMillis(100));
    bad.pace = Pace::Smooth { admit: 0, per_ms: 0, burst: 0 };
    bad.max_active = 0;
    bad.on_demand = true;
    bad.claim_window_ms = 0;
    bad.recall_grace_ms = u64::MAX;
    bad.lease_ms = u64::MAX;
    bad.overcommit_percent = 99;
    bad.entry_url = Some("//elsewhere.example/".to_owned());
    let fields: Vec<_> = bad.check().unwrap_err().0.into_iter().map(|fault| fault.field).collect();
    assert_eq!(
        fields,
        [
            "title",
            "draw.closes_at",
            "opens_at",
            "opens_at",
            "closes_at",
            "pace.admit",
            "pace.per_ms",
            "pace.burst",
            "on_demand",
            "max_active",
            "claim_window_ms",
            "recall_grace_ms",
            "lease_ms",
            "overcommit_percent",
            "entry_url",
        ]
    );
}

#[test]
fn a_burst_that_would_keep_the_pace_from_coming_true_is_refused() {
    let check = |admit, per_ms, burst| {
        let mut raw = raw();
        raw.pace = Pace::Smooth { admit, per_ms, burst };
        raw.check().map(drop).map_err(|error| error.to_string())
    };
    assert!(check(100, 1_000, 19).unwrap_err().contains("at least 20"));
    assert_eq!(check(100, 1_000, 20), Ok(()));
    assert_eq!(check(1, 3_600_000, 1), Ok(()));
    assert!(check(1, 3_600_000, 0).unwrap_err().contains("at least 1,"));
    assert_eq!(check(u32::MAX, 1, u32::MAX), Ok(()));
}

#[test]
fn a_title_that_does_not_read_as_it_is_written_is_refused() {
    for (title, good) in
        [("Sneaker – נעליים", true), ("x\0", false), ("a\u{202e}b", false), ("a\u{2066}b", false)]
    {
        let mut named = raw();
        named.title = title.to_owned();
        let faults = named.check().map_err(|errors| errors.0[0].field);
        assert_eq!(faults.map(drop), if good { Ok(()) } else { Err("title") }, "{title:?}");
    }
}

#[test]
fn a_time_in_nanoseconds_is_no_time_in_milliseconds() {
    // 9999-12-31T23:59:59.999Z: the last instant of four-digit years, which every date library can show.
    let last = UnixMillis(253_402_300_799_999);
    let mut long = raw();
    long.joins_open_at = Some(last);
    long.draw = Some(DrawDefinition::by_secret(last));
    long.opens_at = Some(last);
    assert!(long.clone().check().is_ok());
    let late = UnixMillis(last.0 + 1);
    long.joins_open_at = Some(late);
    long.draw = Some(DrawDefinition::by_secret(late));
    long.opens_at = Some(late);
    long.closes_at = Some(UnixMillis(1_790_000_000_000_000_000));
    let fields: Vec<_> = long.check().unwrap_err().0.into_iter().map(|fault| fault.field).collect();
    assert_eq!(fields, ["joins_open_at", "draw.closes_at", "opens_at", "closes_at"]);
}

#[test]
fn a_definition_that_is_read_back_is_the_same() {
    let mut full = raw();
    full.draw = Some(DrawDefinition::by_secret(UnixMillis(5)));
    full.opens_at = Some(UnixMillis(5));
    full.pace = Pace::Smooth { admit: 3, per_ms: 1_000, burst: 2 };
    let full = full.check().unwrap();
    let text = serde_json::to_string(&full).unwrap();
    assert_eq!(serde_json::from_str::<SaleDefinition>(&text).unwrap(), full);
}

#[test]
fn unknown_members_and_wrong_values_are_refused_on_reading() {
    assert!(serde_json::from_str::<SaleDefinition>(r#"{"id":"drop","max_active":1}"#).is_ok());
    assert!(serde_json::from_str::<SaleDefinition>(r#"{"id":"drop","max_active":1,"max_activ":2}"#).is_err());
    let fault = serde_json::from_str::<SaleDefinition>(r#"{"id":"drop","max_active":0}"#).unwrap_err();
    assert!(fault.to_string().contains("max_active: at least 1"), "{fault}");
}

#[test]
fn only_a_sale_without_times_and_draw_is_always_on() {
    assert!(raw().check().unwrap().is_always_on());
    let mut drawn = raw();
    drawn.draw = Some(DrawDefinition::by_secret(UnixMillis(5)));
    assert!(!drawn.check().unwrap().is_always_on());
}

#[test]
fn a_beacons_round_is_the_first_after_the_margin_or_one_that_was_named() {
    let beacon = Beacon::DrandQuicknet;
    let due_at = beacon.round_at(1_000);
    let draw = |before_ms: u64, round| DrawDefinition {
        closes_at: UnixMillis(due_at.0 - before_ms),
        beacon: Some(DrawBeacon { name: beacon, round, fallback: false }),
    };
    for (before_ms, round) in
        [(30_000, 1_000), (30_001, 1_000), (32_999, 1_000), (33_000, 999), (29_999, 1_001)]
    {
        assert_eq!(draw(before_ms, None).round(), Some(round), "{before_ms} ms before round 1000");
    }
    assert_eq!(draw(30_000, Some(2_000)).round_at(), Some(due_at.plus(3_000_000)));
    assert_eq!(DrawDefinition::by_secret(due_at).round(), None);

    let faults = |draw: DrawDefinition, opens_at: UnixMillis, closes_at: Option<UnixMillis>| {
        let raw = RawDefinition { draw: Some(draw), opens_at: Some(opens_at), closes_at, ..raw() };
        let faults = raw.check().err().map(|errors| errors.0).unwrap_or_default();
        faults.into_iter().map(|fault| fault.field).collect::<Vec<_>>()
    };
    let late = UnixMillis(u64::MAX / 4);
    assert_eq!(faults(draw(30_000, None), due_at, None), [""; 0]);
    assert_eq!(faults(draw(30_000, None), UnixMillis(due_at.0 - 1), None), ["opens_at"]);
    assert_eq!(faults(draw(30_000, None), due_at, Some(due_at)), ["closes_at"]);
    assert_eq!(faults(draw(30_000, Some(1_000)), due_at, None), [""; 0]);
    for round in [0, 1, 999, 1_000 + 28_791, u64::MAX] {
        assert!(faults(draw(30_000, Some(round)), late, None).contains(&"draw.beacon.round"), "{round}");
    }
    let before_the_first =
        DrawDefinition { closes_at: UnixMillis(1_692_803_367_000 - 60_000), ..draw(0, Some(0)) };
    assert_eq!(faults(before_the_first, due_at, None), ["draw.beacon.round"]);
}

#[test]
fn a_draw_by_secret_is_written_as_before_there_were_beacons() {
    let draw = DrawDefinition::by_secret(UnixMillis(5));
    assert_eq!(serde_json::to_string(&draw).unwrap(), r#"{"closes_at":5}"#);
    let beacon = r#"{"closes_at":5,"beacon":{"name":"drand-quicknet"}}"#;
    let read: DrawDefinition = serde_json::from_str(beacon).unwrap();
    assert_eq!(read.beacon, Some(DrawBeacon { name: Beacon::DrandQuicknet, round: None, fallback: false }));
    assert_eq!(serde_json::to_string(&read).unwrap(), beacon);
}

#[test]
fn a_sale_for_invited_visitors_alone_does_not_let_everybody_in_while_its_store_is_away() {
    let lane = |name: &str, invitation| LaneDefinition {
        name: name.parse().unwrap(),
        title: String::new(),
        share: 50,
        invitation,
    };
    let faults = |invited: bool, store_away| {
        let lanes = vec![lane("members", true), lane("others", invited)];
        let raw = RawDefinition { lanes, store_away, ..raw() };
        raw.check().err().map(|errors| errors.0[0].field)
    };
    assert_eq!(faults(true, StoreAway::OpenForMs(60_000)), Some("store_away"));
    assert_eq!(faults(true, StoreAway::Closed), None);
    assert_eq!(faults(false, StoreAway::OpenForMs(60_000)), None);
}
