use std::io::Read;

use proptest::prelude::*;
use ropeline_queue::flow::EtaRange;
use ropeline_queue::{PauseReason, Phase};
use serde_json::Value;

use super::*;

fn room() -> Room {
    Room::new().unwrap()
}

fn input(phase: Phase) -> RoomInput {
    RoomInput {
        sale: "demo".into(),
        title: "Sneaker & Co".into(),
        api_prefix: "/api/v1/queue".into(),
        entry_url: "/drop".into(),
        phase,
        joins_open_at: Some(1_764_470_400_000),
        opens_at: Some(1_764_471_000_000),
        draw_closes_at: None,
        beacon: None,
        paused_reason: None,
        store_away: false,
        all_held: false,
        invitations: false,
    }
}

fn page(input: &RoomInput, standing: Standing) -> String {
    page_in(None, input, standing)
}

fn page_in(accept_language: Option<&str>, input: &RoomInput, standing: Standing) -> String {
    let reader = Reader { return_to: "/drop?size=42&x=%2F", accept_language, lane: None, barrier: None };
    String::from_utf8(room().personal(input, &standing, &reader, Language::English)).unwrap()
}

const fn waiting(place: u64, serving: u64) -> Standing {
    Standing::Waiting {
        place: Some(place),
        ahead: place.saturating_sub(serving),
        eta: Some(EtaRange { low_s: 300, high_s: 600 }),
    }
}

/// The opening tag of the element with this id.
fn tag<'a>(html: &'a str, id: &str) -> &'a str {
    let at = html.find(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no element {id}"));
    let start = html[..at].rfind('<').unwrap();
    let end = at + html[at..].find('>').unwrap();
    &html[start..=end]
}

fn text<'a>(html: &'a str, id: &str) -> &'a str {
    let tag = tag(html, id);
    let rest = html.split_once(tag).unwrap().1;
    &rest[..rest.find('<').unwrap()]
}

fn shown(html: &str, id: &str) -> bool {
    !tag(html, id).contains(" hidden")
}

#[test]
fn states_are_those_of_the_scripts_table() {
    let table: Value = serde_json::from_str(include_str!("../../room/testdata/states.json")).unwrap();
    for case in table["cases"].as_array().unwrap() {
        let phase = match case[0].as_str().unwrap() {
            "scheduled" => Phase::Scheduled,
            "pre_queue" => Phase::PreQueue,
            "drawing" => Phase::Drawing,
            "open" => Phase::Open,
            "paused" => Phase::Paused,
            "closed" => Phase::Closed,
            "sold_out" => Phase::SoldOut,
            other => panic!("{other}"),
        };
        let standing = match case[2].as_str().unwrap() {
            "outside" => Standing::Outside,
            "waiting" => waiting(5, 0),
            "called" => Standing::Called { left_s: None },
            "admitted" => Standing::Admitted,
            "recall" => Standing::Recall,
            "lapsed" => Standing::Lapsed,
            "left" => Standing::Left,
            other => panic!("{other}"),
        };
        assert_eq!(State::of(phase, case[1].as_bool().unwrap(), &standing).key(), case[3], "{case}");
    }
}

#[test]
fn waits_are_told_as_the_script_tells_them() {
    let texts = Texts::load(Language::English).unwrap();
    let table: Value = serde_json::from_str(include_str!("../../room/testdata/waits.json")).unwrap();
    for case in table["cases"].as_array().unwrap() {
        let eta = EtaRange { low_s: case[0].as_u64().unwrap(), high_s: case[1].as_u64().unwrap() };
        assert_eq!(texts.wait(Some(eta)), case[2].as_str().unwrap(), "{eta:?}");
    }
    assert_eq!(texts.wait(None), "Not known yet");
    assert_eq!(texts.number(1_234_567), "1,234,567");
    assert_eq!(texts.number(999), "999");
}

#[test]
fn times_are_those_of_the_calendar() {
    // From `date -u -d @SECONDS`: an epoch, a leap day, a century that is none, the end of a year.
    for (seconds, expected) in [
        (0, "1970-01-01T00:00:00Z"),
        (951_782_400, "2000-02-29T00:00:00Z"),
        (4_107_542_400, "2100-03-01T00:00:00Z"),
        (1_798_761_599, "2026-12-31T23:59:59Z"),
    ] {
        assert_eq!(texts::rfc3339(seconds * 1000), expected);
    }
    assert_eq!(texts::utc_words(951_782_400_000), "2000-02-29 00:00 UTC");
}

#[test]
fn a_waiting_visitor_without_javascript_sees_place_wait_and_a_refresh() {
    let html = page(&input(Phase::Open), waiting(5_999, 1_000));
    assert_eq!(
        [text(&html, "place"), text(&html, "ahead"), text(&html, "eta")],
        ["6,000", "4,999", "5 to 10 minutes"]
    );
    assert!(html.contains("<noscript><meta http-equiv=\"refresh\" content=\"30\"></noscript>"));
    assert!(tag(&html, "progress").contains("max=\"5999\" value=\"1000\""));
    assert!(
        shown(&html, "leave") && !shown(&html, "join") && !shown(&html, "claim") && !shown(&html, "rejoin")
    );
}

#[test]
fn each_standing_offers_what_it_can_do_and_nothing_else() {
    let offers = |phase, standing| {
        let html = page(&input(phase), standing);
        ["join", "claim", "rejoin", "leave"].map(|id| shown(&html, id))
    };
    assert_eq!(offers(Phase::Scheduled, Standing::Outside), [false, false, false, false]);
    assert_eq!(offers(Phase::PreQueue, Standing::Outside), [true, false, false, false]);
    assert_eq!(offers(Phase::Open, Standing::Outside), [true, false, false, false]);
    assert_eq!(offers(Phase::Open, waiting(3, 1)), [false, false, false, true]);
    assert_eq!(offers(Phase::Open, Standing::Called { left_s: Some(90) }), [false, true, false, false]);
    assert_eq!(offers(Phase::Open, Standing::Recall), [false, true, false, true]);
    assert_eq!(offers(Phase::Open, Standing::Lapsed), [false, false, true, false]);
    assert_eq!(offers(Phase::Open, Standing::Left), [false, false, true, false]);
    assert_eq!(offers(Phase::SoldOut, waiting(3, 1)), [false, false, false, false]);
    assert_eq!(offers(Phase::Closed, Standing::Outside), [false, false, false, false]);
}

#[test]
fn an_invitation_is_asked_for_where_it_is_of_use_and_its_refusal_is_said() {
    let invites = |phase| RoomInput { invitations: true, ..input(phase) };
    for (phase, standing, offered) in [
        (Phase::Scheduled, Standing::Outside, false),
        (Phase::PreQueue, Standing::Outside, true),
        (Phase::Open, waiting(3, 1), true),
        (Phase::Open, Standing::Lapsed, false),
        (Phase::SoldOut, waiting(3, 1), false),
    ] {
        assert_eq!(shown(&page(&invites(phase), standing), "invited"), offered, "{phase:?} {standing:?}");
        assert!(!shown(&page(&input(phase), standing), "invited"));
    }
    let html = page(&invites(Phase::Open), waiting(3, 1));
    assert!(!shown(&html, "barrier") && !shown(&html, "lane-box"));
    let reader = Reader {
        return_to: "/drop",
        accept_language: None,
        lane: Some("Club <1>"),
        barrier: Some(Barrier::Uninvited(Uninvited::Used)),
    };
    let html = room().personal(&invites(Phase::Open), &waiting(3, 1), &reader, Language::English);
    let html = String::from_utf8(html).unwrap();
    assert!(text(&html, "barrier").contains("used by another visitor"));
    assert_eq!((shown(&html, "barrier"), text(&html, "lane")), (true, "Club &lt;1&gt;"));
}

#[test]
fn who_cannot_compute_a_proof_is_told_why_and_when_it_takes_none() {
    for (free_in_s, time, refresh) in [(6, "In 6 seconds the next", 60), (601, "In 11 minutes the next", 601)]
    {
        let barrier = Some(Barrier::Crowded { free_in_s });
        let reader = Reader { return_to: "/drop?x=1", accept_language: None, lane: None, barrier };
        let html = room().personal(&input(Phase::Open), &Standing::Outside, &reader, Language::English);
        let html = String::from_utf8(html).unwrap();
        assert!(text(&html, "barrier").contains(time), "{html}");
        assert!(shown(&html, "join"), "there is nothing to try again by");
        // The page answers a form: to look at its own address again would be another call, and a wrong one.
        assert!(html.contains(&format!("content=\"{refresh}; url=/drop?x=1\"")), "{html}");
    }
}

#[test]
fn forms_carry_the_sale_and_the_way_back() {
    let html = page(&input(Phase::Open), Standing::Called { left_s: Some(200) });
    assert!(html.contains("action=\"/api/v1/queue/claim\""));
    assert!(html.contains("name=\"sale\" value=\"demo\""));
    assert!(html.contains("name=\"return\" value=\"/drop?size=42&amp;x=%2F\""));
    assert_eq!(text(&html, "note"), "You have 3 minutes to come in.");
}

#[test]
fn a_pause_says_why_in_the_readers_language() {
    let mut sale = input(Phase::Paused);
    sale.paused_reason = Some(PauseReason {
        text: "Zahlungen dauern gerade.".into(),
        translations: [
            ("en".into(), "Payments are slow.".into()),
            ("fr".into(), "Les paiements sont lents.".into()),
            ("pt-BR".into(), "Os pagamentos demoram.".into()),
        ]
        .into(),
    });
    for (accepted, language, expected) in [
        (None, "en", "Payments are slow."),
        (Some("fr-CA, en;q=0.9"), "fr", "Les paiements sont lents."),
        (Some("pt-br;q=0.4, fr;q=0.2, en;q=0"), "pt-BR", "Os pagamentos demoram."),
        (Some("en;q=0.5,fr;q=0.6"), "fr", "Les paiements sont lents."),
        (Some("it"), "", "Zahlungen dauern gerade."),
    ] {
        let html = page_in(accepted, &sale, waiting(3, 1));
        assert_eq!(text(&html, "reason"), expected, "{accepted:?}");
        assert!(tag(&html, "reason").contains(&format!("lang=\"{language}\"")), "{accepted:?}");
    }
    let html = page(&sale, waiting(3, 1));
    assert!(shown(&html, "reason"));
    assert_eq!(text(&html, "eta"), "Not known yet", "a queue that stands still has no expected wait");
    sale.phase = Phase::Open;
    assert!(!shown(&page(&sale, waiting(3, 1)), "reason"));
}

#[test]
fn a_queue_that_stands_still_for_full_baskets_says_so() {
    let mut sale = input(Phase::Open);
    assert!(!shown(&page(&sale, waiting(3, 1)), "note"));
    sale.all_held = true;
    assert!(text(&page(&sale, waiting(3, 1)), "note").contains("baskets"));
}

#[test]
fn before_the_opening_the_page_says_when() {
    let html = page(&input(Phase::Scheduled), Standing::Outside);
    assert!(tag(&html, "when-time").contains("datetime=\"2025-11-30T02:40:00Z\""));
    assert_eq!(text(&html, "when-time"), "2025-11-30 02:40 UTC");
    assert_eq!(text(&html, "when-label"), "Joining opens");
}

#[test]
fn a_draw_that_waits_for_a_public_number_says_until_when_and_that_it_is_late() {
    let waiting = Standing::Waiting { place: None, ahead: 0, eta: None };
    let page = |late| {
        let beacon = Some(RoomBeacon { due_at: 1_692_806_364_000, late });
        page(&RoomInput { draw_closes_at: Some(1), beacon, ..input(Phase::Drawing) }, waiting)
    };
    let in_time = page(false);
    assert!(in_time.contains("2023-08-23 15:59 UTC") && in_time.contains("nobody can know before its time"));
    assert!(page(true).contains("The public random number for the draw is late."));
}

#[test]
fn nothing_from_outside_becomes_markup() {
    let mut sale = input(Phase::Paused);
    let evil = "\"'><script>alert(1)</script>{{texts}}&\0";
    sale.title = evil.into();
    sale.entry_url = evil.into();
    sale.sale = evil.into();
    sale.paused_reason = Some(PauseReason { text: evil.into(), translations: [].into() });
    let reader = Reader { return_to: evil, accept_language: Some(evil), lane: Some(evil), barrier: None };
    let html = String::from_utf8(room().personal(&sale, &waiting(3, 1), &reader, Language::English)).unwrap();
    assert_eq!(html.matches("<script").count(), 1, "only the page's own script");
    assert!(!html.contains("'>") && !html.contains('\0'));
    assert!(html.contains("&quot;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;{{texts}}&amp;\u{fffd}"));
}

#[test]
fn a_strict_policy_refuses_nothing_on_the_page() {
    let html = page(&input(Phase::Open), waiting(3, 1));
    assert!(!html.contains("style=") && !html.contains("<style") && !html.contains(" onclick"));
    assert!(html.contains("<script type=\"module\" src=\"/api/v1/queue/assets/room."));
    assert!(
        !CONTENT_SECURITY_POLICY.contains("unsafe")
            && CONTENT_SECURITY_POLICY.starts_with("default-src 'none'")
    );
}

#[test]
fn the_page_for_everyone_changes_with_the_sale_alone() {
    let room = room();
    let prepare = |input: &RoomInput| room.prepare(input, Language::English);
    let first = prepare(&input(Phase::Open));
    assert_eq!(first.identity().body, prepare(&input(Phase::Open)).identity().body);
    assert_ne!(first.identity().etag, prepare(&input(Phase::SoldOut)).identity().etag);
    let html = std::str::from_utf8(&first.identity().body).unwrap();
    assert!(shown(html, "join") && html.contains("name=\"return\" value=\"/drop\""));
}

#[test]
fn codings_are_chosen_by_quality() {
    let page = room().prepare(&input(Phase::Open), Language::English);
    let chosen = |accept: Option<&str>| page.select(accept, None).representation.encoding;
    for (accept, expected) in [
        (None, Encoding::Identity),
        (Some(""), Encoding::Identity),
        (Some("gzip, deflate, br, zstd"), Encoding::Brotli),
        (Some("gzip"), Encoding::Gzip),
        (Some("X-GZIP"), Encoding::Gzip),
        (Some("br;q=0.5, gzip;q=0.8"), Encoding::Gzip),
        (Some("br;q=0.8, gzip;q=0.8"), Encoding::Brotli),
        (Some("br;q=0, gzip;q=0"), Encoding::Identity),
        (Some("br;q=0, *"), Encoding::Gzip),
        (Some("*;q=0"), Encoding::Identity),
        (Some("identity, br;q=0.5"), Encoding::Identity),
        (Some("identity;q=0, gzip;q=0.001"), Encoding::Gzip),
        (Some("br;q=2, gzip;q=x, *;q=0.0001"), Encoding::Identity),
        (Some("compress, br ; q = 0"), Encoding::Identity),
        (Some("br ;  q=1.000"), Encoding::Brotli),
        (Some(";;,,=,q"), Encoding::Identity),
    ] {
        assert_eq!(chosen(accept), expected, "{accept:?}");
    }
}

#[test]
fn every_coding_holds_the_same_page_under_its_own_tag() {
    let page = room().prepare(&input(Phase::Open), Language::English);
    let identity = page.identity();
    let gzip = page.select(Some("gzip"), None).representation;
    let brotli = page.select(Some("br"), None).representation;
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&gzip.body[..]).read_to_end(&mut plain).unwrap();
    assert_eq!(plain, identity.body);
    plain.clear();
    brotli::Decompressor::new(&brotli.body[..], 4096).read_to_end(&mut plain).unwrap();
    assert_eq!(plain, identity.body);
    assert!(identity.etag != gzip.etag && gzip.etag != brotli.etag && brotli.etag.starts_with('"'));
    assert!(brotli.body.len() < 6_000, "the page has grown to {} bytes", brotli.body.len());
}

#[test]
fn a_page_that_the_client_has_is_not_sent_again() {
    let page = room().prepare(&input(Phase::Open), Language::English);
    let br = page.select(Some("br"), None).representation.etag.clone();
    let is_304 = |accept, tags: &str| page.select(Some(accept), Some(tags)).not_modified;
    assert!(is_304("br", &br) && is_304("br", &format!("\"a\" , W/{br}")) && is_304("br", "*"));
    assert!(!is_304("gzip", &br), "another coding is another representation");
    assert!(!is_304("br", "\"a\"") && !is_304("br", "") && !is_304("br", br.trim_matches('"')));
}

#[test]
fn assets_are_found_by_the_names_the_page_gives_them() {
    let room = room();
    let html = page(&input(Phase::Open), Standing::Outside);
    let names: Vec<_> = html.split("/assets/").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(names.len(), 2);
    for name in names {
        assert!(room.asset(name).is_some(), "{name}");
    }
    assert!(room.asset("room.js").is_none() && room.asset("../room.js").is_none());
}

#[test]
fn the_script_is_one_file_of_code() {
    let room = room();
    let script = &room.assets.script.content;
    let code = std::str::from_utf8(&script.identity().body).unwrap();
    for line in code.lines() {
        assert!(
            !line.starts_with("import ") && !line.starts_with("export ") && !line.contains("/**"),
            "{line}"
        );
    }
    assert!(code.contains("\nfunction shuffledIndex(") && code.contains("\nasync function look("));
    // A name declared twice would stop the whole script.
    let mut names: Vec<_> = code
        .lines()
        .filter_map(|line| line.strip_prefix("async ").unwrap_or(line).split_once(' '))
        .filter(|(keyword, _)| ["const", "let", "function", "class"].contains(keyword))
        .flat_map(|(_, rest)| {
            let declared = rest.split_once(" = ").map_or(rest, |(names, _)| names);
            declared.split(['(', ' ', ';']).next().map(str::to_owned)
        })
        .filter(|name| name != "{")
        .collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "a name is declared in two modules");
    let brotli = script.select(Some("br"), None).representation.body.len();
    assert!(brotli < 9_000, "the script has grown to {brotli} bytes");
}

proptest! {
    #[test]
    fn no_header_breaks_the_choice(accept in ".{0,80}", tags in ".{0,80}") {
        let page = Prepared::new("text/plain", vec![b'a'; 500], Effort::Quick);
        let _ = page.select(Some(&accept), Some(&tags));
    }

    #[test]
    fn filling_never_loses_text(text in "[a-z{}]{0,40}", value in "[A-Z]{0,9}") {
        let filled = texts::fill(&text, &[("a", &value)]);
        prop_assert_eq!(filled, text.replace("{a}", &value));
    }

    #[test]
    fn a_wait_is_never_told_shorter_than_it_is(low_s in 0u64..100_000, more in 0u64..100_000) {
        let texts = Texts::load(Language::English).unwrap();
        let words = texts.wait(Some(EtaRange { low_s, high_s: low_s + more }));
        // The last duration told, in minutes.
        let told = words.rsplit(" to ").next().unwrap();
        let number = |unit: &str| {
            let before = told.split(unit).next().filter(|_| told.contains(unit))?;
            before.rsplit(' ').find_map(|word| word.parse::<u64>().ok())
        };
        let minutes = match (number(" h"), number(" min")) {
            (None, None) => 1,
            (h, m) => h.unwrap_or(0) * 60 + m.unwrap_or(0),
        };
        prop_assert!(minutes * 60 >= low_s + more, "{words}");
    }
}

#[test]
fn while_the_store_is_away_the_page_says_so_and_offers_nothing_that_needs_it() {
    let away = RoomInput { store_away: true, ..input(Phase::Open) };
    for standing in [Standing::Outside, waiting(41, 12), Standing::Called { left_s: Some(60) }] {
        let html = page(&away, standing);
        let place = if standing == Standing::Outside { "nobody can join" } else { "Your place is safe" };
        let note = text(&html, "note");
        assert!(note.contains("memory cannot be reached") && note.contains(place), "{note}");
        assert!(!shown(&html, "join") && !shown(&html, "claim"), "{standing:?}");
    }
    assert!(page(&away, waiting(41, 12)).contains("Not known yet"));
    let over = RoomInput { phase: Phase::SoldOut, ..away };
    assert!(!shown(&page(&over, waiting(41, 12)), "note"));
}
