//! `ropeline token inspect` and `ropeline token verify`.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::anyhow;
use base64ct::{Base64UrlUnpadded, Encoding as _};
use clap::{Args, Subcommand};
use ropeline_queue::SaleId;
use ropeline_token::{Claims, Expect, Leeway, MAX_TOKEN_BYTES, Refusal};
use serde_json::Value;

use super::{Done, Failure, fetch};
use crate::config::units::rfc3339;

#[derive(Debug, Subcommand)]
pub(super) enum Token {
    /// Shows what a token says. Nothing is verified: anybody can write such a token.
    Inspect(Inspect),
    /// Verifies a ticket or an admission token as a gateway or an edge would.
    Verify(Verify),
}

#[derive(Debug, Args)]
pub(super) struct Inspect {
    /// The token, or `-` to read it from standard input.
    #[arg(default_value = "-")]
    token: String,
}

#[derive(Debug, Args)]
pub(super) struct Verify {
    /// The token, or `-` to read it from standard input.
    #[arg(default_value = "-")]
    token: String,
    /// The key set: a file, an address, or `-` for standard input.
    #[arg(long, value_name = "FILE|URL|-")]
    jwks: String,
    /// The issuer the token must have.
    #[arg(long)]
    issuer: String,
    /// The sale the token must be for.
    #[arg(long)]
    sale: SaleId,
    /// The sale's epoch: older tokens are revoked.
    #[arg(long, default_value_t = 0)]
    epoch: u32,
    /// How far clocks may differ, in seconds; at most 60.
    #[arg(long, default_value_t = Leeway::default().seconds())]
    leeway: u64,
}

impl Token {
    pub(super) fn run(self, out: &mut dyn Write) -> Done {
        match self {
            Self::Inspect(inspect) => inspect.run(out),
            Self::Verify(verify) => verify.run(out),
        }
    }
}

fn token_text(argument: String) -> Result<String, Failure> {
    let text =
        if argument == "-" { String::from_utf8_lossy(&fetch::bytes("-")?).into_owned() } else { argument };
    Ok(text.trim().to_owned())
}

/// A part of a token that has not been verified.
fn part(name: &str, text: &str) -> Result<Value, Failure> {
    let wrong = |what: &str| Failure::Found(format!("not a token: the {name} is not {what}"));
    let bytes = Base64UrlUnpadded::decode_vec(text).map_err(|_| wrong("base64url without padding"))?;
    serde_json::from_slice(&bytes).map_err(|_| wrong("JSON"))
}

impl Inspect {
    fn run(self, out: &mut dyn Write) -> Done {
        let token = token_text(self.token)?;
        if token.len() > MAX_TOKEN_BYTES {
            return Err(Failure::Found(format!("not a token: longer than {MAX_TOKEN_BYTES} bytes")));
        }
        let parts: Vec<&str> = token.split('.').collect();
        let [header, claims, signature] = parts[..] else {
            return Err(Failure::Found("not a token: it must have three parts with dots between".to_owned()));
        };
        let (header, claims) = (part("header", header)?, part("payload", claims)?);
        writeln!(out, "NOT VERIFIED: anybody can write such a token; `ropeline token verify` checks one.")?;
        writeln!(out, "header    {header:#}")?;
        writeln!(out, "payload   {claims:#}")?;
        for name in ["iat", "nbf", "exp"] {
            if let Some(seconds) = claims.get(name).and_then(Value::as_u64) {
                writeln!(out, "{name}       {}", time(seconds))?;
            }
        }
        writeln!(out, "signature {} characters", signature.len())?;
        Ok(())
    }
}

impl Verify {
    fn run(self, out: &mut dyn Write) -> Done {
        if self.token == "-" && self.jwks == "-" {
            return Err(Failure::Found("token and key set cannot both come from standard input".to_owned()));
        }
        let leeway = Leeway::from_seconds(self.leeway).map_err(|error| Failure::Found(error.to_string()))?;
        let keys = fetch::keys(&self.jwks)?;
        let token = token_text(self.token)?;
        let now =
            SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| anyhow!("the clock is before 1970"))?;
        let now = now.as_secs();
        let expect =
            Expect { issuer: &self.issuer, audience: self.sale.as_str(), min_epoch: self.epoch, leeway };
        // One kind is never taken for the other, so whichever is right for this token is the only one that can pass.
        let verified = match keys.admission(&token) {
            Err(Refusal::TypeRefused) => keys.ticket(&token).and_then(|ticket| {
                ticket.accept(&expect, now).map(|accepted| ("ticket", accepted.claims.clone(), None))
            }),
            Ok(admission) => admission
                .accept(&expect, now)
                .map(|accepted| ("admission token", accepted.claims.clone(), Some(accepted.place))),
            Err(refusal) => Err(refusal),
        };
        match verified {
            Ok((kind, claims, place)) => show(out, kind, &claims, place),
            Err(refusal) => Err(Failure::Found(format!("refused ({}): {refusal}", refusal.code()))),
        }
    }
}

fn show(out: &mut dyn Write, kind: &str, claims: &Claims, place: Option<u64>) -> Done {
    writeln!(out, "good: {kind} for {}, epoch {}", claims.aud, claims.epoch)?;
    // A verified subject is still somebody's text: escaped, it cannot move a terminal's cursor.
    writeln!(out, "visitor {:?}, arrival {}", claims.sub, claims.arrival)?;
    if let Some(place) = place {
        writeln!(out, "place   {place}")?;
    }
    writeln!(out, "issued  {}", time(claims.iat))?;
    writeln!(out, "expires {}", time(claims.exp))?;
    Ok(())
}

/// Unix seconds as RFC 3339.
pub(super) fn time(seconds: u64) -> String {
    // Past the year 9999 the number itself says more than a date.
    if seconds > 253_402_300_799 { seconds.to_string() } else { rfc3339(seconds * 1_000) }
}
