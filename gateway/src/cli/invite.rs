//! `ropeline invite`.

use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::anyhow;
use base64ct::{Base64UrlUnpadded, Encoding as _};
use clap::Args;
use reqwest::Url;
use ropeline_queue::SaleId;
use ropeline_token::{InvitationClaims, SigningKey, json};

use super::{Done, Failure, fetch};
use crate::config::units;
use crate::keys::Purpose;

/// In which a link carries the invitation.
const PARAMETER: &str = "invitation";

/// An invitation is good for at least so long: clocks differ, and it has to be read first.
const SHORTEST: Duration = Duration::from_secs(60);

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
    /// How long they are good, from now on; at least a minute.
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = span)]
    valid: Duration,
    /// A page that the sale protects: prints links to it, which carry the invitation.
    #[arg(long, value_name = "URL", value_parser = page)]
    link: Option<Url>,
}

fn span(text: &str) -> Result<Duration, String> {
    let span = units::duration(text).map_err(|fault| format!("{}; {}", fault.what, fault.mend))?;
    if span < SHORTEST {
        return Err("nobody could use it in that time; give at least a minute".to_owned());
    }
    Ok(span)
}

fn page(text: &str) -> Result<Url, String> {
    const MEND: &str = "write a whole address, for example https://shop.example/sale";
    let url = Url::parse(text).map_err(|error| format!("{error}; {MEND}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("it is no address of a page; {MEND}"));
    }
    if url.query_pairs().any(|(name, _)| name == PARAMETER) {
        return Err("it carries an invitation already".to_owned());
    }
    Ok(url)
}

/// Reads the key that signs invitations, and none of another kind: what that signed would be good nowhere.
fn signer(name: &str) -> Result<SigningKey, Failure> {
    let wrong = |what: &dyn Display| Failure::Found(format!("{name}: {what}"));
    let bytes = fetch::bytes(name)?;
    let jwk = json::parse(&bytes).map_err(|error| wrong(&error))?;
    let key = SigningKey::from_jwk(&bytes).map_err(|error| wrong(&error))?;
    let purpose = Purpose::Invitation.name();
    match Purpose::said(&jwk) {
        Some(said) if said == purpose => Ok(key),
        said => {
            let (said, mend) = match said {
                None => (
                    "does not say what it is for".to_owned(),
                    format!("; if it is one, adding \"ropeline\":\"{purpose}\" to its JWK is enough"),
                ),
                Some(said) => (format!("is for \"{said}\""), String::new()),
            };
            Err(wrong(&format!(
                "the key {said}, and only one for \"{purpose}\" signs invitations; `ropeline keygen {purpose}` makes one{mend}"
            )))
        }
    }
}

impl Invite {
    pub(super) fn run(self, out: &mut dyn Write) -> Done {
        let name = self.key.to_string_lossy();
        let key = signer(&name)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| anyhow!(error))?;
        let exp = now.saturating_add(self.valid).as_secs();
        let whom: Vec<Option<String>> = if self.whom.is_empty() {
            (0..self.count).map(|_| None).collect()
        } else {
            self.whom.into_iter().map(Some).collect()
        };
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
            match &self.link {
                None => writeln!(out, "{signed}")?,
                Some(link) => {
                    let mut link = link.clone();
                    link.query_pairs_mut().append_pair(PARAMETER, &signed);
                    writeln!(out, "{link}")?;
                }
            }
        }
        Ok(())
    }
}
