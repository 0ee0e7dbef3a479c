//! What a first number in a sale costs: nothing, or, where a network has been given many lately, a proof of work.
//!
//! Networks are counted at two widths: an IPv4 address and its /24, an IPv6 /64 and its /56. Each has so many numbers free
//! in a window, and more for proofs, which get harder by one bit each time the numbers so given have doubled. Nobody is shut
//! out: a proof always gets a number, and whoever cannot compute one waits until the next is free. Whoever has a number is not asked
//! for anything; that is the caller's to see to, as who has one is the queue's to know.
//!
//! A proof gets one number: who leaves takes no other by the same. Where it is not known whether it has brought one, its
//! visitor may come back with it, and gets that number or one.
//!
//! Counted is what is given: a number is taken when a join begins, and given back when nothing came of it. So neither tries
//! that fail nor tries at the same instant change what a number costs.
//!
//! Each gateway counts by itself. A proof counts at all of them.

mod meter;
pub mod proof;
mod spending;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use quick_cache::sync::Cache;
use ropeline_queue::UnixMillis;

use crate::config::{CookieSecret, JoinLimits};
use meter::{Allowance, Meter};
use proof::Proof;
pub use proof::{Bound, ProofName, ProofRefusal};
use spending::Spending;
pub use spending::{Outcome, Running};

/// Networks kept in mind, those that come again and again before those that came once. With about 150 bytes each: 20 MiB.
const NETWORKS: usize = 131_072;

/// How long a challenge may be worked on: many times what the hardest takes on a slow phone.
const CHALLENGE_LIFE_S: u64 = 10 * 60;

/// Zero bits of the easiest proof.
pub const EASIEST_BITS: u8 = 14;

/// Knows what a first number costs.
pub struct JoinGuard {
    limits: JoinLimits,
    secrets: Vec<CookieSecret>,
    networks: Cache<IpNet, Arc<Meter>>,
    spending: Spending,
}

/// What a join has paid, for a number that it may not get.
#[derive(Debug)]
pub enum Fare {
    /// Nothing is counted: it is not limited.
    Unlimited,
    /// One of the numbers that its network has free.
    Free(IpAddr),
    /// A proof.
    Proven(IpAddr, Running),
    /// Nothing yet: it gets none unless it has one.
    Owing(Owing),
}

/// What is to be paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owing {
    /// Zero bits that a proof must have now.
    pub bits: u8,
    /// Seconds until a number is free again, unless somebody else of the network takes it.
    pub free_in_s: u64,
    /// Why the proof that was shown does not count.
    pub refused: Option<ProofRefusal>,
}

/// What is to be solved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// As it is sent.
    pub text: String,
    /// Zero bits that the hash must begin with.
    pub bits: u8,
    /// Until when, in Unix seconds.
    pub expires_at: u64,
}

// === impl JoinGuard ===

impl JoinGuard {
    /// Counts by these limits. The first secret signs challenges; all of them are recognised.
    #[must_use]
    pub fn new(limits: JoinLimits, secrets: Vec<CookieSecret>) -> Self {
        Self { limits, secrets, networks: Cache::new(NETWORKS), spending: Spending::new() }
    }

    /// Takes what a number costs somebody new who comes from `client`, with the proof they show if any. What a number costs
    /// nothing is not paid for: a proof that was not needed is not looked at.
    #[must_use]
    pub fn charge(
        &self,
        client: Option<IpAddr>,
        proof: Option<&str>,
        bound: Bound<'_>,
        now: UnixMillis,
    ) -> Fare {
        let client = client.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)).to_canonical();
        if !self.limits.enabled || self.limits.exempt.iter().any(|network| network.contains(&client)) {
            return Fare::Unlimited;
        }
        let micros = micros(now);
        let [narrow, wide] = self.counted(client);
        let took = narrow
            .1
            .take_free(narrow.0, micros)
            .and_then(|()| wide.1.take_free(wide.0, micros).inspect_err(|_| narrow.1.return_free(narrow.0)));
        if took.is_ok() {
            return Fare::Free(client);
        }
        let hardest = self.limits.hardest_bits;
        let dear = |(allowance, meter): &(Allowance, Arc<Meter>)| meter.dear(*allowance, self.most(), micros);
        let bits = bits_after(dear(&narrow).max(dear(&wide)), hardest);
        let checked = proof.map(|text| {
            let secrets = self.secrets.iter().map(CookieSecret::expose);
            let proof = Proof::parse(text)?;
            proof.check(secrets, bound, bits, now.seconds())?;
            self.spending.begin(proof.name(), bound.key())
        });
        let refused = match checked {
            Some(Ok(running)) => {
                for (allowance, meter) in [&narrow, &wide] {
                    meter.add_dear(*allowance, self.most(), micros);
                }
                return Fare::Proven(client, running);
            }
            refused => refused.and_then(Result::err),
        };
        let free_in = narrow.1.free_in(narrow.0, micros).max(wide.1.free_in(wide.0, micros));
        let free_in_s = free_in.div_ceil(1_000_000).max(1);
        Fare::Owing(Owing { bits, free_in_s, refused })
    }

    /// Takes note of what came of a join, and gives back what was paid for no new number. A proof is given back only where it
    /// is known to have brought none.
    pub fn settle(&self, fare: Fare, bound: Bound<'_>, outcome: Outcome) {
        let paid = match fare {
            Fare::Free(client) => Some((client, Meter::return_free as fn(&Meter, Allowance))),
            Fare::Proven(client, running) => {
                running.ended(outcome);
                Some((client, Meter::return_dear as fn(&Meter, Allowance)))
            }
            Fare::Unlimited | Fare::Owing(_) => None,
        };
        if outcome == Outcome::Held {
            self.spending.is_held(&bound.key());
        }
        if let Some((client, give_back)) = paid.filter(|_| outcome != Outcome::New) {
            for (allowance, meter) in self.counted(client) {
                give_back(&meter, allowance);
            }
        }
    }

    /// What this visitor is to solve for a number in this sale. `None` without a secret, which a configuration always has.
    #[must_use]
    pub fn challenge(&self, bound: Bound<'_>, bits: u8, now: UnixMillis) -> Option<Challenge> {
        let expires_at = now.seconds().saturating_add(CHALLENGE_LIFE_S);
        let text = proof::challenge(self.secrets.first()?.expose(), bound, bits, expires_at)?;
        Some(Challenge { text, bits, expires_at })
    }

    /// The two networks of an address with what each has free.
    fn counted(&self, client: IpAddr) -> [(Allowance, Arc<Meter>); 2] {
        let limits = &self.limits;
        let widths = match client {
            IpAddr::V4(_) => [(32, limits.ipv4), (24, limits.ipv4_24)],
            IpAddr::V6(_) => [(64, limits.ipv6_64), (56, limits.ipv6_56)],
        };
        widths.map(|(width, burst)| {
            let network = IpNet::new(client, width).map_or(IpNet::from(client), |network| network.trunc());
            let meter = self.networks.get_or_insert_with(&network, || Ok::<_, Infallible>(Arc::default()));
            let meter = meter.unwrap_or_else(|never| match never {});
            (allowance(burst.get(), limits.window), meter)
        })
    }

    /// Numbers given for proofs that are kept in mind: as many as make the hardest.
    fn most(&self) -> u64 {
        1 << self.limits.hardest_bits.saturating_sub(EASIEST_BITS).min(32)
    }
}

fn allowance(burst: u32, window: Duration) -> Allowance {
    let window = u64::try_from(window.as_micros()).unwrap_or(u64::MAX);
    Allowance { burst: burst.into(), interval: (window / u64::from(burst.max(1))).max(1) }
}

/// One bit more each time that the numbers given for proofs have doubled.
fn bits_after(given: u64, hardest: u8) -> u8 {
    let doubled = u8::try_from(given.saturating_add(1).ilog2()).unwrap_or(u8::MAX);
    EASIEST_BITS.saturating_add(doubled).min(hardest)
}

fn micros(now: UnixMillis) -> u64 {
    now.0.saturating_mul(1_000)
}
