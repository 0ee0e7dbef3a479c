//! The draw: a shuffle of the early arrivals that anyone can recompute.
//!
//! The permutation is the swap-or-not network of Hoang, Morris and Rogaway ("An Enciphering Scheme Based on
//! a Card Shuffle", 2012) in the form of `compute_shuffled_index` of the Ethereum consensus specification,
//! phase 0, with SHA-256 as its source of bits. A shopper's browser computes its own place alone; a node
//! computes the whole list once and looks places up from then on. Both give the same answer.
//!
//! Each round is an involution, so running the rounds backwards turns a place into the arrival it belongs to.

use sha2::block_api::compress256;
use sha2::{Digest, Sha256};

use crate::lane::{Lane, within};
use crate::types::{Arrival, Place};

#[cfg(test)]
mod tests;

/// The name of the shuffle in manifests, snapshots and results.
pub const ALGORITHM: &str = "swap-or-not-sha256";

/// The rounds a sale's draw uses: the most that the round number's one byte allows.
pub const ROUNDS: u8 = 255;

/// Positions whose bits come from one hash.
const BLOCK: u32 = 256;

/// The state SHA-256 starts from: FIPS 180-4, section 5.3.3.
const SHA256_START: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// What the shuffle is keyed with; see [`seed`].
pub type Seed = [u8; 32];

/// The draw's seed: `SHA-256("ropeline-draw-v1" ‖ SHA-256(manifest) ‖ size as u64 LE ‖ randomness)`.
///
/// `manifest` is the exact bytes that were published before joining opened, `size` the number of arrivals
/// frozen at closing, `randomness` what nobody could know before that: a beacon's output, or the operator's
/// committed secret.
#[must_use]
pub fn seed(manifest: &[u8], size: u32, randomness: &[u8; 32]) -> Seed {
    Sha256::new()
        .chain_update(b"ropeline-draw-v1")
        .chain_update(Sha256::digest(manifest))
        .chain_update(u64::from(size).to_le_bytes())
        .chain_update(randomness)
        .finalize()
        .into()
}

/// The seed of a lane's draw: for the first lane the [`seed`] of the sale with this lane's number of arrivals, for others
/// `SHA-256("ropeline-draw-lane-v1" ‖ lane as one byte ‖ SHA-256(manifest) ‖ size as u64 LE ‖ randomness)`, where the
/// lanes count from 0 in the manifest's order.
#[must_use]
pub fn lane_seed(manifest: &[u8], lane: Lane, size: u32, randomness: &[u8; 32]) -> Seed {
    if lane == Lane::FIRST {
        return seed(manifest, size, randomness);
    }
    Sha256::new()
        .chain_update(b"ropeline-draw-lane-v1")
        .chain_update([u8::try_from(lane.index()).unwrap_or(u8::MAX)])
        .chain_update(Sha256::digest(manifest))
        .chain_update(u64::from(size).to_le_bytes())
        .chain_update(randomness)
        .finalize()
        .into()
}

/// What is published beforehand of a secret that is revealed after the draw: its SHA-256.
///
/// The secret is 32 random bytes, so the hash hides it and fixes it.
#[must_use]
pub fn commitment(secret: &[u8; 32]) -> [u8; 32] {
    Sha256::digest(secret).into()
}

/// One shuffle, fully determined: seed, number of arrivals and rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shuffle {
    seed: Seed,
    size: u32,
    rounds: u8,
}

// === impl Shuffle ===

impl Shuffle {
    /// The draw of a sale: `size` arrivals and [`ROUNDS`] rounds.
    #[must_use]
    pub const fn new(seed: Seed, size: u32) -> Self {
        Self::with_rounds(seed, size, ROUNDS)
    }

    /// A shuffle with another number of rounds, to compare with published answers.
    #[must_use]
    pub const fn with_rounds(seed: Seed, size: u32, rounds: u8) -> Self {
        Self { seed, size, rounds }
    }

    /// The number of arrivals that are shuffled.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// The place of one arrival: drawn when it is below the draw's size, else the arrival itself.
    ///
    /// Costs two hashes a round; one once [prepared](Shuffle::prepare). For all arrivals use [`Shuffle::places`].
    #[must_use]
    pub fn place(&self, arrival: Arrival) -> Place {
        Place(self.walk(arrival.0, self.rounds()))
    }

    /// The arrival that got a place: the inverse of [`Shuffle::place`].
    #[must_use]
    pub fn arrival(&self, place: Place) -> Arrival {
        Arrival(self.walk(place.0, self.rounds().rev()))
    }

    /// The same shuffle for many single places.
    #[must_use]
    pub fn prepare(self) -> Prepared {
        Prepared { shuffle: self, pivots: self.rounds().map(|(_, pivot)| pivot).collect() }
    }

    /// Each round's number and pivot.
    fn rounds(&self) -> impl DoubleEndedIterator<Item = (u8, u32)> + '_ {
        (0..self.rounds).map(|round| {
            let [first, ..] = hash(&self.seed, [round]);
            // Below the size, which is a u32; a shuffle of nobody has no use for one.
            let pivot = first.checked_rem(u64::from(self.size)).and_then(|pivot| u32::try_from(pivot).ok());
            (round, pivot.unwrap_or(0))
        })
    }

    fn walk(&self, number: u64, rounds: impl Iterator<Item = (u8, u32)>) -> u64 {
        // Each lane is drawn alone.
        let Some(mut index) = u32::try_from(within(number)).ok().filter(|index| *index < self.size) else {
            return number;
        };
        for (round, pivot) in rounds {
            let flip = mirror(index, pivot, self.size);
            let position = index.max(flip);
            if self.bits(round, position / BLOCK).at(position) {
                index = flip;
            }
        }
        number - within(number) + u64::from(index)
    }

    /// Every arrival's place at once: 4 bytes an arrival, one hash a round for each 256 of them.
    #[must_use]
    pub fn places(&self) -> Permutation {
        let mut list: Vec<u32> = (0..self.size).collect();
        if self.size > 1 {
            // Exchanging the contents of i and σ(i) puts σ on the right of what the list already maps, so
            // σ₂₅₄∘…∘σ₀ is built from the last round to the first.
            for (round, pivot) in self.rounds().rev() {
                // Index i pairs with pivot − i: the pairs lie mirrored in [0, pivot] and in (pivot, size).
                self.exchange(&mut list, round, 0, pivot);
                if pivot + 1 < self.size {
                    self.exchange(&mut list, round, pivot + 1, self.size - 1);
                }
            }
        }
        Permutation(list.into_boxed_slice())
    }

    /// One round over the mirrored pairs of `first..=last`. The higher index of a pair chooses its bit.
    fn exchange(&self, list: &mut [u32], round: u8, first: u32, last: u32) {
        let pairs = (last - first).div_ceil(2);
        let lowest_high = last - pairs + 1;
        let (below, above) = list.split_at_mut(lowest_high as usize);
        // Block by block from the ends to the middle, so that each block is hashed once.
        let mut done = 0;
        while done < pairs {
            let high = last - done;
            let bits = self.bits(round, high / BLOCK);
            let run = (high % BLOCK + 1).min(pairs - done);
            let low = (first + done) as usize;
            let lows = &mut below[low..low + run as usize];
            let top = (high - lowest_high) as usize + 1;
            let highs = &mut above[top - run as usize..top];
            for ((a, b), position) in lows.iter_mut().zip(highs.iter_mut().rev()).zip((0..=high).rev()) {
                // Without a branch: the bits are random, a predictor would be wrong half the time.
                let change = (*a ^ *b) & bits.mask(position);
                *a ^= change;
                *b ^= change;
            }
            done += run;
        }
    }

    fn bits(&self, round: u8, block: u32) -> Bits {
        let [a, b, c, d] = block.to_le_bytes();
        Bits(hash(&self.seed, [round, a, b, c, d]))
    }
}

/// SHA-256 of the seed and a few bytes, as four little-endian words. Bit `p % 8` of the hash's byte `p / 8` is then
/// bit `p % 64` of word `p / 64`.
///
/// A message of one block is padded by hand and compressed at once: a third of the time goes otherwise into
/// buffers, and a single place takes 510 hashes.
fn hash<const N: usize>(seed: &Seed, tail: [u8; N]) -> [u64; 4] {
    const { assert!(N <= 8, "one block") };
    let mut block = [0; 64];
    block[..32].copy_from_slice(seed);
    block[32..32 + N].copy_from_slice(&tail);
    block[32 + N] = 0x80;
    block[56..].copy_from_slice(&(8 * (32 + N as u64)).to_be_bytes());
    let mut state = SHA256_START;
    compress256(&mut state, &[block]);
    // The hash is the state big-endian; its bytes are read little-endian.
    let [a, b, c, d, e, f, g, h] = state.map(|word| u64::from(word.swap_bytes()));
    [a | b << 32, c | d << 32, e | f << 32, g | h << 32]
}

/// A shuffle with the pivots of its rounds, about a kilobyte: they are half of the hashes that a place takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    shuffle: Shuffle,
    /// By round.
    pivots: Box<[u32]>,
}

// === impl Prepared ===

impl Prepared {
    /// As [`Shuffle::place`], for one hash a round.
    #[must_use]
    pub fn place(&self, arrival: Arrival) -> Place {
        Place(self.shuffle.walk(arrival.0, (0..=u8::MAX).zip(self.pivots.iter().copied())))
    }
}

/// The partner of an index: (pivot − index) modulo size.
const fn mirror(index: u32, pivot: u32, size: u32) -> u32 {
    if index <= pivot { pivot - index } else { size - (index - pivot) }
}

/// The 256 bits that one round gives to one block of positions.
struct Bits([u64; 4]);

impl Bits {
    const fn at(&self, position: u32) -> bool {
        (self.0[(position / 64 % 4) as usize] >> (position % 64)) & 1 == 1
    }

    /// All ones where the bit is set, else zero.
    const fn mask(&self, position: u32) -> u32 {
        (self.at(position) as u32).wrapping_neg()
    }
}

/// A whole draw looked up: 4 bytes an arrival, 8 MB for two million.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permutation(Box<[u32]>);

// === impl Permutation ===

impl Permutation {
    /// The place of an arrival; an arrival at or past the draw's size keeps its number.
    #[must_use]
    pub fn place(&self, arrival: Arrival) -> Place {
        let number = within(arrival.0);
        let drawn = usize::try_from(number).ok().and_then(|index| self.0.get(index));
        Place(drawn.map_or(arrival.0, |place| arrival.0 - number + u64::from(*place)))
    }

    /// The places in order of arrival.
    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        &self.0
    }
}
