//! `[draw]`: where the public randomness of draws is fetched.

use super::read::{Item, Section};
use super::report::Fault;
use crate::beacon::RelayAddress;

/// Where the public randomness of draws is fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrawSettings {
    /// Relays of the beacon, in the order in which they are asked; at least one.
    pub beacons: Vec<RelayAddress>,
}

pub(super) fn read(section: Section<'_>) -> DrawSettings {
    const MEND: &str =
        "name relays of drand, for example [\"https://api.drand.sh\"], or leave it out for the public ones";
    let address = |item: &Item<'_>| {
        let text = item.text()?;
        text.parse().map_err(|error| {
            Fault::new(
                format!("{text:?} is no address of a relay: {error}"),
                "write for example \"https://api.drand.sh\"",
            )
        })
    };
    let named: Option<Vec<RelayAddress>> = section.list("beacons", address);
    if let Some(named) = &named {
        let twice = (1..named.len()).any(|at| named[..at].contains(&named[at]));
        if named.is_empty() || twice {
            let what = if twice { "names a relay twice" } else { "names no relay" };
            section.fault("beacons", Fault::new(what, MEND));
        }
    }
    section.finish();
    // The fallback is for a list that is missing: a faulty one has been noted, and nothing starts with it.
    let public = || RelayAddress::PUBLIC.iter().filter_map(|address| address.parse().ok()).collect();
    DrawSettings { beacons: named.unwrap_or_else(public) }
}
