use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn key(n: u64) -> VisitorKey {
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&n.to_be_bytes());
    VisitorKey(bytes)
}

fn entry(visitor: u64, arrival: u64) -> JoinRecord {
    JoinRecord {
        arrival: Arrival(arrival),
        visitor: key(visitor),
        joined_at: u32::try_from(arrival % 1000).unwrap(),
    }
}

#[test]
fn a_rejoin_takes_the_newer_number_and_frees_the_older() {
    let mut map = VisitorMap::new();
    assert_eq!(map.insert(entry(1, 0)), Ok(None));
    assert_eq!(map.insert(entry(1, 5)), Ok(Some(Arrival(0))));
    assert_eq!(map.get(&key(1)), Some(entry(1, 5)));
    assert_eq!((map.at(Arrival(0)), map.len()), (None, 1));
    assert_eq!(map.insert(entry(1, 3)), Err(InsertError::Superseded(Arrival(5))));
    assert_eq!(map.get(&key(1)), Some(entry(1, 5)), "an old ticket displaced a newer one");
}

#[test]
fn a_number_is_never_given_to_a_second_visitor() {
    let mut map = VisitorMap::new();
    map.insert(entry(1, 7)).unwrap();
    assert_eq!(map.insert(entry(2, 7)), Err(InsertError::Taken(Arrival(7))));
    assert_eq!((map.get(&key(2)), map.len()), (None, 1));
}

#[test]
fn the_last_number_fits_and_the_next_is_refused() {
    let last = u64::from(u32::MAX);
    let mut map = VisitorMap::new();
    assert_eq!(map.insert(entry(1, last)), Ok(None));
    assert_eq!(map.at(Arrival(last)), Some(entry(1, last)));
    assert_eq!(map.insert(entry(2, last + 1)), Err(InsertError::PastTheLast(Arrival(last + 1))));
    assert_eq!(map.at(Arrival(last + 1)), None);
}

#[test]
fn a_gap_in_the_numbers_costs_next_to_nothing() {
    let mut map = VisitorMap::new();
    map.insert(entry(1, 0)).unwrap();
    let before = map.resident_bytes();
    map.insert(entry(2, 50_000_000)).unwrap();
    assert!(map.resident_bytes() - before < 1_000_000, "{} bytes", map.resident_bytes() - before);
    assert_eq!(map.iter().collect::<Vec<_>>(), [entry(1, 0), entry(2, 50_000_000)]);
}

#[test]
fn everybody_leaving_gives_the_records_back() {
    let mut map = VisitorMap::new();
    for n in 0..5_000 {
        map.insert(entry(n, n)).unwrap();
    }
    let full = map.resident_bytes();
    for n in 0..5_000 {
        assert_eq!(map.remove(&key(n)), Some(entry(n, n)));
    }
    assert!(map.is_empty() && map.resident_bytes() + 5_000 * 20 <= full);
}

#[test]
fn two_million_waiting_take_32_bytes_each() {
    let mut map = VisitorMap::new();
    for n in 0..2_000_000 {
        map.insert(entry(n, n)).unwrap();
        // Also where the table is emptiest, just after each of its shards has grown.
        assert!(n < 200_000 || n % 10_000 != 0 || map.resident_bytes() as u64 <= n * 32, "at {n}");
    }
    assert!(map.resident_bytes() <= 2_000_000 * 32, "{} bytes", map.resident_bytes());
    assert_eq!(map.get(&key(1_234_567)), Some(entry(1_234_567, 1_234_567)));
}

#[derive(Debug, Clone)]
enum Step {
    Insert { visitor: u64, arrival: u64 },
    Remove { visitor: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let arrival = prop_oneof![0u64..40, 1000u64..1040, 90_000u64..90_010];
    prop_oneof![
        3 => (0u64..30, arrival).prop_map(|(visitor, arrival)| Step::Insert { visitor, arrival }),
        1 => (0u64..30).prop_map(|visitor| Step::Remove { visitor }),
    ]
}

proptest! {
    #[test]
    fn any_sequence_answers_like_two_plain_maps(steps in proptest::collection::vec(step(), 0..200)) {
        let mut map = VisitorMap::new();
        let (mut by_visitor, mut by_arrival) = (BTreeMap::new(), BTreeMap::new());
        for step in steps {
            match step {
                Step::Insert { visitor, arrival } => {
                    let expected = match (by_arrival.get(&arrival), by_visitor.get(&visitor).copied()) {
                        (Some(owner), _) if *owner != visitor => Err(InsertError::Taken(Arrival(arrival))),
                        (_, Some(held)) if held > arrival => Err(InsertError::Superseded(Arrival(held))),
                        (_, held) => Ok(held.filter(|held| *held != arrival).map(Arrival)),
                    };
                    prop_assert_eq!(map.insert(entry(visitor, arrival)), expected);
                    if let Ok(replaced) = expected {
                        replaced.map(|old| by_arrival.remove(&old.0));
                        by_visitor.insert(visitor, arrival);
                        by_arrival.insert(arrival, visitor);
                    }
                }
                Step::Remove { visitor } => {
                    let held = by_visitor.remove(&visitor);
                    held.map(|arrival| by_arrival.remove(&arrival));
                    prop_assert_eq!(map.remove(&key(visitor)), held.map(|arrival| entry(visitor, arrival)));
                }
            }
            prop_assert_eq!(map.len(), by_visitor.len());
        }
        let expected: Vec<_> = by_arrival.iter().map(|(arrival, visitor)| entry(*visitor, *arrival)).collect();
        prop_assert_eq!(map.iter().collect::<Vec<_>>(), expected);
        for visitor in 0..30 {
            let held = by_visitor.get(&visitor).map(|arrival| entry(visitor, *arrival));
            prop_assert_eq!(map.get(&key(visitor)), held);
        }
    }
}
