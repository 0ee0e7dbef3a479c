//! A draw of a sale with lanes: each lane's number, seed and places are checked on their own.

use ropeline_queue::{Lane, LanePromise};
use ropeline_token::{Claims, TicketClaims};

use super::*;

fn promise() -> Manifest {
    let lane = |name: &str, share, invitation| LanePromise { name: name.parse().unwrap(), share, invitation };
    Manifest { lanes: vec![lane("everybody", 30, false), lane("members", 70, true)], ..manifest() }
}

fn with_lanes() -> DrawView {
    let text = promise().canonical();
    let drawn = |lane: usize, size: u32| {
        let seed = draw::lane_seed(text.as_bytes(), Lane::at(lane).unwrap(), size, &SECRET);
        DrawState::Drawn { size, seed }
    };
    DrawView { manifest: promise(), state: drawn(0, 50), lanes: vec![drawn(1, 20)], ..super::drawn() }
}

fn ticket(arrival: u64, subject: &str, joined_at: u64) -> String {
    let claims = Claims {
        iss: "shop".into(),
        aud: "drop".into(),
        sub: subject.into(),
        jti: "j".into(),
        iat: joined_at,
        nbf: joined_at,
        exp: joined_at + 60,
        epoch: 0,
        arrival,
    };
    key().sign_ticket(&TicketClaims { claims }).unwrap()
}

#[test]
fn every_lane_of_an_honest_draw_passes_and_gives_its_places() {
    let document = DrawDocument::new(&key(), &with_lanes()).unwrap();
    let verification = document.verify(&keys(), std::slice::from_ref(&document));
    assert!(verification.is_good(), "{verification:?}");
    let says = |name: &str| verification.checks.iter().find(|check| check.name == name).unwrap();
    let Outcome::Good(words) = &says("manifest").outcome else { panic!("{verification:?}") };
    assert!(words.ends_with("; lane everybody, for everybody: 30 %; lane members, for the invited: 70 %"));
    let drawn = verification.drawn.unwrap();
    let mut places: Vec<u64> = (0..20)
        .map(|number| drawn.lanes[0].place(Arrival((1 << 32) + number)))
        .map(|place| {
            assert_eq!(place.lane(), Lane::at(1).unwrap());
            place.number()
        })
        .collect();
    places.sort_unstable();
    assert!(places.into_iter().eq(0..20));
}

#[test]
fn what_is_changed_of_one_lane_is_found() {
    let good = DrawDocument::new(&key(), &with_lanes()).unwrap();
    let lanes = |size, seed: &Option<String>| vec![DrawnLane { size: Some(size), seed: seed.clone() }];
    assert_eq!(bad(&DrawDocument { lanes: Vec::new(), ..good.clone() }).0, "number of arrivals");
    let more = lanes(21, &good.lanes[0].seed);
    assert_eq!(bad(&DrawDocument { lanes: more, ..good.clone() }).0, "number of arrivals");
    let same = lanes(20, &good.seed);
    assert_eq!(bad(&DrawDocument { lanes: same, ..good }).0, "seed of a lane");
    let other = Manifest { lanes: Vec::new(), ..promise() };
    let plain = DrawDocument::new(&key(), &DrawView { manifest: other, ..with_lanes() }).unwrap();
    assert_eq!(bad(&plain).0, "number of arrivals", "a lane was drawn that nobody had promised");
}

#[test]
fn tickets_are_held_against_their_own_lane() {
    let drawn = DrawDocument::new(&key(), &with_lanes()).unwrap().verify(&keys(), &[]).drawn.unwrap();
    let sale = "drop".parse().unwrap();
    let check = |tickets: &[String]| tickets::check(&drawn, &sale, &keys(), tickets);
    let (early, lane) = (1_699_999_000, 1u64 << 32);
    // The second lane counts on its own, and whoever went over has a number in both.
    let found = check(&[
        ticket(40, "a", early + 5),
        ticket(lane + 3, "a", early + 5),
        ticket(lane + 4, "b", early + 6),
        ticket(lane + 20, "c", 1_700_000_001),
    ]);
    let place = |found: Result<Found, String>| match found.unwrap() {
        Found::Placed(Placed { place, .. }) => place,
        Found::Unqueued => panic!("it has a number"),
    };
    let places: Vec<_> = found.into_iter().map(place).collect();
    assert_eq!(places[1], drawn.lanes[0].place(Arrival(lane + 3)));
    assert_eq!(places[3].number(), 20);
    let words = |tickets: &[String]| check(tickets).into_iter().find_map(Result::err).unwrap();
    assert!(words(&[ticket(lane * 2, "a", early)]).contains("a lane that the sale does not have"));
    assert!(
        words(&[ticket(lane + 20, "a", early)]).starts_with("arrival 20 of lane 2 is not among those drawn")
    );
    let moved = [ticket(lane + 3, "a", early + 9), ticket(lane + 4, "b", early)];
    assert!(words(&moved).starts_with("arrival 4 of lane 2 joined at"), "{}", words(&moved));
}
