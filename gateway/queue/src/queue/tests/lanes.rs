//! Lanes: each in its own order, each with its share, and nobody in two of them.

use proptest::prelude::*;

use super::replica::add;
use super::*;
use crate::definition::LaneDefinition;
use crate::outcome::{ChangeRefusal, Invited, Update};
use crate::turns::Turns;

fn lane(name: &str, share: u8, invitation: bool) -> LaneDefinition {
    LaneDefinition { name: name.parse().unwrap(), title: String::new(), share, invitation }
}

fn at(index: usize) -> Lane {
    Lane::at(index).unwrap()
}

/// Everybody's lane, and one for members with four times as much of the pace.
fn two_lanes() -> RawDefinition {
    let mut raw = open_sale(100_000);
    raw.pace = Pace::Smooth { admit: 1, per_ms: 1_000, burst: 1 };
    raw.lanes = vec![lane("everybody", 20, false), lane("members", 80, true)];
    raw
}

impl Rig {
    fn invited(&mut self, who: u64, once: Option<u64>) -> Result<Joined, JoinRefusal> {
        let invited = Some(Invited { lane: at(1), once: once.map(|once| visitor(7_000_000 + once)) });
        self.queue.join(
            visitor(who),
            JoinOptions { again: false, invited, ..JoinOptions::default() },
            self.now,
        )
    }

    fn called(&self) -> [u64; 2] {
        let view = self.queue.view(self.now);
        [view.lines[at(0)].serving.number(), view.lines[at(1)].serving.number()]
    }
}

#[test]
fn a_sale_without_lanes_is_written_as_it_was_before_there_were_any() {
    let rig = Rig::new(open_sale(5));
    let core: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&serde_json::to_string(rig.queue.core()).unwrap()).unwrap();
    let mut members: Vec<&str> = core.keys().map(String::as_str).collect();
    members.sort_unstable();
    assert_eq!(
        members,
        [
            "beacon",
            "bygone",
            "calls",
            "draw",
            "draw_secret",
            "epoch",
            "flow",
            "last_now",
            "next_arrival",
            "open_ordered",
            "orders",
            "pacer",
            "ratio",
            "serving",
            "stage",
            "stock",
            "totals"
        ]
    );
    let snapshot = serde_json::to_value(rig.queue.view(rig.now).snapshot()).unwrap();
    assert!(snapshot.get("lanes").is_none());
    let definition = serde_json::to_value(&**rig.queue.definition()).unwrap();
    assert!(definition.get("lanes").is_none());
}

#[test]
fn shares_come_true_one_call_at_a_time() {
    let mut rig = Rig::new(two_lanes());
    for who in 0..2_000 {
        rig.join_as(who, false).unwrap();
        rig.invited(100_000 + who, None).unwrap();
    }
    for _ in 0..500 {
        let before = rig.called();
        rig.pass(1_000);
        let [everybody, members] = rig.called();
        assert_eq!(everybody + members, before[0] + before[1] + 1, "the pace is not the sale's");
        assert!(everybody.abs_diff((everybody + members) / 5) <= 1, "{everybody} and {members}");
    }
}

#[test]
fn what_a_lane_does_not_take_the_others_get() {
    let mut rig = Rig::new(two_lanes());
    for who in 0..100 {
        rig.join_as(who, false).unwrap();
    }
    for _ in 0..50 {
        rig.pass(1_000);
    }
    let [alone, nobody] = rig.called();
    assert_eq!((alone >= 50, nobody), (true, 0));
    // Nothing was saved up meanwhile: who comes now gets four of five, not all of the next fifty.
    for who in 0..100 {
        rig.invited(100_000 + who, None).unwrap();
    }
    for _ in 0..50 {
        rig.pass(1_000);
    }
    let [everybody, members] = rig.called();
    assert!((39..=41).contains(&members) && everybody - alone >= 9, "{everybody} and {members}");
}

#[test]
fn the_caps_are_the_sales_over_all_lanes() {
    let mut raw = two_lanes();
    raw.pace = Pace::Batch { admit: 100, every_ms: 1_000 };
    raw.max_active = 5;
    let mut rig = Rig::new(raw);
    for who in 0..10 {
        rig.join_as(who, false).unwrap();
        rig.invited(100 + who, None).unwrap();
    }
    rig.pass(1_000);
    assert_eq!(rig.busy(), 5);
    rig.stock(3, Some(0));
    rig.pass(61_000);
    assert_eq!(rig.busy(), 3, "called for more units than there are");
}

#[test]
fn an_invitation_counts_when_joining_and_moves_who_waits() {
    let mut rig = Rig::new(two_lanes());
    let crowd = rig.crowd(5);
    let waiting = rig.join_as(1, false).unwrap();
    assert_eq!((crowd[0].lane(), waiting.arrival), (at(0), Arrival(5)));
    let members = rig.invited(1, None).unwrap();
    assert_eq!((members.arrival.lane(), members.arrival.number(), members.new), (at(1), 0, true));
    // It is the visitor's one ticket, from now on and from everywhere.
    assert_eq!(rig.join_as(1, false).unwrap(), Joined { new: false, ..members });
    assert_eq!(rig.invited(1, None).unwrap(), Joined { new: false, ..members });
    assert_eq!(rig.claim(waiting.arrival), Err(ClaimRefusal::Left));
    // Who has been called has nothing to go over for.
    assert!(rig.claim(crowd[0]).is_ok());
    assert_eq!(rig.invited(1_000_001, None).unwrap().arrival, crowd[0]);
    // An invitation to the lane that takes everybody, or to none, is not one.
    for lane in [0, 2] {
        let invited = Some(Invited { lane: at(lane), once: None });
        let refused = rig.queue.join(
            visitor(9),
            JoinOptions { again: false, invited, ..JoinOptions::default() },
            rig.now,
        );
        assert_eq!(refused, Err(JoinRefusal::NoSuchLane));
    }
}

#[test]
fn a_sale_for_invited_visitors_refuses_the_others_at_once() {
    let mut raw = two_lanes();
    raw.lanes = vec![lane("press", 50, true), lane("members", 50, true)];
    let mut rig = Rig::new(raw);
    assert_eq!(rig.join_as(1, false), Err(JoinRefusal::InvitationNeeded));
    assert!(rig.invited(1, None).is_ok());
    assert!(rig.join_as(1, false).is_ok(), "who was let in must show the invitation again");
}

#[test]
fn an_invitation_for_one_gives_one_place_to_forty() {
    let mut rig = Rig::new(two_lanes());
    let first = rig.invited(0, Some(1)).unwrap();
    for who in 1..40 {
        assert_eq!(rig.invited(who, Some(1)), Err(JoinRefusal::InvitationUsed));
    }
    assert_eq!(rig.invited(0, Some(1)).unwrap(), Joined { new: false, ..first });
    let other = rig.invited(50, Some(2)).unwrap();
    assert_eq!(other.arrival.number(), 1);
    // Who leaves before being called gives it back; who has been called has used it.
    rig.leave(other.arrival);
    let next = rig.invited(51, Some(2)).unwrap();
    assert_eq!(next.arrival.number(), 2);
    rig.pass(1_000);
    assert!(rig.claim(first.arrival).is_ok());
    rig.leave(first.arrival);
    assert_eq!(rig.invited(3, Some(1)), Err(JoinRefusal::InvitationUsed));
}

impl Rig {
    /// Whoever waits is called and does not come; then somebody else is called, so that the next to join has to wait.
    fn lapse(&mut self) {
        self.pass(1_000);
        self.pass(200_000);
        self.visitors += 1;
        self.invited(2_000_000 + self.visitors, None).unwrap();
    }

    fn again(&mut self, who: u64, once: Option<u64>) -> Result<Joined, JoinRefusal> {
        let invited = once.map(|once| Invited { lane: at(1), once: Some(visitor(7_000_000 + once)) });
        self.queue.join(
            visitor(who),
            JoinOptions { again: true, invited, ..JoinOptions::default() },
            self.now,
        )
    }
}

#[test]
fn a_call_that_lapsed_is_followed_by_a_number_of_the_same_lane_and_the_invitation_is_spent() {
    for shows in [None, Some(1)] {
        let mut rig = Rig::new(two_lanes());
        let first = rig.invited(1, Some(1)).unwrap();
        for _ in 0..3 {
            rig.lapse();
            let again = rig.again(1, shows).unwrap();
            assert_eq!((again.new, again.arrival.lane()), (true, at(1)));
            assert_eq!(rig.invited(2, Some(1)), Err(JoinRefusal::InvitationUsed));
        }
        let last = rig.queue.held(&visitor(1)).unwrap().arrival;
        assert!(last > first.arrival);
        // Leaving gives nothing back: it was called for once.
        rig.leave(last);
        assert_eq!(rig.invited(2, Some(1)), Err(JoinRefusal::InvitationUsed));
        assert_eq!(rig.invited(1, Some(1)), Err(JoinRefusal::InvitationUsed));
    }
}

#[test]
fn an_invitation_for_one_that_has_let_somebody_in_gives_no_second_number_of_its_lane() {
    let mut raw = two_lanes();
    raw.lease_ms = 1_000;
    let mut rig = Rig::new(raw.clone());
    // By the number that it gave, and by one that followed a lapse.
    rig.invited(1, Some(1)).unwrap();
    rig.pass(200_000);
    let joined = rig.again(1, None).unwrap();
    rig.pass(1_000);
    rig.claim(joined.arrival).unwrap();
    let other = rig.invited(2, Some(2)).unwrap();
    rig.pass(1_000);
    rig.claim(other.arrival).unwrap();
    rig.pass(1_000);
    for who in [1, 2] {
        assert_eq!(rig.again(who, Some(who)), Err(JoinRefusal::InvitationUsed));
        let everybody = rig.again(who, None).unwrap();
        assert_eq!((everybody.new, everybody.arrival.lane()), (true, at(0)));
        assert_eq!(rig.invited(90 + who, Some(who)), Err(JoinRefusal::InvitationUsed));
    }
    raw.lanes = vec![lane("press", 50, true), lane("members", 50, true)];
    let mut rig = Rig::new(raw);
    let joined = rig.invited(1, Some(1)).unwrap();
    rig.claim(joined.arrival).unwrap();
    rig.pass(1_000);
    assert_eq!(rig.again(1, None), Err(JoinRefusal::InvitationUsed));
}

#[test]
fn an_invitation_moved_to_another_number_is_the_same_on_every_replica() {
    let mut rig = Rig::new(two_lanes());
    let mut missed = Update::default();
    rig.invited(1, Some(1)).unwrap();
    for _ in 0..2 {
        rig.lapse();
        rig.again(1, None).unwrap();
        add(&mut missed, &rig.queue.take_changes(), &rig.queue);
    }
    let last = rig.queue.held(&visitor(1)).unwrap().arrival;
    rig.leave(last);
    add(&mut missed, &rig.queue.take_changes(), &rig.queue);
    let mut replica = Queue::create(two_lanes().check().unwrap(), [7; 32], UnixMillis(1_000_000));
    replica.apply(missed);
    let (here, there): (Vec<_>, Vec<_>) = (rig.queue.joins().collect(), replica.joins().collect());
    assert_eq!(here, there);
}

#[test]
fn an_invitation_stays_used_after_a_loss_whoever_comes_back_first() {
    let mut rig = Rig::new(two_lanes());
    let early = rig.queue.core.clone();
    let ticket = |joined: Joined, who| JoinRecord {
        arrival: joined.arrival,
        visitor: visitor(who),
        joined_at: u32::try_from(joined.joined_at).unwrap(),
    };
    // The second has lapsed and waits with the number that followed.
    let first = rig.invited(2, Some(2)).unwrap();
    rig.pass(200_000);
    assert_ne!(rig.again(2, None).unwrap().arrival, first.arrival);
    let shown = rig.invited(1, Some(1)).map(|joined| ticket(joined, 1)).unwrap();
    let former = rig.queue;
    rig.queue = Queue::restore(two_lanes().check().unwrap(), early, [], [], []);
    rig.queue.skip(&Reach::of(&former.core), rig.now);
    assert!(rig.queue.reenter(shown, rig.now));
    rig.queue.reenter_from(&former, Arrival(0), usize::MAX, rig.now);
    rig.queue.reenter_from(&former, Arrival(0), usize::MAX, rig.now);
    for once in [1, 2] {
        assert_eq!(rig.invited(9, Some(once)), Err(JoinRefusal::InvitationUsed), "{once}");
    }
    let (here, there): (Vec<_>, Vec<_>) = (rig.queue.joins().collect(), former.joins().collect());
    assert_eq!(here, there);
}

#[test]
fn each_lane_is_drawn_alone_and_by_a_seed_of_its_own() {
    let mut raw = drawn_sale();
    raw.lanes = two_lanes().lanes;
    let mut rig = Rig::new(raw);
    rig.pass(10_000);
    let everybody: Vec<_> = (0..30).map(|who| rig.join_as(who, false).unwrap().arrival).collect();
    let members: Vec<_> = (0..20).map(|who| rig.invited(100 + who, None).unwrap().arrival).collect();
    rig.pass(10_000);
    rig.pass(10_000);
    let draw = rig.queue.view(rig.now).draw.unwrap();
    assert_eq!((draw.state.size(), draw.lanes[0].size()), (Some(30), Some(20)));
    assert_ne!(draw.state.seed(), draw.lanes[0].seed());
    for (lane, arrivals) in [everybody, members].into_iter().enumerate() {
        let places: Vec<_> = arrivals.iter().map(|arrival| rig.position(*arrival).place.unwrap()).collect();
        assert!(places.iter().all(|place| place.lane() == at(lane)));
        let mut numbers: Vec<u64> = places.iter().map(|place| place.number()).collect();
        assert!(!numbers.is_sorted(), "nobody was drawn");
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..arrivals.len() as u64));
    }
    let manifest = draw.manifest.canonical();
    let promised = r#""lanes":[{"invitation":false,"name":"everybody","share":20},{"invitation":true,"#;
    assert!(manifest.contains(promised), "{manifest}");
    let seed = crate::draw::lane_seed(manifest.as_bytes(), at(1), 20, &[7; 32]);
    assert_eq!(draw.lanes[0].seed(), Some(seed));
}

#[test]
fn shares_may_change_while_a_sale_runs_and_what_was_promised_may_not() {
    let mut rig = Rig::new(two_lanes());
    rig.join_as(1, false).unwrap();
    let mut raw = two_lanes();
    raw.lanes = vec![lane("everybody", 50, false), lane("members", 50, true)];
    rig.queue.change(raw.clone().check().unwrap(), None, rig.now).unwrap();
    for other in [
        vec![lane("members", 50, true), lane("everybody", 50, false)],
        vec![lane("everybody", 50, true), lane("members", 50, true)],
        vec![lane("everybody", 50, false), lane("others", 50, true)],
        vec![lane("everybody", 100, false)],
        Vec::new(),
    ] {
        raw.lanes = other;
        let refused = rig.queue.change(raw.clone().check().unwrap(), None, rig.now);
        assert_eq!(refused, Err(ChangeRefusal::LanesFixed));
    }
    // The manifest of a draw has promised the shares, too; before joining opens nothing is promised.
    let mut raw = drawn_sale();
    raw.lanes = two_lanes().lanes;
    let mut rig = Rig::new(drawn_sale());
    rig.queue.change(raw.clone().check().unwrap(), None, rig.now).unwrap();
    rig.pass(10_000);
    assert!(rig.invited(1, None).is_ok());
    raw.lanes = vec![lane("everybody", 50, false), lane("members", 50, true)];
    assert_eq!(rig.queue.change(raw.check().unwrap(), None, rig.now), Err(ChangeRefusal::LanesFixed));
}

/// Up to eight shares that add up to 100.
fn shares() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::btree_set(1..100u8, 0..8).prop_map(|cuts| {
        let ends = cuts.iter().copied().chain([100]);
        ends.scan(0, |before, end| Some(end - std::mem::replace(before, end))).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_lane_that_waits_gets_its_share_whatever_the_others_do(
        shares in shares(),
        steps in prop::collection::vec((0..12u64, prop::collection::vec(0..6u64, 8)), 1..200),
    ) {
        let lanes = shares.len();
        let mut turns = Turns::default();
        let mut waiting = vec![0; lanes];
        // Calls of each lane, and of all, since the lane began to wait.
        let (mut own, mut all) = (vec![0; lanes], vec![0; lanes]);
        for (limit, come) in steps {
            for (waiting, come) in waiting.iter_mut().zip(come) {
                *waiting += come;
            }
            let given = turns.divide(limit, &waiting, &shares);
            let calls: u64 = given.iter().sum();
            prop_assert_eq!(calls, limit.min(waiting.iter().sum()), "a call was lost, or one too many made");
            for lane in 0..lanes {
                prop_assert!(given[lane] <= waiting[lane]);
                waiting[lane] -= given[lane];
                own[lane] += given[lane];
                all[lane] += calls;
                let least = u64::from(shares[lane]) * all[lane] / 100;
                if waiting[lane] > 0 {
                    prop_assert!(own[lane] + 2 + lanes as u64 >= least, "{} of {}", own[lane], all[lane]);
                } else {
                    (own[lane], all[lane]) = (0, 0);
                }
            }
        }
    }
}
