//! The generator of vectors.
//!
//! What is expected follows from how a request was made: whoever breaks a token knows what is broken. Nothing here asks
//! the code under test.

mod draft;
mod faults;
mod paths;
mod policies;
mod settings;
mod visitors;
mod woven;

use fastrand::Rng;

use super::tokens::{Claims, Key};
use super::vectors::{Case, Vectors};
use draft::Draft;
use settings::Sale;

/// What random choices start from.
pub const SEED: u64 = 0x524F_5045_4C49_4E45;

/// The time of the vectors in `tests/conformance/vectors.json`, in Unix seconds.
pub const WRITTEN_AT: u64 = 1_800_000_000;

/// Seconds for which, before and after [`Vectors::now`], cases without a time of their own hold.
const AROUND: u64 = 7_200;

/// The issuer of the tokens.
const ISSUER: &str = "https://shop.example";

/// All vectors for `now`, in Unix seconds: the same for the same second.
pub fn generate(now: u64) -> Vectors {
    let mut generator = Generator {
        now,
        random: Rng::with_seed(SEED),
        keys: [Key::new("spring", 1), Key::new("autumn", 2)],
        cases: Vec::new(),
    };
    faults::add(&mut generator);
    paths::add(&mut generator);
    visitors::add(&mut generator);
    policies::add(&mut generator);
    woven::add(&mut generator);
    let settings = settings::documents(now, &generator.keys);
    Vectors { seed: SEED, now, settings, cases: generator.cases }
}

struct Generator {
    now: u64,
    random: Rng,
    /// Both are published, and the first one signs.
    keys: [Key; 2],
    cases: Vec<Case>,
}

impl Generator {
    /// Claims that hold for a sale.
    fn claims(&self, sale: &Sale) -> Claims {
        Claims {
            iss: ISSUER.to_owned(),
            aud: sale.name.to_owned(),
            sub: "visitor-1".to_owned(),
            iat: self.now - AROUND,
            nbf: self.now - AROUND,
            exp: self.now + AROUND,
            epoch: sale.epoch,
        }
    }

    /// A token that holds for a sale.
    fn token(&self, sale: &Sale) -> String {
        self.keys[0].token(&self.claims(sale))
    }

    fn add(&mut self, case: Case) {
        assert!(self.cases.iter().all(|other| other.name != case.name), "two cases: {}", case.name);
        self.cases.push(case);
    }

    /// A request for `target` under `settings`.
    fn get(&self, settings: &'static settings::Setting, name: impl Into<String>, target: &str) -> Draft {
        Draft::new(settings, name, target)
    }
}
