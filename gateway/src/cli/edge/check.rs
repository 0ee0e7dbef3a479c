//! `ropeline edge check`.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::anyhow;
use clap::Args;
use ropeline_decision::{Bypass, Gate, HostName, Policy, SalePolicy};
use ropeline_edge::{PastExpiry, Settings, Upstream};

use super::forms;
use crate::cli::token::time;
use crate::cli::{Done, Failure, fetch};

#[derive(Debug, Args)]
pub(in crate::cli) struct Check {
    /// The settings, in any form that `export` writes: a file, an address, or `-` for standard input.
    #[arg(value_name = "FILE|URL|-")]
    settings: String,
}

impl Check {
    pub(super) fn run(self, out: &mut dyn Write) -> Done {
        let bytes = fetch::bytes(&self.settings)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Failure::Found(format!("{} is not UTF-8", self.settings)))?;
        let document = forms::document(&text)?;
        let settings = Settings::from_json(document.as_bytes()).map_err(|error| {
            Failure::Found(format!("an edge refuses these settings ({}): {error}", error.code()))
        })?;
        let now =
            SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| anyhow!("the clock is before 1970"))?;
        show(out, &settings, now.as_secs())
    }
}

fn show(out: &mut dyn Write, settings: &Settings, now: u64) -> Done {
    let policy = settings.policy();
    let to = match settings.upstream() {
        Upstream::Gateway => "the gateway, which checks again",
        Upstream::Shop => "the shop; rooms and calls to the gateway",
    };
    writeln!(out, "sends on to  {to}")?;
    writeln!(out, "issuer       {:?}, clocks may differ by {} s", policy.issuer, policy.leeway.seconds())?;
    writeln!(out, "calls        {} and below", policy.api_prefix.to_text().trim_start_matches('='))?;
    let cookies = if policy.secure_cookies { "over TLS alone (__Host-)" } else { "without TLS, too" };
    writeln!(out, "cookies      {cookies}")?;
    for key in settings.keys().keys() {
        writeln!(out, "key          {}", key.kid())?;
    }
    if !settings.has_known_answer() {
        writeln!(out, "known answer none: a broken build is found by a shopper")?;
    }
    sales(out, policy)?;
    let then = match settings.past_expiry() {
        PastExpiry::Closed => "nobody passes a protected path",
        PastExpiry::Open => "everybody passes",
    };
    match settings.expires_at() {
        None => writeln!(out, "relied on    for ever")?,
        Some(at) if at > now => {
            let left = Duration::from_secs(at - now);
            writeln!(out, "relied on    until {}, {left:?} more; then {then}", time(at))?;
        }
        Some(at) => {
            return Err(Failure::Found(format!(
                "the settings were relied on until {}; since then {then}: export them anew",
                time(at)
            )));
        }
    }
    Ok(())
}

fn sales(out: &mut dyn Write, policy: &Policy) -> Done {
    if policy.sales.is_empty() {
        writeln!(out, "sales        none: nothing is protected")?;
    }
    for sale in &policy.sales {
        let SalePolicy { sale: name, epoch, gate, page_status, other_status, .. } = sale;
        let gate = match gate {
            Gate::Queue => "",
            Gate::Open => ", open to everybody",
        };
        writeln!(
            out,
            "sale         {} (epoch {epoch}){gate}: the room with {}, other requests {}",
            name.as_str(),
            page_status.code(),
            other_status.code()
        )?;
        for route in &sale.routes {
            let host = route.host.as_ref().map_or("every host", HostName::as_str);
            let path = route.path.to_text();
            let path = path.strip_prefix('=').map_or_else(|| format!("{path} and below"), ToOwned::to_owned);
            writeln!(out, "  guards     {path} on {host}")?;
        }
        if !sale.bypass.is_empty() {
            let rules: Vec<_> = sale.bypass.iter().map(Bypass::to_text).collect();
            writeln!(out, "  passes by  {}", rules.join(", "))?;
        }
    }
    Ok(())
}
