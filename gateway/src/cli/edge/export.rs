//! `ropeline edge export`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use ropeline_decision::Policy;
use ropeline_edge::Settings;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::MissedTickBehavior;

use super::forms::Cdn;
use crate::cli::operator::{Client, Gateway};
use crate::cli::{Done, Failure, block_on};
use crate::config::units;
use crate::edge::export::{Query, Wishes};

#[derive(Debug, Args)]
pub(in crate::cli) struct Export {
    #[command(flatten)]
    from: Gateway,
    /// The folder of cdn-config that the settings are for.
    #[arg(long = "for", value_name = "CDN")]
    cdn: Cdn,
    /// Who gets what the edge sends on; the gateway checks again [default: gateway].
    #[arg(long, value_name = "UPSTREAM", value_parser = ["gateway", "shop"])]
    send_to: Option<String>,
    /// How long the edge may rely on the settings, for example 1h, 60s at least; up to a quarter more is given
    /// [default: for ever].
    #[arg(long, value_name = "TIME")]
    expires_in: Option<String>,
    /// What holds from then on: nobody passes a protected path, or everybody [default: closed].
    #[arg(long, value_name = "GATE", value_parser = ["closed", "open"], requires = "expires_in")]
    past_expiry: Option<String>,
    /// The file to write; one that is there is replaced in one step [default: standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// A file of the host's with the word SETTINGS where the settings belong: it is written, filled in.
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// Keeps the file current until the process is ended: asks this often, for example every 10s, and replaces the file
    /// when something has changed. Where that fails the file stays as it is.
    #[arg(long, value_name = "TIME", requires = "out", value_parser = often)]
    every: Option<Duration>,
}

/// How often a gateway may be asked.
fn often(text: &str) -> Result<Duration, String> {
    let every = units::duration(text).map_err(|fault| format!("{}; {}", fault.what, fault.mend))?;
    if every < Duration::from_secs(1) { Err("give 1s at least".to_owned()) } else { Ok(every) }
}

impl Export {
    pub(super) fn run(self, out: &mut dyn Write) -> Done {
        // Its backend is chosen before the module speaks: what is for the gateway would reach the shop unchecked.
        if self.cdn == Cdn::GoogleServiceExtensions && self.send_to.as_deref() == Some("shop") {
            return Err(Failure::Found(
                "google-service-extensions cannot send some requests to the gateway and others to the shop; \
                 leave out --send-to shop, and put the gateway behind it"
                    .to_owned(),
            ));
        }
        let config = self.from.config()?;
        let client = self.from.client(config.as_ref())?;
        let query = Query {
            send_to: self.send_to.clone(),
            expires_in: self.expires_in.clone(),
            past_expiry: self.past_expiry.clone(),
        };
        // Asked for again and again it would be refused each time.
        Wishes::try_from(&query)
            .map_err(|fault| Failure::Found(format!("{}; {}", fault.what, fault.mend)))?;
        match (&self.out, self.every) {
            (Some(path), Some(every)) => block_on(self.keep(&client, &query, path, every))?,
            (Some(path), None) => Ok(replace(path, &block_on(self.text(&client, &query))??)?),
            (None, _) => Ok(out.write_all(block_on(self.text(&client, &query))??.as_bytes())?),
        }
    }

    /// What belongs into the file, as the gateway has it now.
    async fn text(&self, client: &Client, query: &Query) -> Result<String, Failure> {
        let document = client.edge_settings(query).await?;
        // An edge would refuse what this build cannot read.
        let settings = Settings::from_json(&document)
            .map_err(|error| Failure::Found(format!("the gateway is of another release: {error}")))?;
        if self.cdn == Cdn::Akamai {
            names_no_host(settings.policy())?;
        }
        let document = String::from_utf8(document).context("the settings are not UTF-8")?;
        match &self.template {
            None => Ok(self.cdn.form(&document)),
            Some(path) => {
                let template = fs::read_to_string(path);
                let template = template.with_context(|| format!("cannot read {}", path.display()))?;
                self.cdn.fill(&template, &document)
            }
        }
    }

    /// Keeps the file current until the process is told to end. What fails leaves the file as it is.
    async fn keep(&self, client: &Client, query: &Query, path: &Path, every: Duration) -> Done {
        let mut ends = Ends::new()?;
        let mut turns = tokio::time::interval(every);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = ends.told() => return Ok(()),
                _ = turns.tick() => {}
            }
            let next = tokio::select! {
                () = ends.told() => return Ok(()),
                next = self.text(client, query) => next,
            };
            // Where even standard error is gone, the file is all there is to say.
            let _ = match next.and_then(|text| Ok(renew(path, &text)?)) {
                Ok(false) => Ok(()),
                Ok(true) => writeln!(std::io::stderr(), "{}: new settings", path.display()),
                Err(failure) => writeln!(std::io::stderr(), "{}: left as it is: {failure}", path.display()),
            };
        }
    }
}

/// Who asks the process to end.
struct Ends(Signal, Signal);

impl Ends {
    fn new() -> std::io::Result<Self> {
        Ok(Self(signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?))
    }

    async fn told(&mut self) {
        tokio::select! { _ = self.0.recv() => {}, _ = self.1.recv() => {} }
    }
}

/// Behind Akamai's property an application sees its own host name, and never the shop's.
fn names_no_host(policy: &Policy) -> Done {
    let mut routes = policy.sales.iter().flat_map(|sale| sale.routes.iter().map(move |route| (sale, route)));
    match routes.find_map(|(sale, route)| Some((sale, route.host.as_ref()?))) {
        None => Ok(()),
        Some((sale, host)) => Err(Failure::Found(format!(
            "the sale {} has a route for the host {} alone, and on akamai the edge sees the deployment's own host name \
             instead of the shop's: nothing would protect that route; write the sale's routes without a host",
            sale.sale.as_str(),
            host.as_str()
        ))),
    }
}

/// Replaces a file that says something else; whether it did.
fn renew(path: &Path, text: &str) -> anyhow::Result<bool> {
    if fs::read(path).is_ok_and(|present| present == text.as_bytes()) {
        return Ok(false);
    }
    replace(path, text)?;
    Ok(true)
}

/// Writes a file so that whoever reads it sees the old one or the new one, whole.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    fs::write(&beside, text)
        .and_then(|()| fs::rename(&beside, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(route: &str) -> Policy {
        let text = format!(
            r#"{{"issuer": "shop", "api_prefix": "/api/v1/queue", "secure_cookies": true, "sales": [
                {{"sale": "drop", "epoch": 0, "gate": "queue", "routes": [{route}]}}]}}"#
        );
        Policy::from_json(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_route_that_akamai_could_not_tell_by_its_host_is_named() {
        assert!(names_no_host(&policy(r#"{"path": "/sale"}"#)).is_ok());
        let said =
            names_no_host(&policy(r#"{"path": "/sale", "host": "shop.example"}"#)).unwrap_err().to_string();
        assert!(said.contains("drop") && said.contains("shop.example"), "{said}");
    }
}
