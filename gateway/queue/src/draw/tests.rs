use proptest::prelude::*;

use super::*;

#[derive(serde::Deserialize)]
struct Known {
    vectors: Vec<Vector>,
}

#[derive(serde::Deserialize)]
struct Vector {
    seed: String,
    count: u32,
    rounds: u8,
    mapping: Vec<u32>,
}

fn hex(text: &str) -> [u8; 32] {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    std::array::from_fn(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap())
}

fn singles(shuffle: &Shuffle) -> Vec<u32> {
    (0..shuffle.size()).map(|i| u32::try_from(shuffle.place(Arrival(u64::from(i))).0).unwrap()).collect()
}

fn assert_whole(shuffle: &Shuffle) {
    let places = shuffle.places();
    let mut sorted = places.as_slice().to_vec();
    sorted.sort_unstable();
    assert!(sorted.iter().copied().eq(0..shuffle.size()), "not a permutation of {}", shuffle.size());

    assert_eq!(places.as_slice(), singles(shuffle), "the list differs from single indexes");
    let prepared = shuffle.prepare();
    assert!(
        (0..u64::from(shuffle.size()) + 2).all(|n| prepared.place(Arrival(n)) == places.place(Arrival(n)))
    );
    for (arrival, place) in (0u64..).zip(places.as_slice().iter().copied().map(u64::from)) {
        assert_eq!(shuffle.arrival(Place(place)), Arrival(arrival));
    }
}

#[test]
fn the_published_shuffles_come_out() {
    let known: Known = serde_json::from_str(include_str!("../../testdata/draw.json")).unwrap();
    assert!(known.vectors.iter().any(|v| v.rounds == 90) && known.vectors.iter().any(|v| v.rounds == ROUNDS));
    for Vector { seed, count, rounds, mapping } in known.vectors {
        let shuffle = Shuffle::with_rounds(hex(&seed), count, rounds);
        assert_eq!(shuffle.places().as_slice(), mapping, "list, {count} at {rounds} rounds");
        assert_eq!(singles(&shuffle), mapping, "singles, {count} at {rounds} rounds");
    }
}

#[test]
fn list_single_and_inverse_agree_where_blocks_begin_and_end() {
    for size in [0, 1, 2, 3, 4, 7, 8, 63, 64, 65, 255, 256, 257, 511, 512, 513, 769, 4099] {
        for first_byte in 0..3 {
            let mut seed = [7; 32];
            seed[0] = first_byte;
            assert_whole(&Shuffle::with_rounds(seed, size, 90));
        }
        assert_whole(&Shuffle::new([9; 32], size));
    }
}

#[test]
fn late_arrivals_keep_their_number() {
    let shuffle = Shuffle::new([1; 32], 10);
    let places = shuffle.places();
    for late in [10, 11, u64::from(u32::MAX), u64::from(u32::MAX) + 1, u64::MAX] {
        assert_eq!(shuffle.place(Arrival(late)), Place(late));
        assert_eq!(places.place(Arrival(late)), Place(late));
        assert_eq!(shuffle.arrival(Place(late)), Arrival(late));
    }
}

#[test]
fn the_largest_draw_stays_inside_its_bounds() {
    let shuffle = Shuffle::new([3; 32], u32::MAX);
    for arrival in [0, 1, 255, 256, u64::from(u32::MAX / 2), u64::from(u32::MAX - 1)] {
        let place = shuffle.place(Arrival(arrival));
        assert!(place.0 < u64::from(u32::MAX));
        assert_eq!(shuffle.arrival(place), Arrival(arrival));
    }
}

/// Computed with Python's hashlib:
/// `m=sha256(b'{"sale":"x"}').digest(); sha256(b"ropeline-draw-v1"+m+(2000000).to_bytes(8,"little")+bytes(range(32)))`
#[test]
fn seed_and_commitment_match_another_implementation() {
    let secret: [u8; 32] = std::array::from_fn(|i| u8::try_from(i).unwrap());
    assert_eq!(
        seed(br#"{"sale":"x"}"#, 2_000_000, &secret),
        hex("a395a0788f7af7a8d3cb4d3be1821db3f9507dc12d8804b9c2f046cd46c615e2")
    );
    assert_eq!(commitment(&secret), hex("630dcd2966c4336691125448bbb25b4ff412a49c732db2c8abc1b8581bd710dd"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_draw_is_a_permutation_that_can_be_undone(seed: [u8; 32], size in 0u32..1500, rounds in 0u8..40) {
        assert_whole(&Shuffle::with_rounds(seed, size, rounds));
    }

    #[test]
    fn any_large_index_can_be_undone(seed: [u8; 32], size in 1u32.., pick: u32) {
        let shuffle = Shuffle::with_rounds(seed, size, 90);
        let arrival = Arrival(u64::from(pick % size));
        prop_assert_eq!(shuffle.arrival(shuffle.place(arrival)), arrival);
    }

    #[test]
    fn seed_depends_on_each_part(manifest: Vec<u8>, size: u32, randomness: [u8; 32]) {
        let base = seed(&manifest, size, &randomness);
        let mut longer = manifest.clone();
        longer.push(0);
        prop_assert_ne!(seed(&longer, size, &randomness), base);
        prop_assert_ne!(seed(&manifest, size.wrapping_add(1), &randomness), base);
        let mut other = randomness;
        other[31] ^= 1;
        prop_assert_ne!(seed(&manifest, size, &other), base);
    }
}
