use proptest::prelude::*;

use super::*;

const MOST: i64 = 5;

fn settings() -> Settings {
    Settings {
        hold_ms: 1_000,
        extension_ms: 0,
        units_per_visitor: None,
        sinks: Vec::new(),
        node: "here".into(),
        lease_ms: 1,
    }
}

fn product(kind: Kind) -> Product {
    Product {
        id: "runner".into(),
        name: "The runner".into(),
        description: String::new(),
        price_minor: 100,
        currency: "EUR".into(),
        max_quantity: MOST,
        kind,
    }
}

fn loaded(kind: Kind, available: i64, supply: Supply) -> Loaded {
    let left = Stock { available, held: 0 };
    let shelf = Shelf { product: product(kind), stopped: false, left, supply };
    Loaded {
        now: 7,
        keys: HashMap::new(),
        shelves: HashMap::from([("runner".to_owned(), shelf)]),
        live: HashMap::new(),
        taken: HashMap::new(),
    }
}

fn claim(visitor: &str, key: &str, wanted: Wanted) -> Claim {
    let key = KeyUse { visitor: visitor.into(), key: key.into(), fingerprint: [1; 32] };
    Claim { key, product: "runner".into(), wanted }
}

fn buckets(available: &[i64]) -> Vec<Bucket> {
    (0..)
        .zip(available)
        .map(|(id, available)| Bucket { id, available: *available, moved: 0, taken: 0 })
        .collect()
}

proptest! {
    /// Whatever the buckets: nobody is refused while there is enough in all of them together, no bucket is overdrawn, and
    /// what one bucket gained by moving, others lost.
    #[test]
    fn buckets_give_all_they_have_and_no_more(
        available in prop::collection::vec(0..7_i64, 1..6),
        quantities in prop::collection::vec(1..=MOST, 1..12),
    ) {
        let total: i64 = available.iter().sum();
        let claims: Vec<Claim> = quantities
            .iter()
            .enumerate()
            .map(|(n, quantity)| claim(&n.to_string(), "k", Wanted::Any(*quantity)))
            .collect();
        let loaded = loaded(Kind::Count, total, Supply::Buckets(buckets(&available)));
        let decision = decide(&settings(), loaded, &claims).unwrap();
        let mut left = total;
        for (quantity, answer) in quantities.iter().zip(&decision.answers) {
            prop_assert_eq!(answer.status, if *quantity <= left { 201 } else { 409 });
            if *quantity <= left {
                left -= quantity;
            }
        }
        prop_assert_eq!(decision.short, decision.answers.iter().any(|answer| answer.status == 409));
        let Supply::Buckets(after) = &decision.shelves["runner"].supply else { panic!("no buckets") };
        let mut of_bucket = HashMap::<i64, i64>::new();
        for (hold, numbers) in &decision.holds {
            prop_assert!(numbers.is_empty() && hold.units.is_empty());
            prop_assert_eq!((hold.created_at, hold.expires_at), (7, 1_007));
            *of_bucket.entry(hold.bucket).or_default() += hold.quantity;
        }
        for (bucket, before) in after.iter().zip(&available) {
            prop_assert!(bucket.available >= 0, "{bucket:?}");
            prop_assert_eq!(bucket.available, before + bucket.moved - bucket.taken);
            prop_assert_eq!(bucket.taken, of_bucket.get(&bucket.id).copied().unwrap_or_default());
        }
        prop_assert_eq!(after.iter().map(|bucket| bucket.moved).sum::<i64>(), 0);
        prop_assert_eq!(decision.shelves["runner"].left, Stock { available: left, held: total - left });
    }
}

#[test]
fn units_move_between_buckets_only_for_an_order_that_fits_none() {
    let decide_for = |available: &[i64], quantity| {
        let loaded = loaded(Kind::Count, available.iter().sum(), Supply::Buckets(buckets(available)));
        let decision = decide(&settings(), loaded, &[claim("ann", "k", Wanted::Any(quantity))]).unwrap();
        let Supply::Buckets(after) = &decision.shelves["runner"].supply else { panic!("no buckets") };
        after.iter().map(|bucket| (bucket.moved, bucket.taken)).collect::<Vec<_>>()
    };
    assert_eq!(decide_for(&[1, 3, 2], 2), [(0, 0), (0, 2), (0, 0)]);
    assert_eq!(decide_for(&[1, 3, 2], 5), [(-1, 0), (2, 5), (-1, 0)]);
}

#[test]
fn a_key_is_answered_as_it_stands_and_once_within_a_batch() {
    let mut loaded = loaded(Kind::Count, 2, Supply::Buckets(buckets(&[2])));
    let under_way = Standing::UnderWay { purchase: "pur_1".into(), lease: None };
    for (key, standing) in [("answered", Standing::Answered(Answer::no_product())), ("paying", under_way)] {
        let known = Known { fingerprint: vec![1; 32], standing };
        loaded.keys.insert(("ann".into(), key.into()), known);
    }
    let other = |key: &str| {
        let mut claim = claim("ann", key, Wanted::Any(1));
        claim.key.fingerprint = [2; 32];
        claim
    };
    let claims = [
        claim("ann", "answered", Wanted::Any(1)),
        other("answered"),
        claim("ann", "paying", Wanted::Any(1)),
        claim("ann", "new", Wanted::Any(1)),
        claim("ann", "new", Wanted::Any(1)),
        other("new"),
        claim("bob", "new", Wanted::Any(1)),
        claim("cid", "new", Wanted::Any(1)),
    ];
    let decision = decide(&settings(), loaded, &claims).unwrap();
    let statuses: Vec<u16> = decision.answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [404, 422, 409, 201, 201, 422, 201, 409]);
    assert_eq!(decision.answers[3], decision.answers[4]);
    assert_eq!(decision.answers[7].text("code"), "all_held");
    let kept: Vec<&str> = decision.keys.iter().map(|(key, _)| key.visitor.as_str()).collect();
    assert_eq!(kept, ["ann", "bob"], "a refusal that passes is not kept");
    assert_eq!(decision.holds.len(), 2);
}

#[test]
fn the_next_free_are_never_those_that_the_same_batch_chose() {
    let unit = |number: i64| Unit { number, label: format!("S-{number}") };
    let chosen = [("S-1".to_owned(), (1, true)), ("S-9".to_owned(), (9, false))];
    let supply = Supply::Units(Units::new((1..=3).map(unit), chosen));
    let choose = |labels: &[&str]| Wanted::Chosen(labels.iter().map(|label| (*label).to_owned()).collect());
    let claims = [
        claim("ann", "k", choose(&["S-1"])),
        claim("bob", "k", Wanted::Any(2)),
        claim("cid", "k", choose(&["S-1", "S-9"])),
        claim("dan", "k", Wanted::Any(1)),
        claim("eve", "k", choose(&["S-1", "T-1"])),
    ];
    let decision = decide(&settings(), loaded(Kind::Units, 3, supply), &claims).unwrap();
    let numbers: Vec<&[i64]> = decision.holds.iter().map(|(_, numbers)| numbers.as_slice()).collect();
    assert_eq!(numbers, [&[1][..], &[2, 3]]);
    let codes: Vec<&str> = decision.answers.iter().map(|answer| answer.text("code")).collect();
    assert_eq!(codes, ["", "", "unit_taken", "all_held", "unit_unknown"]);
    assert!(decision.short);
}
