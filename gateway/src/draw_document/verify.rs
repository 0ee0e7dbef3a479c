//! Checks a draw from its public documents alone.

use std::fmt::Write as _;

use ropeline_queue::beacon::{Beacon, BeaconOutput, FALLBACK_AFTER_MS, MARGIN_MS, unhex};
use ropeline_queue::draw::{self, Shuffle};
use ropeline_queue::{Lane, UnixMillis, hex};
use ropeline_token::KeySet;

use super::{
    BeaconRound, DrawDocument, FallbackStatement, Frozen, LaneText, ManifestText, Randomness, digest,
};
use crate::beacon;
use crate::config::units::rfc3339;

/// One step of checking a draw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was checked.
    pub name: &'static str,
    /// How it came out.
    pub outcome: Outcome,
}

/// How a check came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// As promised, in these words.
    Good(String),
    /// Not against the promise, and nothing but the operator's word stands for it: what, and why.
    Trusted(String),
    /// Not as promised, and why.
    Bad(String),
    /// Cannot be checked yet: the draw has not come so far.
    Pending(&'static str),
}

/// What a check of the whole document found.
#[derive(Debug, Clone)]
pub struct Verification {
    /// Each step, in order; those after a bad one that they depend on are left out.
    pub checks: Vec<Check>,
    /// What gives every place, when every check was good.
    pub drawn: Option<Drawn>,
}

/// A draw that was checked to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawn {
    /// Gives every place; with lanes, of the first.
    pub shuffle: Shuffle,
    /// Those of the other lanes.
    pub lanes: Vec<Shuffle>,
    /// Arrivals before this time were drawn.
    pub closes_at: UnixMillis,
}

// === impl Drawn ===

impl Drawn {
    /// What gives the places of a lane, if the draw has such a lane.
    pub fn shuffle_of(&self, lane: Lane) -> Option<&Shuffle> {
        std::iter::once(&self.shuffle).chain(&self.lanes).nth(lane.index())
    }
}

/// The outcome of a step, and what it found for those after it.
struct Step<T>(Outcome, Option<T>);

impl<T> Step<T> {
    fn good(words: impl Into<String>, found: T) -> Self {
        Self(Outcome::Good(words.into()), Some(found))
    }

    fn bad(words: impl Into<String>) -> Self {
        Self(Outcome::Bad(words.into()), None)
    }

    fn pending(words: &'static str) -> Self {
        Self(Outcome::Pending(words), None)
    }
}

impl<T> From<Result<Step<T>, String>> for Step<T> {
    fn from(result: Result<Self, String>) -> Self {
        result.unwrap_or_else(Self::bad)
    }
}

// === impl Verification ===

impl Verification {
    /// True when no check was bad.
    pub fn is_good(&self) -> bool {
        !self.checks.iter().any(|check| matches!(check.outcome, Outcome::Bad(_)))
    }

    /// What rests on nothing but the operator's word beside what the manifest says of it.
    pub fn is_trusting(&self) -> bool {
        self.checks.iter().any(|check| matches!(check.outcome, Outcome::Trusted(_)))
    }
}

// === impl DrawDocument ===

impl DrawDocument {
    /// Checks everything anew from the signed bytes: signatures, promise, number of arrivals, randomness, seed. `earlier`
    /// are copies that somebody kept of the same draw's document from before: whatever they say must still be so.
    pub fn verify(&self, keys: &KeySet, earlier: &[Self]) -> Verification {
        let mut checks = Vec::new();
        let drawn = self.run(keys, earlier, &mut checks);
        let good = !checks.iter().any(|check| matches!(check.outcome, Outcome::Bad(_)));
        Verification { checks, drawn: drawn.filter(|_| good) }
    }

    fn run(&self, keys: &KeySet, earlier: &[Self], checks: &mut Vec<Check>) -> Option<Drawn> {
        fn take<T>(checks: &mut Vec<Check>, name: &'static str, step: impl Into<Step<T>>) -> Option<T> {
            let Step(outcome, found) = step.into();
            checks.push(Check { name, outcome });
            found
        }
        let text = take(checks, "manifest signature", self.manifest_bytes(keys))?;
        for copy in earlier {
            take(checks, "earlier copy", self.same_as(copy, keys, &text));
        }
        let (manifest, randomness) = take(checks, "manifest", self.promise(&text))?;
        let closes_at = UnixMillis(manifest.closes_at);
        let round_at = match randomness {
            Randomness::Secret { .. } => None,
            Randomness::Beacon { beacon, round, .. } => {
                Some(take(checks, "round", round_is_late_enough(beacon, round, closes_at))?)
            }
        };
        let lanes = manifest.lanes.len();
        let sizes = take(checks, "number of arrivals", self.frozen_sizes(keys, &text, lanes, round_at))?;
        let random = match &randomness {
            Randomness::Secret { commitment } => take(checks, "secret", self.revealed(commitment))?,
            Randomness::Beacon { beacon, round, fallback } => match (&self.fallback, &self.beacon) {
                (Some(decision), _) => {
                    let decided = self.decided(keys, decision, &text, *round, round_at);
                    take(checks, "fallback", decided)?;
                    let Some(commitment) = fallback else {
                        let words = "the manifest kept no way open to draw by a secret";
                        return take(checks, "secret", Step::bad(words));
                    };
                    take(checks, "secret", self.revealed(commitment))?
                }
                (None, Some(published)) => {
                    take(checks, "randomness", published_by(*beacon, *round, published))?
                }
                (None, None) if self.seed.is_none() => {
                    let words = "the draw waits for the beacon's round";
                    return take(checks, "randomness", Step::pending(words));
                }
                (None, None) => {
                    let words = "neither the beacon's round nor a signed decision against it is published";
                    return take(checks, "randomness", Step::bad(words));
                }
            },
        };
        take(checks, "seed", self.seed_follows(&text, Lane::FIRST, sizes[0], &random))?;
        let mut shuffles = vec![Shuffle::new(draw::seed(&text, sizes[0], &random), sizes[0])];
        for (lane, size) in (1..).filter_map(Lane::at).zip(sizes.into_iter().skip(1)) {
            take(checks, "seed of a lane", self.seed_follows(&text, lane, size, &random))?;
            shuffles.push(Shuffle::new(draw::lane_seed(&text, lane, size, &random), size));
        }
        let shuffle = shuffles.remove(0);
        Some(Drawn { shuffle, lanes: shuffles, closes_at })
    }

    fn manifest_bytes(&self, keys: &KeySet) -> Step<Vec<u8>> {
        match keys.document(&self.manifest) {
            Ok(bytes) => Step::good(format!("signed; SHA-256 {}", digest(&bytes)), bytes),
            Err(refusal) => Step::bad(refusal.to_string()),
        }
    }

    /// Two signed statements that contradict each other prove by themselves that something was replaced.
    fn same_as(&self, copy: &Self, keys: &KeySet, text: &[u8]) -> Step<()> {
        let then = match keys.document(&copy.manifest) {
            Ok(bytes) => bytes,
            Err(refusal) => return Step::bad(format!("its manifest proves nothing: {refusal}")),
        };
        if then != text {
            return Step::bad(format!(
                "the manifest was replaced: both are signed, the earlier one has SHA-256 {} and says {}",
                digest(&then),
                String::from_utf8_lossy(&then)
            ));
        }
        let mut same = "the manifest is the same".to_owned();
        if let Some(frozen) = &copy.frozen {
            let payload = |jws: &str| keys.document(jws).map_err(|refusal| refusal.to_string());
            let then = match payload(frozen) {
                Ok(bytes) => bytes,
                Err(refusal) => {
                    return Step::bad(format!("its number of arrivals proves nothing: {refusal}"));
                }
            };
            if self.frozen.as_deref().map(payload) != Some(Ok(then.clone())) {
                return Step::bad(format!(
                    "the number of arrivals was replaced: signed earlier was {}",
                    String::from_utf8_lossy(&then)
                ));
            }
            same.push_str(", and so is the number of arrivals");
        }
        let lanes = copy.lanes.iter().zip(&self.lanes);
        if let Some((then, _)) = { lanes }.find(|(then, now)| then.seed.is_some() && then.seed != now.seed) {
            return Step::bad(format!("a lane's seed was {}", then.seed.as_deref().unwrap_or_default()));
        }
        if copy.seed.is_some() && copy.seed != self.seed {
            return Step::bad(format!("the seed was {}", copy.seed.as_deref().unwrap_or_default()));
        }
        Step::good(same, ())
    }

    fn promise(&self, text: &[u8]) -> Step<(ManifestText, Randomness)> {
        let read = || {
            let manifest: ManifestText =
                serde_json::from_slice(text).map_err(|error| format!("cannot be read: {error}"))?;
            if manifest.sale != self.sale {
                return Err(format!("is of the sale {}, the document of {}", manifest.sale, self.sale));
            }
            if manifest.algorithm != draw::ALGORITHM || manifest.rounds != draw::ROUNDS {
                return Err(format!(
                    "promises {} with {} rounds; this program knows {} with {}",
                    manifest.algorithm,
                    manifest.rounds,
                    draw::ALGORITHM,
                    draw::ROUNDS
                ));
            }
            let randomness = manifest.randomness()?;
            let mut words = format!("{}, {} rounds, ", manifest.algorithm, manifest.rounds);
            // Writing to a String cannot fail.
            let _ = match &randomness {
                Randomness::Secret { .. } => write!(words, "operator-trusted"),
                Randomness::Beacon { beacon, round, fallback } => {
                    let way_out = match fallback {
                        None => "",
                        Some(_) => "; the operator may draw by a secret should the round be overdue",
                    };
                    write!(words, "by round {round} of {beacon}{way_out}")
                }
            };
            for LaneText { invitation, name, share } in &manifest.lanes {
                let whom = if *invitation { "the invited" } else { "everybody" };
                // The same.
                let _ = write!(words, "; lane {name}, for {whom}: {share} %");
            }
            Ok(Step::good(words, (manifest, randomness)))
        };
        read().into()
    }

    /// How many are drawn, in each lane where there are lanes.
    fn frozen_sizes(
        &self,
        keys: &KeySet,
        manifest: &[u8],
        lanes: usize,
        round_at: Option<UnixMillis>,
    ) -> Step<Vec<u32>> {
        let Some(frozen) = &self.frozen else { return Step::pending("the draw has not closed") };
        let read = || {
            let payload = keys.document(frozen).map_err(|refusal| format!("signature: {refusal}"))?;
            let frozen: Frozen =
                serde_json::from_slice(&payload).map_err(|error| format!("cannot be read: {error}"))?;
            if frozen.sale != self.sale {
                return Err(format!("is of the sale {}", frozen.sale));
            }
            if frozen.manifest_sha256 != digest(manifest) {
                return Err(format!("belongs to another manifest, {}", frozen.manifest_sha256));
            }
            let size = frozen.size;
            if self.size != Some(size) {
                return Err(format!("{size} is signed, the document says {:?}", self.size));
            }
            let sizes: Vec<u32> = std::iter::once(size).chain(frozen.lanes).collect();
            if sizes.len() != lanes.max(1) {
                return Err(format!("{} numbers are signed, of {} lanes", sizes.len(), lanes.max(1)));
            }
            let said: Vec<_> = self.lanes.iter().map(|lane| lane.size).collect();
            if sizes[1..].iter().copied().map(Some).ne(said.iter().copied()) {
                return Err(format!("of the lanes {:?} are signed, the document says {said:?}", &sizes[1..]));
            }
            let size = sizes.iter().map(u32::to_string).collect::<Vec<_>>().join(" + ");
            let Some(round_at) = round_at else {
                return Ok(Step::good(format!("signed: {size} are drawn"), sizes));
            };
            let frozen_at = frozen.frozen_at.ok_or("does not say when it was fixed")?;
            let when = rfc3339(frozen_at);
            let round = rfc3339(round_at.0);
            if frozen_at < round_at.0 {
                let words = format!("signed: {size} are drawn, fixed at {when}, before the round of {round}");
                return Ok(Step::good(words, sizes));
            }
            let words = format!(
                "signed: {size} are drawn, fixed only at {when}, when the round of {round} had come; that nobody was \
                 added or left out in between is the operator's word"
            );
            Ok(Step(Outcome::Trusted(words), Some(sizes)))
        };
        read().into()
    }

    fn decided(
        &self,
        keys: &KeySet,
        decision: &str,
        manifest: &[u8],
        round: u64,
        round_at: Option<UnixMillis>,
    ) -> Step<()> {
        let read = || {
            let payload = keys.document(decision).map_err(|refusal| format!("signature: {refusal}"))?;
            let decision: FallbackStatement =
                serde_json::from_slice(&payload).map_err(|error| format!("cannot be read: {error}"))?;
            if decision.sale != self.sale
                || decision.manifest_sha256 != digest(manifest)
                || decision.round != round
            {
                return Err("is of another draw".to_owned());
            }
            let earliest = round_at.map_or(0, |at| at.plus(FALLBACK_AFTER_MS).0);
            let when = rfc3339(decision.decided_at);
            if decision.decided_at < earliest {
                return Err(format!("was decided at {when}, when round {round} was not overdue"));
            }
            let words = format!(
                "at {when} the operator gave up round {round} as overdue ({}) and drew by the secret; that the round was \
                 not to be had, and not merely disliked, is the operator's word",
                decision.reason
            );
            Ok(Step(Outcome::Trusted(words), Some(())))
        };
        read().into()
    }

    fn revealed(&self, commitment: &str) -> Step<[u8; 32]> {
        let Some(secret) = &self.secret else {
            return match self.seed {
                None => Step::pending("the draw has not been made"),
                Some(_) => Step::bad("is not published"),
            };
        };
        match unhex(secret) {
            None => Step::bad("is not 32 bytes in hexadecimal"),
            Some(secret) if hex(&draw::commitment(&secret)) == commitment => {
                Step::good("its SHA-256 is the commitment of the manifest", secret)
            }
            Some(secret) => Step::bad(format!(
                "its SHA-256 is {}, the manifest committed to {commitment}",
                hex(&draw::commitment(&secret)),
            )),
        }
    }

    fn seed_follows(&self, manifest: &[u8], lane: Lane, size: u32, random: &[u8; 32]) -> Step<()> {
        let computed = hex(&draw::lane_seed(manifest, lane, size, random));
        let published = match lane.index() {
            0 => &self.seed,
            index => self.lanes.get(index - 1).map_or(&None, |lane| &lane.seed),
        };
        match published {
            Some(seed) if *seed == computed => {
                Step::good("follows from manifest, number and what was drawn with", ())
            }
            Some(seed) => Step::bad(format!("should be {computed}, the document says {seed}")),
            None => Step::bad(format!("should be {computed}, the document names none")),
        }
    }
}

/// A round that came before the number of arrivals could be fixed would let the operator choose the number.
fn round_is_late_enough(beacon: Beacon, round: u64, closes_at: UnixMillis) -> Step<UnixMillis> {
    let at = beacon.round_at(round);
    let (when, closes) = (rfc3339(at.0), rfc3339(closes_at.0));
    let words = format!("round {round} of {beacon} comes at {when}, the draw closes at {closes}");
    if at < closes_at.plus(MARGIN_MS) {
        return Step::bad(format!("{words}: less than {} s later", MARGIN_MS / 1_000));
    }
    Step::good(words, at)
}

fn published_by(beacon: Beacon, round: u64, published: &BeaconRound) -> Step<[u8; 32]> {
    if published.chain != beacon.chain_hash() || published.round != round {
        return Step::bad(format!(
            "is of round {} of the chain {}, the manifest promised round {round} of {}",
            published.round,
            published.chain,
            beacon.chain_hash()
        ));
    }
    let signature = published.signature;
    if beacon::verify(&BeaconOutput { beacon, round, signature }).is_err() {
        return Step::bad(format!("the signature is not {beacon}'s for round {round}"));
    }
    let randomness = signature.randomness();
    if hex(&randomness) != published.randomness {
        let (is, says) = (hex(&randomness), &published.randomness);
        return Step::bad(format!("is {is} by the signature, the document says {says}"));
    }
    Step::good(format!("{beacon} signed round {round}: {}", published.randomness), randomness)
}
