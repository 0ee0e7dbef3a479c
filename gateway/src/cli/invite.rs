//! `ropeline invite`.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::anyhow;
use base64ct::{Base64UrlUnpadded, Encoding as _};
use clap::Args;
use ropeline_queue::SaleId;
use ropeline_token::{InvitationClaims, SigningKey};

use super::{Done, Failure, fetch};
use crate::config::units;

/// Signs invitations to a lane of a sale, one a line. Each is good for one visitor: for the account it names, or for
/// whoever shows it first.
#[derive(Debug, Args)]
pub(super) struct Invite {
    /// The private key, as `ropeline keygen invitation` makes it.
    #[arg(long, value_name = "FILE", default_value = "keys/invitation.jwk")]
    key: PathBuf,
    /// The sale.
    #[arg(long)]
    sale: SaleId,
    /// The lane, by its name.
    #[arg(long)]
    lane: SaleId,
    /// Whom it is for: the `sub` of the shop's account. Repeat it for several.
    #[arg(long = "for", value_name = "SUB", conflicts_with = "count")]
    whom: Vec<String>,
    /// How many, each for whoever shows it first.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    count: u32,
    /// How long they are good, from now on.
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = span)]
    valid: Duration,
    /// A page that the sale protects: prints links to it, which carry the invitation.
    #[arg(long, value_name = "URL")]
    link: Option<String>,
}

fn span(text: &str) -> Result<Duration, String> {
    units::duration(text).map_err(|fault| format!("{}; {}", fault.what, fault.mend))
}

impl Invite {
    pub(super) fn run(self, out: &mut dyn Write) -> Done {
        let name = self.key.to_string_lossy();
        let key = SigningKey::from_jwk(&fetch::bytes(&name)?)
            .map_err(|error| Failure::Found(format!("{name}: {error}")))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| anyhow!(error))?;
        let exp = now.saturating_add(self.valid).as_secs();
        let whom: Vec<Option<String>> = if self.whom.is_empty() {
            (0..self.count).map(|_| None).collect()
        } else {
            self.whom.into_iter().map(Some).collect()
        };
        let lead = self.link.map_or_else(String::new, |link| {
            let joint = if link.contains('?') { '&' } else { '?' };
            format!("{link}{joint}invitation=")
        });
        for sub in whom {
            let mut jti = [0; 16];
            getrandom::fill(&mut jti).map_err(|error| anyhow!("no random numbers: {error}"))?;
            let claims = InvitationClaims {
                aud: self.sale.to_string(),
                lane: self.lane.to_string(),
                jti: Base64UrlUnpadded::encode_string(&jti),
                sub,
                nbf: None,
                exp,
            };
            let signed = key.sign_invitation(&claims).map_err(|error| Failure::Found(error.to_string()))?;
            writeln!(out, "{lead}{signed}")?;
        }
        Ok(())
    }
}
