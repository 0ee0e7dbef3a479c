//! Relays: HTTP servers that hand on what a beacon publishes. Nobody has to trust one. What it answers is checked; one that
//! lies, is behind, slow or gone is passed over for the next.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{StatusCode, Url};
use ropeline_queue::beacon::{Beacon, BeaconOutput, BeaconSignature};
use ropeline_queue::hex;
use serde::Deserialize;

use super::verify;
use crate::http_client;

#[cfg(test)]
pub(crate) mod tests;

/// Longest answer, in bytes: a round takes some 250.
const MAX_ANSWER: usize = 4 << 10;

/// Where a relay is: `http` or `https`, a host, perhaps a path that its calls begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayAddress(Url);

/// Not the address of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an address begins with http:// or https:// and has a host, and no user, query or fragment")]
pub struct RelayAddressError;

// === impl RelayAddress ===

impl RelayAddress {
    /// The League of Entropy's own public relays (drand's documentation, "HTTP API"). Each of them serves every chain.
    pub const PUBLIC: [&str; 4] = [
        "https://api.drand.sh",
        "https://api2.drand.sh",
        "https://api3.drand.sh",
        "https://drand.cloudflare.com",
    ];

    fn round(&self, beacon: Beacon, round: u64) -> String {
        let base = self.0.as_str().trim_end_matches('/');
        format!("{base}/{}/public/{round}", beacon.chain_hash())
    }
}

/// Host and port, to tell relays apart in the log and among the metrics.
impl fmt::Display for RelayAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.host_str().unwrap_or_default())?;
        self.0.port().map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl FromStr for RelayAddress {
    type Err = RelayAddressError;

    fn from_str(text: &str) -> Result<Self, RelayAddressError> {
        let url = Url::parse(text).map_err(|_| RelayAddressError)?;
        let plain = matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        plain.then_some(Self(url)).ok_or(RelayAddressError)
    }
}

/// Why a relay was passed over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RelayFault {
    #[error("it does not have the round yet ({0})")]
    NotYet(StatusCode),
    #[error("it answered {0}")]
    Status(StatusCode),
    #[error("it cannot be asked: {0}")]
    Unreachable(String),
    #[error("its answer is no round: {0}")]
    Malformed(String),
    #[error("it gave round {0}")]
    OtherRound(u64),
    #[error("its signature is not the beacon's")]
    WrongSignature,
    #[error("its randomness does not belong to its signature")]
    WrongRandomness,
}

// === impl RelayFault ===

impl RelayFault {
    /// The word for it among the metrics.
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::NotYet(_) => "not_yet",
            Self::Status(_) | Self::Unreachable(_) => "unreachable",
            Self::Malformed(_) | Self::OtherRound(_) | Self::WrongSignature | Self::WrongRandomness => {
                "wrong"
            }
        }
    }
}

/// What a relay answers with. Others of its members are not needed.
#[derive(Deserialize)]
struct Answer {
    round: u64,
    randomness: String,
    signature: String,
}

/// The relays, in the order in which they are asked.
#[derive(Debug)]
pub struct Relays {
    addresses: Vec<RelayAddress>,
    time_limit: Duration,
}

/// What became of asking for a round.
#[derive(Debug)]
pub struct Fetched {
    /// The round, its signature checked, and whose answer it was; none: no relay had it.
    pub(super) round: Option<(BeaconOutput, String)>,
    /// Relays that were asked before and could not give it.
    pub(super) passed_over: Vec<(String, RelayFault)>,
}

// === impl Relays ===

impl Relays {
    /// Asks these, each for at most `time_limit`.
    #[must_use]
    pub const fn new(addresses: Vec<RelayAddress>, time_limit: Duration) -> Self {
        Self { addresses, time_limit }
    }

    /// Asks one after the other for a round until one has it.
    pub async fn fetch(&self, beacon: Beacon, round: u64) -> Fetched {
        let mut passed_over = Vec::new();
        for relay in &self.addresses {
            let answer = tokio::time::timeout(self.time_limit, relay.ask(beacon, round)).await;
            let late = |_| Err(RelayFault::Unreachable(format!("no answer within {:?}", self.time_limit)));
            match answer.unwrap_or_else(late) {
                Ok(output) => return Fetched { round: Some((output, relay.to_string())), passed_over },
                Err(fault) => passed_over.push((relay.to_string(), fault)),
            }
        }
        Fetched { round: None, passed_over }
    }
}

impl RelayAddress {
    async fn ask(&self, beacon: Beacon, round: u64) -> Result<BeaconOutput, RelayFault> {
        let unreachable = |error: reqwest::Error| RelayFault::Unreachable(Chain(&error).to_string());
        // Made anew each time: rounds are asked for seldom, and a gateway without draws by beacon must start where `https`
        // finds no certificates. A relay that sends elsewhere is not what was configured.
        let client = http_client::builder(self.0.as_str()).redirect(Policy::none()).build();
        let request = client.map_err(unreachable)?.get(self.round(beacon, round));
        let mut response = request.send().await.map_err(unreachable)?;
        match response.status() {
            StatusCode::OK => {}
            // A round that has not come is not found (404), or too early to ask for (425).
            status @ (StatusCode::NOT_FOUND | StatusCode::TOO_EARLY) => {
                return Err(RelayFault::NotYet(status));
            }
            status => return Err(RelayFault::Status(status)),
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_ANSWER {
                return Err(RelayFault::Malformed(format!("it is longer than {MAX_ANSWER} bytes")));
            }
        }
        read(&body, beacon, round)
    }
}

fn read(body: &[u8], beacon: Beacon, round: u64) -> Result<BeaconOutput, RelayFault> {
    let malformed = |error: &dyn fmt::Display| RelayFault::Malformed(error.to_string());
    let answer: Answer = serde_json::from_slice(body).map_err(|error| malformed(&error))?;
    if answer.round != round {
        return Err(RelayFault::OtherRound(answer.round));
    }
    let signature: BeaconSignature = answer.signature.parse().map_err(|error| malformed(&error))?;
    let output = BeaconOutput { beacon, round, signature };
    verify(&output).map_err(|_| RelayFault::WrongSignature)?;
    if !answer.randomness.eq_ignore_ascii_case(&hex(&signature.randomness())) {
        return Err(RelayFault::WrongRandomness);
    }
    Ok(output)
}

/// An error with what caused it: reqwest's own words are too few.
struct Chain<'e>(&'e dyn std::error::Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
