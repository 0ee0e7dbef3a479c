//! `ropeline edge export`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use ropeline_edge::Settings;

use super::forms::Cdn;
use crate::cli::operator::Gateway;
use crate::cli::{Done, Failure, block_on};
use crate::edge::export::Query;

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
    /// How long the edge may rely on the settings, for example 1h; up to a quarter more is given [default: for ever].
    #[arg(long, value_name = "TIME")]
    expires_in: Option<String>,
    /// What holds from then on: nobody passes a protected path, or everybody [default: closed].
    #[arg(long, value_name = "GATE", value_parser = ["closed", "open"], requires = "expires_in")]
    past_expiry: Option<String>,
    /// The file to write; one that is there is replaced in one step [default: standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
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
        let query =
            Query { send_to: self.send_to, expires_in: self.expires_in, past_expiry: self.past_expiry };
        let document = block_on(client.edge_settings(&query))??;
        // An edge would refuse what this build cannot read.
        Settings::from_json(&document)
            .map_err(|error| Failure::Found(format!("the gateway is of another release: {error}")))?;
        let document = String::from_utf8(document).context("the settings are not UTF-8")?;
        let text = self.cdn.form(&document);
        match self.out {
            None => out.write_all(text.as_bytes())?,
            Some(path) => replace(&path, &text)?,
        }
        Ok(())
    }
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
